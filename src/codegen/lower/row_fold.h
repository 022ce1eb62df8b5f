#pragma once

#include <vector>

#include "codegen/lower/lowering.h"

/// Private to codegen/lower: what operators that fold rows have in common.
namespace planish::codegen {

/// The dims of one reduction of a tensor, and how its result's coordinates name a row. The Lowering must outlive it.
class Rows {
 public:
  Rows(Lowering& low, std::vector<std::int64_t> shape, const std::vector<int>& dims);

  std::int64_t length() const { return product(reduced_extents_); }

  /// `coords` are those of the result, which has one dim for each kept dim, or also 1-dims for reduced ones, or is as
  /// the argument.
  Status at(const Coords& coords);

  /// Coordinates of the argument while a row is swept, and those of its reduced and kept dims.
  const Coords& full() const { return full_; }
  const Coords& row() const { return row_; }
  const Coords& kept() const { return kept_; }

  int fold(ReduceKind kind, int node) const;
  /// Position of the extreme value, counted over the reduced dims in their own order.
  int find(ReduceKind kind, int node) const;

 private:
  Lowering& low_;
  std::vector<std::int64_t> shape_;
  std::vector<bool> reduced_;
  std::vector<std::int64_t> kept_extents_, reduced_extents_;
  Coords kept_, row_, full_;
  Reach reach_ = Reach::row;
};

/// Mean and Σ(x-mean)² of the row at hand: two sweeps, as accurate as torch's Welford.
struct Moments {
  int mean, centred, squares;
};
Moments moments(const Rows& rows, Builder& b, int x);

/// The dtype that statistics of `dtype` are computed in.
constexpr DType wide(DType dtype) {
  return dtype == DType::f64 ? DType::f64 : DType::f32;
}

/// What the operator folds (statistics_of), if its first output is wanted and the kernel loads all of that; else none.
std::vector<int> given_statistics(const Site& s);

/// The last `count` of `rank` dims.
std::vector<int> trailing(std::size_t rank, std::size_t count);

}  // namespace planish::codegen
