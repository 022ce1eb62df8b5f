#include "session/trial.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <ranges>
#include <string_view>
#include <utility>

#include "backend/backend.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "evaluate/device.h"
#include "evaluate/gain_json.h"
#include "evaluate/json.h"
#include "evaluate/lock.h"
#include "evaluate/solution.h"
#include "judge/judge.h"
#include "program/program.h"
#include "session/candidate.h"
#include "session/degenerate.h"
#include "session/planner.h"
#include "session/result_document.h"
#include "session/shipper.h"
#include "worker/note_json.h"
#include "worker/toolbox.h"

namespace planish::session {
namespace {

constexpr int full_seeds = 5;

/// What is tried: a region of the task, or the whole of it.
struct Place {
  std::string summary;
  std::shared_ptr<const coder::Domain> domain;
  std::string aten_program;
  RegionRequest region;
};

Result<Place> place_of(const Plan& plan, const std::string& session, const std::string& id) {
  Place out;
  if (id == "task") {
    out.domain = plan.whole_domain();
    out.summary = "the whole task";
    PLANISH_TRY(out.aten_program, plan.aten_program());
    out.region = {session, "task", {}, {}, {}, plan.bytes(), plan.flops()};
    return out;
  }
  const auto found = std::ranges::find(plan.regions(), id, &PlannedRegion::id);
  if (found == plan.regions().end())
    return fail("no_such_region", fmt::format("the task has no region {}", id), "planish try TASK.py lists them");
  out.summary = found->summary;
  out.domain = found->domain;
  out.aten_program = found->aten_program;
  out.region = {session, found->id, found->nodes, found->inputs, found->outputs, found->bytes, found->flops};
  return out;
}

/// A directive line (docs/formats/source.md) makes a text kernels and launches, whatever the file is called.
bool has_directives(std::string_view text) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size() - 1);
    const std::string_view line = text.substr(0, end + 1);
    const std::size_t start = line.find_first_not_of(" \t");
    if (start != std::string_view::npos &&
        (line.substr(start).starts_with("//@") || line.substr(start).starts_with("#@")))
      return true;
    text.remove_prefix(end + 1);
  }
  return false;
}

/// Each of its launches under ncu, in a process of its own, while nobody else measures on the device.
Result<std::vector<worker::KernelCounters>> counters_of(const OpenReply& opened, const Evaluation& evaluation,
                                                        const std::string& text) {
  PLANISH_TRY(const auto program, program::parse(text));
  if (backend::named(opened.device.target).on_host || program.kernels.empty())
    return fail("no_counters", "counters are those of a GPU's kernels, and none is launched here");
  worker::NcuRequest request;
  PLANISH_TRY(request.ncu, worker::find_ncu());
  const auto tools = worker::Toolbox::resolve();
  PLANISH_TRY(const Json document, parse_json(text, "internal", "program"));
  Json binaries = Json::array();
  for (const KernelReport& kernel : evaluation.compile->kernels) {
    PLANISH_TRY(const auto path, find_binary(tools.cache_dir, kernel.sha256));
    binaries.push_back(path.string());
  }
  PLANISH_TRY(const auto folder, TempDir::create("planish-profile-"));
  const auto file = folder.path() / "launch.json";
  PLANISH_CHECK(write_file(file, dump_json({{"program", document}, {"binaries", binaries}, {"blobs", opened.blobs}})));
  request.program = tools.python_module("planish.runner.launched");
  request.program.channel = false;
  request.program.command.push_back(file.string());
  for (const program::KernelSource& kernel : program.kernels) request.kernels.push_back(kernel.entry);
  constexpr double patience = 600;
  PLANISH_TRY(const auto still, lock_device(opened.device.uuid, opened.task_name, patience));
  return worker::run_ncu(request);
}

