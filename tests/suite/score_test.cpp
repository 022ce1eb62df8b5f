#include "suite/score.h"

#include <doctest/doctest.h>

#include <cmath>

#include "base/json.h"

using namespace planish;
using namespace planish::suite;

namespace {

Row row(const std::string& task, const std::string& outcome, double eager = 0, double best = 0) {
  Row out;
  out.task = task;
  out.outcome = outcome;
  out.times_ms = {{"eager", 2.0}, {"compile", 1.5}};
  if (eager > 0) out.speedup = {{"eager", eager}};
  out.speedup_best_baseline = best;
  return out;
}

constexpr const char* result =
    R"({"schema_version":1,"run":"r","task":"softmax","task_path":"/t.py","outcome":"improved",
 "accuracy":{"ratio":1.25},"times_ms":{"shipped":{"median":1.0},"eager":{"median":2.0},"compile":{"error":{"kind":"x"}}},
 "speedup":{"eager":2.0},"speedup_best_baseline":1.5,"seconds":{"total":12.5},"shipped":"/out"})";

}  // namespace

TEST_CASE("means are geometric") {
  const Score s = score({row("a", "improved", 2, 2), row("b", "improved", 8, 2)});
  CHECK(s.by_baseline.at("eager").value == doctest::Approx(4));
  CHECK(s.by_baseline.at("eager").tasks == 2);
  CHECK(s.best_baseline.value == doctest::Approx(2));
  CHECK(s.by_baseline.at("eager").median == 5);
}

TEST_CASE("the headline of a suite: mean and median, copies of the baseline as 1.00 and counted") {
  Row a = row("a", "improved", 2, 2), b = row("b", "improved", 8, 2), c = row("c", "no_improvement", 3, 0.5);
  a.headline = {2, "max_autotune_no_cudagraphs"};
  b.headline = {4, "max_autotune_no_cudagraphs"};
  c.headline = {1, "eager"};
  const Score s = score({a, b, c});
  CHECK(s.headline.value == doctest::Approx(2));
  CHECK(s.headline.median == 2);
  CHECK(s.headline.tasks == 3);
  const std::string table = suite_table({a, b, c});
  CHECK(table.find("2.000x (median 2.000x) over 3 tasks") != std::string::npos);
  CHECK(table.find("1 of 3 tasks ship the baseline itself") != std::string::npos);
  const auto json = parse_json(suite_json({a, b, c}, SuiteFacts{"f", "", "{}", {}}), "bad_text", "suite");
  REQUIRE(json);
  CHECK((*json)["geomean_headline"]["median"] == 2);
  CHECK((*json)["tasks"][1]["headline"]["speedup"] == 4);
}

TEST_CASE("no improvement counts as 1.00 against what it was timed with, whatever its own numbers, and is named") {
  const Score s = score({row("a", "improved", 4, 4), row("b", "no_improvement", 3, 0.5)});
  CHECK(s.by_baseline.at("eager").value == doctest::Approx(2));
  CHECK(s.by_baseline.at("compile").value == doctest::Approx(1));
  CHECK(s.by_baseline.at("compile").tasks == 1);
  CHECK_FALSE(s.by_baseline.contains("max_autotune"));
  CHECK(s.best_baseline.value == doctest::Approx(2));
  CHECK(s.no_improvement == std::vector<std::string>{"b"});
  CHECK(suite_table({row("b", "no_improvement", 3, 0.5)}).find("counted as 1.00 (1): b") != std::string::npos);
}

TEST_CASE("failed and interrupted tasks are in no mean and are named") {
  const Score s = score(
      {row("a", "improved", 4, 4), failed_row("b", "no_model", "b.py has no Model"), row("c", "interrupted", 9, 9)});
  CHECK(s.by_baseline.at("eager").tasks == 1);
  CHECK(s.failed == std::vector<std::string>{"b"});
  CHECK(s.interrupted == std::vector<std::string>{"c"});
  const auto json = parse_json(
      suite_json({failed_row("b", "no_model", "b.py has no Model", "name it so")}, SuiteFacts{"f", "", "{}", {}}),
      "bad_text", "suite");
  REQUIRE(json);
  CHECK((*json)["tasks"][0]["error"]["kind"] == "no_model");
  CHECK((*json)["tasks"][0]["error"]["hint"] == "name it so");
  CHECK((*json)["geomean_best_baseline"]["tasks"] == 0);
}

TEST_CASE("a row from the result document") {
  const auto r = row_from_document(result);
  REQUIRE(r);
  CHECK(r->outcome == "improved");
  CHECK(r->times_ms == std::map<std::string, double>{{"eager", 2.0}, {"shipped", 1.0}});
  CHECK(r->error_ratio == 1.25);
  CHECK(r->seconds == 12.5);
}

