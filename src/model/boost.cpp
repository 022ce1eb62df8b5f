#include "model/boost.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

namespace planish::model {
namespace boosting {

constexpr int most_bins = 24;

/// SplitMix64. Not the standard distributions: their results differ between libraries.
struct Draw {
  std::uint64_t state;
  double next() {
    state += 0x9e3779b97f4a7c15U;
    std::uint64_t z = state;
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
    return static_cast<double>((z ^ (z >> 31U)) >> 11U) * 0x1p-53;
  }
};

/// The columns in a few bins each: bin b holds what is at most cuts[b]; the last bin of all is "unknown".
struct Binned {
  std::vector<std::vector<float>> cuts;  ///< by column; ascending
  std::vector<std::uint8_t> bins;        ///< column × row
  static constexpr std::uint8_t nothing = most_bins + 1;

  explicit Binned(const Matrix& x) : cuts(x.columns), bins(x.values.size()) {
    std::vector<float> values;
    for (std::size_t c = 0; c < x.columns; ++c) {
      values.clear();
      for (std::size_t r = 0; r < x.rows(); ++r) {
        if (const float v = x.row(r)[c]; !std::isnan(v)) values.push_back(v);
      }
      std::ranges::sort(values);
      // Cuts lie between neighbours, at quantiles where there are too many.
      auto& cut = cuts[c];
      std::vector<float> distinct;
      std::ranges::unique_copy(values, std::back_inserter(distinct));
      if (distinct.size() <= most_bins) {
        for (std::size_t i = 0; i + 1 < distinct.size(); ++i) cut.push_back((distinct[i] + distinct[i + 1]) / 2);
      } else {
        for (int b = 1; b < most_bins; ++b) {
          const float v = values[values.size() * static_cast<std::size_t>(b) / most_bins];
          if (cut.empty() || v > cut.back()) cut.push_back(v);
        }
      }
      for (std::size_t r = 0; r < x.rows(); ++r) {
        const float v = x.row(r)[c];
        bins[c * x.rows() + r] =
            std::isnan(v) ? nothing : static_cast<std::uint8_t>(std::ranges::lower_bound(cut, v) - cut.begin());
      }
    }
  }
};

/// Sums of gradients and curvatures.
struct Sum {
  double g = 0, h = 0;
  Sum& operator+=(const Sum& o) {
    g += o.g;
    h += o.h;
    return *this;
  }
  Sum operator-(const Sum& o) const { return {g - o.g, h - o.h}; }
};

struct Split {
  double gain = 0;
  int column = -1, bin = 0;
  bool unknown_left = true;
};

inline double score(const Sum& s, double shrink) {
  return s.g * s.g / (s.h + shrink);
}

}  // namespace boosting

/// Trees grown one after the other, each on what those before it leave.
class Boost::Fit {
  using Binned = boosting::Binned;
  using Split = boosting::Split;
  using Sum = boosting::Sum;

 public:
  Fit(Boost& model, const Matrix& x, std::span<const double> y, std::span<const double> weight,
      const BoostOptions& options)
      : model_(model),
        x_(x),
        y_(y),
        weight_(weight),
        options_(options),
        least_(options.leaf_weight * (options.logistic ? 0.1 : 1)),
        binned_(x),
        draw_{options.seed},
        predicted_(x.rows(), 0.0),
        slope_(x.rows()) {}

  /// What is predicted before the first tree. False where the rows weigh nothing.
  bool begin(std::span<const double> base) {
    if (!base.empty()) {
      std::ranges::copy(base, predicted_.begin());
      return true;
    }
    double total = 0, sum = 0;
    for (std::size_t i = 0; i < predicted_.size(); ++i) {
      total += weight_[i];
      sum += weight_[i] * y_[i];
    }
    if (!(total > 0)) return false;
    const double mean = sum / total;
    // Half a row of each kind keeps the odds finite.
    model_.start_ = options_.logistic ? std::log((sum + 0.5) / (total - sum + 0.5)) : mean;
    std::ranges::fill(predicted_, model_.start_);
    return true;
  }

  void grow() {
    find_slopes();
    const Sum all = draw_rows();
    draw_columns();
    if (rows_.size() < 2 || columns_.empty()) return;
    const auto root = static_cast<std::int32_t>(model_.nodes_.size());
    model_.roots_.push_back(root);
    model_.nodes_.emplace_back();
    open_ = {{root, 0, rows_.size(), all, 0}};
    while (!open_.empty()) {
      const Open here = open_.back();
      open_.pop_back();
      const Split best = best_split(here);
      if (best.column >= 0) {
        divide(here, best);
      } else {
        model_.nodes_[static_cast<std::size_t>(here.node)].value =
            static_cast<float>(options_.rate * here.sum.g / (here.sum.h + options_.shrink));
      }
    }
    predict_with(static_cast<std::size_t>(root));
  }

