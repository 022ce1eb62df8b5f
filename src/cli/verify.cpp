#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <random>
#include <system_error>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/owned_folder.h"
#include "cli/connect.h"
#include "cli/exit_code.h"
#include "cli/interrupt.h"
#include "cli/stdin_file.h"
#include "cli/task_syntax.h"
#include "cli/verbs.h"
#include "cli/waiting.h"
#include "evaluate/json.h"
#include "session/degenerate.h"
#include "session/result_document.h"
#include "session/shipped_check.h"
#include "session/solution_times.h"
#include "ship/folder.h"
#include "suite/row.h"
#include "worker/note_json.h"
#include "worker/printable.h"
#include "worker/toolbox.h"

namespace planish::cli {
using namespace session;

namespace {

std::string verify_json(const OpenReply& opened, const VerifyVerb& options, const VerifyReply& reply,
                        const ResultDocument::Accuracy& accuracy, const std::vector<std::string>& notes,
                        const std::optional<SolutionTimes>& times, const std::map<std::string, double>& seconds,
                        std::uint64_t seed) {
  Json cases = Json::array();
  for (const TestCase& test : reply.cases) cases.push_back(case_to_json(test));
  Json out = {{"schema_version", ResultDocument::schema_version},
              {"task", opened.task_name},
              {"task_path", options.task},
              {"task_sha256", opened.task_sha256},
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
                {"degenerate", reply.degenerate},
                {"notes", notes_to_json(reply.notes)}}},
              {"seed", seed},
              {"cases", std::move(cases)},
              {"not_repeated", notes}};
  if (reply.kernelbench) {
    out["kernelbench"] = {{"compiled", reply.kernelbench->compiled},
                          {"correct", reply.kernelbench->correct},
                          {"message", reply.kernelbench->message},
                          {"trials", reply.kernelbench->trials},
                          {"metadata", json_or_discarded(reply.kernelbench->metadata)}};
  } else {
    out["kernelbench"] = nullptr;
  }
  out["memory"] = memory_to_json(reply.memory);
  out["sandbox"] = reply.sandbox.empty() ? Json() : json_or_discarded(reply.sandbox);
  out["program"] = nullptr;
  if (reply.program) {
    out["program"] = {{"calls", reply.program->calls}, {"ran", reply.program->ran}, {"reason", reply.program->reason}};
  }
  double total = 0;
  for (const auto& [phase, spent] : seconds) total += spent;
  out["seconds"] = {{"total", total}, {"in", seconds}};
  if (options.time) out.update(json_or_discarded(times_fields(times, opened.device)));
  return dump_json(out);
}

/// Lines of a message that a solution may have written stay within its paragraph: none reads as a verdict of ours.
std::string indented(const std::string& text) {
  std::string out;
  for (const char c : text) {
    out += c;
    if (c == '\n') out += "               | ";
  }
  return out;
}

/// What a solution could do to this machine because the kernel refused to hold it there.
std::vector<std::string> unprotected(const VerifyReply& reply) {
  if (reply.sandbox.empty()) return {"the solution ran with the rights of whoever started this command"};
  const Json sandbox = json_or_discarded(reply.sandbox);
  std::vector<std::string> gaps;
  if (!sandbox.is_object() || !sandbox.contains("missing") || !sandbox["missing"].is_array()) return gaps;
  for (const Json& gap : sandbox["missing"]) {
    if (gap.is_string()) gaps.push_back(gap.get<std::string>());
  }
  return gaps;
}

