#include "cli/run_json.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "cli/run_lock.h"

namespace planish::cli {

std::string when(double seconds) {
  if (seconds <= 0) return "-";
  return fmt::format("{:%Y-%m-%d %H:%M:%S}", fmt::localtime(static_cast<std::time_t>(seconds)));
}

Json run_json(const store::RunRecord& run) {
  const auto settings = parse_json(run.settings, "store_corrupt", "settings");
  return {{"run", run.id},
          {"task", run.task},
          {"task_path", run.task_path},
          {"task_sha256", run.task_sha256},
          {"target", run.target},
          {"device", run.device},
          {"state", live_state(run.id, run.state)},
          {"outcome", run.outcome},
          {"started", run.started},
          {"finished", run.finished},
          {"speedup", run.speedup},
          {"out", run.out_folder},
          {"settings", settings ? *settings : Json::object()}};
}

}  // namespace planish::cli
