#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

/// What the lists of allowed compiler flags are made of.
namespace planish::backend {

/// `-DNAME` or `-DNAME=value` with nothing but word characters, so that no macro rewrites more than a name.
bool is_definition(std::string_view flag);
/// `PREFIXn`, with n of at most four digits.
bool is_number_after(std::string_view prefix, std::string_view flag);

/// Warps of a block that a Triton kernel's allowed flags ask for (`--num-warps`), 4 where they do not.
std::int64_t triton_warps(const std::vector<std::string>& flags);

}  // namespace planish::backend
