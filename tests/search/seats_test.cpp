#include "search/seats.h"

#include <doctest/doctest.h>

#include <deque>

#include "fakes.h"
#include "search/run.h"

using namespace planish;
using namespace planish::search;
using namespace planish::search::testing;

namespace {

/// Answers at once with what it was given, in order.
struct Script {
  std::deque<coder::Proposal> left;
  std::vector<coder::Feedback> told;
  std::string trouble;
};

class Scripted : public coder::Coder {
 public:
  explicit Scripted(std::shared_ptr<Script> script) : script_(std::move(script)) {}
  Answer ask(const coder::Brief&) override {
    if (script_->left.empty()) return {{}, true};
    auto next = std::move(script_->left.front());
    script_->left.pop_front();
    return {std::move(next), false};
  }
  void tell(const coder::Feedback& feedback) override { script_->told.push_back(feedback); }
  std::string trouble() const override { return script_->trouble; }

 private:
  std::shared_ptr<Script> script_;
};

coder::Seat seat(const std::shared_ptr<Script>& script, const std::string& name = "hand") {
  return {name, [script](const coder::Brief&, std::function<void()>) { return std::make_unique<Scripted>(script); }};
}

coder::Source at(int a, int b) {
  return {"at a=" + std::to_string(a) + " b=" + std::to_string(b)};
}

struct World {
  FakeClock clock;
  ValleyEvaluator evaluator{&clock};
  Recorder sink;
  RunOptions options;
  Result<RunResult> run(Search& search, History* history = nullptr) {
    return run_search(search, evaluator, history, sink, clock, options);
  }
};

std::shared_ptr<Script> mixed() {
  auto script = std::make_shared<Script>();
  script->left = {at(9, 9),                                                    // right
                  coder::Source{"nonsense"},                                   // cannot be built
                  coder::Patch{"at a=9 b=9", "p9,9", {{"a=9", "a=10"}}},       // right, better
                  coder::Patch{"at a=9 b=9", "p9,9", {{"c=9", "c=10"}}},       // no such place
                  at(9, 9),                                                    // proposed before
                  coder::Patch{"at a=8 b=9", "", {{"a=8 b=9", "a=9 b=9 "}}},   // a program that was met
                  coder::Patch{"at a=8 b=9", "", {{"a=8 b=9", "a=11 b=3"}}}};  // the best there is
  return script;
}

}  // namespace

TEST_CASE("a seat's proposals go through what all go through, and the best wins") {
  World world;
  world.options.budget = {0, 40};
  auto script = mixed();
  SearchOptions how;
  how.strategy = StrategyKind::random;
  how.seats = {seat(script)};
  Search search({spec("r0")}, 3, std::move(how));
  REQUIRE(world.run(search));
  REQUIRE(search.region(0).winner());
  CHECK(search.region(0).winner()->ms == doctest::Approx(1.0));
  REQUIRE(script->told.size() == 7);
  std::map<std::string, coder::Feedback> told;
  for (const auto& feedback : script->told) told.emplace(coder::text(feedback.proposal), feedback);
  CHECK(told.at(coder::text(coder::Source{"nonsense"})).error->kind.name() == "bad_source");
  const auto& better = told.at(coder::text(coder::Patch{"at a=9 b=9", "p9,9", {{"a=9", "a=10"}}}));
  CHECK(better.ok);
  CHECK(better.program == "p10,9");
  CHECK(better.evaluation == nullptr);  // no advisor, nobody read it
  CHECK(told.at(coder::text(coder::Patch{"at a=9 b=9", "p9,9", {{"c=9", "c=10"}}})).error->kind.name() == "bad_patch");
  CHECK(std::ranges::count_if(script->told, [](const auto& f) { return f.duplicate; }) == 2);
  const auto report = search.seats().at(0);
  CHECK(report.name == "hand");
  CHECK(report.not_built == 2);
  CHECK(report.passed == 3);
  CHECK(report.improved >= 1);
  CHECK(report.trouble.empty());
}

TEST_CASE("strategies keep their turns beside seats, and seats theirs") {
  World world;
  world.options.budget = {0, 60};
  auto endless = std::make_shared<Script>();
  for (int i = 0; i < 200; ++i) endless->left.push_back(at(i % 16, 20 + i / 16));  // all worse than the grid's
  SearchOptions how;
  how.strategy = StrategyKind::hillclimb;
  how.seats = {seat(endless)};
  Search search({spec("r0")}, 1, std::move(how));
  REQUIRE(world.run(search));
  const auto from_seat = std::ranges::count_if(world.sink.asks, [](const Ask& a) { return a.origin.by == "coder"; });
  CHECK(from_seat >= 3);
  CHECK(from_seat <= 30);
}

TEST_CASE("every strategy works with seats, and a run with them is derived again without anybody in them") {
  for (const auto kind :
       {StrategyKind::swarm, StrategyKind::hillclimb, StrategyKind::tree, StrategyKind::random, StrategyKind::sample}) {
    World first;
    first.options.budget = {0, 50};
    SearchOptions how;
    how.strategy = kind;
    how.seats = {seat(mixed())};
    Search search({spec("r0"), spec("r1", 0.5, 2)}, 5, std::move(how));
    REQUIRE(first.run(search));
    REQUIRE_FALSE(first.sink.turns.turns.empty());
    World again;
    again.options.budget = {0, 50};
    SearchOptions replay;
    replay.strategy = kind;
    replay.recorded = first.sink.turns;
    replay.recorded.until = 1000;
    Search derived({spec("r0"), spec("r1", 0.5, 2)}, 5, std::move(replay));
    REQUIRE(again.run(derived));
    CHECK(again.sink.order == first.sink.order);
    REQUIRE(again.sink.asks.size() == first.sink.asks.size());
    for (std::size_t i = 0; i < again.sink.asks.size(); ++i) {
      CHECK(again.sink.asks[i].serial == first.sink.asks[i].serial);
      CHECK(again.sink.asks[i].proposal == first.sink.asks[i].proposal);
      CHECK(text(again.sink.asks[i].origin) == text(first.sink.asks[i].origin));
    }
  }
}

