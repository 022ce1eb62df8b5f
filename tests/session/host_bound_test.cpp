#include "session/host_bound.h"

#include <doctest/doctest.h>

#include "flow_world.h"

using namespace planish;
using namespace planish::session;
using namespace planish::session::testing;

namespace {

ClaimTime eager(double median_ms, double host_us, double latency_ms = 0) {
  ClaimTime out;
  out.name = "eager";
  out.median_ms = median_ms;
  out.host_us = host_us;
  out.latency_ms = latency_ms;
  return out;
}

DeviceFacts device(const char* target) {
  DeviceFacts out;
  out.target = target;
  return out;
}

}  // namespace

TEST_CASE("a task is bound by the host where submitting it takes what it takes") {
  struct Row {
    ClaimTime eager;
    bool bound;
  };
  ClaimTime failed = eager(1, 2000);
  failed.error = Error{"out_of_memory", "no", {}, {}};
  const std::vector<Row> rows = {
      {eager(3.283, 3200), true},        // some hundred launches
      {eager(28.65, 28500), true},       // a recurrent network, step by step
      {eager(0.012, 11), true},          // one small kernel
      {eager(2.7, 40), false},           // one large product
      {eager(8.5, 900), false},          // a network of large kernels
      {eager(0.030, 20, 0.060), true},   // in a row the device is busy; alone it waits
      {eager(0.300, 60, 0.320), false},  // one launch more is no reason
      {eager(0, 50), false},
      {failed, false},
  };
  for (const Row& row : rows) CHECK_MESSAGE(is_bound_by_host(row.eager) == row.bound, row.eager.median_ms);
}

TEST_CASE("CUDA graphs join modes of torch.compile where the host is slow, and no list without one") {
  using Modes = std::vector<std::string>;
  const ClaimTime slow_host = eager(1, 950), slow_device = eager(1, 50);
  const Modes two = {"eager", "max_autotune_no_cudagraphs"};
  CHECK(with_cuda_graphs(two, device("cuda"), slow_host) ==
        Modes{"eager", "max_autotune_no_cudagraphs", "max_autotune"});
  CHECK(with_cuda_graphs(two, device("cuda"), slow_device) == two);
  CHECK(with_cuda_graphs(two, device("cpu"), slow_host) == two);
  CHECK(with_cuda_graphs({"eager"}, device("cuda"), slow_host) == Modes{"eager"});
  CHECK(!may_need_cuda_graphs({"eager", "max_autotune"}, device("cuda")));
}

TEST_CASE("a run times CUDA graphs beside the others where its eager is bound by the host") {
  for (const double host_us : {9900.0, 50.0}) {
    World world;
    world.request.target = "cuda";
    world.request.baselines = {"eager", "max_autotune_no_cudagraphs"};
    world.evaluator.host_us["eager"] = host_us;
    const auto result = world.run();
    REQUIRE(result.has_value());
    const bool timed = std::ranges::find(world.evaluator.claims.back().modes, "max_autotune") !=
                       world.evaluator.claims.back().modes.end();
    CHECK(timed == (host_us > 1000));
    CHECK(result->speedup.contains("max_autotune") == timed);
    if (timed) CHECK(result->best_baseline == "max_autotune");
  }
}
