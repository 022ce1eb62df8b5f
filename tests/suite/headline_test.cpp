#include "suite/headline.h"

#include <doctest/doctest.h>

#include <limits>

using namespace planish;
using namespace planish::suite;

TEST_CASE("the headline is against max-autotune-no-cudagraphs, else against the best baseline") {
  const std::map<std::string, double> all = {{"eager", 4}, {"max_autotune_no_cudagraphs", 2}, {"max_autotune", 1.5}};
  const auto usual = pick_headline("program", all, "max_autotune", {});
  REQUIRE(usual);
  CHECK(usual->speedup == 2);
  CHECK(usual->baseline == "max_autotune_no_cudagraphs");
  const auto refused = pick_headline("program", all, "max_autotune", {"max_autotune_no_cudagraphs"});
  REQUIRE(refused);
  CHECK(refused->speedup == 1.5);
  const auto alone = pick_headline("program", {{"eager", 4}}, "eager", {});
  REQUIRE(alone);
  CHECK(alone->baseline == "eager");
  CHECK_FALSE(pick_headline("program", {}, "", {}));
  CHECK_FALSE(pick_headline("", all, "eager", {}));
}

TEST_CASE("a baseline that ships gained nothing") {
  const auto found = pick_headline("baseline", {{"max_autotune_no_cudagraphs", 1.3}}, "eager", {});
  REQUIRE(found);
  CHECK(found->speedup == 1);
  CHECK(headline_text(found) == "no gain over PyTorch eager");
}

TEST_CASE("results from before the field are read by the same rule") {
  const auto old = headline_of(
      R"({"form":"program","best_baseline":"eager","speedup":{"eager":2.97,"max_autotune_no_cudagraphs":3.71}})");
  REQUIRE(old);
  CHECK(old->speedup == 3.71);
  const auto kept = headline_of(R"({"headline":{"speedup":1.25,"baseline":"compile"},"form":"program"})");
  REQUIRE(kept);
  CHECK(headline_text(kept) == "1.25x faster than torch.compile");
  CHECK_FALSE(headline_of(R"({"headline":null,"form":"program","best_baseline":"eager","speedup":{"eager":2}})"));
  CHECK_FALSE(headline_of(""));
  CHECK_FALSE(headline_of("no JSON"));
}

TEST_CASE("a ratio of errors takes a few characters whatever it is") {
  CHECK(ratio_text(1.25) == "1.25");
  CHECK(ratio_text(12345) == "1.23e+04");
  CHECK(ratio_text(1e300) == "1e+300");
  CHECK(ratio_text(std::numeric_limits<double>::infinity()) == "inf");
}
