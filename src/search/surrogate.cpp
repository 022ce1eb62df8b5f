#include "search/surrogate.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace planish::search {
namespace {

constexpr int sweeps = 8;
constexpr std::size_t choices = 256;  // a code has no more
/// A choice's effect counts as if so many measurements had shown none: of few measurements little is believed.
constexpr double shrink = 1.5;
/// How much a choice's neighbours say of it, in measurements.
constexpr double neighbours_say = 0.5;
constexpr double doubt_of_untried = 0.5;

}  // namespace

void Surrogate::fit(std::span<const Code> rows, std::span<const double> log_ms, int features, std::mt19937_64& rng) {
  if (rows.empty()) return;
  mean_ = 0;
  for (const double value : log_ms) mean_ += value / static_cast<double>(log_ms.size());
  features_ = static_cast<std::size_t>(features);
  effects_.assign(features_ * choices, {});
  // What was met, and one choice to each side, which hears of its neighbour: all others have no effect.
  std::vector<std::size_t> first(features_, choices), last(features_, 0);
  std::vector<std::uint8_t> columns(features_ * rows.size());
  for (std::size_t i = 0; i < features_; ++i) {
    for (std::size_t r = 0; r < rows.size(); ++r) {
      const std::size_t c = rows[r].at[i];
      columns[i * rows.size() + r] = rows[r].at[i];
      ++effects_[i * choices + c].count;
      first[i] = std::min(first[i], c - (c > 0 ? 1 : 0));
      last[i] = std::max(last[i], std::min(c + 1, choices - 1));
    }
  }
  std::vector<double> left(log_ms.begin(), log_ms.end());
  for (double& value : left) value -= mean_;
  std::array<double, choices> sums{}, change{};
  for (int sweep = 0; sweep < sweeps; ++sweep) {
    for (std::size_t i = 0; i < features_; ++i) {
      Effect* const of = &effects_[i * choices];
      const std::uint8_t* const column = &columns[i * rows.size()];
      std::fill(sums.begin() + static_cast<std::ptrdiff_t>(first[i]),
                sums.begin() + static_cast<std::ptrdiff_t>(last[i]) + 1, 0.0);
      for (std::size_t r = 0; r < rows.size(); ++r) sums[column[r]] += left[r];
      for (std::size_t c = first[i]; c <= last[i]; ++c) {
        Effect& one = of[c];
        double said = 0, say = 0;
        for (const std::size_t other : {c - 1, c + 1}) {
          if (other >= choices || of[other].count == 0) continue;
          said += neighbours_say * of[other].value;
          say += neighbours_say;
        }
        const double n = one.count;
        const double value = (sums[c] + n * one.value + said) / (n + say + shrink);
        change[c] = value - one.value;
        one.value = value;
      }
      for (std::size_t r = 0; r < rows.size(); ++r) left[r] -= change[column[r]];
    }
  }
  double squares = 0;
  for (const double value : left) squares += value * value;
  left_over_ = std::sqrt(squares / static_cast<double>(left.size()));
  forest_.fit(rows, left, features, rng);
}

Forest::Guess Surrogate::guess(const Code& code) const {
  Forest::Guess out;
  guess(std::span(&code, 1), std::span(&out, 1));
  return out;
}

void Surrogate::guess(std::span<const Code> codes, std::span<Forest::Guess> out) const {
  forest_.guess(codes, out);
  for (std::size_t at = 0; at < codes.size(); ++at) {
    const Code& code = codes[at];
    double sum = mean_, untried = 0;
    for (std::size_t i = 0; i < features_; ++i) {
      const Effect& effect = effects_[i * choices + code.at[i]];
      sum += effect.value;
      untried += 1.0 / (1 + effect.count);
    }
    const double doubt = doubt_of_untried * left_over_ * std::sqrt(untried);
    out[at].mean += sum;
    out[at].spread = std::sqrt(out[at].spread * out[at].spread + doubt * doubt);
  }
}

}  // namespace planish::search
