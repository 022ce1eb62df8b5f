#include <doctest/doctest.h>
#include <sqlite3.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "store/folder.h"
#include "store/store.h"

using namespace planish;
using namespace planish::store;
namespace fs = std::filesystem;

namespace {

OutcomeRecord outcome(const std::string& key, int i, double at) {
  return {"a GPU", key, "run", "threads=" + std::to_string(i), "g.threads=3", "ok", 1.0 * i, 0.5, at};
}

/// A store as version 1 wrote it, with one run and one evaluation.
void write_version_1(const fs::path& file) {
  sqlite3* raw = nullptr;
  sqlite3_open(file.c_str(), &raw);
  const char* sql =
      "CREATE TABLE runs(id TEXT PRIMARY KEY, task TEXT NOT NULL, task_path TEXT NOT NULL, task_sha256 TEXT NOT NULL,"
      "  target TEXT NOT NULL, device TEXT NOT NULL, settings TEXT NOT NULL, state TEXT NOT NULL, outcome TEXT NOT "
      "NULL,"
      "  out_folder TEXT NOT NULL, started REAL NOT NULL, finished REAL NOT NULL, speedup REAL NOT NULL, result TEXT "
      "NOT NULL);"
      "CREATE INDEX runs_by_time ON runs(started);"
      "CREATE TABLE regions(run TEXT NOT NULL REFERENCES runs(id), id TEXT NOT NULL, key TEXT NOT NULL, count INTEGER "
      "NOT NULL,"
      "  PRIMARY KEY(run, id));"
      "CREATE TABLE evaluations(id INTEGER PRIMARY KEY, run TEXT NOT NULL REFERENCES runs(id), region TEXT NOT NULL,"
      "  region_key TEXT NOT NULL, program TEXT NOT NULL, genome TEXT NOT NULL, level TEXT NOT NULL, benched INTEGER "
      "NOT NULL,"
      "  tier TEXT NOT NULL, outcome TEXT NOT NULL, median_ms REAL NOT NULL, at_seconds REAL NOT NULL, document TEXT "
      "NOT NULL);"
      "CREATE INDEX evaluations_by_run ON evaluations(run, id);"
      "CREATE INDEX evaluations_by_program ON evaluations(region_key, program);"
      "INSERT INTO runs VALUES('old','softmax','/t.py','s','cpu','a CPU','{}','finished','improved','/o',1,2,1.5,'');"
      "INSERT INTO evaluations VALUES(1,'old','r0','k','p','threads=1','screen',1,'bench','ok',2.5,3,'d');"
      "PRAGMA user_version=1";
  CHECK(sqlite3_exec(raw, sql, nullptr, nullptr, nullptr) == SQLITE_OK);
  sqlite3_close(raw);
}

int version_of(const fs::path& file) {
  sqlite3* raw = nullptr;
  sqlite3_open(file.c_str(), &raw);
  sqlite3_stmt* statement = nullptr;
  sqlite3_prepare_v2(raw, "PRAGMA user_version", -1, &statement, nullptr);
  sqlite3_step(statement);
  const int version = sqlite3_column_int(statement, 0);
  sqlite3_finalize(statement);
  sqlite3_close(raw);
  return version;
}

}  // namespace

TEST_CASE("what is known of a kernel comes back, latest last, up to a time and a number") {
  auto db = Store::open(":memory:");
  REQUIRE(db);
  REQUIRE(db->add_kernel({"a GPU", "k1", "row", "exp", "f32 o1 i2", "k.row=1"}));
  REQUIRE(db->add_kernel({"a GPU", "k0", "row", "mul", "f32 o1 i2", "k.row=1"}));
  REQUIRE(db->add_kernel({"a GPU", "k2", "pointwise", "mul", "f32 o1 i2", "k.row=0"}));
  REQUIRE(db->add_kernel({"another", "k1", "row", "mul", "f32 o1 i2", "k.row=1"}));
  for (int i = 0; i < 5; ++i) REQUIRE(db->add_outcome(outcome("k1", i, 10.0 * i)));
  REQUIRE(db->add_kernel({"a GPU", "k1", "row", "exp sub", "f32 o1 i2", "k.row=1"}));
  auto rows = db->tuning_records("a GPU", "row", 1e9);
  REQUIRE(rows);
  REQUIRE(rows->size() == 2);
  CHECK(rows->at(0).kernel.key == "k0");
  CHECK(rows->at(0).outcomes.empty());
  CHECK(rows->at(1).kernel.kinds == "exp sub");
  REQUIRE(rows->at(1).outcomes.size() == 5);
  CHECK(rows->at(1).outcomes.front().genome == "threads=0");
  CHECK(rows->at(1).outcomes.back().median_ms == 4);
  CHECK(rows->at(1).outcomes.back().features == "g.threads=3");
  CHECK(db->tuning_records("a GPU", "row", 30)->at(1).outcomes.size() == 3);
  const auto latest = db->tuning_records("a GPU", "row", 1e9, 2);
  CHECK(latest->at(1).outcomes.front().genome == "threads=3");
  CHECK(db->tuning_database_size("another")->outcomes == 0);
  CHECK(db->tuning_database_size("a GPU")->kernels == 3);
  CHECK(db->tuning_database_size("a GPU")->outcomes >= 5);
  CHECK(db->tuning_records("a GPU", "scan", 1e9)->empty());
}

TEST_CASE("a store of version 1 is read as it is, and brought to this version when it is written") {
  Folder folder;
  const fs::path file = folder.path / "store.db";
  write_version_1(file);
  {
    auto reader = Store::open_existing(file);
    REQUIRE(reader);
    auto rows = reader->evaluations("old", false);
    REQUIRE(rows);
    REQUIRE(rows->size() == 1);
    CHECK(rows->front().median_ms == 2.5);
    CHECK(rows->front().cell == -1);
    CHECK(reader->tuning_records("a CPU", "row", 1e9)->empty());
    CHECK(version_of(file) == 1);
  }
  auto writer = Store::open(file);
  REQUIRE(writer);
  CHECK(version_of(file) == schema_version);
  REQUIRE(writer->evaluations("old", false)->size() == 1);
  EvaluationRecord child;
  child.region = "r0";
  child.program = "p2";
  child.document = "{}";
  child.parent = "p";
  child.cell = 7;
  child.proposer = "agent 3";
  REQUIRE(writer->add_evaluation("old", child));
  auto rows = writer->evaluations("old", true);
  CHECK(!rows);  // the old row's document is not in this test's store
  rows = writer->evaluations("old", false);
  REQUIRE(rows);
  CHECK(rows->at(1).parent == "p");
  CHECK(rows->at(1).cell == 7);
  CHECK(rows->at(1).proposer == "agent 3");
  CHECK(rows->at(0).parent.empty());
  REQUIRE(writer->add_kernel({"a CPU", "k", "row", "", "", ""}));
  CHECK(writer->tuning_records("a CPU", "row", 1e9)->size() == 1);
  // Once is enough.
  REQUIRE(Store::open(file));
}
