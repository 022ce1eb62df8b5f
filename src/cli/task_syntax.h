#pragma once

#include <filesystem>

#include "base/result.h"

namespace planish::cli {

/// Compiles a Python file in a bare interpreter, in some milliseconds, and runs nothing: what imports torch says the
/// same many seconds later. Kind `not_python`. Any other trouble is left to whoever runs the file.
Status check_syntax(const std::filesystem::path& file);

}  // namespace planish::cli
