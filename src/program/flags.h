#pragma once

#include <string>
#include <string_view>

namespace planish::program {

/// Whether a program may bring this compiler flag: a fixed list, because a flag can read or write files, load plugins,
/// or change what arithmetic means behind the accuracy gate's back. Asked where a program is read and again, by the
/// compile worker, before the flag is used. Thread-safe.
bool allowed_flag(std::string_view language, std::string_view flag);

}  // namespace planish::program
