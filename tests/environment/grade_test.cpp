#include "environment/grade.h"

#include <doctest/doctest.h>

using namespace planish;
using namespace planish::environment;

TEST_CASE("weights of a reward are read, and nothing else") {
  const auto weights = parse_reward("correct=0.5,speedup=2,cap=4");
  REQUIRE(weights.has_value());
  CHECK(weights->correct == 0.5);
  CHECK(weights->format == 0);
  CHECK(parse_reward("").has_value());
  for (const char* text :
       {"correct", "correct=", "correct=x", "other=1", "speedup=nan", "correct=1,,cap=2", "cap=1e999"})
    CHECK_MESSAGE(parse_reward(text).error().kind.name() == "usage", text);
}

TEST_CASE("a verdict is a grade") {
  const RewardWeights weights{.format = 0.1, .compiled = 0.2, .correct = 0.3, .speedup = 1, .cap = 2};
  const Grade right =
      grade_of(R"({"verified":true,"outcome":"ok","message":"","speedup_best_baseline":1.5,"best_baseline":"eager"})",
               Form::module, weights);
  CHECK(right.correct);
  CHECK(right.baseline == "eager");
  CHECK(*right.reward == doctest::Approx(2.1));
  const Grade fast =
      grade_of(R"({"verified":true,"outcome":"ok","speedup_best_baseline":50.0})", Form::module, weights);
  CHECK(*fast.reward == doctest::Approx(2.6));
  const Grade wrong = grade_of(R"({"verified":false,"outcome":"wrong","message":"no","speedup_best_baseline":50.0})",
                               Form::module, weights);
  CHECK((wrong.compiled && !wrong.correct && !wrong.speedup));
  CHECK(*wrong.reward == doctest::Approx(0.3));
  const Grade broken = grade_of(R"({"verified":false,"outcome":"load_failed"})", Form::module, weights);
  CHECK(!broken.compiled);
  CHECK(*broken.reward == doctest::Approx(0.1));
  const Grade source =
      grade_of(R"({"ok":true,"outcome":"ok","median_ms":2.0,"pytorch_ms":3.0,"evaluation":{"message":""}})",
               Form::source, weights);
  CHECK(*source.speedup == doctest::Approx(1.5));
}

TEST_CASE("what could not be judged has no reward, and is tried again") {
  for (const char* text : {"", "{", "[]", R"({"outcome":"ok"})", R"({"error":{"kind":"closed","message":"gone"}})",
                           R"({"verified":false,"outcome":"infrastructure","message":"m"})"}) {
    const Grade grade = grade_of(text, Form::module, {});
    CHECK_MESSAGE(!grade.judged(), text);
    CHECK(!grade.reward.has_value());
    CHECK(doubtful(grade));
  }
  CHECK(grade_of("", Form::module, {}).error->kind.name() == "worker_lost");
  CHECK(doubtful(grade_of(R"({"verified":false,"outcome":"crash"})", Form::module, {})));
  CHECK(!doubtful(grade_of(R"({"verified":false,"outcome":"wrong"})", Form::module, {})));
  CHECK(!doubtful(not_judged({"time_limit", "", {}, {}}, Form::module)));
}

TEST_CASE("a source that cannot be read is the completion's fault") {
  const Grade grade = grade_of(R"({"error":{"kind":"bad_source","message":"line 1: no"}})", Form::source, {});
  CHECK(grade.judged());
  CHECK(grade.outcome == "invalid_program");
  CHECK(!grade.compiled);
}
