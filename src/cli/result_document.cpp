#include "cli/result_document.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/json.h"

namespace planish::cli {
namespace {

const ClaimTime* timed(const ResultDocument& result, std::string_view name) {
  for (const ClaimTime& time : result.times) {
    if (time.name == name && !time.error && time.median_ms > 0) return &time;
  }
  return nullptr;
}

constexpr const char* headline = "max_autotune_no_cudagraphs";
constexpr const char* names[] = {"eager", "compile", "max_autotune_no_cudagraphs", "max_autotune"};

std::string label(const std::string& name) {
  if (name == "compile") return "torch.compile";
  if (name == "max_autotune_no_cudagraphs") return "max-autotune-no-cudagraphs";
  if (name == "max_autotune") return "max-autotune (CUDA graphs)";
  return name;
}

/// Single calls on an idle device: of what ships and of each baseline, and how many times longer the baseline takes.
/// Null where the calls are too long for the host to matter, and on the CPU.
Json latency_json(const std::vector<ClaimTime>& times) {
  Json ms = Json::object(), speedup = Json::object();
  double shipped = 0;
  for (const ClaimTime& t : times) {
    if (!t.error && t.name == "shipped") shipped = t.latency_ms;
  }
  for (const ClaimTime& t : times) {
    if (t.error || t.latency_ms <= 0) continue;
    ms[t.name] = {{"median", t.latency_ms}, {"lo", t.latency_lo_ms}, {"hi", t.latency_hi_ms}};
    if (shipped > 0 && t.name != "shipped" && t.name != "candidate") speedup[t.name] = t.latency_ms / shipped;
  }
  if (ms.empty()) return nullptr;
  return Json{{"ms", std::move(ms)}, {"speedup", std::move(speedup)}};
}

}  // namespace

bool compare_times(ResultDocument& result) {
  result.speedup.clear();
  result.speedup_best_baseline = 0;
  result.best_baseline.clear();
  const ClaimTime* shipped = timed(result, "shipped");
  const ClaimTime* best = nullptr;
  for (const char* name : names) {
    const ClaimTime* time = timed(result, name);
    if (time == nullptr) continue;
    if (shipped != nullptr) result.speedup[name] = time->median_ms / shipped->median_ms;
    if (std::ranges::find(result.refused_baselines, name) != result.refused_baselines.end()) continue;
    if (best == nullptr || time->median_ms < best->median_ms) best = time;
  }
  if (best == nullptr) return false;
  result.best_baseline = best->name;
  if (shipped == nullptr) return false;
  result.speedup_best_baseline = best->median_ms / shipped->median_ms;
  // Intervals that overlap are a difference inside the noise.
  return shipped->median_ms < best->median_ms && shipped->hi_ms < best->lo_ms;
}

ResultDocument::Accuracy summarise(const std::string& gate, const std::vector<TestCase>& cases) {
  ResultDocument::Accuracy out;
  out.gate = gate;
  bool any = false;
  for (const TestCase& test : cases) {
    if (std::ranges::find(out.regimes, test.regime) == out.regimes.end()) out.regimes.push_back(test.regime);
    for (const OutputErrors& errors : test.outputs) {
      out.max_error = std::max(out.max_error, errors.max);
      // Equal zeros are as accurate as eager, not infinitely better.
      const double ratio = errors.eager_fro > 0 ? errors.fro / errors.eager_fro : (errors.fro > 0 ? INFINITY : 1.0);
      // The task's own data speak for the task; regimes are stress, and listed.
      if (test.regime == "task" && (!any || errors.fro > out.error)) {
        any = true;
        out.error = errors.fro;
        out.eager_error = errors.eager_fro;
        out.ratio = ratio;
      }
    }
  }
  return out;
}

std::string to_json(const ResultDocument& r) {
  Json out;
  out["schema_version"] = ResultDocument::schema_version;
  out["run"] = r.run;
  out["task"] = r.task;
  out["task_path"] = r.task_path;
  out["task_sha256"] = r.task_sha256;
  out["target"] = r.target;
  out["device"] = {{"name", r.device.name},
                   {"arch", r.device.arch},
                   {"uuid", r.device.uuid},
                   {"cores", r.device.cores},
                   {"sms", r.device.sms},
                   {"bandwidth_gbs", number_to_json(r.device.bandwidth_gbs)},
                   {"memory_bytes", r.device.memory_bytes}};
  out["outcome"] = r.outcome;
  if (!r.reason.empty()) out["reason"] = r.reason;
  out["shipped"] = r.shipped.empty() ? Json(nullptr) : Json(r.shipped);
  if (!r.form.empty()) out["form"] = r.form;
  if (r.accuracy) {
    const auto& a = *r.accuracy;
    out["accuracy"] = {{"gate", a.gate},
                       {"verified", a.verified},
                       {"error", number_to_json(a.error)},
                       {"eager_error", number_to_json(a.eager_error)},
                       {"ratio", number_to_json(a.ratio)},
                       {"max_error", number_to_json(a.max_error)},
                       {"regimes", a.regimes},
                       {"skipped", a.skipped},
                       {"degenerate", a.degenerate}};
  } else {
    out["accuracy"] = nullptr;
  }
  Json times = Json::object();
  for (const ClaimTime& t : r.times) {
    if (t.error) {
      times[t.name] = {{"error", {{"kind", t.error->kind}, {"message", t.error->message}}}};
    } else {
      times[t.name] = {{"median", number_to_json(t.median_ms)},
                       {"lo", number_to_json(t.lo_ms)},
                       {"hi", number_to_json(t.hi_ms)},
                       {"runs", t.samples_ms.size()},
                       {"compile_seconds", number_to_json(t.compile_seconds)}};
    }
  }
  out["times_ms"] = std::move(times);
  out["latency"] = latency_json(r.times);
  out["speedup"] = Json::object();
  for (const auto& [name, value] : r.speedup) out["speedup"][name] = number_to_json(value);
  out["speedup_best_baseline"] = r.speedup_best_baseline > 0 ? Json(r.speedup_best_baseline) : Json(nullptr);
  out["best_baseline"] = r.best_baseline.empty() ? Json(nullptr) : Json(r.best_baseline);
  if (!r.refused_baselines.empty()) out["refused_baselines"] = r.refused_baselines;
  if (r.roofline) {
    out["roofline"] = {{"bound", r.roofline->bound},
                       {"fraction", number_to_json(r.roofline->fraction)},
                       {"bound_ms", number_to_json(r.roofline->bound_ms)},
                       {"bytes", number_to_json(r.roofline->bytes)},
                       {"flops", number_to_json(r.roofline->flops)}};
  } else {
    out["roofline"] = nullptr;
  }
  out["host_us_per_call"] = number_to_json(r.host_us_per_call);
  out["evaluations"] = Json::object();
  for (const auto& [tier, outcomes] : r.evaluations) {
    for (const auto& [outcome, n] : outcomes) out["evaluations"][tier][outcome] = n;
  }
  out["search"] = {{"strategy", r.searched.strategy},
                   {"earlier_guesses",
                    {{"taken", r.searched.guesses},
                     {"completed", r.searched.guesses_completed},
                     {"left_out", r.searched.guesses_left_out}}},
                   {"funnel",
                    {{"drawn", r.searched.funnel.drawn},
                     {"legal", r.searched.funnel.legal},
                     {"predicted", r.searched.funnel.predicted},
                     {"clustered", r.searched.funnel.clustered},
                     {"compiled", r.searched.compiled},
                     {"tested", r.searched.tested},
                     {"timed", r.searched.timed}}}};
  out["regions"] = Json::array();
  for (const auto& region : r.regions) {
    Json cells = Json::array();
    for (const auto& [what, ms] : region.cells) cells.push_back({{"cell", what}, {"ms", number_to_json(ms)}});
    out["regions"].push_back({{"id", region.id},
                              {"key", region.key},
                              {"summary", region.summary},
                              {"count", region.count},
                              {"genome", region.genome},
                              {"best_ms", number_to_json(region.best_ms)},
                              {"fallback_ms", number_to_json(region.fallback_ms)},
                              {"bound_ms", number_to_json(region.bound_ms)},
                              {"cells", std::move(cells)},
                              {"used", region.used}});
  }
  out["ways"] = Json::array();
  for (const auto& way : r.ways) {
    const auto uses = [](const std::vector<std::pair<std::string, int>>& list) {
      Json all = Json::array();
      for (const auto& [region, count] : list) all.push_back({{"region", region}, {"count", count}});
      return all;
    };
    out["ways"].push_back({{"replaces", uses(way.replaces)},
                           {"by", uses(way.by)},
                           {"before_ms", number_to_json(way.before_ms)},
                           {"after_ms", number_to_json(way.after_ms)},
                           {"used", way.used}});
  }
  out["seconds"] = {{"total", number_to_json(r.seconds_total)},
                    {"first_verified", number_to_json(r.seconds_first_verified)},
                    {"in", Json::object()}};
  for (const auto& [phase, seconds] : r.seconds_in) out["seconds"]["in"][phase] = number_to_json(seconds);
  return dump_json(out);
}

std::string to_text(const ResultDocument& r) {
  std::string out;
  if (r.outcome == "improved") {
    out += fmt::format("{}: {:.2f}x faster than the best baseline ({})\n", r.task, r.speedup_best_baseline,
                       label(r.best_baseline));
  } else if (r.outcome == "searched") {
    out += fmt::format("{}: searched; nothing was put together or shipped (--resume does)\n", r.task);
  } else if (r.outcome == "interrupted") {
    out += fmt::format("{}: interrupted; what was found is below\n", r.task);
  } else {
    out += fmt::format("{}: no improvement\n", r.task);
  }
  if (!r.reason.empty()) out += fmt::format("  reason    {}\n", r.reason);
  out += fmt::format("  device    {} ({})\n", r.device.name, r.target);
  for (const ClaimTime& t : r.times) {
    if (t.error) {
      out += fmt::format("  {:<9} {:<28} not timed: {}\n", "time", label(t.name), t.error->message);
      continue;
    }
    std::string against;
    if (const auto found = r.speedup.find(t.name); found != r.speedup.end()) {
      against = fmt::format("   {:.2f}x{}", found->second, t.name == headline ? "  (headline)" : "");
    }
    out += fmt::format("  {:<9} {:<28} {:>9.4g} ms  [{:.4g}, {:.4g}]{}\n", "time", label(t.name), t.median_ms, t.lo_ms,
                       t.hi_ms, against);
  }
  if (r.accuracy) {
    const auto& a = *r.accuracy;
    out += fmt::format("  error     {:.3g} against fp64; eager's own is {:.3g} (ratio {:.2f}, gate {}){}\n", a.error,
                       a.eager_error, a.ratio, a.gate, a.verified ? ", verified in fresh processes" : "");
    out += fmt::format("  data      {}\n", fmt::join(a.regimes, ", "));
    if (!a.degenerate.empty()) {
      out += fmt::format("  warning   this task is degenerate: {} would pass; no claim is made\n",
                         fmt::join(a.degenerate, ", "));
    }
  }
  if (r.roofline && r.roofline->fraction > 0) {
    out += fmt::format("  roofline  {:.0f} % of the {} bound ({:.4g} ms)\n", 100 * r.roofline->fraction,
                       r.roofline->bound, r.roofline->bound_ms);
  }
  for (const auto& region : r.regions) {
    out += fmt::format("  region    {} ({}){}: ", region.id, region.summary,
                       region.count > 1 ? fmt::format(" x{}", region.count) : "");
    if (region.best_ms > 0) {
      out += fmt::format("{:.4g} ms", region.best_ms);
      if (region.fallback_ms > 0) out += fmt::format(", was {:.4g} ms", region.fallback_ms);
    } else {
      out += "no candidate passed";
    }
    out += region.used ? "\n" : "; keeps its PyTorch form\n";
  }
  std::int64_t tried = 0, ok = 0;
  for (const auto& [tier, outcomes] : r.evaluations) {
    for (const auto& [outcome, n] : outcomes) {
      tried += n;
      if (outcome == "ok") ok += n;
    }
  }
  out += fmt::format("  search    {} candidates, {} passed, in {:.1f} s ({:.1f} s to the first verified program)\n",
                     tried, ok, r.seconds_total, r.seconds_first_verified);
  if (!r.shipped.empty()) out += fmt::format("  shipped   {}\n", r.shipped);
  out += fmt::format("  run       {}\n", r.run);
  return out;
}

}  // namespace planish::cli
