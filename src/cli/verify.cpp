#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "base/json.h"
#include "cli/connect.h"
#include "cli/exit_code.h"
#include "cli/interrupt.h"
#include "cli/result_document.h"
#include "cli/verbs.h"
#include "evaluate/json.h"

namespace planish::cli {
namespace {

std::string verify_json(const OpenReply& opened, const VerifyVerb& options, const VerifyReply& reply,
                        const ResultDocument::Accuracy& accuracy) {
  Json cases = Json::array();
  for (const TestCase& test : reply.cases) cases.push_back(case_to_json(test));
  Json out = {{"schema_version", ResultDocument::schema_version},
              {"task", opened.task_name},
              {"solution", options.path},
              {"device", {{"target", opened.device.target}, {"name", opened.device.name}}},
              {"verified", reply.verified},
              {"outcome", name(reply.outcome)},
              {"message", reply.message},
              {"accuracy",
               {{"gate", accuracy.gate},
                {"error", number_to_json(accuracy.error)},
                {"eager_error", number_to_json(accuracy.eager_error)},
                {"ratio", number_to_json(accuracy.ratio)},
                {"regimes", accuracy.regimes},
                {"skipped", reply.skipped},
                {"degenerate", reply.degenerate}}},
              {"cases", std::move(cases)}};
  if (reply.kernelbench) {
    out["kernelbench"] = {{"correct", reply.kernelbench->correct},
                          {"message", reply.kernelbench->message},
                          {"trials", reply.kernelbench->trials}};
  } else {
    out["kernelbench"] = nullptr;
  }
  out["program"] = nullptr;
  if (reply.program) {
    out["program"] = {{"calls", reply.program->calls}, {"ran", reply.program->ran}, {"reason", reply.program->reason}};
  }
  return dump_json(out);
}

std::string verify_text(const OpenReply& opened, const VerifyVerb& options, const VerifyReply& reply,
                        const ResultDocument::Accuracy& accuracy) {
  std::string out = fmt::format("{}: {} {} of {}\n", reply.verified ? "verified" : "NOT verified", options.path,
                                reply.verified ? "does the work" : "does not do the work", opened.task_name);
  if (!reply.message.empty()) out += fmt::format("  outcome      {}: {}\n", name(reply.outcome), reply.message);
  const auto failed = std::ranges::count_if(reply.cases, [](const TestCase& test) { return !test.ok; });
  out += fmt::format("  cases        {} tried, {} failed\n", reply.cases.size(), failed);
  if (!reply.cases.empty()) {
    out += fmt::format("  error        {:.3g} against fp64; eager's own is {:.3g} (ratio {:.2f}, gate {})\n",
                       accuracy.error, accuracy.eager_error, accuracy.ratio, accuracy.gate);
    out += fmt::format("  data         {}\n", fmt::join(accuracy.regimes, ", "));
  }
  for (const TestCase& test : reply.cases) {
    if (test.ok) continue;
    out += fmt::format("  failed       seed {}, {} data: {}\n", test.seed, test.regime, test.problem);
    for (const OutputErrors& o : test.outputs) {
      if (o.worst) {
        out += fmt::format("               at [{}] expected {:.9g}, got {:.9g}, eager {:.9g}\n",
                           fmt::join(o.worst->index, ", "), o.worst->expected, o.worst->actual, o.worst->eager);
      }
    }
    break;  // the first says what is wrong; --json has all
  }
  for (const auto& [regime, reason] : reply.skipped) out += fmt::format("  skipped      {}: {}\n", regime, reason);
  if (!reply.degenerate.empty()) {
    out += fmt::format("  warning      the task is degenerate: {} would pass\n", fmt::join(reply.degenerate, ", "));
  }
  if (reply.fell_back()) {
    out += fmt::format("  warning      the program answered {} of {} calls, the original the others: {}\n",
                       reply.program->ran, reply.program->calls, reply.program->reason);
  }
  if (reply.kernelbench) {
    out += fmt::format("  KernelBench  its own rule ({} trials) says: {}{}\n", reply.kernelbench->trials,
                       reply.kernelbench->correct ? "correct" : "incorrect",
                       reply.kernelbench->message.empty() ? "" : ", " + reply.kernelbench->message);
  }
  return out;
}

}  // namespace

int verify_verb(const VerifyVerb& options, const Output& output) {
  if (auto ok = check_target(options.target); !ok) return output.error(ok.error());
  if (auto ok = check_accuracy(options.accuracy); !ok) return output.error(ok.error());
  const auto task_timeout = parse_limit(options.task_timeout);
  if (!task_timeout) return output.error(task_timeout.error());
  auto task = existing_file(options.task, "file");
  if (!task) return output.error(task.error());
  auto solution = existing_file(options.path, "file or folder");
  if (!solution) return output.error(solution.error());
  // The folder that optimize was told to write to holds the shipped one.
  std::error_code ignored;
  if (std::filesystem::exists(*solution / "shipped" / "ship.json", ignored)) *solution /= "shipped";
  const CancelToken cancel = watch_interrupts();
  auto evaluator = connect_evaluator({*task_timeout, cancel, true});
  if (!evaluator) return output.error(evaluator.error());
  OpenRequest ask;
  ask.task = task->string();
  ask.target = options.target;
  ask.accuracy = options.accuracy;
  auto opened = (*evaluator)->open(ask);
  if (!opened) return output.error(opened.error());
  auto reply = (*evaluator)->verify({opened->session, solution->string(), options.seeds, true});
  if (!reply) return output.error(reply.error());
  (void)(*evaluator)->close(opened->session);
  const auto accuracy = summarise(options.accuracy, reply->cases);
  output.result(verify_json(*opened, options, *reply, accuracy), verify_text(*opened, options, *reply, accuracy));
  return reply->verified ? exit_code::success : exit_code::none_found;
}

}  // namespace planish::cli
