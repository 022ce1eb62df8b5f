#include "search/forest.h"

#include <algorithm>
#include <array>
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

void Forest::grow(const Columns& columns, std::span<const double> values, std::mt19937_64& rng) {
  std::vector<std::uint32_t> order(columns.rows);
  // Of the node at work, side by side: the values, and one column.
  std::vector<double> here(columns.rows);
  std::vector<std::uint8_t> column(columns.rows);
  std::iota(order.begin(), order.end(), 0U);
  std::vector<Work> todo;
  nodes_.emplace_back();
  roots_.push_back(static_cast<std::int32_t>(nodes_.size() - 1));
  todo.push_back({roots_.back(), 0, columns.rows});
  while (!todo.empty()) {
    const Work work = todo.back();
    todo.pop_back();
    const std::size_t n = work.end - work.begin;
    double sum = 0;
    for (std::size_t i = 0; i < n; ++i) {
      here[i] = values[order[work.begin + i]];
      sum += here[i];
    }
    nodes_[static_cast<std::size_t>(work.node)].value = static_cast<float>(sum / static_cast<double>(n));
    if (n < least_to_split) continue;
    // One random cut for each feature that varies here; the one that separates best is taken.
    std::size_t best_feature = columns.features;
    std::uint8_t best_cut = 0;
    double best_gain = 1e-12;
    for (std::size_t f = 0; f < columns.features; ++f) {
      const std::uint8_t* all = &columns.at[f * columns.rows];
      std::uint8_t least = 255, most = 0;
      for (std::size_t i = 0; i < n; ++i) {
        const std::uint8_t v = all[order[work.begin + i]];
        column[i] = v;
        least = std::min(least, v);
        most = std::max(most, v);
      }
      if (least >= most) continue;
      const auto cut = static_cast<std::uint8_t>(least + pick(rng, static_cast<std::size_t>(most - least)));
      double left = 0;
      std::size_t count = 0;
      for (std::size_t i = 0; i < n; ++i) {
        // Added as zeros rather than passed over: which side a row is on cannot be foretold.
        const bool goes_left = column[i] <= cut;
        left += goes_left ? here[i] : 0.0;
        count += goes_left ? 1U : 0U;
      }
      const double l = static_cast<double>(count), r = static_cast<double>(n - count);
      const double apart = left / l - (sum - left) / r;
      const double gain = apart * apart * l * r;
      if (gain <= best_gain) continue;
      best_gain = gain;
      best_feature = f;
      best_cut = cut;
    }
    if (best_feature == columns.features) continue;
    const std::uint8_t* chosen = &columns.at[best_feature * columns.rows];
    const auto middle = std::partition(order.begin() + static_cast<std::ptrdiff_t>(work.begin),
                                       order.begin() + static_cast<std::ptrdiff_t>(work.end),
                                       [&](std::uint32_t i) { return chosen[i] <= best_cut; });
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
  Columns columns;
  columns.rows = rows.size();
  columns.features = static_cast<std::size_t>(features);
  columns.at.resize(columns.rows * columns.features);
  for (std::size_t r = 0; r < rows.size(); ++r) {
    for (std::size_t f = 0; f < columns.features; ++f) columns.at[f * columns.rows + r] = rows[r].at[f];
  }
  for (int tree = 0; tree < trees; ++tree) grow(columns, log_ms, rng);
}

Forest::Guess Forest::guess(const Code& code) const {
  Guess out;
  guess(std::span(&code, 1), std::span(&out, 1));
  return out;
}

void Forest::guess(std::span<const Code> codes, std::span<Guess> out) const {
  constexpr std::size_t together = 8;
  const double n = static_cast<double>(std::max<std::size_t>(roots_.size(), 1));
  for (std::size_t begin = 0; begin < codes.size(); begin += together) {
    const std::size_t count = std::min(together, codes.size() - begin);
    std::array<double, together> sums{}, squares{};
    for (const std::int32_t root : roots_) {
      std::array<std::int32_t, together> at;
      at.fill(root);
      for (bool moved = true; moved;) {
        moved = false;
        for (std::size_t i = 0; i < count; ++i) {
          const Node& node = nodes_[static_cast<std::size_t>(at[i])];
          if (node.left < 0) continue;
          at[i] = node.left + (codes[begin + i].at[node.feature] > node.cut ? 1 : 0);
          moved = true;
        }
      }
      for (std::size_t i = 0; i < count; ++i) {
        const float value = nodes_[static_cast<std::size_t>(at[i])].value;
        sums[i] += value;
        squares[i] += static_cast<double>(value) * value;
      }
    }
    for (std::size_t i = 0; i < count; ++i) {
      const double mean = sums[i] / n;
      out[begin + i] = {mean, std::sqrt(std::max(squares[i] / n - mean * mean, 0.0))};
    }
  }
}

}  // namespace planish::search
