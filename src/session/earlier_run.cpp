#include "session/earlier_run.h"

#include "base/json.h"

namespace planish::session {
namespace {

/// Whether both took the same measures at their end: what compiles, and for how long it is timed.
bool measured_alike(const std::string& settings, const std::string& others) {
  const Json one = json_or_discarded(settings), other = json_or_discarded(others);
  if (!one.is_object() || !other.is_object()) return false;
  for (const char* name : {"baselines", "budget_seconds"}) {
    if (one.value(name, Json()) != other.value(name, Json())) return false;
  }
  return true;
}

}  // namespace

double seconds_of_earlier_run(const store::Store& store, const store::RunRecord& now, Phase phase) {
  const auto runs = store.runs();
  if (!runs) return 0;
  for (const store::RunRecord& run : *runs) {
    const bool whole = run.state == "finished" && (run.outcome == "improved" || run.outcome == "no_improvement");
    if (!whole || run.id == now.id || run.task_sha256 != now.task_sha256 || run.device != now.device) continue;
    if (run.result.empty() || !measured_alike(run.settings, now.settings)) continue;
    const auto text = store.get(run.result);
    const Json result = text ? json_or_discarded(*text) : Json();
    const Json::json_pointer place("/seconds/in/" + std::string(name(phase)));
    if (result.is_object() && result.contains(place) && result[place].is_number()) return result[place].get<double>();
  }
  return 0;
}

}  // namespace planish::session
