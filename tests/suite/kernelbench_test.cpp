#include "suite/kernelbench.h"

#include <doctest/doctest.h>

#include "base/json.h"

using namespace planish;
using namespace planish::suite::kernelbench;

namespace {

/// As its batch script leaves it: keys in order, an untimed answer with -1.0 and {}.
constexpr const char* results = R"json({
    "2": [
        {
            "sample_id": 0,
            "compiled": true,
            "correctness": true,
            "metadata": {
                "hardware": "NVIDIA H200",
                "device": "cuda:0",
                "correctness_trials": "(5 / 5)"
}
, "runtime" : 0.123, "runtime_stats" : {
  "mean" : 0.123,
  "std" : 0.00456,
  "min" : 0.12,
  "max" : 0.15,
  "num_trials" : 100,
  "hardware" : "NVIDIA H200",
  "device" : "cuda:0"
}
},
        {
            "sample_id": 1,
            "compiled": false,
            "correctness": false,
            "metadata": {},
            "runtime": -1.0,
            "runtime_stats": {}
        }
    ],
    "10": []
})json";

constexpr const char* times =
    R"({"level1":{"1_A.py":{"mean":1.5,"std":0.01,"min":1.4,"max":1.7,"num_trials":100,"hardware":"H","device":"cuda:0"},"10_B.py":{"mean":2.0,"std":0.0,"min":2.0,"max":2.0,"num_trials":100}}})";

Answer answer(bool correct) {
  Answer out;
  out.compiled = true;
  out.correct = correct;
  return out;
}

}  // namespace

TEST_CASE("eval_results.json is read, and written as it was") {
  const auto read = read_eval_results(results);
  REQUIRE(read);
  REQUIRE(read->at(2).size() == 2);
  CHECK(read->at(2)[0].correct);
  CHECK(read->at(2)[0].runtime.mean == 0.123);
  CHECK(read->at(2)[0].runtime.trials == 100);
  CHECK(read->at(2)[1].runtime.mean == -1);
  // The metadata's own order is not kept.
  const auto again = parse_json(write_eval_results(*read), "bad_text", "again"),
             before = parse_json(results, "bad_text", "before");
  REQUIRE(again);
  CHECK(*again == *before);
  const std::string text = write_eval_results(*read);
  CHECK(text.starts_with("{\n    \"2\": [\n        {\n            \"sample_id\": 0,\n            \"compiled\": true,"));
  CHECK(text.find("\"runtime\": -1.0,\n            \"runtime_stats\": {}") != std::string::npos);
  CHECK(text.find("\"2\"") < text.find("\"10\""));
}

TEST_CASE("what is no eval_results.json is an error that says where") {
  for (const char* bad :
       {"", "[]", R"({"x": []})", R"({"1": {}})", R"({"1": [3]})", R"({"1": [{"sample_id": 0}]})", R"({"-1": []})"}) {
    const auto read = read_eval_results(bad);
    REQUIRE_FALSE(read);
    CHECK(read.error().kind.name() == "bad_eval_results");
  }
  CHECK(read_eval_results(R"({"7": [{"sample_id": "x"}]})").error().message.find("problem 7, answer 0") !=
        std::string::npos);
}

TEST_CASE("times of baselines are read, and written as they were") {
  const auto read = read_baseline_times(times);
  REQUIRE(read);
  CHECK(read->at("level1").at("10_B.py").mean == 2);
  CHECK(write_baseline_times(*read) == times);
  const auto failed = read_baseline_times(R"({"level2": {"1_A.py": null}})");
  REQUIRE(failed);
  for (const char* bad : {"x", "[]", R"({"1_A.py": {}})", R"({"level1": []})", R"({"level1": {"1_A.py": 3}})",
                          R"({"level1": {"1_A.py": {"mean": 1}}})"}) {
    CHECK(read_baseline_times(bad).error().kind.name() == "bad_baseline_times");
  }
}

TEST_CASE("statistics are rounded as its scripts round them") {
  const Stats stats = stats_of({1, 2, 3, 4});
  CHECK(stats.mean == 2.5);
  CHECK(stats.std == doctest::Approx(1.1180339887));
  CHECK(write_baseline_times({{"level1", {{"1_A.py", stats}}}}) ==
        R"({"level1":{"1_A.py":{"mean":2.5,"std":1.12,"min":1.0,"max":4.0,"num_trials":4}}})");
  CHECK(stats_of({}).mean == -1);
}

TEST_CASE("pass@k is the unbiased estimate, and its file has the three parts") {
  CHECK(pass_at_k(5, 0, 1) == 0);
  CHECK(pass_at_k(5, 2, 1) == doctest::Approx(0.4));
  CHECK(pass_at_k(5, 2, 3) == doctest::Approx(0.9));
  CHECK(pass_at_k(5, 5, 1) == 1);
  const auto json = parse_json(
      write_pass_at_k({{1, {answer(true), answer(false)}}, {2, {answer(false), answer(false)}}}, {1}), "bad_text", "k");
  REQUIRE(json);
  CHECK((*json)["averages"]["avg_pass@1"] == 0.25);
  CHECK((*json)["metadata"]["total_correct_samples"] == 1);
  CHECK((*json)["metadata"]["pass@1_count"] == 2);
  CHECK((*json)["problems"]["1"]["pass@1"] == 0.5);
}

TEST_CASE("names of files, levels and problems") {
  AnswerFile found;
  CHECK(parse_answer_file("level_3_problem_12_sample_4_kernel.py", found));
  CHECK(found.level == 3);
  CHECK(found.problem == 12);
  CHECK(found.sample == 4);
  for (const char* other : {"level_1_problem_2_sample_3.py", "level_x_problem_2_sample_3_kernel.py", "softmax.py",
                            "level_1_problem_2_sample_-3_kernel.py", ""})
    CHECK_FALSE(parse_answer_file(other, found));
  CHECK(level_of("level4") == 4);
  CHECK(level_of("level") == 0);
  CHECK(level_of("level1x") == 0);
  CHECK(problem_of("19_ReLU") == 19);
  CHECK(problem_of("ReLU_19") == 0);
  CHECK(baseline_file("max_autotune_no_cudagraphs") ==
        "baseline_time_torch_compile_inductor_max-autotune-no-cudagraphs.json");
  CHECK(baseline_file("shipped").empty());
  CHECK(baseline_name("a/baseline_time_torch.json") == "torch");
}
