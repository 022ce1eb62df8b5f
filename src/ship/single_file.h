#pragma once

#include <string>

#include "base/result.h"
#include "ship/export.h"

// Private to src/ship.
namespace planish::ship {

/// The text that export_file() writes; `out` is not looked at. Errors as of it.
Result<std::string> single_file(const ExportRequest& request);

}  // namespace planish::ship
