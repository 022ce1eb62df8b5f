#include "report/suite_page.h"

#include <doctest/doctest.h>

using namespace planish;
using namespace planish::report;

TEST_CASE("the page of a suite has levels, verdicts and rows, and shows what others wrote as text") {
  suite::Row good, bad;
  good.task = "level1/1_A";
  good.level = 1;
  good.outcome = "verified";
  good.verdict = "ok";
  good.solution = "a.py";
  good.times_ms = {{"solution", 0.5}, {"eager", 1}};
  good.speedup = {{"eager", 2}};
  good.roofline = 0.42;
  good.error_ratio = 0.9;
  bad = good;
  bad.task = "level1/2_B";
  bad.outcome = "refused";
  bad.verdict = "wrong";
  bad.message = "<script>alert(1)</script>\nand more";
  bad.speedup.clear();
  bad.compat = suite::OtherVerdict{true, true, "", "{}"};
  const std::string page = suite_page({good, bad}, {"tasks", "answers", "{}", {"<b>.py"}});
  CHECK(page.find("1 of 2 tasks have a solution that is right") != std::string::npos);
  CHECK(page.find("fast<sub>1.5</sub>") != std::string::npos);
  CHECK(page.find("42 %") != std::string::npos);
  CHECK(page.find("<td>wrong</td>") != std::string::npos);
  CHECK(page.find("&lt;script&gt;alert(1)&lt;/script&gt;</td>") != std::string::npos);
  CHECK(page.find("<script>alert") == std::string::npos);
  CHECK(page.find("&lt;b&gt;.py") != std::string::npos);
  CHECK(page.find("default-src 'none'") != std::string::npos);
}
