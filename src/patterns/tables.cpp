#include "patterns/tables.h"

#include <fmt/format.h>

namespace planish::patterns {
namespace {

/// `user_version` of the files that this code writes.
constexpr std::int64_t version = 2;

/// What every query of this process reads (`patterns`) is apart from what only a hit's text needs (`texts`).
constexpr const char* create_tables = R"sql(
CREATE TABLE meta(key TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE corpora(
  id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, kind TEXT NOT NULL, folder TEXT NOT NULL, imported REAL NOT NULL,
  patterns INTEGER NOT NULL, digest TEXT NOT NULL);
CREATE TABLE facts(id INTEGER PRIMARY KEY, name TEXT NOT NULL, value TEXT NOT NULL, UNIQUE(name, value));
CREATE TABLE families(id INTEGER PRIMARY KEY, corpus INTEGER NOT NULL, source TEXT NOT NULL);
CREATE INDEX families_by_corpus ON families(corpus);
CREATE TABLE patterns(
  id INTEGER PRIMARY KEY, corpus INTEGER NOT NULL, family INTEGER NOT NULL, form TEXT NOT NULL,
  content INTEGER NOT NULL, prior REAL NOT NULL, packed BLOB NOT NULL);
CREATE INDEX patterns_by_corpus ON patterns(corpus);
CREATE TABLE texts(
  id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, name TEXT NOT NULL, path TEXT NOT NULL, line INTEGER NOT NULL,
  summary TEXT NOT NULL, facts TEXT NOT NULL, source TEXT NOT NULL);
CREATE TABLE frequent(word TEXT PRIMARY KEY, texts INTEGER NOT NULL) WITHOUT ROWID;
CREATE VIRTUAL TABLE documents USING fts5(title, facts, body, tokenize="unicode61 remove_diacritics 0");
CREATE VIRTUAL TABLE vocabulary USING fts5vocab(documents, 'row');
INSERT INTO meta VALUES('generation', 0);
)sql";

/// What version 2 has beyond version 1: vectors. A text is known by its hash, so that an import that brings it again
/// finds its vector; what made them all stands in the one row of `embedding`.
constexpr const char* create_vectors = R"sql(
CREATE TABLE embedding(
  id INTEGER PRIMARY KEY CHECK(id=1), model TEXT NOT NULL, asked INTEGER NOT NULL, dimensions INTEGER NOT NULL);
CREATE TABLE family_texts(family INTEGER PRIMARY KEY, first INTEGER NOT NULL, digest TEXT NOT NULL);
CREATE TABLE vectors(digest TEXT PRIMARY KEY, vector BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE queries(id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE, vector BLOB NOT NULL);
)sql";

Result<std::int64_t> user_version(database::Database& database) {
  PLANISH_TRY(auto statement, database.prepare("PRAGMA user_version"));
  PLANISH_TRY(bool row, statement.step());
  return row ? statement.integer(0) : 0;
}

Status refuse_newer(std::int64_t found, const std::string& path) {
  if (found <= version) return {};
  return fail("store_newer",
              fmt::format("the pattern index {} was written by a newer Planish (version {}, this one knows {})", path,
                          found, version),
              "update Planish, or name another with --index FILE");
}

}  // namespace

Status prepare_tables(database::Database& database, const std::string& path) {
  PLANISH_TRY(auto found, user_version(database));
  PLANISH_CHECK(refuse_newer(found, path));
  if (found == version) return {};
  PLANISH_CHECK(database.execute("PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL"));
  PLANISH_CHECK(database.execute("BEGIN IMMEDIATE"));
  // Another process may have made them since.
  PLANISH_TRY(found, user_version(database));
  if (auto newer = refuse_newer(found, path); !newer) {
    (void)database.execute("ROLLBACK");
    return newer;
  }
  if (found < version) {
    if (auto made = database.execute(
            fmt::format("{} {} PRAGMA user_version={}", found < 1 ? create_tables : "", create_vectors, version));
        !made) {
      (void)database.execute("ROLLBACK");
      return made;
    }
  }
  return database.execute("COMMIT");
}

Status touch(database::Database& database) {
  return database.execute("UPDATE meta SET value=value+1 WHERE key='generation'");
}

}  // namespace planish::patterns
