#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "codegen/contraction/contraction.h"
#include "codegen/contraction/place_writer.h"

namespace planish::codegen::contraction {

/// Which nodes of a kernel that folds a contraction's results are those of a whole row of them. Where a warp folds
/// rows, these are read and computed before the columns of a row are walked.
class FoldNodes {
 public:
  /// Of what `roots` need; both arguments must outlive this.
  FoldNodes(const Kernel& kernel, const Contraction& contraction, std::span<const int> roots);

  /// Nodes that need neither a sum nor a column.
  const std::vector<int>& row() const { return row_; }
  /// What else these need.
  std::vector<int> own(std::span<const int> roots) const;
  /// Definitions of these, whose loads read nothing where `there`, an expression, does not hold.
  void print(PlaceWriter& writer, const std::vector<int>& nodes, std::string_view there) const;

 private:
  const Kernel& kernel_;
  std::vector<int> row_;
};

}  // namespace planish::codegen::contraction
