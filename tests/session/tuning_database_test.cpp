#include "session/tuning_database.h"

#include <doctest/doctest.h>

#include "../codegen/cpp_samples.h"
#include "../codegen/row_and_column_samples.h"

using namespace planish;
using namespace planish::session;

namespace {

codegen::Device device() {
  codegen::Device out;
  out.arch = "x86-64-v4";
  out.sms = 4;
  return out;
}

PlannedRegion region(const std::string& key, std::int64_t rows, std::int64_t columns) {
  PlannedRegion out;
  out.id = "r0";
  out.key = key;
  out.features = std::make_shared<model::Featurizer>(codegen::samples::softmax(rows, columns).kernel, device());
  return out;
}

Evaluation timed(double ms, Outcome outcome = Outcome::ok) {
  Evaluation e;
  e.outcome = outcome;
  e.tier = Tier::bench;
  e.bench = BenchReport{};
  e.bench->median_ms = ms;
  e.roofline = Roofline{1, 1, 0.5, "memory", 0.5 / ms};
  return e;
}

/// Time falls with threads; one of them always fails.
void run_once(store::Store& store, const std::string& run, const PlannedRegion& of, double began) {
  TuningDatabase tuning(store, run, "a CPU", began);
  REQUIRE(tuning.add_region(of));
  std::mt19937_64 rng(1);
  const auto kernel = codegen::samples::softmax(1024, 4096).kernel;
  for (int i = 0; i < 40; ++i) {
    const auto genome = codegen::random_genome(kernel, device(), rng);
    const auto threads = genome.at("threads");
    const Outcome outcome = genome.at("unroll") == 4 && threads == 1 ? Outcome::wrong : Outcome::ok;
    REQUIRE(tuning.keep("r0", genome, timed(8.0 / static_cast<double>(threads), outcome), began + 1));
  }
}

}  // namespace

TEST_CASE("what one run measured ranks and seeds the next, on a kernel like it") {
  auto store = store::Store::open(":memory:");
  REQUIRE(store);
  const auto first = region("key of the first", 1024, 4096);
  const auto other = region("key of another", 512, 4096);
  {
    TuningDatabase fresh(*store, "one", "a CPU", 100);
    REQUIRE(fresh.add_region(first));
    CHECK(fresh.seeds("r0", 4).empty());
    CHECK(!fresh.predicted_log_ms("r0", {{"threads", 1}}));
  }
  run_once(*store, "one", first, 100);
  TuningDatabase next(*store, "two", "a CPU", 200);
  REQUIRE(next.add_region(other));
  const auto seeds = next.seeds("r0", 4);
  REQUIRE(!seeds.empty());
  CHECK(seeds.front().at("threads") == 4);
  codegen::Genome slow = seeds.front();
  slow["threads"] = 1;
  slow["split"] = 0;
  REQUIRE(next.predicted_log_ms("r0", slow));
  CHECK(*next.predicted_log_ms("r0", slow) > *next.predicted_log_ms("r0", seeds.front()) + 0.5);
  // It goes on learning: here, the seed is bad.
  for (int i = 0; i < 8; ++i) {
    next.observe("r0", seeds.front(), true, 50);
    next.observe("r0", slow, true, 5);
  }
  CHECK(*next.predicted_log_ms("r0", slow) < *next.predicted_log_ms("r0", seeds.front()));
}

TEST_CASE("a run that is taken up again knows what it knew when it began; other devices teach nothing") {
  auto store = store::Store::open(":memory:");
  REQUIRE(store);
  const auto of = region("key", 1024, 4096);
  run_once(*store, "one", of, 100);
  TuningDatabase again(*store, "one", "a CPU", 100);
  REQUIRE(again.add_region(of));
  CHECK(again.seeds("r0", 4).empty());
  TuningDatabase elsewhere(*store, "two", "a GPU", 200);
  REQUIRE(elsewhere.add_region(of));
  CHECK(elsewhere.seeds("r0", 4).empty());
  CHECK(!elsewhere.model().has_prior());
  // Asked to begin cold, a run looks at nothing, and leaves what it measures all the same.
  TuningDatabase cold(*store, "three", "a CPU", 200, true);
  REQUIRE(cold.add_region(of));
  CHECK(cold.seeds("r0", 4).empty());
  CHECK(!cold.met("r0"));
  const auto before = store->tuning_database_size("a CPU")->outcomes;
  REQUIRE(cold.keep("r0", {{"threads", 1}}, timed(1), 201));
  CHECK(store->tuning_database_size("a CPU")->outcomes == before + 1);
  TuningDatabase warm(*store, "four", "a CPU", 300);
  REQUIRE(warm.add_region(of));
  CHECK(warm.met("r0"));
}

TEST_CASE("regions that nothing is known of are let alone") {
  auto store = store::Store::open(":memory:");
  REQUIRE(store);
  TuningDatabase tuning(*store, "one", "a CPU", 100);
  PlannedRegion unknown;
  unknown.id = "r7";
  REQUIRE(tuning.add_region(unknown));
  REQUIRE(tuning.keep("r7", {{"threads", 1}}, timed(1), 101));
  tuning.observe("r7", {{"threads", 1}}, true, 1);
  CHECK(!tuning.predicted_log_ms("r7", {{"threads", 1}}));
  const auto of = region("key", 64, 64);
  REQUIRE(tuning.add_region(of));
  REQUIRE(tuning.keep("r0", {{"threads", 1}}, timed(1, Outcome::infrastructure), 101));
  CHECK(store->tuning_records("a CPU", "row", 1e9)->empty());
}

TEST_CASE("what was stored of a kind of kernel under its earlier name counts") {
  auto store = store::Store::open(":memory:");
  REQUIRE(store);
  PlannedRegion of;
  of.id = "r0";
  of.key = "key";
  const auto kernel = codegen::samples::both_sums(512, 1024).kernel;
  of.features = std::make_shared<model::Featurizer>(kernel, device());
  const model::KernelClass& known = of.features->kernel_class();
  CHECK(known.pattern == "row_and_column");
  std::mt19937_64 rng(1);
  const auto best = codegen::random_genome(kernel, device(), rng);
  REQUIRE(store->add_kernel({"a CPU", of.key, "cross", known.kinds, known.bucket, model::text(known.facts)}));
  REQUIRE(store->add_outcome(
      {"a CPU", of.key, "earlier", codegen::text(best), model::text(of.features->of(best)), "ok", 1.5, 1, 50}));
  TuningDatabase tuning(*store, "one", "a CPU", 100);
  REQUIRE(tuning.add_region(of));
  CHECK(tuning.met("r0"));
  const auto seeds = tuning.seeds("r0", 4);
  REQUIRE(seeds.size() == 1);
  CHECK(seeds.front() == best);
}
