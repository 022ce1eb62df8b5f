#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace planish {

/// The element with the largest error. Values are doubles, whatever the dtype.
struct WorstElement {
  std::vector<std::int64_t> index;
  double expected = 0, actual = 0, eager = 0;
};

/// Relative errors of one output, pooled as docs/accuracy.md says; `fro` and `max` must stay within their gates, and
/// `ratio`, the largest of all that is asked of the output over its limit, within 1.
struct OutputErrors {
  double fro = 0, max = 0, gate_fro = 0, gate_max = 0, eager_fro = 0, eager_max = 0;
  double ratio = 0;
  double eps =
      0;  ///< of a floating output, as its oracle says: the distance of its dtype's neighbours at 1; not stored
  /// Zeros whose sign is another than eager's and the reference's, of what is proved; not stored.
  std::int64_t zero_signs = 0;
  std::string statistic{};  ///< which it is: `max`, `row, 100 %`, `bias`, …; empty: nothing is off
  std::optional<WorstElement> worst{};
  /// Of a floating output that is wrong: the factor by which the reference lies nearest to it. 1 within what rounding
  /// does, as that errs both ways; what is scaled is off by its factor and by nothing else.
  std::optional<double> slope = std::nullopt;
};

}  // namespace planish
