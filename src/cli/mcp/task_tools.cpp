#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include "base/file.h"
#include "cli/mcp/tools.h"
#include "cli/options.h"
#include "coder/whole.h"
#include "evaluate/codec.h"
#include "session/planner.h"
#include "session/result_document.h"
#include "session/trial.h"

namespace planish::cli {
using namespace session;

namespace {

using mcp::Argument;
using Type = Argument::Type;

/// Verdicts that stay readable.
constexpr std::size_t most_trials = 1000;

const Argument task_argument{"task", Type::text, "Path of a Python file with Model and get_inputs", true};
const Argument target_argument{"target", Type::text, "Where it runs; auto takes a GPU where there is one", false,
                               target_choices()};
const Argument accuracy_argument{"accuracy", Type::text,
                                 "How right it must be: eager (no less accurate than PyTorch), permitted (TF32 where "
                                 "torch's flags permit it), tf32, or a tolerance such as 1e-4"};

std::string text_of(const Json& given, const char* name, const char* otherwise = "") {
  const auto found = given.find(name);
  return found != given.end() && found->is_string() ? found->get<std::string>() : otherwise;
}

Result<OpenRequest> open_request(const Json& given) {
  OpenRequest out;
  PLANISH_TRY(const auto task, existing_file(text_of(given, "task"), "file"));
  out.task = task.string();
  out.target = text_of(given, "target", "auto");
  out.accuracy = text_of(given, "accuracy", "eager");
  PLANISH_CHECK(check_accuracy(out.accuracy));
  out.keep = true;
  return out;
}

struct Open {
  OpenReply reply;
  std::unique_ptr<Plan> plan;
};

Result<Open> open_task(EvaluatorApi& evaluator, const OpenRequest& request) {
  Open out;
  PLANISH_TRY(out.reply, evaluator.open(request));
  PLANISH_TRY(out.plan, make_planner()->plan(out.reply.graph, out.reply.device));
  return out;
}

Result<mcp::Answer> open_answer(Workshop& workshop, const Json& given, const mcp::Call& call) {
  PLANISH_TRY(const auto request, open_request(given));
  call.progress("opening it");  // before processes are started, which take seconds where there are none
  return workshop.evaluator.with<mcp::Answer>(call, [&](EvaluatorApi& evaluator) -> Result<mcp::Answer> {
    PLANISH_TRY(const Open open, open_task(evaluator, request));
    mcp::Answer out;
    out.document = {{"schema_version", ResultDocument::schema_version},
                    {"task", open.reply.task_name},
                    {"task_path", request.task},
                    {"task_sha256", open.reply.task_sha256},
                    {"device", codec::write(open.reply.device)},
                    {"warm", open.reply.kept},
                    {"regions", json_or_discarded(places_json(*open.plan, open.reply.device))}};
    if (given.value("graph", false)) out.document["graph"] = json_or_discarded(open.reply.graph);
    out.text = fmt::format("{} on {} ({})\n\n{}", open.reply.task_name, open.reply.device.name,
                           open.reply.device.target, places_text(*open.plan));
    (void)evaluator.close(open.reply.session);
    return out;
  });
}

/// The candidate as a file: its own, or one that is written for it.
Result<TrialRequest> trial_of(const Json& given, std::optional<TempDir>& folder) {
  TrialRequest out;
  const bool inlined = given.contains("source") && given["source"].is_string();
  const std::string file = text_of(given, "file");
  if (inlined == !file.empty()) return fail("bad_argument", "give the candidate as source or as file, and not as both");
  if (inlined) {
    out.text = text_of(given, "source");
    PLANISH_TRY(folder, TempDir::create("planish-trial-"));
    // Directives in the text win over the extension; what is C++ without them is to hear that they are missing.
    const auto has = [&out](const char* word) { return out.text.find(word) != std::string::npos; };
    const bool code = has("__global__") || has("extern \"C\"") || has("#include");
    // A ModelNew may hold such code as a string of its own.
    out.file = folder->path() / (code && !coder::is_solution(out.text) ? "candidate.cpp" : "candidate.py");
    PLANISH_CHECK(write_file(out.file, out.text));
  } else {
    PLANISH_TRY(out.file, existing_file(file, "file"));
    PLANISH_TRY(out.text, read_file(out.file));
  }
  out.region = text_of(given, "region", "task");
  out.quick = given.value("quick", true);
  out.profile = given.value("profile", false);
  return out;
}

Result<mcp::Answer> try_answer(Workshop& workshop, const Json& given, const mcp::Call& call) {
  PLANISH_TRY(const auto request, open_request(given));
  std::optional<TempDir> folder;
  PLANISH_TRY(const auto trial, trial_of(given, folder));
  auto answer = workshop.evaluator.with<mcp::Answer>(call, [&](EvaluatorApi& evaluator) -> Result<mcp::Answer> {
    PLANISH_TRY(const Open open, open_task(evaluator, request));
    call.progress("testing it");
    auto tried = try_candidate(evaluator, open.reply, *open.plan, trial);
    (void)evaluator.close(open.reply.session);
    if (!tried) return std::unexpected(std::move(tried.error()));
    return mcp::Answer{without_samples(json_or_discarded(trial_json(*tried, open.reply))), trial_text(*tried)};
  });
  if (!answer) return answer;
  const std::scoped_lock lock(workshop.mutex);
  const std::string number = fmt::format("t{}", workshop.next_trial++);
  answer->document["trial"] = number;
  answer->text = fmt::format("trial {}\n{}", number, answer->text);
  workshop.trials[number] = *answer;
  if (workshop.trials.size() > most_trials)
    workshop.trials.erase(fmt::format("t{}", workshop.next_trial - 1 - static_cast<int>(most_trials)));
  return answer;
}

Result<mcp::Answer> read_trial(Workshop& workshop, const Json& given) {
  const std::scoped_lock lock(workshop.mutex);
  const auto found = workshop.trials.find(text_of(given, "trial"));
  if (found != workshop.trials.end()) return found->second;
  return fail("no_such_trial", fmt::format("there is no trial {} in this session", text_of(given, "trial")),
              "try_candidate gives each one its number");
}

}  // namespace

std::vector<mcp::Tool> task_tools(Workshop& workshop) {
  mcp::Tool open{
      .name = "open_task",
      .title = "Open a task",
      .description =
          "Capture a PyTorch task. Says which regions there are to write kernels for, what their "
          "inputs and outputs are called (in0, out0, …), what they compute, and the least time "
          "that they can take (roofline). The first call of a task takes seconds; it then stays "
          "open.",
      .arguments = {task_argument,
                    target_argument,
                    accuracy_argument,
                    {"graph", Type::boolean, "Also give the whole graph (planish.graph/1)"}},
      .read_only = true,
      .run = [&workshop](const Json& given, const mcp::Call& call) { return open_answer(workshop, given, call); }};
  mcp::Tool tried{
      .name = "try_candidate",
      .title = "Try a candidate",
      .description =
          "Compile, test and time one candidate. It is either kernels with launch directives (CUDA C++, Triton or C++; "
          "each text ends with lines such as `//@ launch ENTRY grid=… block=… args=in0, out0`, in Triton `#@`), for "
          "the "
          "whole task or one region; or Python for the whole task: a class ModelNew, or a function that takes what "
          "Model.forward takes and parameters by name. Gives outcome, errors with the worst element, time beside "
          "PyTorch's, roofline, and a verdict with what to try next.",
      .arguments = {task_argument,
                    {"source", Type::text, "The candidate's text"},
                    {"file", Type::text, "Or the path of its file"},
                    {"region", Type::text, "What it is for: task (the whole, also where left out), r0, r1, …"},
                    {"quick", Type::boolean,
                     "One seed of the task's own data (also where left out); false: five and every kind of data"},
                    {"profile", Type::boolean, "Also read the GPU's counters of each launch, where ncu is there"},
                    target_argument,
                    accuracy_argument},
      .run = [&workshop](const Json& given, const mcp::Call& call) { return try_answer(workshop, given, call); }};
  mcp::Tool read{.name = "read_trial",
                 .title = "Read a verdict again",
                 .description = "What try_candidate said of a trial of this session.",
                 .arguments = {{"trial", Type::text, "Its number: t1, t2, …", true}},
                 .read_only = true,
                 .run = [&workshop](const Json& given, const mcp::Call&) { return read_trial(workshop, given); }};
  return {std::move(open), std::move(tried), std::move(read)};
}

}  // namespace planish::cli
