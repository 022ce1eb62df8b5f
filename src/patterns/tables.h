#pragma once

#include <string>

#include "base/result.h"
#include "database/sqlite.h"

// Private to src/patterns: the file's tables.
namespace planish::patterns {

inline constexpr database::Words index_words{"pattern index", "put it elsewhere with --index FILE"};

/// Creates the tables of an empty file. Kind `store_newer` if it is from a later Planish.
Status prepare_tables(database::Database& database, const std::string& path);
/// After a change that readers must see.
Status touch(database::Database& database);

}  // namespace planish::patterns
