#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace planish {

/// The element with the largest error. Values are doubles, whatever the dtype.
struct WorstElement {
  std::vector<std::int64_t> index;
  double expected = 0, actual = 0, eager = 0;
};

/// Relative errors of one output, pooled as docs/accuracy.md says; `fro` and `max` must stay within their gates.
struct OutputErrors {
  double fro = 0, max = 0, gate_fro = 0, gate_max = 0, eager_fro = 0, eager_max = 0;
  std::optional<WorstElement> worst;
};

}  // namespace planish
