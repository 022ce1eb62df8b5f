#include "evaluate/call_times.h"

#include <fmt/format.h>

#include <algorithm>

namespace planish {
namespace {

/// Less than a call of Python takes.
constexpr double least_ms = 1e-3;
/// Of an empty call lies in the process that is called, at most; the rest is ours and the kernel's.
constexpr double within_the_guest = 0.5;

double quarter_of(std::vector<double> samples) {
  if (samples.empty()) return 0;
  std::ranges::sort(samples);
  return samples[samples.size() / 4];
}

/// A single call as it would be in a row, by what single calls cost the reference: who is faster than that wakes the
/// same threads for less work, and is spared as large a part; who is slower is spared as much time, and no more.
double hot(double ms, double reference_ms, double reference_hot_ms) {
  const double spared = std::max(0.0, reference_ms - reference_hot_ms);
  return std::max(ms * (1 - spared / reference_ms), ms - spared);
}

}  // namespace

ModuleTimes times_of(const CallSamples& samples) {
  // Others on the machine can make an empty call longer and not shorter: what is subtracted is of the short ones.
  const double empty = quarter_of(samples.empty);
  const auto without = [&](double ms) { return std::max(least_ms, ms - empty); };
  const MeasuredTime own = measured(samples.solution), reference = measured(samples.reference);
  const auto in_a_row = [&](double ms, double reference_ms) {
    return samples.hot_ms > 0 ? hot(ms, reference_ms, samples.hot_ms) : ms;
  };
  const double usual = without(reference.median_ms);
  ModuleTimes times;
  times.outside_ms = without(own.median_ms);
  times.median_ms = in_a_row(times.outside_ms, usual);
  times.lo_ms = std::min(times.median_ms, in_a_row(without(own.lo_ms), without(reference.hi_ms)));
  times.hi_ms =
      std::max(times.median_ms, in_a_row(without(own.hi_ms) + within_the_guest * empty, without(reference.lo_ms)));
  times.host_us = 1000 * times.median_ms;
  BesideTask beside;
  // As measured, and with all that an empty call of the guest's may take less or more than one of ours.
  std::vector<Round> rounds, at_most, at_least;
  for (std::size_t i = 0; i < std::min(samples.solution.size(), samples.reference.size()); ++i) {
    times.samples_ms.push_back(in_a_row(without(samples.solution[i]), usual));
    beside.own_ms.push_back(without(samples.solution[i]));
    beside.original_ms.push_back(without(samples.reference[i]));
    rounds.push_back({beside.original_ms.back(), beside.own_ms.back()});
    at_most.push_back({beside.original_ms.back(), beside.own_ms.back() + within_the_guest * empty});
    at_least.push_back(
        {beside.original_ms.back(), std::max(least_ms, beside.own_ms.back() - within_the_guest * empty)});
  }
  const auto of = [](const std::vector<Round>& some) { return gain_in_turn(some, guest_beside_judge); };
  const auto gain = of(rounds), least = of(at_most), most = of(at_least);
  if (gain && least && most) {
    beside.gain = *gain;
    beside.gain.lo = std::min(gain->lo, least->lo);
    beside.gain.hi = std::max(gain->hi, most->hi);
    times.beside = std::move(beside);
  } else {
    times.not_beside = "no call of both was timed";
  }
  return times;
}

std::string too_soon(const CallSamples& samples) {
  if (samples.empty.empty() || samples.solution.empty()) return {};
  const double own = measured(samples.solution).median_ms, least = std::ranges::min(samples.empty);
  if (own >= (1 - within_the_guest) * least) return {};
  return fmt::format("its calls are answered within {:.3g} ms, where one of nothing takes {:.3g} ms at least", own,
                     least);
}

bool settled(const std::vector<double>& samples, double interval) {
  if (samples.size() < 6) return false;
  const MeasuredTime found = measured(samples);
  const double room = interval * found.median_ms;
  return found.hi_ms - found.median_ms <= room && found.median_ms - found.lo_ms <= room;
}

}  // namespace planish
