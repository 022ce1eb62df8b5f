#include "report/learned.h"

#include <doctest/doctest.h>

#include "base/json.h"

using namespace planish;
using namespace planish::report;

namespace {

store::EvaluationRecord row(int asked, const std::string& proposer, double ms, double predicted = 0, int cell = 0) {
  store::EvaluationRecord out;
  out.region = "r0";
  out.program = "p" + std::to_string(asked);
  out.genome = "speed=" + std::to_string(asked);
  out.level = "screen";
  out.outcome = ms > 0 ? "ok" : "wrong";
  out.median_ms = ms;
  out.asked = asked;
  out.proposer = proposer;
  out.predicted_ms = predicted;
  out.cell = ms > 0 ? cell : -1;
  return out;
}

}  // namespace

TEST_CASE("what operators and agents were worth, region by region") {
  std::vector<store::EvaluationRecord> rows;
  store::EvaluationRecord aten;
  aten.region = "r0";
  aten.outcome = "ok";
  aten.median_ms = 10;
  rows.push_back(aten);
  rows.push_back(row(1, "seed", 8));
  rows.push_back(row(2, "mutate agent=3 island=1 focus=latency hiding", 4, 0, 5));
  rows.push_back(row(3, "mutate agent=3 island=1 focus=latency hiding", 0));
  rows.push_back(row(4, "step agent=9 island=0 focus=fusion", 5));
  auto again = row(5, "recheck", 3);
  again.level = "full";
  rows.push_back(again);
  const Learned learned = learned_from(rows, {{"r0", "k", 1, "", true, 10, 1}});
  REQUIRE(learned.operators.size() == 3);
  CHECK(learned.operators[0].name == "mutate");
  CHECK(learned.operators[0].proposed == 2);
  CHECK(learned.operators[0].passed == 1);
  CHECK(learned.operators[0].improved == 1);
  CHECK(learned.operators[0].gain == doctest::Approx(std::log(2.0)));
  CHECK(learned.operators[0].share == doctest::Approx(0.5));
  CHECK(learned.operators[0].quarters == std::array<double, 4>{0, 1, 1, 0});
  CHECK(quarters_text(learned.operators[0]) == "0 100 100 0");
  REQUIRE(learned.cells.size() == 2);
  CHECK(learned.cells[0].proposed == 2);
  CHECK(learned.cells[0].share == doctest::Approx(2.0 / 3));
  CHECK(learned.cells[0].name.starts_with("memory-bound"));
  REQUIRE(learned.agents.size() == 2);
  CHECK(learned.agents[0].name == "agent 3, latency hiding, island 1");
  REQUIRE(learned.regions.size() == 1);
  CHECK(learned.regions[0].evaluations == 4);
  CHECK(learned.regions[0].to_best == 2);
  CHECK(learned.regions[0].best_ms == 4);
  CHECK(learned.regions[0].cells == 2);
  CHECK_FALSE(learned.regions[0].rank_correlation);
  CHECK(parse_json(to_json(learned), "bad_text", "learned"));
  CHECK(to_text(learned).find("mutate") != std::string::npos);
  CHECK(to_text(learned_from({}, {})).empty());
}

TEST_CASE("a model's guesses are held against what was measured after them") {
  std::vector<store::EvaluationRecord> rows;
  for (int i = 1; i <= 10; ++i) rows.push_back(row(i, "step", i, 2.0 * i));
  CHECK(*learned_from(rows, {{"r0", "k"}}).regions[0].rank_correlation == doctest::Approx(1));
  for (auto& one : rows) one.predicted_ms = 1 / one.predicted_ms;
  CHECK(*learned_from(rows, {{"r0", "k"}}).regions[0].rank_correlation == doctest::Approx(-1));
}
