#include "base/named_values.h"

#include <doctest/doctest.h>

#include <map>

using namespace planish;

namespace {

using Integers = std::map<std::string, std::int64_t, std::less<>>;
using Reals = std::map<std::string, double, std::less<>>;

}  // namespace

TEST_CASE("numbers by name survive being written and read") {
  const Integers integers{{"a", -3}, {"b", 1LL << 60}};
  CHECK(named_values_text(integers) == "a=-3 b=1152921504606846976");
  CHECK(*named_values_from_text<Integers>(named_values_text(integers), "bad_genome") == integers);
  const Reals reals{{"x", 0.1}, {"y", -1e300}};
  CHECK(*named_values_from_text<Reals>(named_values_text(reals), "bad_genome") == reals);
  CHECK(named_values_from_text<Integers>("", "bad_text")->empty());
  CHECK(*named_values_from_text<Integers>("  b=2   a=1 ", "bad_text") == Integers{{"a", 1}, {"b", 2}});
}

TEST_CASE("what is no name and number is an error of the caller's kind") {
  for (const char* text : {"a", "=1", "a=", "a=x", "a=1x", "a=1 a=2", "a=99999999999999999999", "a=1.5"}) {
    const auto read = named_values_from_text<Integers>(text, "bad_genome");
    REQUIRE_FALSE(read.has_value());
    CHECK(read.error().kind.name() == "bad_genome");
  }
  for (const char* text : {"a=nan", "a=inf", "a=1e999", "a=1 a=1"})
    CHECK_FALSE(named_values_from_text<Reals>(text, "bad_genome").has_value());
}
