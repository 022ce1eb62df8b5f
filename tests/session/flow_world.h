#pragma once

#include "base/file.h"
#include "fakes.h"

namespace planish::session::testing {

/// Everything that one run of `optimize` needs, in a folder of its own.
struct World {
  TempDir folder = std::move(TempDir::create("planish-flow-").value());
  FakeEvaluator evaluator;
  FakePlanner planner;
  FakeShipper shipper;
  FakeClock clock;
  Progress progress{Progress::Mode::quiet, clock};
  int stores_opened = 0;
  OptimizeRequest request;

  World() {
    request.task = folder.path() / "task.py";
    request.out = folder.path() / "out";
    request.run = "run1";
    request.budget = {0, 40};
    request.baselines = {"eager", "compile", "max_autotune_no_cudagraphs", "max_autotune"};
    evaluator.shipper = &shipper;
  }
  std::filesystem::path store_path() const { return folder.path() / "store.db"; }
  Result<ResultDocument> run() {
    planner.regions = evaluator.regions;
    OptimizeWorld world{evaluator,
                        planner,
                        shipper,
                        [this] {
                          ++stores_opened;
                          return store::Store::open(store_path());
                        },
                        progress,
                        clock,
                        evaluator.cancel};
    return optimize(request, world);
  }
  std::vector<store::EvaluationRecord> records() const {
    return store::Store::open_existing(store_path())->evaluations("run1", true).value();
  }
  store::RunRecord kept() const { return store::Store::open_existing(store_path())->run("run1").value(); }
};

}  // namespace planish::session::testing
