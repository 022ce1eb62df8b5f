#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "rewrite/editor.h"

/// Private to rewrite: norms whose statistics are those of their data, and arithmetic in their place.
namespace planish::rewrite {

/// A norm with statistics of its data: of batches in training, or of groups of channels.
struct Norm {
  int x = -1, weight = -1, bias = -1;
  double eps = 0;
  std::int64_t groups = 0;                       ///< 0: of batches
  int running_mean = -1, running_variance = -1;  ///< of batches
  double momentum = 0;
};

/// Nothing for other nodes, and for data without places.
std::optional<Norm> norm_of(const Editor& editor, const ir::GraphNode& node);

/// New nodes of arithmetic, contiguous, of the dtype of `like`; operands have as many dims as each other, and are
/// broadcast.
class Steps {
 public:
  using Extents = std::vector<std::int64_t>;

  Steps(Editor& editor, int like) : editor_(editor), like_(like) {}

  int add(int a, int b);
  int subtract(int a, int b);
  int multiply(int a, int b);
  int add(int a, double b);
  int multiply(int a, double b);
  int divide(int a, double b);
  int rsqrt(int a);
  /// Folded dims stay, with one element.
  int mean(int a, Extents over);
  /// Of all elements, not of a sample; and the mean.
  std::pair<int, int> variance(int a, Extents over);
  int view(int a, const Extents& as);
  /// Of parts of one size, whose mean and variance are given: the mean of all of them along a dim, how far each part's
  /// is from that, the variance of all elements, and 1 / sqrt(variance + eps).
  struct Joined {
    int mean, away, variance, rstd;
  };
  Joined joined(int mean, int variance, std::int64_t dim, double eps);
  Extents shape(int a) const { return editor_.value(a).shape; }

 private:
  int two(const char* op, int a, ir::Arg b, bool scaled);
  Extents folded(int a, const Extents& over) const;

  Editor& editor_;
  int like_;
};

}  // namespace planish::rewrite
