#include "base/work_scope.h"

#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <thread>
#include <vector>

using namespace planish;

TEST_CASE("scopes nest: never longer than the outer one, heard by the nearest listener") {
  CHECK(std::isinf(work_seconds_left()));
  report_work("to nobody");
  std::vector<std::string> heard;
  const WorkScope outer(100, [&heard](const WorkReport& report) { heard.emplace_back(report.text); });
  CHECK(work_seconds_left() > 50);
  CHECK(work_seconds_left() <= 100);
  CHECK(work_seconds(3) == 3);
  {
    const WorkScope longer(1000);
    CHECK(work_seconds_left() <= 100);
    const WorkScope shorter(1);
    CHECK(work_seconds(3) <= 1);
    report_work("importing");
  }
  CHECK(work_seconds_left() > 50);
  CHECK(heard == std::vector<std::string>{"importing"});
  std::thread([] { CHECK(std::isinf(work_seconds_left())); }).join();
}

TEST_CASE("a scope whose time is over has none left") {
  const WorkScope scope(1e-9);
  CHECK(work_seconds_left() == 0);
}
