#include "session/seeded_domain.h"

#include <doctest/doctest.h>

#include <memory>
#include <vector>

#include "fakes.h"

using namespace planish;
using namespace planish::session;

TEST_CASE("known genomes come before a domain's own guesses or behind them; what does not fit stays out") {
  using testing::SpeedDomain;
  const auto domain = std::make_shared<SpeedDomain>("r0");
  const auto make = SpeedDomain::make;
  const std::vector<codegen::Genome> known{make(8), make(3), make(77), {{"other", 1}}};
  CHECK(with_seeds(domain, known, true)->seeds() == std::vector<codegen::Genome>{make(8), make(3)});
  CHECK(with_seeds(domain, known, false)->seeds() == std::vector<codegen::Genome>{make(3), make(8)});
  CHECK(with_seeds(domain, {make(77)}, true) == domain);
  const auto genes = genes_from_text(genes_text({{"a", {1, -2}}, {"b", {3}}}));
  REQUIRE(genes);
  CHECK(genes_text(*genes) == "a=1,-2 b=3");
  CHECK(genes_from_text("a=1,x").error().kind.name() == "store_corrupt");
}

TEST_CASE("a genome that was stored before a gene existed is completed; what cannot be had is counted") {
  class Later : public testing::SpeedDomain {
   public:
    Later() : SpeedDomain("r0") {}
    std::vector<codegen::Gene> genes() const override { return {{"new", {5, 6}}, {"speed", {3, 8}}}; }
    bool legal(const codegen::Genome& g) const override { return g.size() == 2 && g.at("speed") != 8; }
    std::vector<codegen::Genome> seeds() const override { return {{{"new", 6}, {"speed", 3}}}; }
  };
  const auto domain = std::make_shared<Later>();
  const codegen::Genome completed{{"new", 5}, {"speed", 3}}, own{{"new", 6}, {"speed", 3}};
  Fitted fitted;
  // One lacks a gene, one is illegal here, one has a gene that is gone, one has a value that is no longer offered.
  const std::vector<codegen::Genome> known{{{"speed", 3}}, {{"speed", 8}}, {{"old", 1}, {"speed", 3}}, {{"speed", 4}}};
  CHECK(with_seeds(domain, known, true, &fitted)->seeds() == std::vector<codegen::Genome>{completed, own});
  CHECK(fitted.taken == 1);
  CHECK(fitted.completed == 1);
  CHECK(fitted.left_out == 3);
  CHECK(with_seeds(domain, known, false, &fitted)->seeds() == std::vector<codegen::Genome>{own, completed});
  CHECK(fitted.left_out == 3);
}
