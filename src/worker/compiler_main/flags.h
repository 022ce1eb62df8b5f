#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace planish::worker {

/// Compiler flags a program may bring: a fixed list, because a flag can read files, load plugins, or change what
/// arithmetic means behind the accuracy gate's back. Error `compile_error`, naming the flag.
Status check_flags(std::string_view language, const std::vector<std::string>& flags);

}  // namespace planish::worker
