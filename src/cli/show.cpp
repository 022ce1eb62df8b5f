#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/json.h"
#include "cli/exit_code.h"
#include "cli/verbs.h"
#include "report/learned.h"
#include "report/settings_words.h"
#include "session/candidate.h"
#include "session/model_words.h"
#include "session/planner.h"
#include "session/replay.h"
#include "session/result_document.h"
#include "session/run_json.h"
#include "session/run_lock.h"
#include "store/store.h"

namespace planish::cli {
using namespace session;
using namespace report;

namespace {

std::string show_text(const store::RunRecord& run, const Json& result, const std::optional<suite::Headline>& headline,
                      const std::vector<store::RegionRecord>& regions,
                      const std::vector<store::EvaluationRecord>& evaluations) {
  std::string out = fmt::format("run {}\n  task      {} ({})\n  device    {} ({})\n  state     {}{}\n  started   {}\n",
                                run.id, run.task, run.task_path, run.device, run.target, live_state(run.id, run.state),
                                run.outcome.empty() ? "" : ", " + run.outcome, when(run.started));
  if (headline) out += fmt::format("  gain      {}\n", suite::headline_text(headline));
  out += fmt::format("  out       {}\n", run.out_folder);
  const char* title = "settings";
  for (const auto& [name, value] : settings_words(run.settings)) {
    out += fmt::format("  {:<9} {}: {}\n", title, name, value);
    title = "";
  }
  for (const auto& [name, value] : search_words(result)) out += fmt::format("  {:<9} {}\n", name, value);
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

/// What coders proposed that came to nothing before it was evaluated.
std::string turns_text(const std::vector<store::TurnRecord>& turns) {
  std::string out;
  for (const store::TurnRecord& turn : turns) {
    if (!turn.error.empty())
      out += fmt::format("coder {}, proposal {} of {}: {}\n", turn.seat, turn.asked, turn.region, turn.error);
  }
  return out;
}

/// One candidate: its evaluation, and what the judge makes of it.
Status show_candidate(const store::Store& store, const store::RunRecord& run, const std::string& prefix,
                      const Output& output) {
  PLANISH_TRY(auto records, store.evaluations(run.id, true));
  PLANISH_TRY(auto regions, store.regions(run.id));
  PLANISH_TRY(auto record, find_candidate(records, prefix));
  PLANISH_TRY(auto candidate, read_candidate(store, record));
  std::string result;
  if (!run.result.empty()) {
    if (auto bytes = store.get(run.result)) result = std::move(*bytes);
  }
  const auto verdict =
      judge_candidate(candidate, genes_of(regions, records, record.region), device_of_run(run, result));
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
  text += judge::to_text(verdict);
  document["source"] = nullptr;
  if (const auto source = source_of(candidate)) {
    document["source"] = *source;
    text += "source\n" + *source;
  }
  output.result(dump_json(document), text);
  return {};
}

/// Derives the run's decisions again. Exit code 1 where they differ.
int show_replay(store::Store& store, const store::RunRecord& run, const Output& output) {
  const auto planner = make_planner();
  const auto result = replay(store, run, *planner);
  if (!result) return output.error(result.error());
  Json document = {{"schema_version", ResultDocument::schema_version},
                   {"run", run.id},
                   {"same", !result->difference.has_value()},
                   {"decisions", result->decisions},
                   {"finals", result->finals},
                   {"difference", nullptr}};
  std::string text =
      fmt::format("run {}: {} decision{} and {} final measurement{} derived again, ", run.id, result->decisions,
                  result->decisions == 1 ? "" : "s", result->finals, result->finals == 1 ? "" : "s");
  if (!result->difference) {
    output.result(dump_json(document), text + "all as recorded\n");
    return exit_code::success;
  }
  const auto& d = *result->difference;
  document["difference"] = {{"asked", d.asked}, {"region", d.region}, {"recorded", d.recorded}, {"derived", d.derived}};
  output.result(dump_json(document),
                text + fmt::format("then they differ\n  proposal  {} (region {})\n  recorded  {}\n  derived   {}\n",
                                   d.asked, d.region, d.recorded, d.derived));
  return exit_code::none_found;
}

}  // namespace

int show_verb(const ShowVerb& options, const Output& output) {
  auto store = store::Store::open_existing(store_file(options.store));
  if (!store) return output.error(store.error());
  auto run = store->run(options.run);
  if (!run) return output.error(run.error());
  if (options.replay) return show_replay(*store, *run, output);
  if (!options.candidate.empty()) {
    const auto shown = show_candidate(*store, *run, options.candidate, output);
    return shown ? exit_code::success : output.error(shown.error());
  }
  auto regions = store->regions(run->id);
  if (!regions) return output.error(regions.error());
  auto evaluations = store->evaluations(run->id, false);
  if (!evaluations) return output.error(evaluations.error());
  *regions = evaluated_regions(std::move(*regions), *evaluations);
  const auto headline = headline_of_run(*store, *run);
  Json document = run_json(*run, headline);
  document["schema_version"] = ResultDocument::schema_version;
  document["regions"] = Json::array();
  for (const auto& region : *regions) {
    document["regions"].push_back({{"id", region.id},
                                   {"key", region.key},
                                   {"count", region.count},
                                   {"genes", region.genes},
                                   {"fallback_ms", number_to_json(region.fallback_ms)},
                                   {"bound_ms", number_to_json(region.bound_ms)}});
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
                                       {"at_seconds", number_to_json(e.at_seconds)},
                                       {"parent", e.parent},
                                       {"cell", e.cell},
                                       {"proposer", e.proposer},
                                       {"asked", e.asked},
                                       {"predicted_ms", number_to_json(e.predicted_ms)}});
  }
  auto turns = store->turns(run->id);
  if (!turns) return output.error(turns.error());
  document["turns"] = Json::array();
  for (const store::TurnRecord& turn : *turns) {
    document["turns"].push_back({{"asked", turn.asked},
                                 {"region", turn.region},
                                 {"coder", turn.seat},
                                 {"proposal", turn.proposal},
                                 {"error", turn.error.empty() ? Json(nullptr) : Json(turn.error)}});
  }
  const Learned learned = learned_from(*evaluations, *regions, run->target);
  auto learned_json = parse_json(to_json(learned), "internal", "what was learned");
  if (!learned_json) return output.error(learned_json.error());
  document["learned"] = std::move(*learned_json);
  document["result"] = nullptr;
  if (!run->result.empty()) {
    if (auto bytes = store->get(run->result)) {
      if (auto result = parse_json(*bytes, "store_corrupt", "result")) document["result"] = std::move(*result);
    }
  }
  output.result(dump_json(document), show_text(*run, document["result"], headline, *regions, *evaluations) +
                                         turns_text(*turns) + to_text(learned));
  output.next({"report", run->id});
  return exit_code::success;
}

}  // namespace planish::cli