 private:
  /// A node that may become a leaf or divide its rows, which lie side by side in `rows_`.
  struct Open {
    std::int32_t node;
    std::size_t begin, end;
    Sum sum;
    int depth;
  };

  /// Gradient and curvature of the loss at what is predicted for each row.
  void find_slopes() {
    for (std::size_t i = 0; i < slope_.size(); ++i) {
      if (options_.logistic) {
        const double p = 1 / (1 + std::exp(-predicted_[i]));
        slope_[i] = {weight_[i] * (y_[i] - p), weight_[i] * std::max(p * (1 - p), 1e-3)};
      } else {
        slope_[i] = {weight_[i] * (y_[i] - predicted_[i]), weight_[i]};
      }
    }
  }

  /// The rows of the next tree; their sum.
  Sum draw_rows() {
    rows_.clear();
    Sum all;
    for (std::size_t i = 0; i < slope_.size(); ++i) {
      if (options_.rows < 1 && draw_.next() >= options_.rows) continue;
      rows_.push_back(static_cast<std::uint32_t>(i));
      all += slope_[i];
    }
    return all;
  }

  void draw_columns() {
    columns_.clear();
    for (std::size_t c = 0; c < x_.columns; ++c) {
      if (!binned_.cuts[c].empty() && (options_.columns >= 1 || draw_.next() < options_.columns))
        columns_.push_back(static_cast<int>(c));
    }
  }

  /// Without a column where the node is to be a leaf.
  Split best_split(const Open& here) {
    Split best;
    // Half of less than two leaves' weight is no leaf (but for the last digits of the sums).
    if (here.depth >= options_.depth || !(here.sum.h > 2 * least_ * (1 - 1e-9))) return best;
    for (const int c : columns_) try_column(c, here, best);
    return best;
  }

  /// Every cut of a column, with unknown values on either side.
  void try_column(int c, const Open& here, Split& best) {
    const double whole = score(here.sum, options_.shrink);
    const int cuts = static_cast<int>(binned_.cuts[static_cast<std::size_t>(c)].size());
    std::fill(histogram_.begin(), histogram_.begin() + cuts + 1, Sum{});
    histogram_[Binned::nothing] = {};
    const std::uint8_t* const bin = &binned_.bins[static_cast<std::size_t>(c) * slope_.size()];
    for (std::size_t k = here.begin; k < here.end; ++k) histogram_[bin[rows_[k]]] += slope_[rows_[k]];
    const Sum nothing = histogram_[Binned::nothing];
    Sum left;
    for (int b = 0; b < cuts; ++b) {
      const Sum& own = histogram_[static_cast<std::size_t>(b)];
      // An empty bin moves nothing: its cut is the one before.
      if (b > 0 && own.h == 0 && own.g == 0) continue;
      left += own;
      for (const bool to_left : {true, false}) {
        if (!to_left && nothing.h == 0) continue;
        Sum l = left;
        if (to_left) l += nothing;
        const Sum r = here.sum - l;
        if (l.h < least_ || r.h < least_) continue;
        const double gain = score(l, options_.shrink) + score(r, options_.shrink) - whole;
        if (gain > best.gain + 1e-12) best = {gain, c, b, to_left};
      }
    }
  }

  /// Gives the node two children, open both, each with its part of the rows.
  void divide(const Open& here, const Split& best) {
    const auto column = static_cast<std::size_t>(best.column);
    const auto goes_left = [&](std::uint32_t r) {
      const auto bin = binned_.bins[column * slope_.size() + r];
      return bin == Binned::nothing ? best.unknown_left : bin <= best.bin;
    };
    const auto middle = std::stable_partition(rows_.begin() + static_cast<std::ptrdiff_t>(here.begin),
                                              rows_.begin() + static_cast<std::ptrdiff_t>(here.end), goes_left);
    const auto split = static_cast<std::size_t>(middle - rows_.begin());
    Sum left;
    for (std::size_t k = here.begin; k < split; ++k) left += slope_[rows_[k]];
    const auto child = static_cast<std::int32_t>(model_.nodes_.size());
    Node& node = model_.nodes_[static_cast<std::size_t>(here.node)];
    node.column = best.column;
    node.cut = binned_.cuts[column][static_cast<std::size_t>(best.bin)];
    node.unknown_left = best.unknown_left;
    node.left = child;
    node.gain = static_cast<float>(best.gain);
    model_.nodes_.resize(model_.nodes_.size() + 2);
    open_.push_back({child, here.begin, split, left, here.depth + 1});
    open_.push_back({child + 1, split, here.end, here.sum - left, here.depth + 1});
  }

