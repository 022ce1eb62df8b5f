#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "base/file.h"
#include "base/json.h"
#include "cli/candidate.h"
#include "cli/connect.h"
#include "cli/exit_code.h"
#include "cli/interrupt.h"
#include "cli/planner.h"
#include "cli/result_document.h"
#include "cli/verbs.h"
#include "evaluate/codec.h"
#include "evaluate/json.h"
#include "judge/judge.h"

namespace planish::cli {
namespace {

/// What is tried: a region of the task, or the whole of it.
struct Place {
  std::string id = "task";
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
  out.id = found->id;
  out.summary = found->summary;
  out.domain = found->domain;
  out.aten_program = found->aten_program;
  out.region = {session, found->id, found->nodes, found->inputs, found->outputs, found->bytes, found->flops};
  return out;
}

/// What there is to write kernels for.
void list_places(const Plan& plan, const OpenReply& opened, const Output& output) {
  Json regions = Json::array();
  std::string text;
  const auto add = [&](const std::string& id, const std::string& summary, const coder::Domain& domain) {
    regions.push_back({{"id", id}, {"summary", summary}, {"description", domain.description()}});
    text += fmt::format("{}: {}\n{}\n", id, summary, domain.description());
  };
  add("task", "the whole task", *plan.whole_domain());
  for (const PlannedRegion& region : plan.regions()) add(region.id, region.summary, *region.domain);
  const Json document = {
      {"schema_version", ResultDocument::schema_version}, {"task", opened.task_name}, {"regions", regions}};
  output.result(dump_json(document), text);
}

struct Tried {
  Evaluation evaluation;
  double aten_ms = 0;  ///< of PyTorch's operators; 0 where they were not timed
  judge::Verdict verdict;
  std::string program;  ///< hash
};

Result<Tried> try_source(EvaluatorApi& evaluator, const OpenReply& opened, const Place& place,
                         const std::string& source, bool quick) {
  PLANISH_TRY(const auto candidate, place.domain->build_source(source));
  PLANISH_TRY(const auto region, evaluator.region(place.region));
  (void)region;
  const std::string level = quick ? "screen" : "full";
  Tried out;
  out.program = candidate.hash;
  PLANISH_TRY(out.evaluation, evaluator.evaluate({opened.session, place.id, candidate.program, level, true, 0}));
  if (out.evaluation.ok() && !place.aten_program.empty()) {
    PLANISH_TRY(const auto aten, evaluator.evaluate({opened.session, place.id, place.aten_program, "screen", true, 0}));
    if (aten.ok() && aten.bench) out.aten_ms = aten.bench->median_ms;
  }
  StoredCandidate judged;
  judged.evaluation = out.evaluation;
  if (auto program = program::parse(candidate.program)) judged.program = std::move(*program);
  out.verdict = judge_candidate(judged, {}, device_of(opened.device));
  return out;
}

Json tried_json(const Tried& tried, const OpenReply& opened, const Place& place) {
  Json out = {{"schema_version", ResultDocument::schema_version},
              {"task", opened.task_name},
              {"region", place.id},
              {"program", tried.program},
              {"ok", tried.evaluation.ok()},
              {"outcome", name(tried.evaluation.outcome)},
              {"median_ms", nullptr},
              {"pytorch_ms", tried.aten_ms > 0 ? Json(tried.aten_ms) : Json(nullptr)}};
  if (tried.evaluation.ok() && tried.evaluation.bench)
    out["median_ms"] = number_to_json(tried.evaluation.bench->median_ms);
  out["evaluation"] = Json::parse(to_json(tried.evaluation), nullptr, false);
  out["verdict"] = Json::parse(judge::to_json(tried.verdict), nullptr, false);
  return out;
}

std::string tried_text(const Tried& tried, const Place& place) {
  const Evaluation& e = tried.evaluation;
  std::string out = fmt::format("{}: {} of {} ({})\n", e.ok() ? "right" : "NOT right", tried.program.substr(0, 12),
                                place.id, place.summary);
  if (!e.ok()) out += fmt::format("  outcome   {}: {}\n", name(e.outcome), e.message);
  if (e.ok() && e.bench) {
    out += fmt::format("  time      {:.4g} ms", e.bench->median_ms);
    if (tried.aten_ms > 0)
      out +=
          fmt::format(", PyTorch's operators {:.4g} ms ({:.2f}x)", tried.aten_ms, tried.aten_ms / e.bench->median_ms);
    out += "\n";
  }
  if (e.roofline && e.ok())
    out += fmt::format("  roofline  {:.0f} % of the {} bound\n", 100 * e.roofline->fraction, e.roofline->bound);
  return out + judge::to_text(tried.verdict);
}

}  // namespace

int try_verb(const TryVerb& options, const Output& output) {
  if (auto ok = check_target(options.target); !ok) return output.error(ok.error());
  if (auto ok = check_accuracy(options.accuracy); !ok) return output.error(ok.error());
  const auto task_timeout = parse_limit(options.task_timeout);
  if (!task_timeout) return output.error(task_timeout.error());
  const auto task = existing_file(options.task, "file");
  if (!task) return output.error(task.error());
  std::optional<std::string> source;
  if (!options.source.empty()) {
    const auto file = existing_file(options.source, "file");
    if (!file) return output.error(file.error());
    auto text = read_file(*file);
    if (!text) return output.error(text.error());
    source = std::move(*text);
  }
  const CancelToken cancel = watch_interrupts();
  auto evaluator = connect_evaluator({*task_timeout, cancel, false, !options.no_serve});
  if (!evaluator) return output.error(evaluator.error());
  OpenRequest ask;
  ask.task = task->string();
  ask.target = options.target;
  ask.accuracy = options.accuracy;
  const auto opened = (*evaluator)->open(ask);
  if (!opened) return output.error(opened.error());
  const auto plan = make_planner()->plan(opened->graph, opened->device);
  if (!plan) return output.error(plan.error());
  if (!source) {
    list_places(**plan, *opened, output);
    return exit_code::success;
  }
  const auto place = place_of(**plan, opened->session, options.region);
  if (!place) return output.error(place.error());
  const auto tried = try_source(**evaluator, *opened, *place, *source, options.quick);
  (void)(*evaluator)->close(opened->session);
  if (!tried) return output.error(tried.error());
  output.result(dump_json(tried_json(*tried, *opened, *place)), tried_text(*tried, *place));
  return tried->evaluation.ok() ? exit_code::success : exit_code::none_found;
}

}  // namespace planish::cli