/// Into the trial, and the slowest launch's into the verdict; where there are none, why.
void profile(const OpenReply& opened, const std::string& program, Trial& out) {
  auto counters = counters_of(opened, out.evaluation, program);
  if (!counters) {
    const Error& error = counters.error();
    out.notes.push_back({.kind = "no_counters",
                         .about = {},
                         .text = error.hint.empty() ? error.message : error.message + " (" + error.hint + ")"});
    return;
  }
  out.counters = std::move(*counters);
  const auto slowest = std::ranges::max_element(
      out.counters, {}, [](const worker::KernelCounters& launch) { return launch.value("time"); });
  for (const worker::Counter& counter : slowest->counters)
    out.verdict.evidence.push_back({"ncu_" + counter.name, counter.value, counter.unit});
}

MeasuredTime time_of(const Evaluation& evaluation) {
  return {evaluation.bench->median_ms, evaluation.bench->lo_ms, evaluation.bench->hi_ms};
}

/// PyTorch's operators between two timings of the kernels: what the machine did meanwhile lies between those two.
Status time_beside_operators(EvaluatorApi& evaluator, EvaluateRequest ask, const program::Given& operators,
                             Trial& out) {
  EvaluateRequest yardstick{.session = ask.session, .region = ask.region, .program = operators};
  yardstick.again = true;
  PLANISH_TRY(const auto aten, evaluator.evaluate(yardstick));
  if (!aten.ok() || !aten.bench) return {};
  out.pytorch_ms = aten.bench->median_ms;
  ask.level = "screen";
  PLANISH_TRY(const auto after, evaluator.evaluate(ask));
  if (!after.ok() || !after.bench) return {};
  const auto first = gain_of(time_of(aten), time_of(out.evaluation)), second = gain_of(time_of(aten), time_of(after));
  if (first && second) out.gain = hull(*first, *second);
  return {};
}

Status try_source(EvaluatorApi& evaluator, const OpenReply& opened, const Plan& plan, const TrialRequest& request,
                  Trial& out) {
  PLANISH_TRY(const Place place, place_of(plan, opened.session, request.region));
  out.summary = place.summary;
  PLANISH_TRY(const auto candidate, place.domain->build_source(request.text));
  PLANISH_TRY(const auto region, evaluator.region(place.region));
  out.degenerate = region.degenerate;
  out.notes = region.notes;
  EvaluateRequest ask{.session = opened.session, .region = request.region, .program = candidate.program};
  ask.level = request.quick ? "screen" : "full";
  ask.again = true;
  PLANISH_TRY(out.evaluation, evaluator.evaluate(ask));
  if (out.evaluation.ok() && out.evaluation.bench && !place.aten_program.empty())
    PLANISH_CHECK(time_beside_operators(evaluator, ask, place.aten_program, out));
  StoredCandidate judged;
  judged.evaluation = out.evaluation;
  if (auto program = candidate.program.checked()) judged.program = program->program();
  out.verdict = judge_candidate(judged, {}, device_of(opened.device));
  if (request.profile && out.evaluation.ok()) profile(opened, candidate.program.text(), out);
  return {};
}

Status try_solution(EvaluatorApi& evaluator, const OpenReply& opened, const Plan& plan, const TrialRequest& request,
                    Trial& out) {
  if (request.region != "task") {
    return fail("no_such_region",
                fmt::format("a Python file stands for the whole task, not for region {}", request.region),
                "leave --region out, or write kernels and launches for it (docs/formats/source.md)");
  }
  out.summary = "the whole task";
  VerifyRequest ask;
  ask.session = opened.session;
  ask.path = request.file.string();
  ask.seeds = request.quick ? 1 : full_seeds;
  ask.level = request.quick ? "screen" : "full";
  ask.time = ask.beside = ask.trial = true;
  PLANISH_TRY(auto reply, evaluator.verify(ask));
  out.degenerate = reply.degenerate;
  out.notes = reply.notes;
  out.sandbox = reply.sandbox;
  if (reply.times && reply.times->beside) {
    out.pytorch_ms = measured(reply.times->beside->original_ms).median_ms;
    out.gain = reply.times->beside->gain;
  } else if (reply.times) {
    out.notes.push_back(
        {.kind = "not_beside", .about = {}, .text = "not timed beside the task's own: " + reply.times->not_beside});
  }
  Evaluation& e = out.evaluation;
  e = evaluation_of(std::move(reply), opened.device, plan.bytes(), plan.flops());
  e.program = sha256_hex(request.text);
  e.region = request.region;
  e.level = ask.level;
  StoredCandidate judged;
  judged.evaluation = e;
  out.verdict = judge_candidate(judged, {}, device_of(opened.device));
  if (request.profile) {
    out.notes.push_back({.kind = "no_counters",
                         .about = {},
                         .text = "a solution runs in a guest's place, where no profiler is let in: counters are of "
                                 "kernels and launches alone"});
  }
  return {};
}