  /// Adds what the new tree says of every row: those that were left out move as well.
  void predict_with(std::size_t root) {
    const auto& nodes = model_.nodes_;
    for (std::size_t i = 0; i < predicted_.size(); ++i) {
      std::size_t at = root;
      while (nodes[at].column >= 0) {
        const Node& node = nodes[at];
        const float v = x_.row(i)[static_cast<std::size_t>(node.column)];
        const bool left = std::isnan(v) ? node.unknown_left : v <= node.cut;
        at = static_cast<std::size_t>(node.left) + (left ? 0 : 1);
      }
      predicted_[i] += nodes[at].value;
    }
  }

  Boost& model_;
  const Matrix& x_;
  const std::span<const double> y_, weight_;
  const BoostOptions& options_;
  const double least_;  ///< weight in a leaf
  const Binned binned_;
  boosting::Draw draw_;
  std::vector<double> predicted_;
  std::vector<Sum> slope_;
  std::vector<std::uint32_t> rows_;  ///< of the tree at hand, those of a node side by side
  std::vector<int> columns_;         ///< that it looks at
  std::vector<Open> open_;
  std::array<Sum, boosting::most_bins + 2> histogram_{};
};

void Boost::fit(const Matrix& x, std::span<const double> y, std::span<const double> weight,
                std::span<const double> base, const BoostOptions& options) {
  nodes_.clear();
  steps_.clear();
  roots_.clear();
  columns_ = 0;
  start_ = 0;
  if (x.rows() < 2 || x.columns == 0) return;
  Fit fit(*this, x, y, weight, options);
  if (!fit.begin(base)) return;
  for (int t = 0; t < options.trees; ++t) fit.grow();
  lay_out();
}

int Boost::depth_of(std::size_t node) const {
  if (nodes_[node].column < 0) return 0;
  const auto left = static_cast<std::size_t>(nodes_[node].left);
  return 1 + std::max(depth_of(left), depth_of(left + 1));
}

void Boost::lay_out() {
  depths_.assign((roots_.size() + together - 1) / together, 0);
  for (std::size_t i = 0; i < roots_.size(); ++i) {
    int& depth = depths_[i / together];
    depth = std::max(depth, depth_of(static_cast<std::size_t>(roots_[i])));
  }
  columns_ = 0;
  for (const Node& node : nodes_) columns_ = std::max(columns_, static_cast<std::size_t>(node.column + 1));
  steps_.resize(nodes_.size());
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    if (node.column < 0) {
      steps_[i] = {.left = static_cast<std::int32_t>(i), .value = node.value};
    } else {
      const auto column = static_cast<std::int32_t>(node.column);
      steps_[i] = {column + (node.unknown_left ? static_cast<std::int32_t>(columns_) : 0), node.cut, node.left, 0};
    }
  }
}

double Boost::predict(std::span<const float> row) const {
  constexpr float beyond = std::numeric_limits<float>::infinity();
  std::vector<float> twice(2 * columns_ + 1);
  for (std::size_t c = 0; c < columns_; ++c) {
    const float v = c < row.size() ? row[c] : unknown;
    twice[c] = std::isnan(v) ? beyond : v;
    twice[columns_ + c] = std::isnan(v) ? -beyond : v;
  }
  // Several trees side by side: the way down one is a chain of waiting for memory.
  double out = start_;
  for (std::size_t begin = 0; begin < roots_.size(); begin += together) {
    const std::size_t count = std::min(together, roots_.size() - begin);
    std::array<std::int32_t, together> at{};
    for (std::size_t i = 0; i < together; ++i) at[i] = roots_[begin + std::min(i, count - 1)];
    for (int level = depths_[begin / together]; level > 0; --level) {
      for (std::size_t i = 0; i < together; ++i) {
        const Step& step = steps_[static_cast<std::size_t>(at[i])];
        at[i] = step.left + (twice[static_cast<std::size_t>(step.at)] > step.cut ? 1 : 0);
      }
    }
    for (std::size_t i = 0; i < count; ++i) out += steps_[static_cast<std::size_t>(at[i])].value;
  }
  return out;
}

std::vector<double> Boost::importance(std::size_t columns) const {
  std::vector<double> out(columns, 0.0);
  for (const Node& node : nodes_) {
    if (node.column >= 0 && static_cast<std::size_t>(node.column) < columns)
      out[static_cast<std::size_t>(node.column)] += node.gain;
  }
  return out;
}

}  // namespace planish::model
