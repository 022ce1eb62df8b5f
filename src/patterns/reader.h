#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"
#include "database/sqlite.h"
#include "patterns/pattern.h"

// Private to src/patterns: how the index is read.
namespace planish::patterns {

/// A connection with what it has prepared. One thread at a time.
struct Reader {
  database::Database database;
  database::Statement match, generation, hit;
};

Result<Reader> open_reader(const std::filesystem::path& file);
/// Of a row that `hit` gave.
Pattern pattern_from(const database::Statement& row);
/// All facts as one text of the database, any bytes in the values.
std::string facts_as_lines(const Facts& facts);

}  // namespace planish::patterns
