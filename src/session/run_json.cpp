#include "session/run_json.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "session/run_lock.h"

namespace planish::session {

std::string when(double seconds) {
  if (seconds <= 0) return "-";
  return fmt::format("{:%Y-%m-%d %H:%M:%S}", fmt::localtime(static_cast<std::time_t>(seconds)));
}

std::optional<suite::Headline> headline_of_run(const store::Store& store, const store::RunRecord& run) {
  if (run.result.empty()) return std::nullopt;
  const auto result = store.get(run.result);
  return result ? suite::headline_of(*result) : std::nullopt;
}

Json run_json(const store::RunRecord& run, const std::optional<suite::Headline>& headline) {
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
          {"speedup", headline ? Json(headline->speedup) : Json(0)},
          {"against", headline ? Json(headline->baseline) : Json(nullptr)},
          {"out", run.out_folder},
          {"settings", settings ? *settings : Json::object()}};
}

}  // namespace planish::session
