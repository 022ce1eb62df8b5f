#include "search/swarm.h"

#include <doctest/doctest.h>

#include <cmath>
#include <map>

#include "landscape.h"

using namespace planish;
using namespace planish::search;
using namespace planish::search::testing;

namespace {

/// Runs a swarm for so many proposals; `change` sees each Told before it is told.
template <typename Change>
void drive(Swarm& swarm, int count, Change change) {
  for (int i = 0; i < count; ++i) {
    auto genome = swarm.propose();
    REQUIRE(genome);
    Told told = Landscape::told(*genome);
    told.cell = Cell{static_cast<std::uint8_t>(i % 2), 0, 0};
    change(i, *genome, told);
    swarm.tell(*genome, told);
  }
}

/// Says the truth, and counts how often it is asked.
class Oracle : public Predictor {
 public:
  std::optional<double> predicted_log_ms(const RegionSpec&, const codegen::Genome& genome) const override {
    ++asked;
    return std::log(Landscape::ms(genome));
  }
  void observe(const RegionSpec&, const codegen::Genome&, const Told&) override {}
  mutable int asked = 0;
};

}  // namespace

TEST_CASE("thirty-two agents: eight focuses on four islands, each with its share") {
  const RegionSpec region = landscape();
  Swarm swarm({region, 1});
  drive(swarm, 600, [](int, const codegen::Genome&, Told&) {});
  std::map<int, int> by_focus, by_island;
  double shares = 0;
  for (const auto& agent : swarm.agents()) {
    ++by_focus[agent.focus];
    ++by_island[agent.island];
    shares += agent.share;
    CHECK(agent.share >= 0.3 / 32);
    CHECK(agent.proposed > 0);
  }
  CHECK(swarm.agents().size() == 32);
  CHECK(by_focus.size() == 8);
  CHECK(by_island.size() == 4);
  CHECK(shares == doctest::Approx(1.0));
}

namespace {

/// Five first guesses with vectors of 8, then two without.
class Guesses : public Landscape {
 public:
  std::vector<codegen::Genome> seeds() const override {
    std::vector<codegen::Genome> out(7, Landscape::seeds().front());
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i]["threads"] = std::int64_t{32} << (i % 5);
      out[i]["vector"] = i < 5 ? 8 : 4;
    }
    return out;
  }
};

}  // namespace

TEST_CASE("what is wrong leads to the first guesses that have least in common with it") {
  RegionSpec region = landscape();
  region.domain = std::make_shared<Guesses>();
  const auto vectors = [&](bool slow) {
    Swarm swarm({region, 1});
    std::vector<std::int64_t> found;
    for (int i = 0; i < 7; ++i) {
      const auto genome = swarm.propose();
      REQUIRE(genome);
      found.push_back(genome->at("vector"));
      Told told = Landscape::told(*genome);
      told.ok = genome->at("vector") != 8;
      told.slow = slow;
      swarm.tell(*genome, told);
    }
    return found;
  };
  CHECK(vectors(false) == std::vector<std::int64_t>{8, 4, 8, 4, 8, 8, 8});
  // To be slow is no fault of one gene.
  CHECK(vectors(true) == std::vector<std::int64_t>{8, 8, 8, 8, 8, 4, 4});
}

TEST_CASE("islands open one after the other, and few evaluations are all of the first one's") {
  const RegionSpec region = landscape();
  SwarmOptions options;
  options.settle_for = 1000;  // the first one never comes to rest
  Swarm swarm({region, 4}, options);
  const auto working = [&] {
    int islands = 0;
    for (int i = 0; i < 4; ++i) {
      bool one = false;
      for (const auto& agent : swarm.agents()) one = one || (agent.island == i && agent.proposed > 0);
      islands += one ? 1 : 0;
    }
    return islands;
  };
  const auto nothing = [](int, const codegen::Genome&, Told&) {};
  drive(swarm, options.open_first, nothing);
  CHECK(working() == 1);
  drive(swarm, options.open_every, nothing);
  CHECK(working() == 2);
  drive(swarm, 3 * options.open_every, nothing);
  CHECK(working() == 4);
}

TEST_CASE("where the first island has come to rest, the second opens at once") {
  const RegionSpec region = landscape();
  SwarmOptions options;
  options.open_first = 1000;
  Swarm swarm({region, 4}, options);
  // Nothing ever gets better.
  drive(swarm, options.settle_for + 20, [](int i, const codegen::Genome&, Told& told) {
    told.median_ms = 10 + i;
    told.lo_ms = told.hi_ms = 0;
  });
  bool second = false;
  for (const auto& agent : swarm.agents()) second = second || (agent.island == 1 && agent.proposed > 0);
  CHECK(second);
}

