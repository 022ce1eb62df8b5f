#pragma once

#include "patterns/importer/import.h"
#include "worker/toolbox.h"

namespace planish::cli {

/// The readers of an import, each run in a guest's place: files of others may make an interpreter do anything. They end
/// after ten minutes, or with 4 GiB of memory in use. Error kind `reader_failed`.
patterns::Readers pattern_readers(const worker::Toolbox& tools);

}  // namespace planish::cli
