#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace planish::program {

/// Whether a program may bring this compiler flag: a fixed list, because a flag can read or write files, load plugins,
/// or change what arithmetic means behind the accuracy gate's back. Asked where a program is read and again, by the
/// compile worker, before the flag is used. Thread-safe.
bool allowed_flag(std::string_view language, std::string_view flag);
/// Warps of a block that a Triton kernel's allowed flags ask for (`--num-warps`), 4 where they do not.
std::int64_t triton_warps(const std::vector<std::string>& flags);

}  // namespace planish::program
