#include "cli/dry_run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/json.h"
#include "cli/exit_code.h"
#include "search/strategy.h"
#include "session/planner.h"
#include "session/result_document.h"

namespace planish::cli {
using namespace session;

namespace {

std::filesystem::path folder_of(const OptimizeRequest& request, const OpenReply& opened) {
  if (!request.out.empty()) return request.out;
  return request.base / "planish-out" / fmt::format("{}-RUN", opened.task_name);
}

Json regions_json(const Plan& plan) {
  Json out = Json::array();
  for (const PlannedRegion& region : plan.regions()) {
    out.push_back({{"id", region.id},
                   {"summary", region.summary},
                   {"count", region.count},
                   {"bytes", number_to_json(region.bytes)},
                   {"flops", number_to_json(region.flops)},
                   {"alternative", region.alternative}});
  }
  return out;
}

std::string regions_text(const Plan& plan) {
  const auto& regions = plan.regions();
  const auto others = std::ranges::count(regions, true, &PlannedRegion::alternative);
  const auto own = std::ssize(regions) - others;
  std::string out = fmt::format("{} region{} would be searched{}\n", own, own == 1 ? "" : "s",
                                others > 0 ? fmt::format(", and {} other ways to cut the task", others) : "");
  for (const PlannedRegion& region : regions) {
    if (region.alternative) continue;
    out += fmt::format("  {:<10} {}{}; at least {:.3g} MB a call\n", region.id, region.summary,
                       region.count > 1 ? fmt::format(", {} times", region.count) : "", region.bytes / 1e6);
  }
  return out;
}

}  // namespace

int dry_run(const OptimizeRequest& request, const std::filesystem::path& store, EvaluatorApi& evaluator,
            const Output& output) {
  OpenRequest ask;
  ask.task = request.task.string();
  ask.target = request.target;
  ask.accuracy = request.accuracy;
  const auto opened = evaluator.open(ask);
  if (!opened) return output.error(opened.error());
  const auto plan = make_planner()->plan(opened->graph, opened->device);
  (void)evaluator.close(opened->session);
  if (!plan) return output.error(plan.error());
  const auto folder = folder_of(request, *opened);
  const std::string strategy(search::name(request.strategy));
  const Json document = {{"schema_version", ResultDocument::schema_version},
                         {"outcome", "dry_run"},
                         {"task", opened->task_name},
                         {"device", {{"target", opened->device.target}, {"name", opened->device.name}}},
                         {"no_graph", (*plan)->no_graph()},
                         {"regions", regions_json(**plan)},
                         {"kept_steps", (*plan)->kept_steps()},
                         {"strategy", strategy},
                         {"budget_seconds", request.budget.seconds},
                         {"max_seconds", request.max_seconds},
                         {"accuracy", request.accuracy},
                         {"baselines", request.baselines},
                         {"out", folder.string()},
                         {"store", store.string()}};
  std::string text = fmt::format("{} on {} ({}): ", opened->task_name, opened->device.target, opened->device.name);
  const std::string none = (*plan)->no_graph();
  text += none.empty() ? regions_text(**plan) : fmt::format("nothing would be searched, it has no graph ({})\n", none);
  if (const int kept = (*plan)->kept_steps(); kept > 0)
    text += fmt::format("  {:<10} {} steps stay PyTorch's\n", "", kept);
  text +=
      fmt::format("  {:<10} {:.0f} s of search ({}), {} for everything\n", "budget", request.budget.seconds, strategy,
                  request.max_seconds > 0 ? fmt::format("at most {:.0f} s", request.max_seconds) : "no limit");
  text += fmt::format("  {:<10} {}; accuracy: {}\n", "beside", fmt::join(request.baselines, ", "), request.accuracy);
  text += fmt::format("  {:<10} {}\n  {:<10} {}\n", "ships to", folder.string(), "kept in", store.string());
  output.result(dump_json(document), text);
  return exit_code::success;
}

}  // namespace planish::cli
