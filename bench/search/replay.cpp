// search_replay [--seeds N] [--evals N] [--only NAME] [--strategies LIST] [TABLE.jsonl…]: runs every strategy on tables
// of measured genomes (table.h), or without tables on synthetic surfaces (surface.h), and prints the best time found
// after 50, 100, 200 and 400 evaluations over the best that anybody found (median and quartiles over seeds; 1.000 is
// perfect), and how many evaluations a strategy took to reach what random search had at its end.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "search/search.h"
#include "surface.h"
#include "table.h"

namespace planish::bench {
namespace {

using search::StrategyKind;

constexpr std::array<int, 4> marks{50, 100, 200, 400};

/// The best true time after each evaluation; infinite while nothing passed.
struct Trace {
  std::vector<double> best;
  double seconds = 0;  ///< the strategy's own
};

Trace trace(const Surface& surface, StrategyKind strategy, std::uint64_t seed, int evaluations) {
  search::RegionSpec region;
  region.id = "r0";
  region.key = surface.name();
  region.domain = surface.domain();
  search::SearchOptions options;
  options.strategy = strategy;
  // What is compared is the proposals; second measurements would be the same for all.
  options.region.screened_a_recheck = 1 << 30;
  Trace out;
  const auto begin = std::chrono::steady_clock::now();
  search::Search searched({region}, seed, options);
  std::mt19937_64 noise(seed * 77 + 5);
  double best = search::no_time;
  int free = 0;
  while (static_cast<int>(out.best.size()) < evaluations) {
    auto proposal = searched.ask();
    if (!proposal) break;
    const Surface::Time time = surface.time(proposal->genome, noise);
    if (time.kind == Surface::Time::Kind::not_recorded) {
      if (++free > 200 * evaluations) break;
      (void)searched.tell_duplicate(proposal->serial);
      continue;
    }
    search::Told told;
    told.ok = time.kind == Surface::Time::Kind::ok;
    told.median_ms = time.ms;
    told.lo_ms = time.ms * 0.996;
    told.hi_ms = time.ms * 1.004;
    told.seconds = 1;
    (void)searched.tell(proposal->serial, told);
    if (told.ok) best = std::min(best, time.true_ms);
    out.best.push_back(best);
  }
  out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  // A space that was exhausted stays where it is.
  out.best.resize(static_cast<std::size_t>(evaluations), best);
  return out;
}

double quantile(std::vector<double> values, double q) {
  std::ranges::sort(values);
  const double at = q * static_cast<double>(values.size() - 1);
  const auto low = static_cast<std::size_t>(at);
  const std::size_t high = std::min(low + 1, values.size() - 1);
  if (std::isinf(values[high])) return values[low];
  return values[low] + (at - static_cast<double>(low)) * (values[high] - values[low]);
}

struct Options {
  int seeds = 20, evaluations = 400;
  std::string only;
  std::vector<StrategyKind> strategies{StrategyKind::swarm, StrategyKind::hillclimb, StrategyKind::tree,
                                       StrategyKind::random, StrategyKind::sample};
};

/// Logarithms of best found over the best of all, per strategy and mark: their means are what strategies are judged by.
using Summary = std::map<StrategyKind, std::map<int, std::vector<double>>>;

void replay(const Surface& surface, const Options& options, Summary& summary) {
  std::map<StrategyKind, std::vector<Trace>> traces;
  double least = search::no_time;
  for (const StrategyKind strategy : options.strategies) {
    for (int seed = 1; seed <= options.seeds; ++seed) {
      traces[strategy].push_back(trace(surface, strategy, static_cast<std::uint64_t>(seed), options.evaluations));
      least = std::min(least, traces[strategy].back().best.back());
    }
  }
  fmt::print("\n{} ({}), best of all {:.5g} ms\n", surface.name(), surface.measured() ? "measured" : "synthetic",
             least);
  std::string head = fmt::format("  {:<10}", "strategy");
  for (const int mark : marks) head += fmt::format("{:^24}", fmt::format("at {}", mark));
  fmt::print("{}  {:>10} {:>8}\n", head, "to random", "ms a one");
  double random_final = search::no_time;
  if (const auto found = traces.find(StrategyKind::random); found != traces.end()) {
    std::vector<double> finals;
    for (const Trace& one : found->second) finals.push_back(one.best.back());
    random_final = quantile(finals, 0.5);
  }
  for (const StrategyKind strategy : options.strategies) {
    std::string line = fmt::format("  {:<10}", search::name(strategy));
    double seconds = 0;
    std::vector<double> reached;
    for (const Trace& one : traces[strategy]) {
      seconds += one.seconds;
      const auto at = std::ranges::find_if(one.best, [&](double ms) { return ms <= random_final; });
      reached.push_back(at == one.best.end() ? search::no_time : static_cast<double>(at - one.best.begin() + 1));
    }
    for (const int mark : marks) {
      if (mark > options.evaluations) continue;
      std::vector<double> ratios;
      for (const Trace& one : traces[strategy]) ratios.push_back(one.best[static_cast<std::size_t>(mark - 1)] / least);
      for (const double ratio : ratios) summary[strategy][mark].push_back(std::log(ratio));
      line += fmt::format("  {:.3f} [{:.3f}, {:.3f}]", quantile(ratios, 0.5), quantile(ratios, 0.25),
                          quantile(ratios, 0.75));
    }
    const double to = quantile(reached, 0.5);
    fmt::print("{}  {:>10} {:>8.3f}\n", line, std::isinf(to) ? "never" : fmt::format("{:.0f}", to),
               1e3 * seconds / (options.seeds * options.evaluations));
  }
  std::fflush(stdout);
}

int number(const char* text, int least) {
  const int value = std::atoi(text);
  return value < least ? least : value;
}

int run(int argc, char** argv) {
  Options options;
  std::vector<std::unique_ptr<Surface>> surfaces;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--seeds" && i + 1 < argc) {
      options.seeds = number(argv[++i], 1);
    } else if (word == "--evals" && i + 1 < argc) {
      options.evaluations = number(argv[++i], marks.front());
    } else if (word == "--only" && i + 1 < argc) {
      options.only = argv[++i];
    } else if (word == "--strategies" && i + 1 < argc) {
      options.strategies.clear();
      std::string list = argv[++i];
      while (!list.empty()) {
        const auto comma = std::min(list.find(','), list.size());
        const auto kind = search::strategy_from_name(list.substr(0, comma));
        if (!kind) {
          fmt::print(stderr, "error: {}\nhint: {}\n", kind.error().message, kind.error().hint);
          return 2;
        }
        options.strategies.push_back(*kind);
        list.erase(0, comma + 1);
      }
    } else if (word.starts_with("--")) {
      fmt::print(stderr,
                 "error: unknown argument {}\nhint: search_replay [--seeds N] [--evals N] [--only NAME] [--strategies "
                 "LIST] [TABLE…]\n",
                 word);
      return 2;
    } else {
      auto table = read_table(word);
      if (!table) {
        fmt::print(stderr, "error: {}\n", table.error().message);
        return 2;
      }
      surfaces.push_back(std::move(*table));
    }
  }
  if (surfaces.empty()) surfaces = synthetic_surfaces();
  Summary summary;
  for (const auto& surface : surfaces) {
    if (surface->name().find(options.only) != std::string::npos) replay(*surface, options, summary);
  }
  fmt::print("\nover all, geometric mean of best found / best of all\n");
  for (const StrategyKind strategy : options.strategies) {
    std::string line = fmt::format("  {:<10}", search::name(strategy));
    for (const auto& [mark, logs] : summary[strategy]) {
      double sum = 0;
      for (const double one : logs) sum += one;
      line += fmt::format("  at {}: {:.4f}", mark, std::exp(sum / static_cast<double>(logs.size())));
    }
    fmt::print("{}\n", line);
  }
  return 0;
}

}  // namespace
}  // namespace planish::bench

int main(int argc, char** argv) {
  return planish::bench::run(argc, argv);
}
