#include "session/winners.h"

#include <doctest/doctest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace planish::session {
namespace {

/// Guesses as a product's: one rounded product first, then three, which are exact.
class ProductDomain : public coder::Domain {
 public:
  std::vector<codegen::Gene> genes() const override { return {{"passes", {1, 3}}, {"tile", {64, 128}}}; }
  bool legal(const codegen::Genome& g) const override { return g.size() == 2; }
  std::vector<codegen::Genome> seeds() const override {
    return {{{"passes", 1}, {"tile", 64}}, {{"passes", 3}, {"tile", 64}}, {{"passes", 3}, {"tile", 128}}};
  }
  codegen::Genome random(std::mt19937_64&) const override { return seeds().front(); }
  std::vector<codegen::Genome> neighbours(const codegen::Genome&) const override { return {}; }
  codegen::Genome mutate(const codegen::Genome& g, std::mt19937_64&) const override { return g; }
  Result<coder::Candidate> build(const codegen::Genome& g) const override {
    coder::Candidate out;
    out.proposal = g;
    out.hash = codegen::text(g);
    out.program = out.hash;
    return out;
  }
};

struct Searched {
  explicit Searched(std::size_t regions) {
    std::vector<search::RegionSpec> specs(regions);
    for (std::size_t i = 0; i < regions; ++i) {
      specs[i].id = "r" + std::to_string(i);
      specs[i].key = specs[i].id;
      specs[i].fallback_ms = 1;
      specs[i].domain = std::make_shared<ProductDomain>();
    }
    search = std::make_unique<search::Search>(std::move(specs), 0);
  }
  /// The next candidates pass or fail.
  void tell(const std::vector<bool>& passes) {
    for (const bool ok : passes) {
      const auto ask = search->ask();
      REQUIRE(ask);
      REQUIRE(search->claim_program(*ask, coder::text(ask->proposal)) == false);
      search::Told told;
      told.ok = ok;
      told.median_ms = ok ? 0.5 : 0;
      told.program = coder::text(ask->proposal);
      REQUIRE(search->tell(ask->serial, told));
    }
  }
  std::string rest(Untried untried) const {
    std::string out;
    for (const Choice& choice : with_the_rest(*search, {}, {}, untried))
      out += choice.region + " " + coder::text(choice.proposal) + "; ";
    return out;
  }
  std::unique_ptr<search::Search> search;
};

TEST_CASE("what nothing was tried for is tried with its first guess, or with the first that does not round") {
  const Searched searched(1);
  CHECK(searched.rest(Untried::guessed) == "r0 passes=1 tile=64; ");
  CHECK(searched.rest(Untried::exact) == "r0 passes=3 tile=64; ");
  CHECK(searched.rest(Untried::none).empty());
}

TEST_CASE("a winner that rounds its factors comes with the best that does not, where one passed") {
  Searched searched(1);
  searched.tell({true});
  searched.search->settle();
  const auto alone = winners(*searched.search, {});
  REQUIRE(alone.size() == 1);
  CHECK(coder::text(alone[0].proposal) == "passes=1 tile=64");
  CHECK_FALSE(alone[0].unrounded);
  Searched both(1);
  both.tell({true, true});
  both.search->settle();
  const auto two = winners(*both.search, {});
  REQUIRE(two.size() == 1);
  if (coder::text(two[0].proposal) == "passes=1 tile=64") {
    REQUIRE(two[0].unrounded);
    CHECK(coder::text(*two[0].unrounded) == "passes=3 tile=64");
  } else {
    CHECK_FALSE(two[0].unrounded);
  }
}

TEST_CASE("where a rounded guess failed one is tried that does not round, and none where that failed too") {
  Searched searched(1);
  searched.tell({false});
  CHECK(searched.rest(Untried::guessed) == "r0 passes=3 tile=64; ");
  CHECK(searched.rest(Untried::exact) == "r0 passes=3 tile=64; ");
  CHECK(searched.rest(Untried::none).empty());
  searched.tell({false});
  CHECK(searched.rest(Untried::guessed).empty());
  CHECK(searched.rest(Untried::exact).empty());
}

}  // namespace
}  // namespace planish::session
