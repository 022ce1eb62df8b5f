#pragma once

#include <fmt/format.h>

#include <optional>
#include <string>

#include "base/result.h"
#include "session/tape.h"

namespace planish::session {

/// How long PyTorch's forms of regions are measured where a run's time is limited: a model of 120 regions takes a
/// second for each, after which no time for a search would be left. Regions beyond are searched all the same, by the
/// bounds that their sizes set.
class PreparingTime {
 public:
  /// `used` and `left`: seconds of the run.
  void limit(double used, double left) { until_ = used + most_of_the_rest * left; }

  /// Whether the region is measured, too; counts those that are not. A recording keeps the answer, and a replay has its
  /// own from there: recordings that say nothing measured all. `tape` may be null.
  bool measures(double used, const std::string& region, Tape* tape) {
    const auto in_time = [&]() -> Result<std::string> { return !until_ || used < *until_ ? "true" : "false"; };
    const Result<std::string> told = tape != nullptr ? tape->pass("measures", region, in_time) : in_time();
    if (!told || *told == "true") return true;
    ++left_out_;
    return false;
  }

  /// What a person hears of it; empty where all were measured.
  std::string note() const {
    if (left_out_ == 0) return {};
    return fmt::format(
        "note: PyTorch's form of {} region{} was not measured, so that --max-time leaves time for the search",
        left_out_, left_out_ == 1 ? "" : "s");
  }

 private:
  static constexpr double most_of_the_rest = 0.3;
  std::optional<double> until_;
  int left_out_ = 0;
};

}  // namespace planish::session