TEST_CASE("what one island finds reaches the next ones of the ring") {
  const RegionSpec region = landscape();
  SwarmOptions options;
  options.migrate_every = 10;
  Swarm swarm({region, 2}, options);
  // One genome is far better than anything else, wherever it was found.
  std::optional<codegen::Genome> star;
  drive(swarm, 80, [&](int i, const codegen::Genome& genome, Told& told) {
    told.median_ms += 5;
    told.lo_ms = told.hi_ms = 0;
    if (i == 30) {
      star = genome;
      told.median_ms = 0.5;
    }
  });
  for (int i = 0; i < 4; ++i) {
    REQUIRE(swarm.island(i).best());
    CHECK(swarm.island(i).best()->ms == doctest::Approx(0.5));
  }
}

TEST_CASE("archives of islands hold cells as they were told") {
  const RegionSpec region = landscape();
  Swarm swarm({region, 3});
  drive(swarm, 300, [](int, const codegen::Genome&, Told&) {});
  for (int i = 0; i < 4; ++i) {
    CHECK(swarm.island(i).filled() == 2);
    CHECK(swarm.island(i).at(Cell{0, 0, 0}));
    CHECK(swarm.island(i).at(Cell{1, 0, 0}));
  }
}

TEST_CASE("a judge's moves are followed") {
  // The judge knows the way; a swarm that listens is nearer to the floor after a few steps.
  const auto after_a_few = [](bool judged) {
    double sum = 0;
    for (std::uint64_t seed = 0; seed < 8; ++seed) {
      const RegionSpec region = landscape();
      Swarm swarm({region, seed});
      double best = no_time;
      drive(swarm, 24, [&](int, const codegen::Genome& genome, Told& told) {
        best = std::min(best, told.median_ms);
        if (!judged) return;
        const Landscape domain;
        for (const auto& gene : domain.genes()) {
          for (const int direction : {-1, 1}) {
            const int to = Landscape::at(gene, genome) + direction;
            if (to < 0 || to >= static_cast<int>(gene.choices.size())) continue;
            codegen::Genome next = genome;
            next[gene.name] = gene.choices[static_cast<std::size_t>(to)];
            const double gain = 1 - Landscape::ms(next) / told.median_ms;
            if (gain > 0) told.moves.push_back({gene.name, direction, gain});
          }
        }
        told.moves.push_back({"no such gene", 1, 0.5});
      });
      sum += best;
    }
    return sum;
  };
  CHECK(after_a_few(true) < after_a_few(false));
}

TEST_CASE("another region's best is tried here") {
  const auto found = [](bool shown) {
    Board board;
    // The floor of this landscape; the nearest choice stands for a value that this region does not have.
    if (shown) {
      board.show(
          {"r9",
           {{"threads", 250}, {"tile", 128}, {"stages", 2}, {"vector", 4}, {"split", 2}, {"other", 3}, {"unroll", 2}},
           1.0});
    }
    int times = 0;
    for (std::uint64_t seed = 0; seed < 8; ++seed) {
      const RegionSpec region = landscape();
      SwarmOptions options;
      options.learn_after = 1000;  // what is proposed is what operators think of
      Swarm swarm({region, seed, nullptr, &board}, options);
      drive(swarm, 40,
            [&](int, const codegen::Genome& genome, Told&) { times += Landscape::ms(genome) <= 1.0 ? 1 : 0; });
    }
    return times;
  };
  CHECK(found(true) > found(false));
}

TEST_CASE("a predictor is asked, and a good one leads to the floor at once") {
  const RegionSpec region = landscape();
  double with = 0, without = 0;
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    Oracle oracle;
    Swarm guided({region, seed, &oracle});
    Swarm alone({region, seed});
    double best = no_time, other = no_time;
    drive(guided, 24, [&](int, const codegen::Genome&, Told& told) { best = std::min(best, told.median_ms); });
    drive(alone, 24, [&](int, const codegen::Genome&, Told& told) { other = std::min(other, told.median_ms); });
    CHECK(oracle.asked > 0);
    with += best;
    without += other;
  }
  CHECK(with < without);
}

TEST_CASE("an elite that fails its second measurement is no parent and no elite any more") {
  const RegionSpec region = landscape();
  Swarm swarm({region, 5});
  std::optional<codegen::Genome> star;
  drive(swarm, 40, [&](int i, const codegen::Genome& genome, Told& told) {
    if (i != 20) return;
    star = genome;
    told.median_ms = 0.01;
    told.lo_ms = told.hi_ms = 0;
  });
  bool held = false;
  for (int i = 0; i < 4; ++i) {
    const auto best = swarm.island(i).best();
    held = held || (best && best->ms == doctest::Approx(0.01));
  }
  CHECK(held);
  swarm.tell_again(*star, Told{});
  for (int i = 0; i < 4; ++i) {
    if (swarm.island(i).best()) CHECK(swarm.island(i).best()->ms > 0.5);
  }
}
