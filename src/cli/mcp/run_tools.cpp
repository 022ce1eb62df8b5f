#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <map>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "cli/mcp/tools.h"
#include "cli/options.h"
#include "cli/verbs.h"
#include "search/cell.h"
#include "session/result_document.h"
#include "session/run_id.h"
#include "session/run_json.h"
#include "session/run_lock.h"

namespace planish::cli {
using namespace session;

namespace {

using mcp::Argument;
using RunType = Argument::Type;

const Argument run_argument{"run", RunType::text, "Its id, or the beginning of it", true};

std::string word(const Json& given, const char* name) {
  const auto found = given.find(name);
  return found != given.end() && found->is_string() ? found->get<std::string>() : std::string();
}

Output into(Said& said) {
  return {.json = true, .quiet = true, .verbose = false, .said = &said};
}

Result<mcp::Answer> list_runs(const Workshop& workshop, const Json& given) {
  Said said;
  runs_verb(workshop.store, given.value("limit", 20), into(said));
  return answer_of(said);
}

Result<mcp::Answer> start_run(Workshop& workshop, const Json& given) {
  PLANISH_TRY(const auto task, existing_file(word(given, "task"), "file"));
  PLANISH_TRY(const double budget, parse_duration(given.contains("budget") ? word(given, "budget") : "60s"));
  const std::string baselines = given.contains("baselines") ? word(given, "baselines") : "all";
  PLANISH_CHECK(parse_baselines(baselines));
  if (given.contains("accuracy")) PLANISH_CHECK(check_accuracy(word(given, "accuracy")));
  if (given.contains("out")) PLANISH_CHECK(check_out(word(given, "out")));
  std::vector<std::string> arguments = {task.string(), "--budget", fmt::format("{}s", budget), "--baselines",
                                        baselines};
  for (const char* name : {"target", "accuracy", "strategy", "out"}) {
    if (given.contains(name)) arguments.insert(arguments.end(), {fmt::format("--{}", name), word(given, name)});
  }
  for (const auto& [name, option] : {std::pair{"evaluations", "--evals"}, {"seed", "--seed"}, {"models", "--models"}}) {
    if (given.contains(name))
      arguments.insert(arguments.end(), {option, fmt::format("{}", given[name].get<std::int64_t>())});
  }
  if (!workshop.store.empty()) arguments.insert(arguments.end(), {"--store", workshop.store});
  const std::string run = new_run_id(real_clock());
  PLANISH_CHECK(workshop.runs.start(run, std::move(arguments)));
  return mcp::Answer{{{"run", run}, {"task_path", task.string()}, {"state", "starting"}},
                     fmt::format("run {} begins; watch_run says how it goes\n", run)};
}

/// A run as far as it is known: from its process where it was started here, and from the store.
Result<Json> state_of(Workshop& workshop, const std::string& id) {
  const auto child = workshop.runs.state(id);
  PLANISH_TRY(const auto store, store::Store::open_existing(store_file(workshop.store)));
  const auto record = store.run(id);
  Json out;
  if (record) {
    PLANISH_TRY(out, run_summary(workshop, store, *record));
  } else if (!child) {
    return std::unexpected(record.error());
  } else {
    out = {{"run", id}, {"state", "starting"}};
  }
  if (!child) return out;
  out["doing"] = child->last_line;
  if (child->running) {
    if (record) out["state"] = "running";
    return out;
  }
  if (!record) {
    out["state"] = "failed";
    out["ended"] = child->ended;
  }
  if (const Json said = json_or_discarded(child->document); said.is_object() && said.contains("error"))
    out["error"] = said["error"];
  return out;
}

bool is_over(const Json& state) {
  const std::string word = state.value("state", "");
  return word != "running" && word != "starting";
}

std::string summary_text(const Json& state) {
  std::string out = fmt::format("run {}: {}", state.value("run", ""), state.value("state", ""));
  if (const std::string outcome = state.value("outcome", ""); !outcome.empty()) out += ", " + outcome;
  out += "\n";
  if (state.contains("headline")) out += fmt::format("  {}\n", state["headline"].get<std::string>());
  if (state.contains("evaluated")) out += fmt::format("  {} candidates evaluated\n", state["evaluated"].get<int>());
  if (const auto regions = state.find("regions"); regions != state.end()) {
    for (const Json& region : *regions) {
      if (!region["best_ms"].is_number()) continue;
      out += fmt::format("  {}: best {:.4g} ms", region["id"].get<std::string>(), region["best_ms"].get<double>());
      if (region["pytorch_ms"].is_number())
        out += fmt::format(", PyTorch's operators {:.4g} ms", region["pytorch_ms"].get<double>());
      out += fmt::format(" ({})\n", region["best"].get<std::string>().substr(0, 12));
    }
  }
  if (state.contains("error")) out += fmt::format("  error: {}\n", state["error"].value("message", ""));
  if (const std::string doing = state.value("doing", ""); !doing.empty() && !is_over(state))
    out += fmt::format("  {}\n", doing);
  return out;
}

Result<mcp::Answer> watch_run(Workshop& workshop, const Json& given, const mcp::Call& call) {
  const TimePoint end = deadline_in(given.value("seconds", 10.0));
  const std::string id = word(given, "run");
  std::string told;
  while (true) {
    PLANISH_TRY(Json state, state_of(workshop, id));
    if (call.cancel.cancelled()) return fail("cancelled", "the call was cancelled");
    if (is_over(state) || seconds_until(end) <= 0) return mcp::Answer{state, summary_text(state)};
    if (std::string doing = state.value("doing", ""); !doing.empty() && doing != told)
      call.progress(told = std::move(doing));
    // Between two looks; a cancellation is seen sooner.
    const TimePoint next = deadline_in(0.5);
    while (!call.cancel.cancelled() && seconds_until(next) > 0 && seconds_until(end) > 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

Result<mcp::Answer> cancel_run(Workshop& workshop, const Json& given) {
  const std::string id = word(given, "run");
  const bool now = given.value("now", false);
  if (!workshop.runs.end(id, now)) {
    return fail("not_running", fmt::format("no run {} that was started here is running", id),
                "list_runs says what became of it; a run of another command is ended there");
  }
  return mcp::Answer{{{"run", id}, {"state", now ? "killed" : "ending"}},
                     now ? fmt::format("run {} is ended; planish optimize --resume {} goes on with it\n", id, id)
                         : fmt::format("run {} ends with what it has; watch_run says when\n", id)};
}

/// The fastest right candidate of each region and cell.
Result<mcp::Answer> list_archive(const Workshop& workshop, const Json& given) {
  PLANISH_TRY(const auto store, store::Store::open_existing(store_file(workshop.store)));
  PLANISH_TRY(const auto run, store.run(word(given, "run")));
  PLANISH_TRY(const auto records, store.evaluations(run.id, false));
  const std::string only = word(given, "region");
  std::map<std::pair<std::string, int>, const store::EvaluationRecord*> best;
  for (const auto& one : records) {
    if (one.cell < 0 || one.outcome != "ok" || one.median_ms <= 0 || (!only.empty() && one.region != only)) continue;
    const auto [at, added] = best.try_emplace({one.region, one.cell}, &one);
    if (!added && one.median_ms < at->second->median_ms) at->second = &one;
  }
  mcp::Answer out;
  out.document = {{"schema_version", ResultDocument::schema_version}, {"run", run.id}, {"elites", Json::array()}};
  for (const auto& [at, one] : best) {
    const std::string cell = search::text(search::Cell::at(at.second), run.target);
    out.document["elites"].push_back({{"region", at.first},
                                      {"cell", at.second},
                                      {"cell_text", cell},
                                      {"program", one->program},
                                      {"proposal", one->genome},
                                      {"proposer", one->proposer},
                                      {"median_ms", number_to_json(one->median_ms)}});
    out.text += fmt::format("{:<4} {:>10.4g} ms  {}  {}  ({})\n", at.first, one->median_ms, one->program.substr(0, 12),
                            one->genome, cell);
  }
  if (best.empty()) out.text = "the archive is empty: nothing of the search was right and timed\n";
  return out;
}

Result<mcp::Answer> read_verdict(const Workshop& workshop, const Json& given) {
  ShowVerb verb;
  verb.run = word(given, "run");
  verb.candidate = word(given, "candidate");
  verb.store = workshop.store;
  Said said;
  show_verb(verb, into(said));
  PLANISH_TRY(auto answer, answer_of(said));
  answer.document = without_samples(std::move(answer.document));
  return answer;
}

Result<mcp::Answer> ship_winner(const Workshop& workshop, const Json& given) {
  ExportVerb verb;
  verb.what = word(given, "run");
  verb.form = given.contains("form") ? word(given, "form") : "folder";
  verb.out = word(given, "out");
  verb.store = workshop.store;
  // A folder of that name would be exported in the run's place.
  PLANISH_TRY(const auto store, store::Store::open_existing(store_file(workshop.store)));
  PLANISH_TRY(const auto run, store.run(verb.what));
  verb.what = run.id;
  Said said;
  export_verb(verb, into(said));
  PLANISH_TRY(auto answer, answer_of(said));
  const auto headline = headline_of_run(store, run);
  answer.document["headline"] = headline ? Json(suite::headline_text(headline)) : Json(nullptr);
  answer.document["outcome"] = run.outcome;
  answer.text = fmt::format("exported {}\n{}: {}\n", answer.document["exported"].get<std::string>(), run.outcome,
                            suite::headline_text(headline));
  return answer;
}

}  // namespace

Result<Json> run_summary(Workshop& workshop, const store::Store& store, const store::RunRecord& run) {
  (void)workshop;
  const auto headline = headline_of_run(store, run);
  Json out = run_json(run, headline);
  if (headline) out["headline"] = suite::headline_text(headline);
  PLANISH_TRY(const auto records, store.evaluations(run.id, false));
  PLANISH_TRY(const auto regions, store.regions(run.id));
  std::map<std::string, int> outcomes;
  for (const auto& one : records) ++outcomes[one.outcome];
  out["evaluated"] = records.size();
  out["outcomes"] = outcomes;
  out["regions"] = Json::array();
  for (const auto& region : regions) {
    const store::EvaluationRecord* best = nullptr;
    for (const auto& one : records) {
      const bool counts = one.region == region.id && one.outcome == "ok" && one.median_ms > 0 && !one.genome.empty();
      if (counts && (best == nullptr || one.median_ms < best->median_ms)) best = &one;
    }
    out["regions"].push_back({{"id", region.id},
                              {"count", region.count},
                              {"pytorch_ms", region.fallback_ms > 0 ? number_to_json(region.fallback_ms) : Json()},
                              {"bound_ms", number_to_json(region.bound_ms)},
                              {"best_ms", best != nullptr ? number_to_json(best->median_ms) : Json()},
                              {"best", best != nullptr ? Json(best->program) : Json()}});
  }
  return out;
}

std::vector<mcp::Tool> run_tools(Workshop& workshop) {
  std::vector<mcp::Tool> out;
  out.push_back({.name = "list_runs",
                 .title = "List runs",
                 .description = "Runs of planish optimize on this machine, the newest first.",
                 .arguments = {{"limit", RunType::integer, "Most runs to give (20)", false, {}, 1, 1000}},
                 .read_only = true,
                 .run = [&workshop](const Json& given, const mcp::Call&) { return list_runs(workshop, given); }});
  out.push_back(
      {.name = "start_run",
       .title = "Start a swarm run",
       .description = "Begin a search by the built-in swarm (planish optimize) in a process of its own, and return at "
                      "once. It ships what it found, or the best baseline, to its folder. It ends with this server: "
                      "what it measured stays, and planish optimize --resume goes on with it.",
       .arguments = {{"task", RunType::text, "Path of a Python file with Model and get_inputs", true},
                     {"budget", RunType::text, "Time to search for: 60s (where left out), 5m, 1h"},
                     {"evaluations", RunType::integer, "Most candidates to evaluate; 0: no limit", false, {}, 0, 1e9},
                     {"seed", RunType::integer, "Of the search's decisions", false, {}, 0, 1e15},
                     {"strategy",
                      RunType::text,
                      "swarm where left out",
                      false,
                      {"swarm", "hillclimb", "tree", "random", "sample"}},
                     {"models", RunType::integer, "Seats of the language models of planish.toml", false, {}, 0, 32},
                     {"baselines", RunType::text, "all (where left out), none, or a list: eager,compile,…"},
                     {"target", RunType::text, "Where it runs", false, target_choices()},
                     {"accuracy", RunType::text, "eager, permitted, tf32, or a tolerance such as 1e-4"},
                     {"out", RunType::text, "Folder to ship to"}},
       .run = [&workshop](const Json& given, const mcp::Call&) { return start_run(workshop, given); }});
  out.push_back(
      {.name = "watch_run",
       .title = "Watch a run",
       .description = "Wait until a run has ended, or for so many seconds, and say how it stands: best times "
                      "by region, outcome. Reports progress meanwhile.",
       .arguments = {run_argument, {"seconds", RunType::number, "To wait at most (10)", false, {}, 0, 3600}},
       .read_only = true,
       .run = [&workshop](const Json& given, const mcp::Call& call) { return watch_run(workshop, given, call); }});
  out.push_back(
      {.name = "cancel_run",
       .title = "Cancel a run",
       .description = "End a run that start_run began: cleanly, with what it has found until now, or at once.",
       .arguments = {{"run", RunType::text, "Its id", true}, {"now", RunType::boolean, "At once: nothing is shipped"}},
       .run = [&workshop](const Json& given, const mcp::Call&) { return cancel_run(workshop, given); }});
  out.push_back({.name = "list_archive",
                 .title = "List the archive",
                 .description = "The fastest right candidate of each kind (cell) that a run has found, by region.",
                 .arguments = {run_argument, {"region", RunType::text, "Of this region alone: r0, r1, …"}},
                 .read_only = true,
                 .run = [&workshop](const Json& given, const mcp::Call&) { return list_archive(workshop, given); }});
  out.push_back(
      {.name = "read_verdict",
       .title = "Read a candidate's verdict",
       .description = "One candidate of a run: its source, its evaluation, and what the judge makes of it.",
       .arguments = {run_argument, {"candidate", RunType::text, "Its program's hash, or the beginning of it", true}},
       .read_only = true,
       .run = [&workshop](const Json& given, const mcp::Call&) { return read_verdict(workshop, given); }});
  out.push_back({.name = "ship_winner",
                 .title = "Ship the winner",
                 .description = "Write what a run has shipped in the form that is wanted: its folder, one "
                                "self-contained .py, or a source project. What it gained is said with it.",
                 .arguments = {run_argument,
                               {"form", RunType::text, "folder where left out", false, {"folder", "file", "source"}},
                               {"out", RunType::text, "What to write; otherwise named after the task, here"}},
                 .run = [&workshop](const Json& given, const mcp::Call&) { return ship_winner(workshop, given); }});
  return out;
}

}  // namespace planish::cli
