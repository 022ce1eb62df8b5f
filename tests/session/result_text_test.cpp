#include "session/result_text.h"

#include <doctest/doctest.h>

using namespace planish;
using namespace planish::session;

namespace {

ResultDocument judged(bool verified, double error, double eager_error) {
  ResultDocument result;
  result.task = "task";
  result.outcome = "no_improvement";
  result.form = "baseline";
  result.accuracy.emplace();
  result.accuracy->gate = "eager";
  result.accuracy->regimes = {"task"};
  result.accuracy->verified = verified;
  result.accuracy->error = error;
  result.accuracy->eager_error = eager_error;
  return result;
}

bool speaks_of_errors(const ResultDocument& result) {
  const std::string text = to_text(result);
  return text.find("float64 reference") != std::string::npos && text.find("  data ") != std::string::npos;
}

}  // namespace

TEST_CASE("errors are spoken of where results were compared") {
  CHECK(speaks_of_errors(judged(true, 1e-7, 1e-7)));
  CHECK(speaks_of_errors(judged(true, 0, 0)));         // an exact task
  CHECK(speaks_of_errors(judged(false, 0.5, 0)));      // it was wrong
  CHECK_FALSE(speaks_of_errors(judged(false, 0, 0)));  // it never ran
  const std::string text = to_text(judged(false, 0, 0));
  CHECK(text.find("  data ") == std::string::npos);
}

TEST_CASE("a call that is faster than memory is told to use caches") {
  ResultDocument result = judged(true, 1e-7, 1e-7);
  result.outcome = "improved";
  result.form = "program";
  result.why.emplace();
  Roofline& limit = result.roofline.emplace();
  limit.bound_ms = 0.2;
  limit.bound = "memory";
  limit.fraction = 2.5;
  ClaimTime& shipped = result.times.emplace_back();
  shipped.name = "shipped";
  shipped.median_ms = 0.1;
  CHECK(to_text(result).contains("a call reaches 200 % of it, the kernels by themselves 250 %; more than all of it"));
  shipped.median_ms = 0.4;
  CHECK(to_text(result).contains("a call reaches 50 % of it"));
  CHECK_FALSE(to_text(result).contains("more than all of it"));
}
