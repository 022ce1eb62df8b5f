#include "search/space.h"

#include <doctest/doctest.h>

#include <set>
#include <unordered_set>

#include "landscape.h"
#include "search/key_set.h"
#include "search/stock.h"

using namespace planish;
using namespace planish::search;
using namespace planish::search::testing;

TEST_CASE("a set of keys holds what a standard one does") {
  std::mt19937_64 rng(1);
  KeySet keys;
  std::unordered_set<std::uint64_t> expected;
  for (int i = 0; i < 20000; ++i) {
    const std::uint64_t key = rng() % 3 == 0 ? rng() : rng() % 5000;
    CHECK(keys.contains(key) == expected.contains(key));
    CHECK(keys.insert(key) == expected.insert(key).second);
  }
  CHECK(keys.size() == expected.size());
  CHECK(keys.contains(0) == expected.contains(0));
}

TEST_CASE("a code is a genome without its names") {
  Space space(std::make_shared<Landscape>());
  CHECK(space.genes() == 6);  // the one with a single choice takes no part
  CHECK(space.size() == 5 * 6 * 4 * 4 * 5 * 4);
  std::mt19937_64 rng(2);
  std::set<std::uint64_t> keys;
  for (int i = 0; i < 200; ++i) {
    const Code code = space.draw(rng);
    const auto genome = space.decode(code);
    CHECK(genome.at("fixed") == 7);
    REQUIRE(space.encode(genome));
    CHECK(*space.encode(genome) == code);
    CHECK(space.numbered(space.key(code)) == code);
    keys.insert(space.key(code));
  }
  CHECK(keys.size() > 190);
  auto genome = space.decode(Code{});
  genome["threads"] = 33;
  CHECK_FALSE(space.encode(genome));
  genome["threads"] = 32;
  genome["fixed"] = 8;
  CHECK_FALSE(space.encode(genome));
  genome.erase("fixed");
  CHECK_FALSE(space.encode(genome));
}

TEST_CASE("what was never legal becomes implausible, what was stays plausible") {
  auto domain = std::make_shared<Landscape>();
  Space space(domain);
  std::mt19937_64 rng(3);
  for (int i = 0; i < 6000; ++i) space.legal(space.draw(rng));
  int wrong = 0, spared = 0, illegal = 0;
  for (int i = 0; i < 2000; ++i) {
    const Code code = space.draw(rng);
    const bool legal = domain->legal(space.decode(code));
    wrong += legal && !space.plausible(code) ? 1 : 0;
    illegal += legal ? 0 : 1;
    spared += !legal && !space.plausible(code) ? 1 : 0;
  }
  CHECK(wrong == 0);
  CHECK(illegal > 100);
  CHECK(spared == illegal);  // here two genes decide, which is what pairs can tell
}

TEST_CASE("a small space is walked in full, a large one is drawn from") {
  auto domain = std::make_shared<Landscape>();
  Space space(domain);
  std::mt19937_64 rng(4);
  Stock walked(space, 1U << 20U);
  while (!walked.complete()) walked.draw(1000, rng);
  std::set<std::uint64_t> keys;
  for (const Code& code : walked.codes()) {
    CHECK(domain->legal(space.decode(code)));
    keys.insert(space.key(code));
  }
  CHECK(keys.size() == walked.codes().size());
  int legal = 0;
  for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(space.size()); ++i)
    legal += domain->legal(space.decode(space.numbered(i))) ? 1 : 0;
  CHECK(static_cast<int>(keys.size()) == legal);

  Stock drawn(space, 0);
  drawn.draw(3000, rng);
  CHECK_FALSE(drawn.complete());
  CHECK(drawn.drawn() == 3000);
  CHECK(drawn.codes().size() > 1000);
  for (const Code& code : drawn.codes()) CHECK(domain->legal(space.decode(code)));
}

TEST_CASE("clusters: the best of each group of alike guesses, best first") {
  const auto one = [](std::uint8_t a, double log_ms) {
    Ranked out;
    out.code.at[0] = a;
    out.log_ms = log_ms;
    return out;
  };
  const std::vector<int> telling{0};
  const auto groups = cluster({one(1, 0.011), one(1, 0.5), one(1, 0.005), one(2, 0.006)}, telling, 10);
  REQUIRE(groups.size() == 3);
  CHECK(groups[0].log_ms == 0.005);
  CHECK(groups[1].log_ms == 0.006);
  CHECK(groups[2].log_ms == 0.5);
  CHECK(cluster({one(1, 0.1), one(2, 0.2)}, telling, 1).size() == 1);
}
