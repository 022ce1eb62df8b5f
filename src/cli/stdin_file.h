#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/owned_folder.h"
#include "base/result.h"

namespace planish::cli {

/// A file that a verb reads: one on the disk, or what came on stdin.
struct GivenFile {
  std::filesystem::path path;       ///< absolute
  std::optional<OwnedFolder> kept;  ///< the folder that it lies in, where it came on stdin
};

/// Prefix of its folders: remove_ownerless_folders() finds those that killed commands left.
inline constexpr const char* stdin_folder_prefix = "planish-stdin-";

/// existing_file(), where `path` is `-` a copy of stdin, named `stdin.py`; from then on
/// interrupts are watched, so that it does not stay. Kinds: those of existing_file(), and
/// `too_large`, `unreadable` and `usage` (nothing came).
Result<GivenFile> file_or_stdin(const std::string& path, const char* what);
/// Kind `usage` where both are `-`: stdin is read once.
Status check_one_stdin(const std::string& task, const std::string& solution);

}  // namespace planish::cli
