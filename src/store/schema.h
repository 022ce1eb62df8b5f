#pragma once

#include "base/result.h"
#include "database/sqlite.h"

namespace planish::store {

using database::Database;
using database::Statement;

/// Creates the tables of an empty database, or brings those of an earlier version to ours. Kind `store_newer` if it is
/// from a later Planish.
Status prepare_schema(Database& database, const std::string& path);
/// The version of a database, without writing: 0 if it has no tables yet. Kind `store_newer` as above.
Result<int> check_schema(Database& database, const std::string& path);

}  // namespace planish::store
