#pragma once

#include <cstddef>
#include <string>

#include "base/result.h"
#include "store/store.h"

namespace planish::cli {

struct Trials {
  std::string csv;
  std::size_t count = 0;
};

/// What a run tried as CSV (RFC 4180), a line each in the order of the search behind a line of names: whoever has data
/// frames reads it as one. Each gene of a genome has a column of its own, `gene_NAME`, empty where a trial has none.
/// Words that would be a formula in a spreadsheet have a quote before them ('). Errors are those of the store.
Result<Trials> trials_csv(const store::Store& store, const store::RunRecord& run);

}  // namespace planish::cli
