#include "store/schema.h"

#include <fmt/format.h>

#include "store/store.h"

namespace planish::store {
namespace {

constexpr const char* tables = R"sql(
CREATE TABLE runs(
  id TEXT PRIMARY KEY, task TEXT NOT NULL, task_path TEXT NOT NULL, task_sha256 TEXT NOT NULL,
  target TEXT NOT NULL, device TEXT NOT NULL, settings TEXT NOT NULL, state TEXT NOT NULL, outcome TEXT NOT NULL,
  out_folder TEXT NOT NULL, started REAL NOT NULL, finished REAL NOT NULL, speedup REAL NOT NULL, result TEXT NOT NULL);
CREATE INDEX runs_by_time ON runs(started);
CREATE TABLE regions(
  run TEXT NOT NULL REFERENCES runs(id), id TEXT NOT NULL, key TEXT NOT NULL, count INTEGER NOT NULL,
  PRIMARY KEY(run, id));
CREATE TABLE evaluations(
  id INTEGER PRIMARY KEY, run TEXT NOT NULL REFERENCES runs(id), region TEXT NOT NULL, region_key TEXT NOT NULL,
  program TEXT NOT NULL, genome TEXT NOT NULL, level TEXT NOT NULL, benched INTEGER NOT NULL, tier TEXT NOT NULL,
  outcome TEXT NOT NULL, median_ms REAL NOT NULL, at_seconds REAL NOT NULL, document TEXT NOT NULL);
CREATE INDEX evaluations_by_run ON evaluations(run, id);
CREATE INDEX evaluations_by_program ON evaluations(region_key, program);
)sql";

Result<std::int64_t> user_version(Database& database) {
  PLANISH_TRY(auto statement, database.prepare("PRAGMA user_version"));
  PLANISH_TRY(bool row, statement.step());
  return row ? statement.integer(0) : 0;
}

Status check_version(std::int64_t version, const std::string& path) {
  if (version > schema_version) {
    return fail("store_newer",
                fmt::format("the store {} was written by a newer Planish (version {}, this one knows {})", path,
                            version, schema_version),
                "update Planish, or name another store with --store FILE");
  }
  return {};
}

}  // namespace

Result<bool> check_schema(Database& database, const std::string& path) {
  PLANISH_TRY(auto version, user_version(database));
  PLANISH_CHECK(check_version(version, path));
  return version != 0;
}

Status prepare_schema(Database& database, const std::string& path) {
  // The version is read before anything is written: a newer store must stay as it was.
  PLANISH_TRY(bool exists, check_schema(database, path));
  PLANISH_CHECK(database.execute("PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA foreign_keys=ON"));
  // A write lock taken and given back shows a read-only or full disk now, not after minutes of search.
  PLANISH_CHECK(database.execute("BEGIN IMMEDIATE"));
  if (!exists) {
    // Another process may have created the tables since.
    PLANISH_TRY(exists, check_schema(database, path));
    if (!exists) {
      if (auto made = database.execute(fmt::format("{} PRAGMA user_version={}", tables, schema_version)); !made) {
        (void)database.execute("ROLLBACK");
        return made;
      }
    }
  }
  return database.execute("COMMIT");
}

}  // namespace planish::store
