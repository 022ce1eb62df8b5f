#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

#include "base/file.h"

namespace planish::patterns {

/// A folder of a test's own, gone with it.
struct Folder {
  TempDir folder = std::move(TempDir::create("planish-patterns-").value());
  std::filesystem::path path = folder.path();
  /// Writes a file below it.
  std::filesystem::path put(const std::string& name, std::string_view text) const {
    (void)write_file(path / name, text);
    return path / name;
  }
};

}  // namespace planish::patterns