/// What held a solution while it ran, in a few words; empty where nothing did.
std::string held_by(const VerifyReply& reply) {
  const Json sandbox = json_or_discarded(reply.sandbox);
  if (!sandbox.is_object()) return {};
  const auto on = [&sandbox](const char* key) { return sandbox.value(key, Json()) == Json(true); };
  std::vector<std::string> parts;
  if (const Json abi = sandbox.value("landlock", Json(0)); abi.is_number_integer() && abi > 0)
    parts.push_back(fmt::format("Landlock (ABI {})", abi.get<int>()));
  if (const Json filter = sandbox.value("seccomp", Json("none")); filter.is_string() && filter != "none")
    parts.emplace_back("seccomp filter");
  std::vector<std::string> spaces;
  for (const char* space : {"user", "pid", "network"}) {
    if (on(fmt::format("{}_namespace", space).c_str())) spaces.emplace_back(space);
  }
  if (!spaces.empty()) parts.push_back(fmt::format("namespaces ({})", fmt::join(spaces, ", ")));
  if (on("read_only_mounts")) parts.emplace_back("read-only mounts");
  if (on("private_tmp")) parts.emplace_back("a /tmp of its own");
  if (on("no_capabilities")) parts.emplace_back("no capabilities");
  if (const Json limit = sandbox.value("max_rss", Json(0)); limit.is_number_unsigned() && limit > 0)
    parts.push_back(fmt::format("{:.0f} GiB of memory", limit.get<double>() / (1 << 30)));
  return fmt::format("{}", fmt::join(parts, ", "));
}

/// "memcheck, racecheck: nothing found; initcheck was not run: …"; what was found stands in the message.
std::string memory_words(const std::vector<worker::MemoryCheck>& checks) {
  std::map<std::string, std::vector<std::string>> tools;  // by what is to be said of them
  for (const worker::MemoryCheck& check : checks) {
    std::string said = check.result == worker::MemoryCheck::Result::not_run ? "not run"
                       : check.result == worker::MemoryCheck::Result::clean ? "nothing found"
                                                                            : "refused";
    if (!check.reason.empty()) said += fmt::format(" ({})", check.reason);
    tools[said].push_back(check.tool);
  }
  std::vector<std::string> parts;
  for (const auto& [said, names] : tools) parts.push_back(fmt::format("{}: {}", fmt::join(names, ", "), said));
  return fmt::format("{}", fmt::join(parts, "; "));
}

