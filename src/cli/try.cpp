#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "base/file.h"
#include "base/json.h"
#include "cli/connect.h"
#include "cli/exit_code.h"
#include "cli/interrupt.h"
#include "cli/stdin_file.h"
#include "cli/task_syntax.h"
#include "cli/verbs.h"
#include "cli/waiting.h"
#include "evaluate/file_stamps.h"
#include "session/planner.h"
#include "session/result_document.h"
#include "session/trial.h"

namespace planish::cli {
using namespace session;

namespace {

/// What there is to write kernels for.
void list_places(const Plan& plan, const OpenReply& opened, const Output& output) {
  const Json document = {{"schema_version", ResultDocument::schema_version},
                         {"task", opened.task_name},
                         {"regions", json_or_discarded(places_json(plan, opened.device))}};
  output.result(dump_json(document), places_text(plan));
}

Result<TrialRequest> trial_request(const TryVerb& options, const std::filesystem::path& file) {
  TrialRequest out;
  out.file = file;
  std::error_code ignored;
  if (std::filesystem::is_directory(out.file, ignored)) {
    return fail("not_a_file", fmt::format("{} is a folder", options.source),
                "name the file of the candidate; planish verify proves a shipped folder");
  }
  PLANISH_TRY(out.text, read_file(out.file));
  out.region = options.region;
  out.quick = options.quick;
  out.profile = options.profile;
  return out;
}

/// A task and what is tried for it, as files; no source: what there is to write for is listed.
struct Given {
  std::filesystem::path task;
  std::optional<std::filesystem::path> source;
};

/// Judges once a task whose syntax is right, prints, and gives the exit code.
Result<int> judge(EvaluatorApi& evaluator, Waiting& waiting, const TryVerb& options, const Given& given,
                  const Output& output) {
  std::optional<TrialRequest> request;
  if (given.source) {
    PLANISH_TRY(request, trial_request(options, *given.source));
  }
  waiting.step(fmt::format("capturing {}", options.task));
  OpenRequest ask;
  ask.task = given.task.string();
  ask.target = options.target;
  ask.accuracy = options.accuracy;
  ask.keep = true;
  PLANISH_TRY(const auto opened, evaluator.open(ask));
  PLANISH_TRY(const auto plan, make_planner()->plan(opened.graph, opened.device));
  if (!request) {
    list_places(*plan, opened, output);
    output.next({"try", options.task, "KERNELS.txt", "--region", "r0"});
    return exit_code::success;
  }
  waiting.step(fmt::format("judging {}", options.source));
  PLANISH_TRY(const auto tried, try_candidate(evaluator, opened, *plan, *request));
  output.result(trial_json(tried, opened), trial_text(tried));
  if (succeeded(tried) && !options.watch) {
    if (options.quick)
      output.next({"try", options.task, options.source, "--region", options.region});
    else if (tried.form == "solution")
      output.next({"verify", options.task, options.source, "--time"});
  }
  (void)evaluator.close(opened.session);
  return succeeded(tried) ? exit_code::success : exit_code::none_found;
}

/// Judges whenever one of both files is another than it was, until somebody interrupts. An evaluator that has gone is
/// replaced.
int judge_each_save(const ConnectOptions& how, const TryVerb& options, const Given& given, const Output& output) {
  constexpr auto look_every = std::chrono::milliseconds(100);
  std::unique_ptr<EvaluatorApi> evaluator;
  while (!how.cancel.cancelled()) {
    const FileStamps read({given.task.string(), given.source->string()}, FileStamps::now());
    const auto good = check_syntax(given.task);
    if (!good) (void)output.error(good.error());
    if (good && evaluator == nullptr) {
      auto connected = connect_evaluator(how);
      if (!connected) return output.error(connected.error());
      evaluator = std::move(*connected);
    }
    bool gone = false;
    if (good) {
      Waiting waiting(*evaluator, output, how.cancel);
      const auto judged = judge(*evaluator, waiting, options, given, output);
      if (!judged && !how.cancel.cancelled()) (void)output.error(judged.error());
      gone = !judged && judged.error().kind == "closed";
    }
    if (gone) evaluator.reset();
    if (how.cancel.cancelled()) break;
    output.say(fmt::format("waiting until {} or {} is saved (Ctrl-C ends)", options.source, options.task));
    // A file that is being replaced is not there for a moment.
    std::error_code ignored;
    while (!how.cancel.cancelled() && (read.unchanged() || !std::filesystem::exists(*given.source, ignored)))
      std::this_thread::sleep_for(look_every);
  }
  return exit_code::interrupted;
}

}  // namespace

int try_verb(const TryVerb& options, const Output& output) {
  if (auto ok = check_target(options.target); !ok) return output.error(ok.error());
  if (auto ok = check_accuracy(options.accuracy); !ok) return output.error(ok.error());
  const auto task_timeout = parse_limit(options.task_timeout);
  if (!task_timeout) return output.error(task_timeout.error());
  if (auto one = check_one_stdin(options.task, options.source); !one) return output.error(one.error());
  if (options.watch && (options.source.empty() || options.source == "-" || options.task == "-"))
    return output.error({"usage", "--watch needs two files to look at", {}, "planish try TASK.py FILE --watch"});
  const auto task = file_or_stdin(options.task, "file");
  if (!task) return output.error(task.error());
  Given given{task->path, std::nullopt};
  std::optional<GivenFile> source;
  if (!options.source.empty()) {
    auto found = file_or_stdin(options.source, "file");
    if (!found) return output.error(found.error());
    source = std::move(*found);
    given.source = source->path;
  }
  const CancelToken cancel = watch_interrupts();
  const ConnectOptions how{*task_timeout, cancel, true, !options.no_serve};
  if (options.watch) return judge_each_save(how, options, given, output);
  if (auto good = check_syntax(given.task); !good) return output.error(good.error());  // before anything is started
  auto evaluator = connect_evaluator(how);
  if (!evaluator) return output.error(evaluator.error());
  Waiting waiting(**evaluator, output, cancel);
  const auto judged = judge(**evaluator, waiting, options, given, output);
  return judged ? *judged : output.error(judged.error());
}

}  // namespace planish::cli
