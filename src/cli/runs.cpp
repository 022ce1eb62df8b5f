#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/json.h"
#include "cli/exit_code.h"
#include "cli/verbs.h"
#include "session/result_document.h"
#include "session/run_json.h"
#include "session/run_lock.h"
#include "store/store.h"

namespace planish::cli {
using namespace session;

namespace {

std::string run_line(const store::RunRecord& run, const std::optional<suite::Headline>& headline) {
  const std::string outcome = run.outcome.empty() ? live_state(run.id, run.state) : run.outcome;
  const std::string speedup = headline ? fmt::format("{:.2f}x", headline->speedup) : "-";
  return fmt::format("{:<22} {:<19} {:<5} {:<15} {:>7}  {}\n", run.id, when(run.started), run.target, outcome, speedup,
                     run.task);
}

}  // namespace

int runs_verb(const std::string& store_option, int limit, const Output& output) {
  auto store = store::Store::open_existing(store_file(store_option));
  if (!store) return output.error(store.error());
  auto runs = store->runs(limit);
  if (!runs) return output.error(runs.error());
  Json document = {
      {"schema_version", ResultDocument::schema_version}, {"store", store->file().string()}, {"runs", Json::array()}};
  std::string text = runs->empty() ? fmt::format("no runs in {}\n", store->file().string())
                                   : fmt::format("{:<22} {:<19} {:<5} {:<15} {:>7}  {}\n", "run", "started", "on",
                                                 "outcome", "speedup", "task");
  std::set<std::string> against;
  for (const auto& run : *runs) {
    const auto headline = headline_of_run(*store, run);
    document["runs"].push_back(run_json(run, headline));
    text += run_line(run, headline);
    against.insert(headline ? headline->baseline : std::string());
  }
  against.erase("");
  for (const std::string& mode : against)
    text += fmt::format("{}{}", mode == *against.begin() ? "speed-ups are against " : ", or ", suite::mode_label(mode));
  if (!against.empty()) text += "; 1.00x: nothing was gained\n";
  document["tuning_database"] = Json::array();
  std::set<std::string> devices;
  for (const auto& run : *runs) devices.insert(run.device);
  for (const std::string& device : devices) {
    const auto size = store->tuning_database_size(device);
    if (!size) return output.error(size.error());
    document["tuning_database"].push_back(
        {{"device", device}, {"kernels", size->kernels}, {"outcomes", size->outcomes}});
    if (size->outcomes > 0)
      text += fmt::format("known of {} kernel{} on {}: {} outcomes\n", size->kernels, size->kernels == 1 ? "" : "s",
                          device, size->outcomes);
  }
  output.result(dump_json(document), text);
  if (runs->empty())
    output.next({"optimize", "TASK.py"});
  else
    output.next({"show", runs->front().id});
  return exit_code::success;
}

}  // namespace planish::cli
