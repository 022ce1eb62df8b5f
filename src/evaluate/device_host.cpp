#include "evaluate/device_host.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <thread>

#include "backend/backend.h"
#include "base/work_scope.h"
#include "evaluate/device.h"

namespace planish {

std::string resolve_target(const std::string& target) {
  if (target != "auto") return target;
  for (const backend::Backend* one : backend::all()) {
    if (const DeviceProbe* probe = probe_of(*one); probe != nullptr && probe->present()) return one->name;
  }
  return backend::cpu().name;
}

Result<std::shared_ptr<DeviceHost>> DeviceHost::open(const worker::Toolbox& tools, const std::string& target,
                                                     const Limits& limits) {
  const backend::Backend* made_for = backend::find(target);
  const DeviceProbe* probe = made_for == nullptr ? nullptr : probe_of(*made_for);
  if (probe == nullptr)
    return fail("bad_request", fmt::format("`{}` is no target", target), "use " + backend::choices());
  PLANISH_CHECK(tools.check());
  std::size_t memory = limits.runner_memory;
  // A user with less to give than three quarters of the machine says so.
  if (const char* given = std::getenv("PLANISH_RUNNER_MEMORY"); memory == 0 && given != nullptr)
    memory = std::strtoull(given, nullptr, 10);
  if (memory == 0)
    memory =
        static_cast<std::size_t>(::sysconf(_SC_PHYS_PAGES)) / 4 * 3 * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const int cores = static_cast<int>(std::max(2U, std::thread::hardware_concurrency()));
  const int workers = limits.compile_workers > 0 ? limits.compile_workers : made_for->on_host ? 1 : cores / 2;
  auto host = std::make_shared<DeviceHost>(tools, target, limits, memory, workers);
  auto runner = host->runners.get(worker::Runner::Kind::native);
  if (!runner.has_value()) {
    Error error = std::move(runner).error();
    if (!made_for->on_host && error.kind != "environment" && error.kind != "no_such_program") {
      error.kind = "no_device";
      error.hint = "run `planish doctor`, or use --target " + backend::cpu().name;
      return wrap(std::move(error), probe->missing());
    }
    return std::unexpected(std::move(error));
  }
  host->facts = device_facts(target, host->runners.hello(), host->nvml);
  host->turn.of(host->facts.uuid, made_for->on_host);
  host->facts.triton = made_for->writes("triton") && tools.has_triton();
  host->runners.warm_up();
  return host;
}

Result<DeviceHost::Stage> DeviceHost::take_stage(const void* who, const std::string& name, double timeout_seconds) {
  Stage::Lock lock(stage, std::defer_lock);
  const TimePoint began = real_clock().now();
  for (double wait = 0.5; !lock.try_lock_until(deadline_in(work_seconds(wait))); wait = 2) {
    const double waited = seconds_since(began);
    if (work_seconds_left() <= 0)
      return fail("out_of_time", fmt::format("waited {:.0f} s for work on {} to end", waited, facts.name));
    if (on_stage != who)
      report_work(fmt::format("waiting for another task on {} ({:.0f} s so far)", facts.name, waited));
  }
  on_stage = who;
  PLANISH_CHECK(turn.begin(name, timeout_seconds));
  return Stage(std::move(lock), turn);
}

void DeviceHost::settle() {
  if (!backend::named(facts.target).on_host) return;
  spares.settle();
  runners.settle();
}

}  // namespace planish
