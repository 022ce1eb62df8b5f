#include <fmt/format.h>

#include <filesystem>
#include <optional>
#include <string>
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
                         {"regions", Json::parse(places_json(plan, opened.device), nullptr, false)}};
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

}  // namespace

int try_verb(const TryVerb& options, const Output& output) {
  if (auto ok = check_target(options.target); !ok) return output.error(ok.error());
  if (auto ok = check_accuracy(options.accuracy); !ok) return output.error(ok.error());
  const auto task_timeout = parse_limit(options.task_timeout);
  if (!task_timeout) return output.error(task_timeout.error());
  if (auto one = check_one_stdin(options.task, options.source); !one) return output.error(one.error());
  const auto task = file_or_stdin(options.task, "file");
  if (!task) return output.error(task.error());
  if (auto good = check_syntax(task->path); !good) return output.error(good.error());
  std::optional<TrialRequest> request;
  std::optional<GivenFile> source;
  if (!options.source.empty()) {
    auto given = file_or_stdin(options.source, "file");
    if (!given) return output.error(given.error());
    source = std::move(*given);
    auto made = trial_request(options, source->path);
    if (!made) return output.error(made.error());
    request = std::move(*made);
  }
  const CancelToken cancel = watch_interrupts();
  auto evaluator = connect_evaluator({*task_timeout, cancel, true, !options.no_serve});
  if (!evaluator) return output.error(evaluator.error());
  Waiting waiting(**evaluator, output, cancel);
  waiting.step(fmt::format("capturing {}", options.task));
  OpenRequest ask;
  ask.task = task->path.string();
  ask.target = options.target;
  ask.accuracy = options.accuracy;
  ask.keep = true;
  const auto opened = (*evaluator)->open(ask);
  if (!opened) return output.error(opened.error());
  const auto plan = make_planner()->plan(opened->graph, opened->device);
  if (!plan) return output.error(plan.error());
  if (!request) {
    list_places(**plan, *opened, output);
    output.next({"try", options.task, "KERNELS.txt", "--region", "r0"});
    return exit_code::success;
  }
  waiting.step(fmt::format("judging {}", options.source));
  const auto tried = try_candidate(**evaluator, *opened, **plan, *request);
  if (!tried) return output.error(tried.error());
  output.result(trial_json(*tried, *opened), trial_text(*tried));
  if (succeeded(*tried)) {
    if (options.quick)
      output.next({"try", options.task, options.source, "--region", options.region});
    else if (tried->form == "solution")
      output.next({"verify", options.task, options.source, "--time"});
  }
  (void)(*evaluator)->close(opened->session);
  return succeeded(*tried) ? exit_code::success : exit_code::none_found;
}

}  // namespace planish::cli
