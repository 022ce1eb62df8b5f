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
  const Grade right = grade_of(R"({"verified":true,"outcome":"ok","message":"","best_baseline":"eager",
                   "gains":{"eager":{"ratio":1.5,"lo":1.45,"hi":1.55}}})",
                               Form::module, weights);
  CHECK(right.correct);
  CHECK(right.baseline == "eager");
  CHECK(*right.reward == doctest::Approx(2.1));
  CHECK((*right.speedup_lo == 1.45 && *right.speedup_hi == 1.55));
  const Grade fast = grade_of(
      R"({"verified":true,"outcome":"ok","best_baseline":"eager","gains":{"eager":{"ratio":50,"lo":45,"hi":55}}})",
      Form::module, weights);
  CHECK(*fast.reward == doctest::Approx(2.6));
  const Grade wrong = grade_of(
      R"({"verified":false,"outcome":"wrong","message":"no","best_baseline":"eager","gains":{"eager":{"ratio":50,"lo":45,"hi":55}}})",
      Form::module, weights);
  CHECK((wrong.compiled && !wrong.correct && !wrong.speedup));
  CHECK(*wrong.reward == doctest::Approx(0.3));
  const Grade broken = grade_of(R"({"verified":false,"outcome":"load_failed"})", Form::module, weights);
  CHECK(!broken.compiled);
  CHECK(*broken.reward == doctest::Approx(0.1));
  const Grade source =
      grade_of(R"({"ok":true,"outcome":"ok","gain":{"ratio":1.5,"lo":1.4,"hi":1.6},"evaluation":{"message":""}})",
               Form::source, weights);
  CHECK(*source.speedup == doctest::Approx(1.5));
  CHECK(source.baseline == "pytorch_operators");
}

TEST_CASE("a difference inside the noise is none, however far apart two times seem to be") {
  const RewardWeights weights{.correct = 0.3, .speedup = 1};
  for (const char* gain : {R"({"ratio":0.02,"lo":0.002,"hi":1.1})", R"({"ratio":30,"lo":0.9,"hi":464.4})"}) {
    const std::string document =
        std::string(R"({"verified":true,"outcome":"ok","best_baseline":"eager","gains":{"eager":)") + gain + "}}";
    const Grade grade = grade_of(document, Form::module, weights);
    CHECK(*grade.speedup == 1);
    CHECK(*grade.reward == doctest::Approx(1.3));
    const Grade source =
        grade_of(std::string(R"({"ok":true,"outcome":"ok","gain":)") + gain + "}", Form::source, weights);
    CHECK(*source.speedup == 1);
  }
  // Times without a ratio of things that were timed in turn are no gain at all.
  const Grade times = grade_of(
      R"({"verified":true,"outcome":"ok","times_ms":{"solution":{"median":1},"eager":{"median":50}},"speedup_best_baseline":50})",
      Form::module, weights);
  CHECK(!times.speedup);
  CHECK(times.baseline.empty());
  CHECK(*times.reward == doctest::Approx(0.3));
}

TEST_CASE("on a degenerate task nothing is right") {
  const RewardWeights weights{.compiled = 0.1, .correct = 0.3, .speedup = 1};
  const Grade module =
      grade_of(R"({"verified":false,"outcome":"degenerate","message":"zeros would pass"})", Form::module, weights);
  const Grade source = grade_of(
      R"({"ok":true,"outcome":"ok","degenerate":["zeros"],"gain":{"ratio":9,"lo":8,"hi":10}})", Form::source, weights);
  for (const Grade& grade : {module, source}) {
    CHECK((grade.judged() && !grade.correct && !grade.speedup));
    CHECK(grade.outcome == "degenerate");
    CHECK(*grade.reward == doctest::Approx(0.1));
  }
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
