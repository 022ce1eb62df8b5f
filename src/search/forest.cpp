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

struct Cut {
  std::size_t feature = 0;
  std::uint8_t at = 0;  ///< at most this goes left
  double left = 0;      ///< sum of what does
  std::size_t count = 0;
};

/// Fills in what goes left of each cut. Four cuts at a time, because each sum waits for its latest addition; and zeros
/// are added for what goes right, because no processor could foretell the side.
void sum_left(std::span<const Code> rows, std::span<const double> values, std::span<const std::uint32_t> here,
              std::vector<Cut>& cuts) {
  constexpr std::size_t together = 4;
  const std::size_t wanted = cuts.size();
  cuts.resize((wanted + together - 1) / together * together);
  for (std::size_t begin = 0; begin < wanted; begin += together) {
    Cut *const a = &cuts[begin], *const b = a + 1, *const c = b + 1, *const d = c + 1;
    double left_a = 0, left_b = 0, left_c = 0, left_d = 0;
    std::size_t count_a = 0, count_b = 0, count_c = 0, count_d = 0;
    for (const std::uint32_t i : here) {
      const auto& code = rows[i].at;
      const double either[2] = {0, values[i]};
      const std::size_t in_a = code[a->feature] <= a->at, in_b = code[b->feature] <= b->at;
      const std::size_t in_c = code[c->feature] <= c->at, in_d = code[d->feature] <= d->at;
      left_a += either[in_a];
      left_b += either[in_b];
      left_c += either[in_c];
      left_d += either[in_d];
      count_a += in_a;
      count_b += in_b;
      count_c += in_c;
      count_d += in_d;
    }
    *a = {a->feature, a->at, left_a, count_a};
    *b = {b->feature, b->at, left_b, count_b};
    *c = {c->feature, c->at, left_c, count_c};
    *d = {d->feature, d->at, left_d, count_d};
  }
  cuts.resize(wanted);
}

}  // namespace

void Forest::grow(std::span<const Code> rows, std::span<const double> values, std::size_t features,
                  std::mt19937_64& rng) {
  std::vector<std::uint32_t> order(rows.size());
  std::iota(order.begin(), order.end(), 0U);
  std::vector<Work> todo;
  nodes_.emplace_back();
  roots_.push_back(static_cast<std::int32_t>(nodes_.size() - 1));
  todo.push_back({roots_.back(), 0, rows.size()});
  std::vector<Cut> cuts;
  while (!todo.empty()) {
    const Work work = todo.back();
    todo.pop_back();
    const std::span<const std::uint32_t> here = std::span(order).subspan(work.begin, work.end - work.begin);
    const std::size_t n = here.size();
    double sum = 0;
    for (const std::uint32_t i : here) sum += values[i];
    nodes_[static_cast<std::size_t>(work.node)].value = static_cast<float>(sum / static_cast<double>(n));
    if (n < least_to_split) continue;
    // One random cut for each feature that varies here; the one that separates best is taken.
    Code least = rows[here.front()], most = least;
    for (const std::uint32_t i : here) {
      for (std::size_t f = 0; f < Code::most; ++f) {
        least.at[f] = std::min(least.at[f], rows[i].at[f]);
        most.at[f] = std::max(most.at[f], rows[i].at[f]);
      }
    }
    cuts.clear();
    for (std::size_t f = 0; f < features; ++f) {
      if (least.at[f] >= most.at[f]) continue;
      const std::size_t apart = static_cast<std::size_t>(most.at[f]) - least.at[f];
      cuts.push_back({f, static_cast<std::uint8_t>(least.at[f] + pick(rng, apart)), 0, 0});
    }
    sum_left(rows, values, here, cuts);
    const Cut* best = nullptr;
    double best_gain = 1e-12;
    for (const Cut& cut : cuts) {
      const double l = static_cast<double>(cut.count), r = static_cast<double>(n - cut.count);
      const double apart = cut.left / l - (sum - cut.left) / r;
      const double gain = apart * apart * l * r;
      if (gain <= best_gain) continue;
      best_gain = gain;
      best = &cut;
    }
    if (best == nullptr) continue;
    const auto middle = std::partition(order.begin() + static_cast<std::ptrdiff_t>(work.begin),
                                       order.begin() + static_cast<std::ptrdiff_t>(work.end),
                                       [&](std::uint32_t i) { return rows[i].at[best->feature] <= best->at; });
    const auto split = static_cast<std::size_t>(middle - order.begin());
    const auto left = static_cast<std::int32_t>(nodes_.size());
    nodes_.emplace_back();
    nodes_.emplace_back();
    Node& node = nodes_[static_cast<std::size_t>(work.node)];
    node.feature = static_cast<std::uint8_t>(best->feature);
    node.cut = best->at;
    node.left = left;
    todo.push_back({left, work.begin, split});
    todo.push_back({left + 1, split, work.end});
  }
}

void Forest::fit(std::span<const Code> rows, std::span<const double> log_ms, int features, std::mt19937_64& rng) {
  nodes_.clear();
  roots_.clear();
  if (rows.empty()) return;
  for (int tree = 0; tree < trees; ++tree) grow(rows, log_ms, static_cast<std::size_t>(features), rng);
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