/// Its failed case that says most: the first.
std::string worst_text(const Evaluation& evaluation) {
  if (!evaluation.test) return {};
  for (const TestCase& test : evaluation.test->cases) {
    if (test.ok) continue;
    std::string out = fmt::format("  failed    seed {}, {} data: {}\n", test.seed, test.regime, test.problem);
    for (const OutputErrors& o : test.outputs) {
      if (!o.worst) continue;
      out += fmt::format("            at [{}] expected {:.9g}, got {:.9g}, eager {:.9g}\n",
                         fmt::join(o.worst->index, ", "), o.worst->expected, o.worst->actual, o.worst->eager);
    }
    return out;
  }
  return {};
}

/// "r2 and r3 in place of r0": the first fusion plan that an alternative region belongs to.
std::string place_of_alternative(const Plan& plan, const std::string& id) {
  const auto names = [](const std::vector<PlannedFusion::Use>& uses) {
    return fmt::format("{}", fmt::join(uses | std::views::transform(&PlannedFusion::Use::region), " and "));
  };
  for (const PlannedFusion& fusion : plan.fusions()) {
    if (std::ranges::find(fusion.by, id, &PlannedFusion::Use::region) == fusion.by.end()) continue;
    return fmt::format("{} in place of {}", names(fusion.by), names(fusion.replaces));
  }
  return {};
}

}  // namespace

Result<Trial> try_candidate(EvaluatorApi& evaluator, const OpenReply& opened, const Plan& plan,
                            const TrialRequest& request) {
  Trial out;
  out.region = request.region;
  const bool solution = request.file.extension() == ".py" && !has_directives(request.text);
  out.form = solution ? "solution" : "source";
  PLANISH_CHECK(solution ? try_solution(evaluator, opened, plan, request, out)
                         : try_source(evaluator, opened, plan, request, out));
  return out;
}

bool succeeded(const Trial& trial) {
  // Of a region's kernels the whole is not known yet, and a search goes on beside others.
  return trial.evaluation.ok() && (trial.region != "task" || trial.degenerate.empty());
}

std::string trial_json(const Trial& trial, const OpenReply& opened) {
  const Evaluation& e = trial.evaluation;
  const double ms = e.ok() && e.bench ? e.bench->median_ms : 0;
  Json out = {{"schema_version", ResultDocument::schema_version},
              {"task", opened.task_name},
              {"task_sha256", opened.task_sha256},
              {"device", {{"target", opened.device.target}, {"name", opened.device.name}}},
              {"form", trial.form},
              {"region", trial.region},
              {"program", e.program},
              {"ok", succeeded(trial)},
              {"outcome", name(e.ok() && !succeeded(trial) ? Outcome::degenerate : e.outcome)},
              {"message", e.ok() && !succeeded(trial) ? degenerate_words(trial.degenerate) : e.message},
              {"median_ms", nullptr},
              {"pytorch_ms", nullptr},
              {"speedup", nullptr},
              {"degenerate", trial.degenerate},
              {"notes", notes_to_json(trial.notes)},
              {"warm", opened.kept}};
  if (ms > 0) out["median_ms"] = number_to_json(ms);
  if (trial.pytorch_ms > 0) out["pytorch_ms"] = number_to_json(trial.pytorch_ms);
  if (trial.gain) out["speedup"] = number_to_json(trial.gain->claimed());
  out["gain"] = trial.gain ? gain_to_json(*trial.gain) : Json();
  out["evaluation"] = json_or_discarded(to_json(e));
  out["verdict"] = json_or_discarded(judge::to_json(trial.verdict));
  out["profile"] = nullptr;
  if (!trial.counters.empty()) {
    out["profile"] = {{"tool", "ncu"}, {"launches", Json::array()}};
    for (const worker::KernelCounters& launch : trial.counters) {
      Json counters = Json::object();
      for (const worker::Counter& counter : launch.counters)
        counters[counter.name] = {{"value", number_to_json(counter.value)}, {"unit", counter.unit}};
      out["profile"]["launches"].push_back({{"kernel", launch.kernel},
                                            {"grid", launch.grid},
                                            {"block", launch.block},
                                            {"counters", std::move(counters)}});
    }
  }
  out["sandbox"] = trial.sandbox.empty() ? Json() : json_or_discarded(trial.sandbox);
  return dump_json(out);
}

