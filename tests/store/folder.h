#pragma once

#include <filesystem>
#include <utility>

#include "base/file.h"

namespace planish::store {

/// A folder of a test's own, gone with it.
struct Folder {
  TempDir folder = std::move(TempDir::create("planish-store-").value());
  std::filesystem::path path = folder.path();
};

}  // namespace planish::store
