#include "store/store.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <thread>

#include "base/file.h"
#include "store/folder.h"
#include "store/objects.h"

using namespace planish;
using namespace planish::store;
namespace fs = std::filesystem;

namespace {

RunRecord run(const std::string& id, double started = 1) {
  RunRecord out;
  out.id = id;
  out.task = "softmax";
  out.target = "cpu";
  out.settings = "{}";
  out.state = "running";
  out.started = started;
  return out;
}

EvaluationRecord evaluation(int i) {
  EvaluationRecord out;
  out.region = "r0";
  out.region_key = "k";
  out.program = "p" + std::to_string(i);
  out.level = "screen";
  out.tier = "bench";
  out.outcome = "ok";
  out.benched = true;
  out.median_ms = i;
  out.document = "{\"n\":" + std::to_string(i) + "}";
  return out;
}

}  // namespace

TEST_CASE("a run, its regions and evaluations come back as they went in") {
  auto db = Store::open(":memory:");
  REQUIRE(db);
  REQUIRE(db->begin_run(run("a1")));
  REQUIRE(db->add_region("a1", {"r0", "k", 3}));
  REQUIRE(db->add_evaluation("a1", evaluation(1)));
  REQUIRE(db->add_evaluation("a1", evaluation(2)));
  auto regions = db->regions("a1");
  REQUIRE(regions);
  REQUIRE(regions->size() == 1);
  CHECK(regions->front().count == 3);
  auto all = db->evaluations("a1", true);
  REQUIRE(all);
  REQUIRE(all->size() == 2);
  CHECK(all->at(1).document == "{\"n\":2}");
  CHECK(all->at(1).median_ms == 2);
  CHECK(all->at(0).benched);
  RunRecord done = run("a1");
  done.state = "finished";
  done.outcome = "improved";
  done.speedup = 1.5;
  REQUIRE(db->finish_run(done, "{\"x\":1}"));
  auto back = db->run("a1");
  REQUIRE(back);
  CHECK(back->outcome == "improved");
  CHECK(db->get(back->result).value() == "{\"x\":1}");
}

TEST_CASE("runs are newest first and found by a unique prefix") {
  auto db = Store::open(":memory:");
  REQUIRE(db->begin_run(run("aa1", 1)));
  REQUIRE(db->begin_run(run("aa2", 2)));
  REQUIRE(db->begin_run(run("b", 3)));
  CHECK(db->runs()->front().id == "b");
  CHECK(db->runs(2)->size() == 2);
  CHECK(db->run("aa2").value().started == 2);
  CHECK(db->run("aa").error().kind.name() == "ambiguous_run");
  CHECK(db->run("c").error().kind.name() == "no_such_run");
  CHECK(db->run("latest").value().id == "b");
  CHECK(db->run("").error().kind.name() == "no_such_run");
  CHECK(db->run("%").error().kind.name() == "no_such_run");
}

TEST_CASE("what is removed takes what no other run names; what both name stays") {
  Folder folder;
  auto db = Store::open(folder.path / "store.db");
  REQUIRE(db);
  for (const char* id : {"a", "b"}) {
    REQUIRE(db->begin_run(run(id)));
    REQUIRE(db->add_region(id, {"r0", "k", 1}));
    REQUIRE(db->add_evaluation(id, evaluation(1)));
  }
  REQUIRE(db->add_evaluation("a", evaluation(2)));
  RunRecord done = run("a");
  REQUIRE(db->finish_run(done, "{\"only\":\"a\"}"));
  const std::string result = db->run("a").value().result;
  const auto before = db->bytes().value();
  const auto freed = db->remove_run("a");
  REQUIRE(freed);
  CHECK(*freed > 0);
  CHECK(db->bytes().value() == before - *freed);
  CHECK(db->run("a").error().kind.name() == "no_such_run");
  CHECK(db->get(result).error().kind.name() == "no_such_object");
  const auto kept = db->evaluations("b", true);  // its documents are read
  REQUIRE(kept);
  CHECK(kept->size() == 1);
  CHECK(db->evaluations("a", false).value().empty());
  CHECK(db->compact());
}
TEST_CASE("reading a store that does not exist gives nothing and creates nothing") {
  Folder folder;
  auto db = Store::open_existing(folder.path / "x" / "store.db");
  REQUIRE(db);
  CHECK(db->runs()->empty());
  CHECK(db->run("a").error().kind.name() == "no_such_run");
  CHECK(fs::is_empty(folder.path));
}

TEST_CASE("a store of a newer version is refused and stays as it was") {
  Folder folder;
  const fs::path file = folder.path / "store.db";
  sqlite3* raw = nullptr;
  sqlite3_open(file.c_str(), &raw);
  sqlite3_exec(raw, "CREATE TABLE future(x); PRAGMA user_version=99", nullptr, nullptr, nullptr);
  sqlite3_close(raw);
  std::ifstream before(file, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(before)), {});
  CHECK(Store::open(file).error().kind.name() == "store_newer");
  CHECK(Store::open_existing(file).error().kind.name() == "store_newer");
  std::ifstream after(file, std::ios::binary);
  CHECK(bytes == std::string((std::istreambuf_iterator<char>(after)), {}));
}

TEST_CASE("something else than a store is named as such") {
  Folder folder;
  std::ofstream(folder.path / "store.db") << std::string(4096, 'x');
  CHECK(Store::open(folder.path / "store.db").error().kind.name() == "store_corrupt");
}

TEST_CASE("a folder that cannot be made is store_unwritable") {
  CHECK(Store::open("/proc/none/store.db").error().kind.name() == "store_unwritable");
  Folder folder;
  std::ofstream(folder.path / "file") << "x";
  CHECK(Store::open(folder.path / "file" / "store.db").error().kind.name() == "store_unwritable");
}

