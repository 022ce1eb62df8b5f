#pragma once

#include <optional>
#include <span>
#include <vector>

/// Times and ratios as they leave the program: never without the interval that says what of them is noise.
namespace planish {

/// A time: the median of its samples and the 95 % interval of that median. Milliseconds.
struct MeasuredTime {
  double median_ms = 0, lo_ms = 0, hi_ms = 0;
};
/// Of samples; the interval of order statistics, of fewer than six samples their extremes. Zeros without samples.
MeasuredTime measured(std::vector<double> samples_ms);

/// How many times longer one thing takes than another that was timed in turn with it, and the 95 % interval of that.
/// Above 1: the other one is faster.
struct Gain {
  double ratio = 1, lo = 1, hi = 1;

  /// Whether there is one: all of the interval lies on one side of 1.
  bool differs() const { return lo > 1 || hi < 1; }
  /// What may be said of it: 1 where the difference is inside the noise, else the ratio; where its interval is too wide
  /// for that, the end of the interval that is nearer to 1.
  double claimed() const;
};

/// An interval (of a time or of a ratio) that is wider than this part of its middle says too little to be compared.
constexpr double noisy_share = 0.5;

/// Of a noisy pair that much may be claimed, and more: the end of its interval that is nearer to 1. What makes times
/// vary may last for longer than their samples.
constexpr double least_of_noisy = 1.25;

/// Two processes that run the same module differ by so much: memory lies elsewhere, threads start elsewhere
/// (docs/decisions/0120-noise-is-no-result.md says what is known of it).
constexpr double between_processes = 0.05;
/// The same of a guest that has proved a module and a process of the judge's, on a CPU: single calls of equal modules
/// differed by up to 1.21 (the same record).
constexpr double guest_beside_judge = 0.25;

/// `baseline` over `own`, both timed in turn by one process. The interval is the widest that theirs allow. Nothing
/// where one of them has no time.
std::optional<Gain> gain_of(const MeasuredTime& baseline, const MeasuredTime& own);

/// One round of two processes that were timed in turn.
struct Round {
  double baseline_ms = 0, own_ms = 0;
};
/// The median of the rounds' ratios and its interval (of order statistics; of fewer than six rounds the extremes),
/// widened by the part by which the processes differ. Nothing without rounds.
std::optional<Gain> gain_in_turn(std::span<const Round> rounds, double apart = between_processes);

/// Of what `first` is a gain over to what `second` is one over: a module against eager, and eager against a mode.
Gain chained(const Gain& first, const Gain& second);
/// What holds however it is called: the lesser of both, bound by bound.
Gain lesser(const Gain& one, const Gain& other);
/// An interval that holds both: of the same two things, measured twice.
Gain hull(const Gain& one, const Gain& other);

}  // namespace planish
