#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>

#include "base/file.h"
#include "cli/connect.h"
#include "cli/dry_run.h"
#include "cli/exit_code.h"
#include "cli/interrupt.h"
#include "cli/task_syntax.h"
#include "cli/verbs.h"
#include "cli/waiting.h"
#include "session/optimize_flow.h"
#include "session/planner.h"
#include "session/result_text.h"
#include "session/run_id.h"
#include "session/run_lock.h"
#include "session/shipper.h"
#include "session/strategy_choice.h"
#include "session/tape.h"
#include "session/taped_evaluator.h"

namespace planish::cli {
using namespace session;

namespace {

/// What a recording cannot go together with.
Status check_recording(const OptimizeVerb& verb, const OptimizeRequest& request) {
  if (verb.record.empty() && verb.replay.empty()) return {};
  if (!verb.record.empty() && !verb.replay.empty())
    return fail("usage", "a run either records or replays", "give one of --record and --replay");
  if (!verb.resume.empty())
    return fail("usage", "a run that goes on cannot be recorded, and a recording is not gone on with",
                "start a run without --resume");
  if (!request.coders.empty())
    return fail("usage", "what a --coder command says is not recorded", "record a run without --coder");
  return {};
}

Result<OptimizeRequest> request_from(const OptimizeVerb& verb, const Tape* tape, Clock& clock) {
  OptimizeRequest request;
  request.command = verb.command;
  const auto given = [&verb](const char* option) { return std::ranges::find(verb.given, option) != verb.given.end(); };
  std::string task = verb.task;
  if (!verb.resume.empty()) {
    PLANISH_TRY(auto store, store::Store::open_existing(store_file(verb.search.store)));
    PLANISH_TRY(auto run, store.run(verb.resume));
    PLANISH_CHECK(apply_settings(run.settings, request));
    request.run = run.id;
    request.resume = true;
    if (task.empty()) task = run.task_path;
  } else {
    request.run = verb.run.empty() ? new_run_id(clock) : verb.run;
    PLANISH_CHECK(check_run_id(request.run));
    if (!verb.run.empty()) {
      PLANISH_TRY(const auto store, store::Store::open_existing(store_file(verb.search.store)));
      if (const auto known = store.run(verb.run); known && known->id == verb.run)
        return fail("usage", fmt::format("there is a run {} already", verb.run),
                    "name another, or go on with it: --resume");
    }
    if (tape != nullptr) PLANISH_CHECK(apply_settings(tape->settings(), request));
  }
  request.search_only = verb.search_only;
  const bool fresh = !request.resume && tape == nullptr;
  if (task.empty()) return fail("usage", "no task was named", "planish optimize TASK.py, or --resume RUN");
  PLANISH_TRY(request.task, existing_file(task, "file"));
  PLANISH_CHECK(check_syntax(request.task));
  if (fresh || given("--target")) request.target = verb.search.target;
  if (fresh || given("--accuracy")) request.accuracy = verb.search.accuracy;
  if (fresh || given("--seed")) request.seed = verb.search.seed;
  if (fresh || given("--strategy")) {
    PLANISH_CHECK(choose_strategy(verb.search.strategy, request));
  }
  if (fresh || given("--draws")) request.draws = verb.search.draws;
  if (fresh || given("--coder")) request.coders = verb.search.coders;
  if (fresh || given("--models")) request.model_seats = verb.search.models;
  if (fresh || given("--turns")) request.turns = verb.search.turns;
  if (fresh || given("--judge")) request.model_judge = verb.search.judge == "model";
  if (request.strategy == search::StrategyKind::coders && request.coders.empty() && model_seats(request) == 0)
    return fail("usage", "--strategy coders leaves every proposal to a coder, and there is none",
                "name one with --coder, or give language models seats with --models");
  if (fresh || given("--cold")) request.cold = verb.search.cold;
  if (fresh || given("--memory-check")) request.memory_check = verb.search.memory_check;
  // What earlier runs taught is not part of a recording.
  if (!verb.record.empty()) request.cold = true;
  if (fresh || given("--evals")) request.budget.evaluations = verb.search.evaluations;
  if (fresh || given("--budget")) {
    PLANISH_TRY(request.budget.seconds, parse_duration(verb.search.budget));
  }
  if (fresh || given("--baselines")) {
    PLANISH_TRY(request.baselines, parse_baselines(verb.search.baselines));
  }
  PLANISH_TRY(request.max_seconds, parse_max_time(verb.search.max_time, request.budget.seconds));
  PLANISH_CHECK(check_target(request.target));
  PLANISH_CHECK(check_accuracy(request.accuracy));
  std::error_code ignored;
  request.base = std::filesystem::current_path(ignored);
  if (!verb.out.empty()) request.out = std::filesystem::absolute(verb.out, ignored);
  PLANISH_CHECK(check_out(request.out));
  PLANISH_CHECK(check_recording(verb, request));
  return request;
}

int exit_code_of(const ResultDocument& result) {
  // A search that ends with itself has a reason only where it found nothing.
  if (result.outcome == "improved" || (result.outcome == "searched" && result.reason.empty()))
    return exit_code::success;
  return result.outcome == "interrupted" ? exit_code::interrupted : exit_code::none_found;
}

/// --dry-run: on an evaluator of its own or a served one, with nothing else of a run.
int optimize_dry(const OptimizeVerb& options, const OptimizeRequest& request, double task_timeout,
                 const Output& output) {
  const CancelToken cancel = watch_interrupts();
  auto evaluator = connect_evaluator({task_timeout, cancel, true, !options.no_serve});
  if (!evaluator) return output.error(evaluator.error());
  Waiting waiting(**evaluator, output, cancel);
  waiting.step(fmt::format("capturing {}", request.task.filename().string()));
  return dry_run(request, store_file(options.search.store), **evaluator, output);
}

}  // namespace

int optimize_verb(const OptimizeVerb& options, const Output& output) {
  Clock& clock = real_clock();
  std::unique_ptr<Tape> tape;
  if (!options.replay.empty()) {
    auto opened = Tape::replay(options.replay);
    if (!opened) return output.error(opened.error());
    tape = std::move(*opened);
  }
  auto request = request_from(options, tape.get(), clock);
  if (!request) return output.error(request.error());
  const auto task_timeout = parse_limit(options.search.task_timeout);
  if (!task_timeout) return output.error(task_timeout.error());
  if (options.dry_run) return optimize_dry(options, *request, *task_timeout, output);
  // A store that cannot be used is known now, not after the capture.
  if (auto store = store::Store::open_existing(store_file(options.search.store)); !store)
    return output.error(store.error());
  (void)remove_dead_run_locks();
  auto lock = lock_run(request->run);
  if (!lock) return output.error(lock.error());
  const CancelToken cancel = watch_interrupts();
  std::optional<llm::OpenModels> models;
  if (model_seats(*request) > 0) {
    const auto config = llm::models_to_ask(options.config);
    if (!config) return output.error(config.error());
    auto open = llm::open_models(*config, {request->seed, options.record, options.replay, {}, {}}, clock);
    if (!open) return output.error(open.error());
    models = std::move(*open);
    if (!models->ensemble->has(llm::Role::coder))
      return output.error({"no_model_for_role",
                           fmt::format("no model of {} is a coder", options.config.path),
                           {},
                           "give one the role \"coder\" (docs/models.md)"});
  }
  if (!options.record.empty()) {
    auto opened = Tape::record(options.record, settings_text(*request));
    if (!opened) return output.error(opened.error());
    tape = std::move(*opened);
  }
  std::unique_ptr<EvaluatorApi> evaluator;
  if (options.replay.empty()) {
    auto connected = connect_evaluator({*task_timeout, cancel, false, !options.no_serve});
    if (!connected) return output.error(connected.error());
    evaluator = std::move(*connected);
  }
  std::optional<TapedEvaluator> taped;
  if (tape) taped.emplace(evaluator.get(), *tape);
  EvaluatorApi& asked = taped ? *taped : *evaluator;
  const auto planner = make_planner();
  const auto shipper = make_shipper();
  Progress progress(LiveLines::detect(output.quiet), clock, cancel);
  progress.tick();
  asked.listen([&progress](const WorkReport& report) { progress.status(report); });
  OptimizeWorld world{
      asked,     *planner, *shipper, [&] { return store::Store::open(store_file(options.search.store)); },
      progress,  clock,    cancel,   models ? &*models : nullptr,
      tape.get()};
  auto result = optimize(*request, world);
  asked.listen({});
  progress.finish();
  if (!result) {
    if (cancel.cancelled()) {
      output.error(result.error());
      return exit_code::interrupted;
    }
    return output.error(result.error());
  }
  output.result(to_json(*result), to_text(*result));
  if (result->outcome == "improved")
    output.next({"export", result->run, "--form", "file"});
  else if (result->outcome == "interrupted" && result->times.empty())  // what is left is no search
    output.next({"optimize", "--resume", result->run});
  else if (options.replay.empty())
    output.next({"optimize", "--resume", result->run, "--budget", "10m"});
  return exit_code_of(*result);
}

}  // namespace planish::cli