TEST_CASE("a row from an error document, and from what is neither") {
  const auto r = row_from_document(R"({"schema_version":1,"error":{"kind":"no_model","message":"m","hint":"h"}})");
  REQUIRE(r);
  CHECK(r->outcome == "failed");
  CHECK(r->kind == "no_model");
  CHECK(row_from_document("").error().kind.name() == "bad_result");
  CHECK(row_from_document("[]").error().kind.name() == "bad_result");
  CHECK(row_from_document(R"({"schema_version":1})").error().kind.name() == "bad_result");
}

namespace {

Row solution(const std::string& task, int sample, const std::string& outcome, double gain = 0) {
  Row out;
  out.task = task;
  out.level = 1;
  out.sample = sample;
  out.solution = task + ".py";
  out.outcome = outcome;
  out.verdict = outcome == "verified" ? "ok" : outcome == "refused" ? "wrong" : "";
  if (gain > 0) out.speedup = {{"eager", gain}};
  return out;
}

}  // namespace

TEST_CASE("fast_p by level: more than p, of all tasks, by the first answer to each") {
  Row other = solution("d", 0, "verified", 9);
  other.level = 2;
  other.compat = OtherVerdict{true, false, "no", "{}"};
  const std::vector<Row> rows = {solution("a", 0, "verified", 1.5), solution("a", 1, "verified", 20),
                                 solution("b", 0, "refused", 7), solution("c", 0, "unanswered"), other};
  const auto levels = level_scores(rows);
  REQUIRE(levels.size() == 3);
  const auto& first = levels[0].against.at("eager").faster;
  CHECK(levels[0].level == 1);
  CHECK(levels[0].tasks == 3);
  CHECK(levels[0].correct == 1);
  CHECK(first.at(0) == 1);
  CHECK(first.at(1) == 1);
  CHECK(first.at(1.5) == 0);
  CHECK(levels[1].level == 2);
  CHECK(levels[1].against.at("eager").faster.at(5) == 1);
  CHECK(levels[2].level == 0);
  CHECK(levels[2].tasks == 4);
  CHECK(levels[2].compat_asked == 1);
  CHECK(levels[2].compat_correct == 0);
  CHECK(levels[2].against.at("eager").mean.value == doctest::Approx(std::sqrt(1.5 * 9)));
  const auto json = parse_json(suite_json(rows, SuiteFacts{"f", "answers", "{}", {"x.py"}}), "bad_text", "suite");
  REQUIRE(json);
  CHECK((*json)["verdicts"]["ok"] == 3);
  CHECK((*json)["unmatched"][0] == "x.py");
  CHECK((*json)["refused"][0] == "b");
  CHECK((*json)["verified"][1] == "a-1");
  CHECK((*json)["levels"][0]["against"]["eager"]["fast_p"]["0"] == doctest::Approx(1.0 / 3));
  CHECK(suite_table(rows).find("level 2: 1 of 1 correct (KernelBench's own rule: 0)") != std::string::npos);
}

TEST_CASE("levels of what was optimised count copies of a baseline as 1.00") {
  Row a = row("a", "improved", 3, 3), b = row("b", "no_improvement", 0.5, 0.5), c = failed_row("c", "no_model", "no");
  const auto levels = level_scores({a, b, c});
  REQUIRE(levels.size() == 1);
  CHECK(levels[0].tasks == 3);
  CHECK(levels[0].correct == 2);
  CHECK(levels[0].against.at("eager").faster.at(0) == 2);
  CHECK(levels[0].against.at("eager").faster.at(1) == 1);
}

TEST_CASE("a row from the document of verify") {
  const auto r = row_from_document(
      R"({"schema_version":1,"task":"t","solution":"s.py","verified":false,"outcome":"time_mismatch","message":"why",
"device":{"name":"CPU"},"kernelbench":{"compiled":true,"correct":true,"message":"m","metadata":{"a":1}},
"times_ms":{"solution":{"median":2,"mean":2.5,"std":0.5,"min":1,"max":4,"runs":10},"eager":{"median":4,"mean":4,"runs":5}},
"roofline":{"fraction":0.25},"speedup":{"eager":2}})");
  REQUIRE(r);
  CHECK(r->outcome == "refused");
  CHECK(r->verdict == "time_mismatch");
  CHECK(r->message == "why");
  REQUIRE(r->compat);
  CHECK(r->compat->correct);
  CHECK(r->compat->metadata == R"({"a":1})");
  CHECK(r->runtime.mean == 2.5);
  CHECK(r->runtime.trials == 10);
  CHECK(r->baseline_runtime.at("eager").trials == 5);
  CHECK(r->roofline == 0.25);
  CHECK(r->hardware == "CPU");
}
