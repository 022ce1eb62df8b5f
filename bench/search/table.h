#pragma once

#include <filesystem>
#include <memory>

#include "base/result.h"
#include "surface.h"

namespace planish::bench {

/// A table of genomes that were measured, as JSON lines, plain or compressed with gzip. The first line says what was
/// searched, every other one is a genome in its text form with its median, or with how it failed.
///
/// Of a stored run (table_from_store.py). A genome that is not in it is `not_recorded`:
///
///     {"schema": "planish.search_table/1", "name": "rms_norm r0", "genes": [{"name": "threads", "choices": [1, 2]},
///     …], "seeds": ["threads=1 unroll=2", …]}
///     {"genome": "threads=1 unroll=2", "ms": 1.25}
///     {"genome": "threads=2 unroll=2", "outcome": "wrong"}
///
/// Of a space (record.py). Its rows are all there is: other genomes are illegal. `bytes` is what the kernel must move
/// at least; `lo` and `hi` are the 95 % interval of the median over `runs` runs; equal `program`s are the same code.
/// `kernels`, one a launch, are registers, spilled, static shared and local bytes, and instructions by kind;
/// `launches` are blocks, threads, blocks of a cluster, dynamic shared bytes:
///
///     {"schema": "planish.search_table/2", "complete": true, "device": "…", "arch": "sm_90a", "bytes": 268435456,
///      "name": …, "family": …, "parameters": {…}, "genes": …, "seeds": …, "repeat": {…}}
///     {"genome": …, "program": "1a51c02c2332", "kernels": [[62, 0, 16384, 0, {"global": 12}]],
///      "launches": [[16, 512, 1, 0]], "ms": 0.15, "lo": 0.149, "hi": 0.151, "runs": 24}
///
/// Kinds `bad_table`, and those of files.
Result<std::unique_ptr<Surface>> read_table(const std::filesystem::path& file);

}  // namespace planish::bench
