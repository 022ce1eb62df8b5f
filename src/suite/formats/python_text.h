#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace planish::suite::formats {

/// Text that a source of somebody else's is carried as: name of the module → its text. Packages by dots
/// ("pkg.kernels").
using Sources = std::vector<std::pair<std::string, std::string>>;

/// A Python string literal of any text.
std::string python_string(std::string_view text);
/// A Python literal of a JSON value (text): true becomes True, null None, numbers as they are.
std::string python_literal(std::string_view json);
/// The beginning of a made file: a docstring, imports, and the sources, importable by their names after whatever is
/// installed. Their functions can be read by those who compile them (Triton).
std::string python_head(std::string_view about, const Sources& sources);
/// Letters, digits, `_`, `-`, `.` of a name; others become `_`.
std::string file_name(std::string_view name);

}  // namespace planish::suite::formats
