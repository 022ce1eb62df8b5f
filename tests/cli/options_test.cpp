#include "cli/options.h"

#include <doctest/doctest.h>

#include "session/time_plan.h"

using namespace planish::cli;
using namespace planish::session;

TEST_CASE("--max-time: a limit, or by the budget") {
  CHECK(parse_max_time("90s", 5).value() == 90);
  CHECK(parse_max_time("auto", 60).value() == TimePlan::usual(60));
  CHECK(parse_max_time("auto", 0).value() == 0);  // by evaluations alone: no limit of time anywhere
  CHECK(parse_max_time("0", 5).error().kind.name() == "usage");
  CHECK(parse_max_time("soon", 5).error().hint.find("auto") != std::string::npos);
}
