#pragma once

namespace planish::cli {

inline constexpr const char* version = "0.1.0";

}  // namespace planish::cli
