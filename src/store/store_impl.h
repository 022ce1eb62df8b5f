#pragma once

#include <filesystem>
#include <optional>

#include "database/sqlite.h"
#include "store/objects.h"
#include "store/store.h"

namespace planish::store {

/// What a Store holds; for this folder's files alone.
struct Store::Impl {
  std::filesystem::path file;
  /// Empty for a store that does not exist yet and was opened for reading.
  std::optional<database::Database> database;
  Objects objects;
  int version = 0;  ///< of the tables; less than ours only where the store was opened for reading
};

}  // namespace planish::store
