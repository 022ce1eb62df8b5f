#include "search/forest.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace planish::search {
namespace {

constexpr int trees = 24;
constexpr std::size_t least_to_split = 3;

struct Work {
  std::int32_t node = 0;
  std::size_t begin = 0, end = 0;
};

}  // namespace

void Forest::grow(std::span<const Code> rows, std::span<const double> values, int features, std::mt19937_64& rng) {
  std::vector<std::uint32_t> order(rows.size());
  std::iota(order.begin(), order.end(), 0U);
  std::vector<Work> todo;
  nodes_.emplace_back();
  roots_.push_back(static_cast<std::int32_t>(nodes_.size() - 1));
  todo.push_back({roots_.back(), 0, rows.size()});
  while (!todo.empty()) {
    const Work work = todo.back();
    todo.pop_back();
    const std::size_t n = work.end - work.begin;
    double sum = 0;
    for (std::size_t i = work.begin; i < work.end; ++i) sum += values[order[i]];
    nodes_[static_cast<std::size_t>(work.node)].value = static_cast<float>(sum / static_cast<double>(n));
    if (n < least_to_split) continue;
    // One random cut for each feature that varies here; the one that separates best is taken.
    int best_feature = -1;
    std::uint8_t best_cut = 0;
    double best_gain = 1e-12;
    for (int f = 0; f < features; ++f) {
      const auto at = static_cast<std::size_t>(f);
      std::uint8_t least = 255, most = 0;
      for (std::size_t i = work.begin; i < work.end; ++i) {
        const std::uint8_t v = rows[order[i]].at[at];
        least = std::min(least, v);
        most = std::max(most, v);
      }
      if (least >= most) continue;
      const auto cut = static_cast<std::uint8_t>(least + pick(rng, static_cast<std::size_t>(most - least)));
      double left = 0;
      std::size_t count = 0;
      for (std::size_t i = work.begin; i < work.end; ++i) {
        if (rows[order[i]].at[at] > cut) continue;
        left += values[order[i]];
        ++count;
      }
      const double l = static_cast<double>(count), r = static_cast<double>(n - count);
      const double apart = left / l - (sum - left) / r;
      const double gain = apart * apart * l * r;
      if (gain <= best_gain) continue;
      best_gain = gain;
      best_feature = f;
      best_cut = cut;
    }
    if (best_feature < 0) continue;
    const auto at = static_cast<std::size_t>(best_feature);
    const auto middle = std::partition(order.begin() + static_cast<std::ptrdiff_t>(work.begin),
                                       order.begin() + static_cast<std::ptrdiff_t>(work.end),
                                       [&](std::uint32_t i) { return rows[i].at[at] <= best_cut; });
    const auto split = static_cast<std::size_t>(middle - order.begin());
    const auto left = static_cast<std::int32_t>(nodes_.size());
    nodes_.emplace_back();
    nodes_.emplace_back();
    Node& node = nodes_[static_cast<std::size_t>(work.node)];
    node.feature = static_cast<std::uint8_t>(best_feature);
    node.cut = best_cut;
    node.left = left;
    todo.push_back({left, work.begin, split});
    todo.push_back({left + 1, split, work.end});
  }
}

void Forest::fit(std::span<const Code> rows, std::span<const double> log_ms, int features, std::mt19937_64& rng) {
  nodes_.clear();
  roots_.clear();
  if (rows.empty()) return;
  for (int tree = 0; tree < trees; ++tree) grow(rows, log_ms, features, rng);
}

Forest::Guess Forest::guess(const Code& code) const {
  double sum = 0, squares = 0;
  for (const std::int32_t root : roots_) {
    const Node* node = &nodes_[static_cast<std::size_t>(root)];
    while (node->left >= 0)
      node = &nodes_[static_cast<std::size_t>(node->left + (code.at[node->feature] > node->cut ? 1 : 0))];
    sum += node->value;
    squares += static_cast<double>(node->value) * node->value;
  }
  const double n = static_cast<double>(std::max<std::size_t>(roots_.size(), 1));
  const double mean = sum / n;
  return {mean, std::sqrt(std::max(squares / n - mean * mean, 0.0))};
}

}  // namespace planish::search
