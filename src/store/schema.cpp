#include "store/schema.h"

#include <fmt/format.h>

#include <array>

#include "store/store.h"

namespace planish::store {
namespace {

/// Step i brings a store of version i to version i + 1; a new store takes all of them, so that there is one way to
/// every version. Never change a step that was released: add one.
constexpr std::array steps = {
    R"sql(
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
)sql",
    R"sql(
ALTER TABLE evaluations ADD COLUMN parent TEXT NOT NULL DEFAULT '';
ALTER TABLE evaluations ADD COLUMN cell INTEGER NOT NULL DEFAULT -1;
ALTER TABLE evaluations ADD COLUMN proposer TEXT NOT NULL DEFAULT '';
CREATE TABLE kernels(
  device TEXT NOT NULL, key TEXT NOT NULL, pattern TEXT NOT NULL, kinds TEXT NOT NULL, bucket TEXT NOT NULL,
  facts TEXT NOT NULL, PRIMARY KEY(device, key)) WITHOUT ROWID;
CREATE TABLE outcomes(
  id INTEGER PRIMARY KEY, device TEXT NOT NULL, key TEXT NOT NULL, run TEXT NOT NULL, genome TEXT NOT NULL,
  features TEXT NOT NULL, outcome TEXT NOT NULL, median_ms REAL NOT NULL, bound_ms REAL NOT NULL, at REAL NOT NULL);
CREATE INDEX outcomes_by_kernel ON outcomes(device, key, id);
)sql",
    R"sql(
ALTER TABLE runs ADD COLUMN graph TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN device_facts TEXT NOT NULL DEFAULT '';
ALTER TABLE regions ADD COLUMN genes TEXT NOT NULL DEFAULT '';
ALTER TABLE regions ADD COLUMN searched INTEGER NOT NULL DEFAULT 0;
ALTER TABLE regions ADD COLUMN fallback_ms REAL NOT NULL DEFAULT 0;
ALTER TABLE regions ADD COLUMN bound_ms REAL NOT NULL DEFAULT 0;
ALTER TABLE evaluations ADD COLUMN asked INTEGER NOT NULL DEFAULT -1;
ALTER TABLE evaluations ADD COLUMN predicted_ms REAL NOT NULL DEFAULT 0;
)sql",
    R"sql(
CREATE TABLE turns(
  run TEXT NOT NULL REFERENCES runs(id), asked INTEGER NOT NULL, region TEXT NOT NULL, seat TEXT NOT NULL,
  proposal TEXT NOT NULL, dry INTEGER NOT NULL, error TEXT NOT NULL, PRIMARY KEY(run, asked)) WITHOUT ROWID;
)sql"};
static_assert(steps.size() == schema_version);

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

Result<int> check_schema(Database& database, const std::string& path) {
  PLANISH_TRY(auto version, user_version(database));
  PLANISH_CHECK(check_version(version, path));
  return static_cast<int>(version);
}

Status prepare_schema(Database& database, const std::string& path) {
  // The version is read before anything is written: a newer store must stay as it was.
  PLANISH_TRY(int version, check_schema(database, path));
  PLANISH_CHECK(database.execute("PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA foreign_keys=ON"));
  // A write lock taken and given back shows a read-only or full disk now, not after minutes of search.
  PLANISH_CHECK(database.execute("BEGIN IMMEDIATE"));
  if (version < schema_version) {
    // Another process may have created or changed the tables since.
    PLANISH_TRY(version, check_schema(database, path));
    for (; version < schema_version; ++version) {
      // The version moves with its step, in the same transaction: a store is never half way.
      const std::string step =
          fmt::format("{} PRAGMA user_version={}", steps[static_cast<std::size_t>(version)], version + 1);
      if (auto made = database.execute(step); !made) {
        (void)database.execute("ROLLBACK");
        return made;
      }
    }
  }
  return database.execute("COMMIT");
}

}  // namespace planish::store
