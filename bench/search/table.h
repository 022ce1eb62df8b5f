#pragma once

#include <filesystem>
#include <memory>

#include "base/result.h"
#include "surface.h"

namespace planish::bench {

/// A table of genomes that were measured, as JSON lines. The first line says what was searched, every other one is a
/// genome in its text form with its median, or with how it failed:
///
///     {"schema": "planish.search_table/1", "name": "rms_norm r0", "genes": [{"name": "threads", "choices": [1, 2]},
///     …],
///      "seeds": ["threads=1 unroll=2", …]}
///     {"genome": "threads=1 unroll=2", "ms": 1.25}
///     {"genome": "threads=2 unroll=2", "outcome": "wrong"}
///
/// `bench/search/table_from_store.py` makes one of a stored run. A genome that is not in the table is `not_recorded`.
/// Kinds `bad_table`, and those of files.
Result<std::unique_ptr<Surface>> read_table(const std::filesystem::path& file);

}  // namespace planish::bench
