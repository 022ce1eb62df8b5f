#pragma once

#include "base/result.h"
#include "store/sqlite.h"

namespace planish::store {

/// Creates the tables of an empty database, or checks that the version is ours. Kind `store_newer` if it is from a
/// later Planish.
Status prepare_schema(Database& database, const std::string& path);
/// The same without writing. False if the database has no tables yet.
Result<bool> check_schema(Database& database, const std::string& path);

}  // namespace planish::store