std::string verify_text(const OpenReply& opened, const VerifyVerb& options, const VerifyReply& reply,
                        const ResultDocument::Accuracy& accuracy, const std::vector<std::string>& notes,
                        std::uint64_t seed) {
  std::string out = fmt::format("{}: {} {} of {}\n", reply.verified ? "verified" : "NOT verified", options.path,
                                reply.verified ? "does the work" : "does not do the work", opened.task_name);
  if (!reply.message.empty())
    out += fmt::format("  outcome      {}: {}\n", name(reply.outcome), indented(reply.message));
  const auto failed =
      std::ranges::count_if(reply.cases, [](const TestCase& test) { return !test.ok && !test.outvoted; });
  const auto outvoted = std::ranges::count_if(reply.cases, &TestCase::outvoted);
  out +=
      fmt::format("  cases        {} tried, {} failed{}\n", reply.cases.size(), failed,
                  outvoted > 0 ? fmt::format(", {} missed the gate narrowly and two like it did not", outvoted) : "");
  if (!reply.cases.empty()) {
    out += fmt::format("  error        {:.3g} against fp64; eager's own is {:.3g} (ratio {}, gate {})\n",
                       accuracy.error, accuracy.eager_error, suite::ratio_text(accuracy.ratio), accuracy.gate);
    out += fmt::format("  data         {} (again: --seed {})\n", fmt::join(accuracy.regimes, ", "), seed);
  }
  for (const TestCase& test : reply.cases) {
    if (test.ok || test.outvoted) continue;
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
  if (!reply.degenerate.empty() && reply.outcome != Outcome::degenerate) {
    out += fmt::format("  warning      {}\n", degenerate_words(reply.degenerate));
  }
  for (const std::string& note : notes) out += fmt::format("  not repeated {}\n", note);
  if (const std::string held = held_by(reply); !held.empty()) out += fmt::format("  held by      {}\n", held);
  for (const std::string& gap : unprotected(reply)) out += fmt::format("  warning      not held: {}\n", gap);
  if (!reply.memory.empty()) out += fmt::format("  memory       {}\n", memory_words(reply.memory));
  for (const Note& note : reply.notes) out += fmt::format("  note         {}\n", note.text);
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

/// Prints the verdict in the form that was asked for.
void print_verdict(const std::string& document, const std::string& text, const Output& output) {
  auto row = suite::row_from_document(document);
  if (!row) row = suite::failed_row("verify", "internal", row.error().message);
  output.result({std::move(*row)}, "verify", document, text);
}

/// A folder that is not what Planish ships is not loaded at all.
int refused(const VerifyVerb& options, const std::filesystem::path& task, const Error& error, const Output& output) {
  OpenReply opened;
  opened.task_name = task.stem().string();
  opened.device.target = options.target;
  VerifyReply reply;
  reply.outcome = Outcome::load_failed;
  // Names of files are whatever somebody gave them.
  reply.message = worker::printable("altered: " + error.message + (error.hint.empty() ? "" : " (" + error.hint + ")"));
  const ResultDocument::Accuracy none{};
  std::string text = fmt::format("NOT verified: {} does not do the work of {}\n  outcome      {}\n", options.path,
                                 opened.task_name, indented(reply.message));
  print_verdict(verify_json(opened, options, reply, none, {}, {}, {}, options.seed), text, output);
  return exit_code::none_found;
}

/// A folder with a copy of the shipped one, `shipped`, which nobody else can change.
Result<OwnedFolder> copy_to_prove(const std::filesystem::path& folder, const std::string& manifest) {
  PLANISH_TRY(auto room, OwnedFolder::create("planish-verified-"));
  PLANISH_CHECK(ship::copy_checked(folder, manifest, room.path() / "shipped"));
  return room;
}

/// A proof of the original, or of a trivial output, says nothing about the program.
void doubt(VerifyReply& reply, const std::string& mode) {
  if (reply.verified && (reply.fell_back() || (mode == "program" && !reply.program))) {
    reply.verified = false;
    reply.message = reply.program
                        ? fmt::format("fell back: the original answered {} of {} calls in the program's place",
                                      reply.program->calls - reply.program->ran, reply.program->calls)
                        : "fell back: the program was never run";
  }
  const auto unproven = unproven_by(reply.degenerate, mode == "program" || mode == "baseline");
  if (reply.verified && !unproven.empty()) {
    reply.verified = false;
    reply.outcome = Outcome::degenerate;
    reply.message = degenerate_words(unproven);
  }
}

Error nothing_proved() {
  return {"interrupted", "interrupted; nothing was proved", {}, {}};
}

Error untraced(const ShippedFindings& findings) {
  return {"altered",
          fmt::format("{}: nobody can say here what is in it", fmt::join(findings.notes, "; ")),
          {},
          "verify it where that compiler is, or ship it again here; --other-compiler accepts it"};
}

VerifyRequest request_of(const VerifyVerb& options, const ShippedFindings& findings, const std::string& session,
                         const std::filesystem::path& path) {
  VerifyRequest request;
  request.session = session;
  request.path = path.string();
  request.seeds = options.seeds;
  if (options.compat == "kernelbench") request.kernelbench = options.precision;
  request.own_code = findings.mode == "baseline";
  request.time = request.beside = options.time;
  request.memory_check = !options.no_memory_check;
  request.finite_only = options.finite_only;
  return request;
}

}  // namespace

int verify_verb(const VerifyVerb& options, const Output& output) {
  if (auto ok = check_target(options.target); !ok) return output.error(ok.error());
  if (auto ok = check_accuracy(options.accuracy); !ok) return output.error(ok.error());
  const auto modes = parse_baselines(options.baselines);
  if (!modes) return output.error(modes.error());
  const auto task_timeout = parse_limit(options.task_timeout);
  if (!task_timeout) return output.error(task_timeout.error());
  if (auto one = check_one_stdin(options.task, options.path); !one) return output.error(one.error());
  const auto given_task = file_or_stdin(options.task, "file");
  if (!given_task) return output.error(given_task.error());
  const std::filesystem::path& task = given_task->path;
  if (auto good = check_syntax(task); !good) return output.error(good.error());
  const auto given = file_or_stdin(options.path, "file or folder");
  if (!given) return output.error(given.error());
  std::filesystem::path solution = given->path;
  // The folder that optimize was told to write to holds the shipped one.
  std::error_code ignored;
  if (std::filesystem::exists(solution / "shipped" / "ship.json", ignored)) solution /= "shipped";
  // From here on temporary folders are made, which must not stay.
  const CancelToken cancel = watch_interrupts();
  if (cancel.cancelled()) return output.error(nothing_proved());
  // Whatever is found of a folder is found before any of it is loaded.
  ShippedFindings findings;
  if (std::filesystem::exists(solution / "ship.json", ignored)) {
    auto checked = check_shipped(solution, task, worker::Toolbox::resolve());
    if (cancel.cancelled()) return output.error(nothing_proved());
    if (!checked && checked.error().kind == "altered") return refused(options, task, checked.error(), output);
    if (!checked) return output.error(checked.error());
    findings = std::move(*checked);
  }
  if (findings.untraced && !options.other_compiler) return refused(options, task, untraced(findings), output);
  std::optional<OwnedFolder> room;
  if (!findings.mode.empty()) {
    auto made = copy_to_prove(solution, findings.manifest);
    if (!made && made.error().kind == "altered") return refused(options, task, made.error(), output);
    if (!made) return output.error(made.error());
    room = std::move(*made);
  }
  auto evaluator = connect_evaluator({*task_timeout, cancel, true, !options.no_serve});
  if (!evaluator) return output.error(evaluator.error());
  Waiting waiting(**evaluator, output, cancel);
  waiting.step(fmt::format("capturing {}", options.task));
  std::map<std::string, double> seconds;
  auto spent = [&seconds, since = real_clock().now()](const char* phase) mutable {
    const TimePoint now = real_clock().now();
    seconds[phase] = std::chrono::duration<double>(now - since).count();
    since = now;
  };
  OpenRequest ask;
  ask.task = task.string();
  // Drawn here where none is given, so that the verdict can name it.
  std::random_device entropy;
  ask.seeds = options.seed != 0 ? options.seed : 1 + entropy();
  ask.target = options.target;
  ask.accuracy = options.accuracy;
  auto opened = (*evaluator)->open(ask);
  if (!opened) return output.error(opened.error());
  spent("capture");
  if (!findings.mode.empty()) {
    if (auto same = ship::check_graph(solution, opened->graph); !same)
      return refused(options, task, same.error(), output);
  }
  waiting.step(fmt::format("proving {} on data of {} seeds", options.path, options.seeds));
  const auto proved = findings.mode.empty() ? solution : room->path() / "shipped";
  auto reply = (*evaluator)->verify(request_of(options, findings, opened->session, proved));
  if (!reply) return output.error(reply.error());
  spent("verify");
  if (!findings.mode.empty()) {
    if (auto same = ship::check_unchanged(solution, findings.manifest); !same)
      return refused(options, task, same.error(), output);
  }
  doubt(*reply, findings.mode);
  std::optional<SolutionTimes> times;
  if (reply->verified && reply->times) {
    waiting.step("timing baselines");
    auto baselines = baselines_of(**evaluator, *opened, *modes, options.keep_times);
    if (!baselines) return output.error(baselines.error());
    times = SolutionTimes{std::move(*reply->times), std::move(*baselines), {}};
    times->roofline = roofline_of_solution(*opened, times->solution_ms(opened->device));
    spent("baselines");
  }
  (void)(*evaluator)->close(opened->session);
  const auto accuracy = summarise(options.accuracy, reply->cases);
  print_verdict(verify_json(*opened, options, *reply, accuracy, findings.notes, times, seconds, ask.seeds),
                verify_text(*opened, options, *reply, accuracy, findings.notes, ask.seeds) +
                    (times ? times_text(*times, opened->device) : ""),
                output);
  if (!reply->verified)
    output.next({"verify", options.task, options.path, "--seed", std::to_string(ask.seeds), "--json"});
  else if (!options.time)
    output.next({"verify", options.task, options.path, "--time"});
  return reply->verified ? exit_code::success : exit_code::none_found;
}

}  // namespace planish::cli