std::string trial_text(const Trial& trial) {
  const Evaluation& e = trial.evaluation;
  std::string out = fmt::format("{}: {} of {} ({})\n", succeeded(trial) ? "right" : "NOT right",
                                e.program.substr(0, 12), trial.region, trial.summary);
  if (!e.ok()) out += fmt::format("  outcome   {}: {}\n", name(e.outcome), e.message);
  if (e.ok() && !succeeded(trial))
    out += fmt::format("  outcome   {}: {}\n", name(Outcome::degenerate), degenerate_words(trial.degenerate));
  out += worst_text(e);
  if (e.ok() && e.bench) {
    out += fmt::format("  time      {:.4g} ms", e.bench->median_ms);
    if (trial.gain) {
      const Gain& gain = *trial.gain;
      const char* other = trial.form == "solution" ? "PyTorch eager" : "PyTorch's operators";
      out += gain.differs() ? fmt::format(", {} {:.4g} ms ({:.2f}x; {:.2f} to {:.2f})", other, trial.pytorch_ms,
                                          gain.claimed(), gain.lo, gain.hi)
                            : fmt::format(", no difference to {} ({:.2f} to {:.2f})", other, gain.lo, gain.hi);
    }
    out += "\n";
  }
  if (e.roofline && e.ok())
    out += fmt::format("  roofline  {:.0f} % of the {} bound\n", 100 * e.roofline->fraction, e.roofline->bound);
  if (!trial.degenerate.empty() && (succeeded(trial) || !e.ok()))
    out += fmt::format("  warning   {}\n", degenerate_words(trial.degenerate));
  for (const Note& note : trial.notes) out += fmt::format("  note      {}\n", note.text);
  return out + judge::to_text(trial.verdict);
}

std::string places_json(const Plan& plan, const DeviceFacts& device) {
  Json places = Json::array();
  const auto add = [&](const std::string& id, const std::string& summary, const coder::Domain& domain, double bytes,
                       double flops) -> Json& {
    const Roofline least = roofline_of(device, bytes, flops, 0);
    places.push_back({{"id", id},
                      {"summary", summary},
                      {"description", domain.description()},
                      {"bytes", number_to_json(bytes)},
                      {"flops", number_to_json(flops)},
                      {"bound", least.bound},
                      {"bound_ms", number_to_json(least.bound_ms)}});
    return places.back();
  };
  add("task", "the whole task", *plan.whole_domain(), plan.bytes(), plan.flops());
  for (const PlannedRegion& region : plan.regions()) {
    Json& added = add(region.id, region.summary, *region.domain, region.bytes, region.flops);
    added["count"] = region.count;
    added["alternative"] = region.alternative;
  }
  return dump_json(places);
}

std::string places_text(const Plan& plan) {
  std::string out = fmt::format("task: the whole task\n{}\n", plan.whole_domain()->description());
  bool others = false;
  for (const PlannedRegion& region : plan.regions()) {
    if (region.alternative && !std::exchange(others, true)) out += "Other ways to cut it (fusion plans):\n\n";
    std::string head = region.id;
    if (region.count > 1) head += fmt::format(" ({} times)", region.count);
    if (region.alternative) head += fmt::format(" ({})", place_of_alternative(plan, region.id));
    out += fmt::format("{}: {}\n{}\n", head, region.summary, region.domain->description());
  }
  return out;
}

}  // namespace planish::session
