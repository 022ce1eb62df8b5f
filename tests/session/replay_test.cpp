#include "session/replay.h"

#include <doctest/doctest.h>
#include <sqlite3.h>

#include "flow_world.h"

using namespace planish;
using namespace planish::session;
using namespace planish::session::testing;

namespace {

Result<ReplayResult> replayed(World& world) {
  auto store = store::Store::open_existing(world.store_path());
  REQUIRE(store);
  return replay(*store, store->run("run1").value(), world.planner);
}

void change(const World& world, const char* sql) {
  sqlite3* raw = nullptr;
  sqlite3_open(world.store_path().c_str(), &raw);
  CHECK(sqlite3_exec(raw, sql, nullptr, nullptr, nullptr) == SQLITE_OK);
  sqlite3_close(raw);
}

std::int64_t searched(const World& world) {
  return std::ranges::count_if(world.records(),
                               [](const auto& r) { return r.asked >= 0 && !r.proposer.starts_with("final"); });
}

/// What a run's search did, in order: number, program, level, who.
std::vector<std::string> decisions(const World& world) {
  std::map<std::int64_t, std::string> out;
  for (const auto& r : world.records()) {
    if (r.asked >= 0) out[r.asked] = r.program + r.level + r.proposer + r.parent;
  }
  std::vector<std::string> list;
  for (const auto& [asked, what] : out) list.push_back(std::to_string(asked) + what);
  return list;
}

constexpr search::StrategyKind kinds[] = {search::StrategyKind::swarm, search::StrategyKind::hillclimb,
                                          search::StrategyKind::tree, search::StrategyKind::random,
                                          search::StrategyKind::sample};

}  // namespace

TEST_CASE("every decision of a run can be derived again from its store") {
  for (const auto kind : kinds) {
    World world;
    world.evaluator.regions = 3;
    world.planner.other_way = true;
    world.request.strategy = kind;
    world.request.seed = 7;
    REQUIRE(world.run());
    const auto result = replayed(world);
    REQUIRE(result);
    CHECK_FALSE(result->difference);
    CHECK(result->decisions == searched(world));
    CHECK(result->decisions > 20);
    CHECK(result->finals >= 3);
  }
}

TEST_CASE("a decision that is not as recorded is found, and named") {
  World world;
  REQUIRE(world.run());
  std::int64_t fifth = -1;
  for (const auto& r : world.records()) {
    if (r.asked >= 5 && fifth < 0) fifth = r.asked;
  }
  const std::string where = " WHERE asked=" + std::to_string(fifth);
  SUBCASE("another proposal") {
    change(world, ("UPDATE evaluations SET program='0123'" + where).c_str());
    const auto result = replayed(world);
    REQUIRE(result);
    REQUIRE(result->difference);
    CHECK(result->difference->asked == fifth);
    CHECK(result->difference->region == "r0");
    CHECK_FALSE(result->difference->recorded.empty());
    CHECK_FALSE(result->difference->derived.empty());
    CHECK(result->decisions < searched(world));
  }
  SUBCASE("another proposer") {
    change(world, ("UPDATE evaluations SET proposer='magic'" + where).c_str());
    const auto result = replayed(world);
    REQUIRE(result);
    REQUIRE(result->difference);
    CHECK(result->difference->asked == fifth);
  }
  SUBCASE("another seed") {
    change(world, "UPDATE runs SET settings=replace(settings, '\"seed\":0', '\"seed\":1')");
    const auto result = replayed(world);
    REQUIRE(result);
    CHECK(result->difference);
  }
  SUBCASE("other choices") {
    change(world, "UPDATE regions SET genes='speed=1,2'");
    const auto result = replayed(world);
    REQUIRE(result);
    REQUIRE(result->difference);
    CHECK(result->difference->recorded == "speed=1,2");
  }
  SUBCASE("more than was searched") {
    change(
        world,
        "INSERT INTO evaluations(run, region, region_key, program, genome, level, benched, tier, outcome, median_ms, "
        "at_seconds, document, asked) SELECT run, region, region_key, 'x', genome, 'screen', benched, tier, outcome, "
        "median_ms, at_seconds, document, 9999 FROM evaluations WHERE asked=1");
    CHECK(replayed(world)->difference);
  }
}

TEST_CASE("a run of before its graph was kept says so") {
  World world;
  REQUIRE(world.run());
  change(world, "UPDATE runs SET graph=''");
  CHECK(replayed(world).error().kind.name() == "not_replayable");
}

TEST_CASE("a run that broke off goes on exactly as one that did not, and both can be derived again") {
  for (const auto kind : {search::StrategyKind::swarm, search::StrategyKind::hillclimb}) {
    World undisturbed;
    undisturbed.evaluator.regions = 2;
    undisturbed.request.strategy = kind;
    REQUIRE(undisturbed.run());
    for (const int after : {5, 27}) {
      World world;
      world.evaluator.regions = 2;
      world.request.strategy = kind;
      world.evaluator.gone_after = after;
      REQUIRE_FALSE(world.run());
      // What there is of it is a beginning of the other.
      const auto partial = replayed(world);
      REQUIRE(partial);
      CHECK_FALSE(partial->difference);
      world.evaluator.gone_after = 0;
      world.request.resume = true;
      REQUIRE(world.run());
      CHECK(decisions(world) == decisions(undisturbed));
      const auto result = replayed(world);
      REQUIRE(result);
      CHECK_FALSE(result->difference);
      CHECK(result->decisions == searched(undisturbed));
    }
  }
}

TEST_CASE("a run that was interrupted, and measured its elites, goes on as if it had not been") {
  World undisturbed;
  REQUIRE(undisturbed.run());
  World world;
  world.evaluator.cancel_after = 7;
  REQUIRE(world.run());
  CHECK(world.kept().state == "interrupted");
  CHECK_FALSE(replayed(world)->difference);
  world.evaluator.cancel_after = 0;
  world.evaluator.cancel = CancelToken();
  world.request.resume = true;
  REQUIRE(world.run());
  const auto result = replayed(world);
  REQUIRE(result);
  CHECK_FALSE(result->difference);
  CHECK(result->decisions == searched(undisturbed));
}
