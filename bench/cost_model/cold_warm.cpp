// planish-cold-warm: what earlier runs are worth to a later one, on recorded tables.
//
//     planish-cold-warm SEEDS EVALUATIONS TABLE...
//
// Prints evaluations until within 5 % of the table's best, median over the seeds (EVALUATIONS + 1 where never): `cold`;
// `others`: with what 128 random rows of each other table teach (first guesses, and a predictor for the swarm);
// `guesses`: of those the first guesses alone; `same`: 128 rows of the table itself are known too. The tables do not
// keep the kernel: all that have the same genes count as alike, and the model sees genes alone, which is less than a
// run knows.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "model/cost_model.h"
#include "model/seeds.h"
#include "search/search.h"
#include "session/seeded_domain.h"
#include "table.h"

namespace planish::bench {
namespace {

constexpr std::size_t rows_known = 128, seeds_known = 4;

struct Earlier {
  std::string pattern;
  std::vector<model::Sample> samples;
  std::vector<model::Known> known;
};

std::string pattern_of(const coder::Domain& domain) {
  std::string out;
  for (const auto& gene : domain.genes()) out += gene.name + " ";
  return out;
}

model::Features features_of(const codegen::Genome& genome) {
  model::Features out;
  for (const auto& [name, value] : genome) out["g." + name] = value > 0 ? std::log2(static_cast<double>(value)) : -1.0;
  return out;
}

/// What a run of random draws would have left.
Earlier earlier_of(const Surface& surface, std::uint64_t seed) {
  Earlier out;
  std::mt19937_64 rng(seed);
  const auto domain = surface.domain();
  out.pattern = pattern_of(*domain);
  for (std::size_t i = 0; i < rows_known; ++i) {
    const codegen::Genome genome = domain->random(rng);
    const auto time = surface.time(genome, rng);
    const bool ok = time.kind == Surface::Time::Kind::ok;
    out.samples.push_back({surface.name(), features_of(genome), ok, ok ? std::log(time.ms) : 0});
    if (ok) out.known.push_back({{out.pattern, "", "", {}}, surface.name(), genome, time.ms, 0});
  }
  return out;
}

class Learned : public search::Predictor {
 public:
  explicit Learned(std::string group) : group_(std::move(group)) {}
  std::optional<double> predicted_log_ms(const search::RegionSpec&, const codegen::Genome& genome) const override {
    const model::Guess guess = model.guess(group_, features_of(genome));
    if (!guess.known) return std::nullopt;
    return guess.log_ms + 1.1 * guess.failure;
  }
  void observe(const search::RegionSpec&, const codegen::Genome& genome, const search::Told& told) override {
    model.observe({group_, features_of(genome), told.ok, told.ok ? std::log(told.median_ms) : 0});
  }
  model::CostModel model;

 private:
  std::string group_;
};

struct Way {
  std::string name;
  bool others = false, same = false, predictor = false;
};

int evaluations_to(const Surface& surface, const std::vector<Earlier>& all, std::size_t mine, const Way& way,
                   search::StrategyKind strategy, std::uint64_t seed, int most) {
  std::vector<model::Sample> samples;
  std::vector<model::Known> known;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i == mine ? !way.same : !way.others) continue;
    if (all[i].pattern != all[mine].pattern) continue;
    samples.insert(samples.end(), all[i].samples.begin(), all[i].samples.end());
    known.insert(known.end(), all[i].known.begin(), all[i].known.end());
  }
  search::RegionSpec region;
  region.id = region.key = surface.name();
  region.domain = surface.domain();
  Learned learned(surface.name());
  if (!known.empty()) {
    const model::KernelClass kernel{all[mine].pattern, "", "", {}};
    region.domain =
        session::with_seeds(region.domain, model::seeds_from(known, kernel, surface.name(), seeds_known), way.same);
  }
  search::SearchOptions options;
  options.strategy = strategy;
  if (way.predictor && !samples.empty()) {
    learned.model.learn_prior(samples);
    options.predictor = &learned;
  }
  std::mt19937_64 noise(seed);
  search::Search search({region}, seed, options);
  for (int spent = 0; spent < most;) {
    const auto proposal = search.ask();
    if (!proposal) break;
    if (!proposal->full && search.claim_program(*proposal, surface.program(proposal->genome()))) {
      (void)search.tell_duplicate(proposal->serial);
      continue;
    }
    ++spent;
    const auto time = surface.time(proposal->genome(), noise);
    search::Told told;
    told.ok = time.kind == Surface::Time::Kind::ok;
    told.median_ms = time.ms;
    told.program = surface.program(proposal->genome());
    if (told.ok && time.true_ms <= surface.floor_ms() / 0.95) return spent;
    (void)search.tell(proposal->serial, told);
  }
  return most + 1;
}

}  // namespace
}  // namespace planish::bench

int main(int argc, char** argv) {
  using namespace planish;
  using namespace planish::bench;
  if (argc < 4) {
    fmt::print(stderr, "usage: planish-cold-warm SEEDS EVALUATIONS TABLE...\n");
    return 2;
  }
  const int seeds = std::atoi(argv[1]), most = std::atoi(argv[2]);
  std::vector<std::unique_ptr<Surface>> surfaces;
  std::vector<Earlier> earlier;
  for (int i = 3; i < argc; ++i) {
    auto table = read_table(argv[i]);
    if (!table) {
      fmt::print(stderr, "{}: {}\n", argv[i], table.error().message);
      return 2;
    }
    surfaces.push_back(std::move(*table));
    earlier.push_back(earlier_of(*surfaces.back(), 1000 + static_cast<std::uint64_t>(i)));
  }
  const std::vector<Way> ways{
      {"cold"}, {"others", true, false, true}, {"guesses", true, false, false}, {"same", true, true, true}};
  for (const auto strategy : {search::StrategyKind::swarm, search::StrategyKind::hillclimb}) {
    std::map<std::string, double> logs;
    fmt::print("{} ({} seeds, {} evaluations)\n{:<28}", search::name(strategy), seeds, most, "table");
    for (const Way& way : ways) fmt::print(" {:>8}", way.name);
    fmt::print("\n");
    for (std::size_t s = 0; s < surfaces.size(); ++s) {
      fmt::print("{:<28}", surfaces[s]->name());
      for (const Way& way : ways) {
        std::vector<int> counts;
        for (int seed = 1; seed <= seeds; ++seed)
          counts.push_back(
              evaluations_to(*surfaces[s], earlier, s, way, strategy, static_cast<std::uint64_t>(seed), most));
        std::ranges::sort(counts);
        const int median = counts[counts.size() / 2];
        logs[way.name] += std::log(median) / static_cast<double>(surfaces.size());
        fmt::print(" {:>8}", median);
      }
      fmt::print("\n");
    }
    fmt::print("{:<28}", "geometric mean");
    for (const Way& way : ways) fmt::print(" {:>8.1f}", std::exp(logs[way.name]));
    fmt::print("\n");
  }
  return 0;
}