TEST_CASE("a full disk is disk_full") {
  Folder folder;
  auto db = Store::open(folder.path / "store.db");
  REQUIRE(db);
  // SQLite's own page limit gives SQLITE_FULL, as ENOSPC does.
  REQUIRE(db->limit_pages_for_test(16));
  REQUIRE(db->begin_run(run("a")));
  Status status;
  for (int i = 0; i < 2000 && status; ++i) status = db->add_evaluation("a", evaluation(0));
  REQUIRE_FALSE(status);
  CHECK(status.error().kind.name() == "disk_full");
}

TEST_CASE("objects: named by content, whole or absent, checked when read") {
  Folder folder;
  Objects objects(folder.path);
  auto name = objects.put("hello");
  REQUIRE(name);
  CHECK(*name == "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824");
  CHECK(objects.get(*name).value() == "hello");
  CHECK(objects.put("hello").value() == *name);
  CHECK(objects.get(std::string(64, '0')).error().kind.name() == "no_such_object");
  std::ofstream(objects.path(*name)) << "other";
  CHECK(objects.get(*name).error().kind.name() == "store_corrupt");
}

TEST_CASE("two processes write one store at once") {
  Folder folder;
  const fs::path file = folder.path / "store.db";
  REQUIRE(Store::open(file));
  pid_t children[2];
  for (int c = 0; c < 2; ++c) {
    children[c] = ::fork();
    if (children[c] == 0) {
      auto db = Store::open(file);
      const std::string id = "run" + std::to_string(c);
      bool ok = db && db->begin_run(run(id));
      for (int i = 0; i < 50 && ok; ++i) ok = db->add_evaluation(id, evaluation(i)).has_value();
      ::_exit(ok ? 0 : 1);
    }
  }
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    CHECK(status == 0);
  }
  auto db = Store::open_existing(file);
  CHECK(db->evaluations("run0", true)->size() == 50);
  CHECK(db->evaluations("run1", true)->size() == 50);
}

TEST_CASE("kill -9 at any moment loses at most the write in progress") {
  Folder folder;
  const fs::path file = folder.path / "store.db";
  for (int round = 0; round < 12; ++round) {
    const std::string id = "run" + std::to_string(round);
    int confirmed[2];
    REQUIRE(::pipe(confirmed) == 0);
    const pid_t child = ::fork();
    if (child == 0) {
      auto db = Store::open(file);
      if (!db || !db->begin_run(run(id))) ::_exit(1);
      for (int i = 0;; ++i) {
        if (!db->add_evaluation(id, evaluation(i))) ::_exit(1);
        const char byte = 'x';
        if (::write(confirmed[1], &byte, 1) != 1) ::_exit(1);
      }
    }
    ::close(confirmed[1]);
    // Varying amounts of work before the kill, so that it falls at different places.
    int acknowledged = 0;
    char byte = 0;
    while (acknowledged < 3 + round * 7 && ::read(confirmed[0], &byte, 1) == 1) ++acknowledged;
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    REQUIRE(WIFSIGNALED(status));
    while (::read(confirmed[0], &byte, 1) == 1) ++acknowledged;
    ::close(confirmed[0]);
    auto db = Store::open(file);
    REQUIRE(db);
    auto kept = db->evaluations(id, true);  // every row has its whole document
    REQUIRE(kept);
    CHECK(static_cast<int>(kept->size()) >= acknowledged);
    CHECK(static_cast<int>(kept->size()) <= acknowledged + 1);
    for (int i = 0; i < static_cast<int>(kept->size()); ++i) {
      CHECK(kept->at(static_cast<std::size_t>(i)).document == evaluation(i).document);
    }
  }
}

TEST_CASE("what others have stored is merged, once") {
  auto first = TempDir::create(), second = TempDir::create();
  REQUIRE((first && second));
  std::string object;
  {
    auto other = Store::open(second->path() / "store.db");
    REQUIRE(other);
    REQUIRE(other->begin_run(run("b1")));
    REQUIRE(other->begin_run(run("both")));
    REQUIRE(other->add_region("b1", {"r0", "k", 3}));
    REQUIRE(other->add_evaluation("b1", evaluation(2)));
    REQUIRE(other->add_evaluation("b1", evaluation(1)));
    REQUIRE(other->add_evaluation("both", evaluation(9)));
    REQUIRE(other->add_kernel({"cpu", "k", "row", "", "", ""}));
    OutcomeRecord outcome;
    outcome.device = "cpu";
    outcome.key = "k";
    outcome.run = "b1";
    REQUIRE(other->add_outcome(outcome));
    object = *other->put("text");
  }
  auto db = Store::open(first->path() / "store.db");
  REQUIRE(db);
  REQUIRE(db->begin_run(run("a1")));
  REQUIRE(db->add_evaluation("a1", evaluation(5)));
  REQUIRE(db->begin_run(run("both")));
  for (int again = 0; again < 2; ++again) {
    const auto merged = db->merge(second->path() / "store.db");
    REQUIRE_MESSAGE(merged, merged.error().message);
    CHECK(db->runs()->size() == 3);
    CHECK(db->regions("b1")->size() == 1);
    const auto evaluations = db->evaluations("b1", true);
    REQUIRE(evaluations->size() == 2);
    CHECK(evaluations->front().program == "p2");
    CHECK(db->evaluations("both", true)->empty());
    CHECK(db->tuning_database_size("cpu")->kernels == 1);
    CHECK(db->tuning_database_size("cpu")->outcomes == 1);
    CHECK(*db->get(object) == "text");
  }
  CHECK(!db->merge("/proc/none/store.db"));
  CHECK(db->runs()->size() == 3);
}
