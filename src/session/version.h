#pragma once

namespace planish::session {

inline constexpr const char* version = "0.1.0";

}  // namespace planish::session
