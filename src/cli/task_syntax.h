#pragma once

#include <filesystem>

#include "base/result.h"

namespace planish::cli {

/// Whether a Python file can be compiled at all, as a bare interpreter sees it in some milliseconds: what imports torch
/// says the same many seconds later. Kind `not_python`. Any other trouble is left to whoever runs the file.
Status check_syntax(const std::filesystem::path& file);

}  // namespace planish::cli
