#pragma once

#include <map>
#include <utility>
#include <vector>

#include "codegen/kernel.h"

/// The reference meaning of a Kernel: every point of the space by itself, in double precision, with every index
/// checked.
namespace planish::codegen {

class Interpreter {
 public:
  /// inputs[i]: the storage of kernel input i.
  Interpreter(const Kernel& kernel, std::vector<std::vector<double>> inputs) : k_(kernel), inputs_(std::move(inputs)) {}

  /// Storage of every output; NaN-free sentinel `unwritten` where nothing was stored. Throws where an index leaves its
  /// storage.
  std::vector<std::vector<double>> run();

  static constexpr double unwritten = -987654321.25;

 private:
  bool next(std::vector<std::int64_t>& point, std::size_t first) const;

  /// A place by what is known at run time alone; false where that is out of range.
  static bool move(const Output& output, const std::vector<double>& values, std::int64_t& at);

  /// Every scan again from the start of the row to `point`.
  void set_running(const std::vector<std::int64_t>& point, std::size_t first_inner);

  bool two_ways() const;

  /// The point with what the reduction folds at 0.
  std::vector<std::int64_t> place_of(const Reduction& r, std::vector<std::int64_t> point) const;

  /// Every reduction of a kernel that folds two ways, in order, at every row, column or part.
  void fold_both();

  /// folded_ as it is at a point, of what is known so far.
  void set_folded(const std::vector<std::int64_t>& point);

  static double joined(ReduceKind kind, double acc, double x);

  void fold(std::vector<std::int64_t> point, std::size_t first_inner);

  std::vector<double> evaluate(const std::vector<std::int64_t>& point) const;

  const Kernel& k_;
  std::vector<std::vector<double>> inputs_;
  std::vector<double> folded_;
  std::vector<std::map<std::vector<std::int64_t>, double>> known_;  ///< cross: by reduction, by row or column
  struct Running {
    double now = 0, before = 0, at = 0, at_before = 0;
    bool begun = false;
  };
  std::vector<Running> running_;
};

}  // namespace planish::codegen
