#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

// Private to src/ship: bytes and texts as parts of a Python source.
namespace planish::ship {

/// Deflated (zlib's format) and in base64, in lines.
Result<std::string> packed(std::string_view bytes);

/// In lines of 120 characters.
std::string base64(std::string_view bytes);

/// A Python string literal whose value is `text`: with its lines as they are wherever that is possible. Error kind
/// `bad_text` for what is not UTF-8.
Result<std::string> python_text(std::string_view text);

/// The same in one line, with quotes and backslashes escaped.
std::string python_string(std::string_view text);

}  // namespace planish::ship
