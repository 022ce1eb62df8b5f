#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/result.h"

namespace planish {

/// How a program can be run on contents that are drawn here. A run gives its milliseconds, or nothing where it failed
/// (the caller then knows why).
struct Rerun {
  std::function<std::uint64_t()> draw;                                  ///< a seed
  std::function<Result<std::optional<double>>(std::uint64_t)> on_seed;  ///< writes that seed's contents, then runs
  std::function<Result<std::optional<double>>()> again;                 ///< on what is there
};

/// Why the program must be keeping results: new contents take it longer, every time, than contents it has met before.
/// Empty where nothing says so; nothing where a run failed.
Result<std::optional<std::string>> keeps_results(const Rerun& rerun);

}  // namespace planish
