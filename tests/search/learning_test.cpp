// What the swarm learns with: bandits and the forest.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "landscape.h"
#include "search/bandit.h"
#include "search/focus.h"
#include "search/forest.h"

using namespace planish;
using namespace planish::search;
using namespace planish::search::testing;

TEST_CASE("a bandit takes what pays more often, and nobody never") {
  Bandit bandit({1, 1, 1, 1}, 0.2);
  std::mt19937_64 rng(1);
  std::vector<int> chosen(4);
  for (int i = 0; i < 2000; ++i) {
    const int arm = bandit.choose(rng);
    ++chosen[static_cast<std::size_t>(arm)];
    bandit.reward(arm, arm == 2 ? 1.0 : 0.1);
  }
  CHECK(chosen[2] > 800);
  for (const int n : chosen) CHECK(n > 60);
  const auto shares = bandit.shares();
  CHECK(std::accumulate(shares.begin(), shares.end(), 0.0) == doctest::Approx(1.0));
}

TEST_CASE("before anything was rewarded priors decide, and what paid long ago is forgotten") {
  Bandit bandit({3, 1}, 0.0);
  CHECK(bandit.shares()[0] == doctest::Approx(0.75));
  for (int i = 0; i < 50; ++i) bandit.reward(0, 0.0), bandit.reward(1, 1.0);
  CHECK(bandit.shares()[1] > 0.6);
  for (int i = 0; i < 500; ++i) bandit.reward(0, 1.0), bandit.reward(1, 0.0);
  CHECK(bandit.shares()[0] > 0.8);
}

TEST_CASE("weights choose; where all are zero the first is taken") {
  std::mt19937_64 rng(1);
  const std::vector<double> weights{0, 2, 0, 6};
  int threes = 0;
  for (int i = 0; i < 1000; ++i) {
    const int one = pick_weighted(rng, weights);
    CHECK((one == 1 || one == 3));
    threes += one == 3 ? 1 : 0;
  }
  CHECK(threes > 680);
  CHECK(threes < 820);
  CHECK(pick_weighted(rng, std::vector<double>{0, 0}) == 0);
}

TEST_CASE("a forest ranks genomes that it has not seen") {
  auto domain = std::make_shared<Landscape>();
  Space space(domain);
  std::mt19937_64 rng(5);
  std::vector<Code> rows;
  std::vector<double> times;
  while (rows.size() < 200) {
    const Code code = space.draw(rng);
    rows.push_back(code);
    times.push_back(std::log(Landscape::ms(space.decode(code))));
  }
  Forest forest;
  forest.fit(rows, times, space.genes(), rng);
  // Concordant pairs among fresh genomes: a coin gets half of them right.
  int right = 0, pairs = 0;
  for (int i = 0; i < 1000; ++i) {
    const Code a = space.draw(rng), b = space.draw(rng);
    const double truth = Landscape::ms(space.decode(a)) - Landscape::ms(space.decode(b));
    if (std::abs(truth) < 1e-9) continue;
    ++pairs;
    right += (forest.guess(a).mean < forest.guess(b).mean) == (truth < 0) ? 1 : 0;
  }
  CHECK(right > 0.85 * pairs);
  // It remembers what it saw, and doubts more what it did not.
  double near = 0, far = 0;
  for (std::size_t i = 0; i < 100; ++i) {
    near += forest.guess(rows[i]).spread;
    far += forest.guess(space.draw(rng)).spread;
    CHECK(forest.guess(rows[i]).mean == doctest::Approx(times[i]).epsilon(0.25));
  }
  CHECK(near < far);
}

TEST_CASE("every gene belongs to a focus, and one that is not known to none") {
  for (const codegen::GeneInfo& gene : codegen::gene_catalogue()) {
    CAPTURE(gene.name);
    const int slot = slot_of_gene(gene.name);
    CHECK(slot == static_cast<int>(gene.kind));
    CHECK(std::ranges::any_of(all_focuses(), [&](const Focus& focus) {
      return focus.kind_weight[static_cast<std::size_t>(slot)] > focus.kind_weight[codegen::gene_kinds];
    }));
  }
  CHECK(slot_of_gene("zzz") == codegen::gene_kinds);
  CHECK(slot_of_gene("thread") == codegen::gene_kinds);  // nothing is guessed from parts of names
}

TEST_CASE("a focus is a prior, not a cage") {
  for (const Focus& focus : all_focuses()) {
    CHECK(!focus.name.empty());
    for (const double weight : focus.operator_weight) CHECK(weight > 0);
    for (const double weight : focus.kind_weight) CHECK(weight > 0);
  }
}
