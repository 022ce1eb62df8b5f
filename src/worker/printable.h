#pragma once

#include <string>
#include <string_view>

namespace planish::worker {

/// What a child wrote, safe to show on a terminal: control characters but tab and the ends of lines read `\x1b`, so
/// that nothing in it can move the cursor, change colours or hide lines; bytes that are no UTF-8 read so as well.
std::string printable(std::string_view text);

}  // namespace planish::worker
