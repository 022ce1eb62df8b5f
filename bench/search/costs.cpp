// search_costs [PART [SURFACE]]: what the supervisor itself costs. Prints archive inserts a second, a look-up among a
// million stored keys, drawing and ranking a million genomes (time and memory), and the time that a strategy takes for
// a candidate, with and without a model of earlier runs. PART (archive, dedup, funnel, million, overhead, warm) leaves
// the others out, and SURFACE all surfaces whose names lack it: so that a profiler sees one thing alone, as in
//
//     valgrind --tool=callgrind search_costs overhead cuda-row-stats
#include <fmt/format.h>
#include <sys/resource.h>
#include <time.h>

#include <chrono>
#include <cmath>
#include <functional>
#include <random>
#include <string_view>
#include <vector>

#include "kernel_surface.h"
#include "sample_kernels.h"
#include "search/archive.h"
#include "search/forest.h"
#include "search/search.h"
#include "search/stock.h"
#include "session/search_setup.h"
#include "session/tuning_database.h"
#include "surfaces.h"

namespace planish::bench {
namespace {

double seconds_of(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// Of this thread alone: what else runs on the machine does not count.
double cpu_seconds_of(const std::function<void()>& work) {
  const auto now = [] {
    timespec at{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &at);
    return static_cast<double>(at.tv_sec) + 1e-9 * static_cast<double>(at.tv_nsec);
  };
  const double begin = now();
  work();
  return now() - begin;
}

double peak_mib() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

void archive_inserts() {
  constexpr std::size_t count = 2'000'000, batch = 1000;
  std::mt19937_64 rng(1);
  std::vector<search::Elite> stream(count);
  for (std::size_t i = 0; i < count; ++i) {
    search::Elite& one = stream[i];
    one.cell = search::Cell::at(static_cast<int>(rng() % search::Cell::count));
    one.ms = 1 + search::unit(rng);
    one.lo_ms = one.ms * 0.995;
    one.hi_ms = one.ms * 1.005;
    one.id = rng() % (count / 2);  // half of them are duplicates
  }
  search::Archive archive;
  std::size_t added = 0;
  const double seconds = seconds_of([&] {
    for (std::size_t i = 0; i < count; i += batch) added += archive.add(std::span(stream).subspan(i, batch)).size();
  });
  fmt::print("archive: {:.2f} M inserts/s in batches of {} ({} of 36 cells filled)\n",
             static_cast<double>(added) / seconds / 1e6, batch, archive.filled());
}

void look_ups() {
  constexpr int count = 1'000'000;
  std::mt19937_64 rng(2);
  search::KeySet keys;
  std::vector<std::uint64_t> stored;
  for (int i = 0; i < count; ++i) {
    stored.push_back(rng());
    keys.insert(stored.back());
  }
  std::size_t found = 0;
  const double seconds = seconds_of([&] {
    for (int i = 0; i < count; ++i) found += keys.contains(i % 2 == 0 ? stored[rng() % stored.size()] : rng()) ? 1 : 0;
  });
  fmt::print("dedup: {:.3f} us a look-up among {} stored keys ({} found)\n", 1e6 * seconds / count, keys.size(), found);
}

void million_genomes(const char* name, codegen::Kernel kernel) {
  codegen::Device device;
  device.target = &backend::cuda();
  device.arch = "sm_90a";
  search::Space space(kernel_domain(std::move(kernel), device));
  // A forest of a usual size, on made-up times.
  std::mt19937_64 rng(3);
  search::Stock first(space);
  first.draw(4000, rng);
  std::vector<search::Code> rows(
      first.codes().begin(),
      first.codes().begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(300, first.codes().size())));
  std::vector<double> times;
  for (const search::Code& row : rows) times.push_back(static_cast<double>(space.key(row) % 1000) / 1000);
  search::Forest forest;
  const double fit = seconds_of([&] { forest.fit(rows, times, space.genes(), rng); });
  constexpr std::int64_t draws = 1'000'000;
  search::Stock stock(space);
  const double drawing = seconds_of([&] { stock.draw(draws, rng); });
  std::vector<search::Ranked> ranked;
  const double ranking = seconds_of([&] {
    for (const search::Code& code : stock.codes()) ranked.push_back({code, forest.guess(code).mean});
    const std::vector<int> telling{0, 1};
    ranked = search::cluster(std::move(ranked), telling, 1000);
  });
  fmt::print(
      "funnel {}: {:.3f} us a drawn genome ({} drawn of {:.3g}, {} legal and new, {} groups; drawing {:.2f} s, ranking "
      "{:.2f} s; "
      "a forest of {} rows takes {:.2f} ms), peak memory {:.0f} MiB\n",
      name, 1e6 * (drawing + ranking) / static_cast<double>(stock.drawn()), stock.drawn(), space.size(),
      stock.codes().size(), ranked.size(), drawing, ranking, rows.size(), 1e3 * fit, peak_mib());
}

/// A search that draws a million genomes before it proposes beyond its guesses.
void million_in_a_search(const char* name, codegen::Kernel kernel) {
  codegen::Device device;
  device.target = &backend::cuda();
  device.arch = "sm_90a";
  search::RegionSpec region;
  region.id = "r0";
  region.domain = kernel_domain(std::move(kernel), device);
  search::SearchOptions options;
  options.strategy = search::StrategyKind::swarm;
  options.draws = 1'000'000;
  search::Search searched({region}, 1, options);
  const search::Space space(region.domain);
  double first = 0, rest = 0;
  constexpr int count = 200;
  for (int i = 0; i < count; ++i) {
    const double seconds = seconds_of([&] {
      if (const auto proposal = searched.ask()) {
        search::Told told;
        told.ok = true;
        told.median_ms = 1 + static_cast<double>(space.key(*space.encode(proposal->genome())) % 1000) / 1000;
        (void)searched.tell(proposal->serial, told);
      }
    });
    (searched.funnel().drawn >= options.draws && first == 0 ? first : rest) += seconds;
  }
  const search::FunnelCounts funnel = searched.funnel();
  fmt::print(
      "search {} of a million: {} drawn, {} legal, {} predicted, {} groups; the draw {:.2f} s ({:.2f} us a genome), "
      "then {:.3f} ms a candidate; peak memory {:.0f} MiB\n",
      name, funnel.drawn, funnel.legal, funnel.predicted, funnel.clustered, first, 1e6 * first / 1e6,
      1e3 * rest / count, peak_mib());
}

/// Processor time of asking and telling 400 times; `heard` sees each measurement.
double ms_a_candidate(const Surface& surface, search::Search& searched,
                      const std::function<void(const codegen::Genome&, const search::Told&)>& heard = {}) {
  constexpr int count = 400;
  std::mt19937_64 noise(4);
  double world = 0;  // what stands for compiling, measuring and storing
  const double all = cpu_seconds_of([&] {
    for (int i = 0; i < count; ++i) {
      const auto proposal = searched.ask();
      if (!proposal) break;
      search::Told told;
      world += cpu_seconds_of([&] {
        const auto time = surface.time(proposal->genome(), noise);
        told.ok = time.kind == Surface::Time::Kind::ok;
        told.median_ms = time.ms;
        if (heard) heard(proposal->genome(), told);
      });
      (void)searched.tell(proposal->serial, told);
    }
  });
  return 1e3 * (all - world) / count;
}

void overhead(std::string_view only) {
  for (const auto& surface : synthetic_surfaces()) {
    if (surface->name().find(only) == std::string::npos) continue;
    for (const auto strategy :
         {search::StrategyKind::swarm, search::StrategyKind::hillclimb, search::StrategyKind::tree}) {
      search::RegionSpec region;
      region.id = "r0";
      region.domain = surface->domain();
      search::SearchOptions options;
      options.strategy = strategy;
      search::Search searched({region}, 1, options);
      fmt::print("overhead {} on {}: {:.3f} ms a candidate\n", search::name(strategy), surface->name(),
                 ms_a_candidate(*surface, searched));
    }
  }
}

/// The same as a run does it when an earlier one is in the store: a model is asked about what is thought of, and
/// learns.
void warm_overhead(std::string_view only) {
  auto store = store::Store::open(":memory:");
  if (!store) return;
  std::vector<std::unique_ptr<Surface>> surfaces;
  add_kernel_surfaces(surfaces);
  const auto kernels = surface_kernels();
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    if (kernels[i].name.find(only) == std::string::npos) continue;
    session::PlannedRegion region;
    region.id = "r0";
    region.key = kernels[i].name;
    region.domain = surfaces[i]->domain();
    region.features = std::make_shared<model::Featurizer>(kernels[i].kernel, kernels[i].device);
    for (const bool first : {true, false}) {
      session::TuningDatabase known(*store, first ? "first" : "second", "made up", first ? 1 : 3);
      session::SearchSetup setup(known);
      if (!known.add_region(region)) return;
      setup.add(region, 0, 0);
      search::SearchOptions how;
      how.strategy = search::StrategyKind::swarm;
      const auto searched = setup.make(first ? 1 : 2, how);
      const double ms = ms_a_candidate(*surfaces[i], *searched, [&](const auto& genome, const search::Told& told) {
        Evaluation evaluation;
        evaluation.outcome = told.ok ? Outcome::ok : Outcome::wrong;
        evaluation.bench = BenchReport{};
        evaluation.bench->median_ms = told.median_ms;
        if (first) (void)known.keep(region.id, genome, evaluation, 2);
      });
      if (!first) fmt::print("overhead swarm on {}, with an earlier run: {:.3f} ms a candidate\n", region.key, ms);
    }
  }
}

}  // namespace
}  // namespace planish::bench

int main(int argc, char** argv) {
  using namespace planish::bench;
  namespace samples = planish::codegen::samples;
  const std::string_view part = argc > 1 ? argv[1] : "", surface = argc > 2 ? argv[2] : "";
  const auto wanted = [&](std::string_view name) { return part.empty() || part == name; };
  if (wanted("archive")) archive_inserts();
  if (wanted("dedup")) look_ups();
  if (wanted("funnel")) {
    million_genomes("softmax", samples::softmax(4096, 32768).kernel);
    million_genomes("layer-norm", samples::layer_norm(65536, 1024).kernel);
  }
  if (wanted("million")) million_in_a_search("softmax", samples::softmax(4096, 32768).kernel);
  if (wanted("overhead")) overhead(surface);
  if (wanted("warm")) warm_overhead(surface);
  return 0;
}
