// A program that misses the gate narrowly on one data set: two further ones of its regime decide.
#include <doctest/doctest.h>

#include <algorithm>

#include "relu_program.h"
#include "watched_task.h"

using namespace planish;

namespace {

EvaluateRequest whole_program(const std::string& level) {
  EvaluateRequest request;
  request.region = "task";
  request.program =
      planish::testing::relu_program(
          "const float* x = static_cast<const float*>(args[0]); float* y = static_cast<float*>(args[1]);\n"
          "for (int i = 0; i < 64 * 128; ++i) { const float v = x[i] < 0 ? 0 : x[i]; y[i] = v * 2; }")
          .dump();
  request.level = level;
  request.bench = false;
  return request;
}

}  // namespace

TEST_CASE("a near miss is outvoted by two data sets like it, in a search as in a proof") {
  const auto box = planish::testing::tools();
  if (!box) return;
  planish::testing::Watched watched(*box);
  const auto task = watched.task();
  REQUIRE(task->open());
  REQUIRE(task->evaluate(whole_program("full")));  // what it asks first is not counted

  watched.begin("oracle check 2 narrowly");
  auto tested = task->evaluate(whole_program("full"));
  REQUIRE_MESSAGE(tested.has_value(), tested.error().message);
  CHECK_MESSAGE(tested->outcome == Outcome::ok, tested->message);
  REQUIRE(tested->test.has_value());
  const auto& cases = tested->test->cases;
  const auto missed = std::ranges::find_if(cases, &TestCase::outvoted);
  REQUIRE(missed != cases.end());
  CHECK(!missed->ok);
  CHECK(std::ranges::count_if(cases, [&](const TestCase& item) { return item.regime == missed->regime; }) == 3);
  CHECK(std::ranges::count(cases, false, &TestCase::ok) == 1);

  watched.begin("oracle check 0 narrowly");
  const auto proved = task->verify(watched.solution("        return torch.relu(x) * 2.0"));
  REQUIRE_MESSAGE(proved.has_value(), proved.error().message);
  CHECK_MESSAGE(proved->verified, proved->message);
  CHECK(std::ranges::count_if(proved->cases, &TestCase::outvoted) == 1);

  // A first look has one data set, and no vote.
  watched.begin("oracle check 0 narrowly");
  auto screened = whole_program("screen");
  screened.again = true;
  tested = task->evaluate(screened);
  REQUIRE_MESSAGE(tested.has_value(), tested.error().message);
  CHECK(tested->outcome == Outcome::wrong);
}
