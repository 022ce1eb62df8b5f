#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "suite/formats/imported.h"
#include "suite/row.h"

namespace planish::suite::formats {

/// What `import` leaves beside its tasks, so that results can be written back: origin.json.
struct Origin {
  std::string format;
  std::map<std::string, std::string> tasks;  ///< name → JSON object
};

std::string write_origin(const Imported& imported);
/// Kind `bad_origin`.
Result<Origin> read_origin(std::string_view text);

/// Results in the collection's own form: file name → contents. Rows of tasks that are not of the origin are left out.
///
/// gpu-mode: `NAME.test.txt` and `NAME.benchmark.txt`, the lines that its harness writes (ns); flashinfer-bench:
/// `traces/DEFINITION.jsonl`; backendbench: full_results.json, operator_summary.csv, failed_ops.json; tritonbench has
/// none.
std::map<std::string, std::string> results_of(const Origin& origin, const std::vector<Row>& rows,
                                              const std::string& author);

}  // namespace planish::suite::formats