TEST_CASE("a search whose strategies have nothing left waits for a coder that thinks") {
  struct Late : coder::Coder {
    explicit Late(std::function<void()> rouse) : rouse_(std::move(rouse)) {}
    Answer ask(const coder::Brief&) override {
      if (++asked_ < 5) {
        rouse_();
        return {};
      }
      if (asked_ == 5) return {coder::Proposal(at(30, 30)), false};
      return {{}, true};
    }
    void tell(const coder::Feedback&) override {}
    std::function<void()> rouse_;
    int asked_ = 0;
  };
  World world;
  SearchOptions how;
  how.strategy = StrategyKind::random;
  how.seats = {{"late", [](const coder::Brief&, std::function<void()> rouse) {
                  return std::make_unique<Late>(std::move(rouse));
                }}};
  RegionSpec small = spec("r0");
  small.domain = std::make_shared<GridDomain>(1);
  Search search({small}, 1, std::move(how));
  const auto ran = world.run(search);
  REQUIRE(ran);
  CHECK(ran->stopped == Stopped::exhausted);
  CHECK(world.sink.kept.contains("key-r0/p30,30/screen"));
}

TEST_CASE("nobody is asked, or waited for, once a region is at the speed of light") {
  struct Thinks : coder::Coder {
    Answer ask(const coder::Brief&) override { return {}; }
    void tell(const coder::Feedback&) override {}
  };
  World world;
  world.options.budget = {0, 1000};
  SearchOptions how;
  how.strategy = StrategyKind::hillclimb;
  how.seats = {{"thinks", [](const coder::Brief&, std::function<void()>) { return std::make_unique<Thinks>(); }}};
  Search search({spec("r0", 1.2)}, 1, std::move(how));
  const auto ran = world.run(search);
  REQUIRE(ran);
  CHECK(search.region(0).at_speed_of_light());
  CHECK(ran->stopped == Stopped::exhausted);
}

TEST_CASE("a coder that gives up says why, and the run goes on") {
  World world;
  world.options.budget = {0, 20};
  auto script = std::make_shared<Script>();
  script->trouble = "nobody there";
  SearchOptions how;
  how.seats = {seat(script, "empty")};
  Search search({spec("r0")}, 1, std::move(how));
  REQUIRE(world.run(search));
  CHECK(search.seats().at(0).trouble == "nobody there");
  CHECK(search.seats().at(0).proposed == 0);
}

TEST_CASE("where a proposal came from can be read back") {
  Origin origin;
  origin.by = "coder";
  origin.seat = "python my coder.py";
  CHECK(text(origin) == "coder seat=python my coder.py");
  CHECK(origin_from_text(text(origin)).seat == origin.seat);
  CHECK(origin_from_text(text(origin)).by == "coder");
}

TEST_CASE("coders alone propose for the whole, which is weighed against all that it replaces") {
  World world;
  world.options.budget = {0, 40};
  const auto for_whole = std::make_shared<Script>(), for_regions = std::make_shared<Script>();
  for_whole->left = {at(9, 9), at(11, 3)};
  SearchOptions how;
  how.strategy = StrategyKind::random;
  how.seats = {{"hand", [&](const coder::Brief& brief, std::function<void()>) {
                  return std::make_unique<Scripted>(brief.region == "task" ? for_whole : for_regions);
                }}};
  RegionSpec whole = spec("task", 0.5);
  whole.alternative = whole.sources_only = true;
  whole.fallback_ms = 9;
  how.fusions = {FusionPlan{{{0, 1}}, {{1, 1}}, 4, true}};  // the region, and 4 ms that no region stands for
  Search search({spec("r0"), whole}, 3, std::move(how));
  REQUIRE(world.run(search));
  CHECK(std::ranges::count_if(world.evaluator.log, [](const auto& line) { return line.starts_with("task:"); }) == 2);
  CHECK(for_whole->told.size() == 2);
  REQUIRE(search.region(1).winner());
  CHECK(search.region(1).winner()->ms == doctest::Approx(1.0));
  const auto standings = search.standings(true);
  CHECK(FusionPlans::replaced_ms(search.fusions().all()[0], standings) == doctest::Approx(4 + standings[0].best_ms));
  CHECK(search.close_fusions(true) == std::vector<std::size_t>{0});
}

TEST_CASE("a way in place of everything blocks no other, and comes last") {
  std::vector<RegionSpec> specs{spec("r0"), spec("r1"), spec("task")};
  specs[1].alternative = specs[2].alternative = specs[2].sources_only = true;
  const FusionPlans fusions(specs, {FusionPlan{{{0, 1}}, {{2, 1}}, 0, true}, FusionPlan{{{0, 1}}, {{1, 1}}}});
  const std::vector<Standing> standings{{5, 20, false}, {4, 20, false}, {1, 2, false}};
  CHECK(fusions.worth(standings, 0.1) == std::vector<std::size_t>{1, 0});
}
