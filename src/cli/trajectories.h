#pragma once

#include <string>

#include "cli/output.h"

namespace planish::cli {

struct TrajectoriesVerb {
  std::string run;     ///< id, or the beginning of it
  std::string format;  ///< trajectories | pairs | csv (docs/formats/trajectories.md)
  std::string out;     ///< file to write; empty: stdout
  std::string store;
};
/// What a run tried, as JSON lines to learn from or as CSV. `export RUN --format …` calls it.
int trajectories_verb(const TrajectoriesVerb& options, const Output& output);

}  // namespace planish::cli
