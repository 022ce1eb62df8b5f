#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/json.h"
#include "cli/candidate.h"
#include "cli/exit_code.h"
#include "cli/result_document.h"
#include "cli/run_lock.h"
#include "cli/verbs.h"
#include "store/store.h"

namespace planish::cli {
namespace {

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

std::string run_line(const store::RunRecord& run) {
  const std::string& outcome = run.outcome.empty() ? live_state(run.id, run.state) : run.outcome;
  const std::string speedup = run.speedup > 0 ? fmt::format("{:.2f}x", run.speedup) : "-";
  return fmt::format("{:<22} {:<19} {:<5} {:<15} {:>7}  {}\n", run.id, when(run.started), run.target, outcome, speedup,
                     run.task);
}

std::string show_text(const store::RunRecord& run, const std::vector<store::RegionRecord>& regions,
                      const std::vector<store::EvaluationRecord>& evaluations) {
  std::string out = fmt::format("run {}\n  task      {} ({})\n  device    {} ({})\n  state     {}{}\n  started   {}\n",
                                run.id, run.task, run.task_path, run.device, run.target, live_state(run.id, run.state),
                                run.outcome.empty() ? "" : ", " + run.outcome, when(run.started));
  if (run.speedup > 0) out += fmt::format("  speed-up  {:.2f}x\n", run.speedup);
  out += fmt::format("  out       {}\n  settings  {}\n", run.out_folder, run.settings);
  std::map<std::string, int> outcomes;
  for (const auto& e : evaluations) ++outcomes[e.outcome];
  out += fmt::format("  tried     {}", evaluations.size());
  for (const auto& [outcome, n] : outcomes) out += fmt::format(", {} {}", n, outcome);
  out += "\n";
  for (const auto& region : regions) {
    out += fmt::format("region {}{}\n", region.id, region.count > 1 ? fmt::format(" x{}", region.count) : "");
    std::vector<const store::EvaluationRecord*> best;
    for (const auto& e : evaluations) {
      if (e.region == region.id && e.outcome == "ok" && e.median_ms > 0) best.push_back(&e);
    }
    std::ranges::stable_sort(best, {}, &store::EvaluationRecord::median_ms);
    if (best.size() > 5) best.resize(5);
    for (const auto* e : best) {
      out += fmt::format("  {:>10.4g} ms  {:<6} {}  {}\n", e->median_ms, e->level, e->program.substr(0, 12),
                         e->genome.empty() ? "(aten steps)" : e->genome);
    }
  }
  return out;
}

/// One candidate: its evaluation, and what the judge makes of it.
Status show_candidate(const store::Store& store, const store::RunRecord& run, const std::string& prefix,
                      const Output& output) {
  PLANISH_TRY(auto records, store.evaluations(run.id, true));
  PLANISH_TRY(auto record, find_candidate(records, prefix));
  PLANISH_TRY(auto candidate, read_candidate(store, record));
  std::string result;
  if (!run.result.empty()) {
    if (auto bytes = store.get(run.result)) result = std::move(*bytes);
  }
  const auto verdict = judge_candidate(candidate, tried_genes(records, record.region), device_of_run(run, result));
  Json document = {{"schema_version", ResultDocument::schema_version},
                   {"run", run.id},
                   {"region", record.region},
                   {"program", record.program},
                   {"genome", record.genome},
                   {"at_seconds", number_to_json(record.at_seconds)}};
  PLANISH_TRY(document["evaluation"], parse_json(record.document, "store_corrupt", "evaluation"));
  PLANISH_TRY(document["verdict"], parse_json(judge::to_json(verdict), "internal", "verdict"));
  std::string text = fmt::format("candidate {}\n  region    {}\n  genome    {}\n  outcome   {} ({}, {})\n",
                                 record.program, record.region, record.genome.empty() ? "(aten steps)" : record.genome,
                                 record.outcome, record.tier, record.level);
  if (record.median_ms > 0) text += fmt::format("  median    {:.4g} ms\n", record.median_ms);
  if (!record.parent.empty()) text += fmt::format("  parent    {}\n", record.parent);
  output.result(dump_json(document), text + judge::to_text(verdict));
  return {};
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
  for (const auto& run : *runs) {
    document["runs"].push_back(run_json(run));
    text += run_line(run);
  }
  output.result(dump_json(document), text);
  return exit_code::success;
}

int show_verb(const std::string& run_id, const std::string& candidate, const std::string& store_option,
              const Output& output) {
  auto store = store::Store::open_existing(store_file(store_option));
  if (!store) return output.error(store.error());
  auto run = store->run(run_id);
  if (!run) return output.error(run.error());
  if (!candidate.empty()) {
    const auto shown = show_candidate(*store, *run, candidate, output);
    return shown ? exit_code::success : output.error(shown.error());
  }
  auto regions = store->regions(run->id);
  if (!regions) return output.error(regions.error());
  auto evaluations = store->evaluations(run->id, false);
  if (!evaluations) return output.error(evaluations.error());
  Json document = run_json(*run);
  document["schema_version"] = ResultDocument::schema_version;
  document["regions"] = Json::array();
  for (const auto& region : *regions) {
    document["regions"].push_back({{"id", region.id}, {"key", region.key}, {"count", region.count}});
  }
  document["evaluations"] = Json::array();
  for (const auto& e : *evaluations) {
    document["evaluations"].push_back({{"region", e.region},
                                       {"program", e.program},
                                       {"genome", e.genome},
                                       {"level", e.level},
                                       {"tier", e.tier},
                                       {"outcome", e.outcome},
                                       {"median_ms", number_to_json(e.median_ms)},
                                       {"at_seconds", number_to_json(e.at_seconds)}});
  }
  document["result"] = nullptr;
  if (!run->result.empty()) {
    if (auto bytes = store->get(run->result)) {
      if (auto result = parse_json(*bytes, "store_corrupt", "result")) document["result"] = std::move(*result);
    }
  }
  output.result(dump_json(document), show_text(*run, *regions, *evaluations));
  return exit_code::success;
}

}  // namespace planish::cli
