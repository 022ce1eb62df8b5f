#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

/// Gradient-boosted regression trees over dense rows: a few hundred rows, a few dozen columns, milliseconds. Knows
/// nothing of kernels. Deterministic.
namespace planish::model {

/// What a row holds where a feature is not known; each split sends these to the side where they fit best.
inline constexpr float unknown = std::numeric_limits<float>::quiet_NaN();

struct BoostOptions {
  int trees = 80;
  int depth = 4;
  double rate = 0.12;
  double columns = 0.6;    ///< part of the columns that each tree looks at
  double rows = 0.8;       ///< part of the rows
  double leaf_weight = 3;  ///< least weight in a leaf
  double shrink = 1;       ///< weight of "no change" in each leaf
  bool logistic = false;   ///< targets are 0 or 1, predictions log odds; else squares are minimised
  std::uint64_t seed = 1;
};

/// Row-major: rows × columns.
struct Matrix {
  std::size_t columns = 0;
  std::vector<float> values;
  std::size_t rows() const { return columns == 0 ? 0 : values.size() / columns; }
  std::span<const float> row(std::size_t i) const { return std::span(values).subspan(i * columns, columns); }
};

class Boost {
 public:
  /// Learns targets from rows, on top of `base` (what is predicted already; empty: zeros). Fewer than two rows teach
  /// nothing.
  void fit(const Matrix& x, std::span<const double> y, std::span<const double> weight, std::span<const double> base,
           const BoostOptions& options);
  /// What is to be added to the row's base.
  double predict(std::span<const float> row) const;
  bool empty() const { return roots_.empty(); }
  /// How often each column was split on, weighted by what the splits gained.
  std::vector<double> importance(std::size_t columns) const;

 private:
  class Fit;
  struct Node {
    std::int32_t column = -1;  ///< −1: a leaf
    float cut = 0;             ///< values up to this go left
    bool unknown_left = true;
    std::int32_t left = 0;  ///< the right child lies behind it
    float value = 0;        ///< of a leaf
    float gain = 0;
  };
  /// A node as predict() walks it: without a branch, as many steps down every tree as the deepest beside it has. A leaf
  /// leads to itself. A row is laid out twice, unknown values above all cuts first, then below all.
  struct Step {
    std::int32_t at = 0;  ///< in that row
    float cut = std::numeric_limits<float>::infinity();
    std::int32_t left = 0;
    float value = 0;
  };
  void lay_out();
  int depth_of(std::size_t node) const;
  std::vector<Node> nodes_;
  std::vector<Step> steps_;
  std::size_t columns_ = 0;                   ///< that are split on: one more than the last
  static constexpr std::size_t together = 8;  ///< trees walked side by side
  std::vector<std::int32_t> roots_;
  std::vector<int> depths_;  ///< of each group of so many trees, the deepest one's
  double start_ = 0;
};

}  // namespace planish::model
