#pragma once

#include <string>
#include <string_view>

namespace planish {

/// SHA-256 of the bytes, as 64 lower-case hex digits. Thread-safe.
std::string sha256_hex(std::string_view bytes);

}  // namespace planish
