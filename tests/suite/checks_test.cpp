#include "suite/checks.h"

#include <doctest/doctest.h>

using namespace planish;
using namespace planish::suite;

namespace {

Row row_of(const char* task, const char* outcome) {
  Row out;
  out.task = task;
  out.path = std::string("/elsewhere/tasks/") + task + ".py";
  out.outcome = outcome;
  return out;
}

bool holds(const std::string& text, const char* part) {
  return text.contains(part);
}

}  // namespace

TEST_CASE("a JUnit document counts failures, errors and skipped cases, and tells which is which") {
  Row refused = row_of("softmax", "refused");
  refused.verdict = "wrong";
  refused.message = "element [3] is <nan> & \"far\"\nsecond line\x01";
  refused.seconds = 1.5;
  Row failed = failed_row("norm", "not_python", "not Python", "mend it");
  const std::string xml = junit_xml({row_of("good", "verified"), refused, failed, row_of("none", "unanswered"),
                                     row_of("cut", "interrupted"), row_of("same", "no_improvement")},
                                    "planish.suite");
  CHECK(holds(xml, R"(tests="6" failures="1" errors="1" skipped="2" time="1.500")"));
  CHECK(holds(xml,
              R"(name="softmax" file="/elsewhere/tasks/softmax.py" time="1.500"><failure type="wrong" message="wrong: )"
              R"(element [3] is &lt;nan&gt; &amp; &quot;far&quot;&#10;second line\x01"/>)"));
  CHECK(holds(xml, R"x(<error type="not_python" message="not_python: not Python (hint: mend it)"/>)x"));
  CHECK(holds(xml, R"(name="none" file="/elsewhere/tasks/none.py" time="0.000"><skipped )"));
  CHECK(holds(xml, R"(<system-out>no_improvement</system-out>)"));
}

TEST_CASE("a JUnit document holds UTF-8 and characters of XML alone") {
  const Row row = failed_row("a", "crash", "\xff \xC3 \xED\xA0\x80 \xC0\x80 \x1b[31m\r \uFFFE\uFFFF é\t", "");
  CHECK(holds(junit_xml({row}, "s"), R"(message="crash: \xff \xc3 \xed\xa0\x80 \xc0\x80 \x1b[31m\x0d ?? é)"
                                     "\t\"/>"));
}

TEST_CASE("an annotation names the file of what failed, in one line that nothing in it can end") {
  Row refused = row_of("softmax", "refused");
  refused.solution = "/elsewhere/a,b:c.py";
  refused.verdict = "wrong";
  refused.message = "100 % wrong\n::warning::not one";
  CHECK(github_annotations({row_of("good", "improved"), refused}) ==
        "::error file=/elsewhere/a%2Cb%3Ac.py,title=planish%3A softmax::wrong: 100 %25 wrong%0A::warning::not one\n");
  refused.solution = "-";  // it came on stdin
  CHECK(holds(github_annotations({refused}), "::error file=/elsewhere/tasks/softmax.py,"));
  CHECK(github_annotations({row_of("same", "no_improvement"), row_of("cut", "interrupted")}).empty());
}

TEST_CASE("what is bad is refused or failed") {
  CHECK(is_bad(row_of("a", "refused")));
  CHECK(is_bad(row_of("a", "failed")));
  for (const char* outcome : {"verified", "improved", "no_improvement", "interrupted", "unanswered"})
    CHECK_FALSE(is_bad(row_of("a", outcome)));
}
