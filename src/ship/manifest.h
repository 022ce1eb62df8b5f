#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "ship/folder.h"

// Private to src/ship: what ship.json says.
namespace planish::ship {

/// Every file below `folder` but ship.json. `altered` where something lies there that is never shipped: links, devices,
/// bytecode of Python, folders in folders without end.
Result<std::vector<std::filesystem::path>> files_in(const std::filesystem::path& folder);

/// Bytes that a file of a shipped folder may have; a constant may have more than what is text or code.
std::uintmax_t most_bytes(const std::string& path);

/// Their digests, by relative path. Kinds: as files_in, and those of base/file.h.
Result<std::map<std::string, std::string>> digests(const std::filesystem::path& folder);

/// Makes a folder beside its final place with `fill_in`, and renames it there. One that is there already is replaced if
/// it is empty or holds the file `mark`, by which we know our own. Error kind `not_shipped` where it does not.
Status make_folder(const std::filesystem::path& folder, const char* mark,
                   const std::function<Status(const std::filesystem::path&)>& fill_in);

/// The instruction sets that these kernels (relative paths) use: every one of this CPU that a compiler may have used
/// where they cannot be disassembled. As Linux names them; empty where it does not say what the CPU has.
std::vector<std::string> cpu_flags(const std::filesystem::path& folder, const std::vector<std::string>& binaries);

/// `foreign_code` for a folder that ships a solution: forms that run by themselves hold none but our own and the
/// task's.
Status only_our_code(const std::filesystem::path& folder, const Json& manifest);

/// What ship.json repeats of a planish.graph/1 document; `bad_graph`.
Result<Json> graph_fields(const Json& graph);

/// ship.json for a folder whose other files are written. `binaries` are relative paths.
Result<Json> manifest(const ShipRequest& request, const std::filesystem::path& folder,
                      const std::vector<std::string>& binaries);

}  // namespace planish::ship
