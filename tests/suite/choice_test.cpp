#include "suite/choice.h"

#include <doctest/doctest.h>

#include <string>

using namespace planish;
using namespace planish::suite;

namespace {

bool chooses(const char* expression, const char* name) {
  const auto choice = parse_choice(expression);
  REQUIRE(choice);
  return (*choice)(name);
}

}  // namespace

TEST_CASE("an expression chooses names by their parts, in any case") {
  CHECK(chooses("soft", "level1/23_Softmax"));
  CHECK(chooses("SOFT", "softmax"));
  CHECK_FALSE(chooses("norm", "softmax"));
  CHECK(chooses("soft and max", "softmax"));
  CHECK_FALSE(chooses("soft and norm", "softmax"));
  CHECK(chooses("norm or soft", "softmax"));
  CHECK(chooses("not norm", "softmax"));
  CHECK_FALSE(chooses("not not norm", "softmax"));
}

TEST_CASE("not binds before and, and before or; parentheses before all") {
  CHECK(chooses("a or b and c", "a"));
  CHECK_FALSE(chooses("(a or b) and c", "a"));
  CHECK(chooses("(a or b)and(c)", "bc"));
  CHECK_FALSE(chooses("not a and b", "ab"));
  CHECK(chooses("not (a and b)", "a"));
}

TEST_CASE("what is no expression is an error that says where") {
  const auto problem = [](const std::string& expression) {
    const auto choice = parse_choice(expression);
    REQUIRE_FALSE(choice);
    CHECK((choice.error().kind == "usage"));
    return choice.error().message;
  };
  CHECK(problem("") == "-k ends where a part of a name should stand");
  CHECK(problem("a and") == "-k ends where a part of a name should stand");
  CHECK(problem("a b") == "-k: 'b' stands where none was expected");
  CHECK(problem("(a") == "-k ends where a part of a name should stand");
  CHECK(problem("a)") == "-k: ')' stands where none was expected");
  CHECK(problem("or a") == "-k: 'or' stands where none was expected");
  CHECK(problem(std::string(5000, '(') + "a").contains("too many"));
  std::string negations;
  for (int i = 0; i < 5000; ++i) negations += "not ";
  CHECK(problem(negations + "a").contains("too many"));
}
