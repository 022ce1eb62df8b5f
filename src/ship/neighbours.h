#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "base/result.h"

// Private to src/ship: what a task file imports from the folder it lies in.
namespace planish::ship {

/// Most bytes of neighbouring modules that are carried along.
constexpr std::uintmax_t max_neighbour_bytes = 16U << 20U;

/// Files that `task` needs from its own folder, by path relative to it: modules and packages named by its import
/// statements (at any depth of the text), and by theirs. Imports by other means (importlib with a computed name) and
/// data files are not seen. Error kinds: `too_large` (names the module), and those of base/file.h.
Result<std::map<std::string, std::filesystem::path>> neighbours(const std::filesystem::path& task);

}  // namespace planish::ship
