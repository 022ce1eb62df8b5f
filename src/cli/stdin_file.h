#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/file.h"
#include "base/result.h"

namespace planish::cli {

/// A file that a verb reads: one on the disk, or what came on stdin.
struct GivenFile {
  std::filesystem::path path;   ///< absolute
  std::optional<TempDir> kept;  ///< the folder that it lies in, where it came on stdin
};

/// existing_file(), where `path` is `-` a copy of stdin, named `stdin.py`. Kinds: those of existing_file(), and
/// `too_large`, `unreadable` and `usage` (nothing came).
Result<GivenFile> file_or_stdin(const std::string& path, const char* what);
/// Whether both are `-`: stdin is read once. Kind `usage`.
Status check_one_stdin(const std::string& task, const std::string& solution);

}  // namespace planish::cli
