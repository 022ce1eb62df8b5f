#include "search/surrogate.h"

#include <algorithm>
#include <cmath>

namespace planish::search {
namespace {

constexpr int sweeps = 8;
/// A choice's effect counts as if so many measurements had shown none: of few measurements little is believed.
constexpr double shrink = 1.5;
/// How much a choice's neighbours say of it, in measurements.
constexpr double neighbours_say = 0.5;
constexpr double doubt_of_untried = 0.5;

}  // namespace

double Surrogate::sum(const Code& code) const {
  double out = mean_;
  for (std::size_t i = 0; i < effects_.size(); ++i) out += effects_[i][code.at[i]].value;
  return out;
}

void Surrogate::fit(std::span<const Code> rows, std::span<const double> log_ms, int features, std::mt19937_64& rng) {
  if (rows.empty()) return;
  mean_ = 0;
  for (const double value : log_ms) mean_ += value / static_cast<double>(log_ms.size());
  effects_.assign(static_cast<std::size_t>(features), std::vector<Effect>(256));
  for (const Code& row : rows) {
    for (std::size_t i = 0; i < effects_.size(); ++i) ++effects_[i][row.at[i]].count;
  }
  std::vector<double> left(log_ms.begin(), log_ms.end());
  for (double& value : left) value -= mean_;
  std::vector<double> sums(256);
  for (int sweep = 0; sweep < sweeps; ++sweep) {
    for (std::size_t i = 0; i < effects_.size(); ++i) {
      std::vector<Effect>& choices = effects_[i];
      std::ranges::fill(sums, 0.0);
      for (std::size_t r = 0; r < rows.size(); ++r) sums[rows[r].at[i]] += left[r];
      std::vector<double> change(256);
      for (std::size_t c = 0; c < choices.size(); ++c) {
        Effect& one = choices[c];
        double said = 0, say = 0;
        for (const std::size_t other : {c - 1, c + 1}) {
          if (other >= choices.size() || choices[other].count == 0) continue;
          said += neighbours_say * choices[other].value;
          say += neighbours_say;
        }
        const double n = one.count;
        const double value = (sums[c] + n * one.value + said) / (n + say + shrink);
        change[c] = value - one.value;
        one.value = value;
      }
      for (std::size_t r = 0; r < rows.size(); ++r) left[r] -= change[rows[r].at[i]];
    }
  }
  double squares = 0;
  for (const double value : left) squares += value * value;
  left_over_ = std::sqrt(squares / static_cast<double>(left.size()));
  forest_.fit(rows, left, features, rng);
}

Forest::Guess Surrogate::guess(const Code& code) const {
  Forest::Guess out = forest_.guess(code);
  out.mean += sum(code);
  double untried = 0;
  for (std::size_t i = 0; i < effects_.size(); ++i) untried += 1.0 / (1 + effects_[i][code.at[i]].count);
  const double doubt = doubt_of_untried * left_over_ * std::sqrt(untried);
  out.spread = std::sqrt(out.spread * out.spread + doubt * doubt);
  return out;
}

}  // namespace planish::search
