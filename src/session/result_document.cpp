#include "session/result_document.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/json.h"
#include "session/model_words.h"
#include "session/result_text.h"
#include "worker/note_json.h"

namespace planish::session {
namespace {

const ClaimTime* timed(const ResultDocument& result, std::string_view name) {
  for (const ClaimTime& time : result.times) {
    if (time.name == name && !time.error && time.median_ms > 0) return &time;
  }
  return nullptr;
}

constexpr const char* names[] = {"eager", "compile", "max_autotune_no_cudagraphs", "max_autotune"};

/// How many times longer the baseline takes, however the caller treats the results: the lesser gain.
double gain_over(const ClaimTime& shipped, const ClaimTime& baseline) {
  const double dropped = baseline.median_ms / shipped.median_ms;
  if (shipped.kept_ms <= 0 || baseline.kept_ms <= 0) return dropped;
  return std::min(dropped, baseline.kept_ms / shipped.kept_ms);
}

/// Intervals that overlap are a difference inside the noise.
bool beats(const ClaimTime& shipped, const ClaimTime& baseline) {
  if (gain_over(shipped, baseline) <= 1 || shipped.hi_ms >= baseline.lo_ms) return false;
  return shipped.kept_ms <= 0 || baseline.kept_ms <= 0 || shipped.kept_hi_ms < baseline.kept_lo_ms;
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

Json why_json(const ResultDocument& r) {
  const auto side = [](const Explanation::Side& s) { return Json{{"launches", s.launches}, {"bytes", s.bytes}}; };
  Json fused = Json::array(), left = Json::array();
  for (const Explanation::Fused& one : r.why->fused) {
    fused.push_back({{"region", one.region},
                     {"operators", one.operators},
                     {"where", one.where},
                     {"count", one.count},
                     {"before", side(one.before)},
                     {"after", side(one.after)}});
  }
  for (const auto& [name, count] : r.why->left) left.push_back({{"operator", name}, {"count", count}});
  return {{"text", why_text(r)},
          {"before", side(r.why->before)},
          {"after", side(r.why->after)},
          {"fused", std::move(fused)},
          {"left", std::move(left)}};
}

}  // namespace

std::optional<double> memory_share(const ResultDocument& result, const std::string& baseline) {
  const ClaimTime* ours = timed(result, "shipped");
  const ClaimTime* theirs = timed(result, baseline);
  if (ours == nullptr || theirs == nullptr || ours->kept_ms <= 0 || theirs->kept_ms <= 0) return std::nullopt;
  const double saved = theirs->median_ms - ours->median_ms;
  if (saved <= 0) return std::nullopt;
  return std::clamp(1 - (theirs->kept_ms - ours->kept_ms) / saved, 0.0, 1.0);
}

double called_fraction(const ResultDocument& result) {
  if (!result.roofline || result.roofline->bound_ms <= 0) return 0;
  const ClaimTime* called = timed(result, result.form == "baseline" ? "candidate" : "shipped");
  return called == nullptr ? 0 : result.roofline->bound_ms / called->median_ms;
}

std::optional<suite::Headline> headline_of(const ResultDocument& result) {
  return suite::pick_headline(result.form, result.speedup, result.best_baseline, result.refused_baselines);
}

bool compare_times(ResultDocument& result) {
  result.speedup.clear();
  result.speedup_best_baseline = 0;
  result.best_baseline.clear();
  result.too_noisy.clear();
  for (const ClaimTime& time : result.times) {
    if (!time.error && time.median_ms > 0 && is_noisy(time)) result.too_noisy.push_back(time.name);
  }
  const ClaimTime* shipped = timed(result, "shipped");
  const ClaimTime* best = nullptr;
  double least = 0;  // gain, or time where nothing ships yet: of the best baseline
  bool apart = true;
  for (const char* name : names) {
    const ClaimTime* time = timed(result, name);
    if (time == nullptr) continue;
    const double gain = shipped != nullptr ? gain_over(*shipped, *time) : time->median_ms;
    if (shipped != nullptr && !is_noisy(*time) && !is_noisy(*shipped)) result.speedup[name] = gain;
    if (std::ranges::find(result.refused_baselines, name) != result.refused_baselines.end()) continue;
    // A noisy one may be the faster: nothing is won against it unless all of its interval is slower.
    apart = apart && shipped != nullptr && beats(*shipped, *time);
    if (best != nullptr && gain >= least) continue;
    best = time;
    least = gain;
    result.best_baseline = name;
  }
  if (best == nullptr || shipped == nullptr) return false;
  result.speedup_best_baseline = least;
  return apart && !is_noisy(*shipped) && !is_noisy(*best);
}

bool is_noisy(const ClaimTime& time) {
  return time.hi_ms - time.lo_ms > noisy_share * time.median_ms;
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

std::optional<Note> permitted_rounding(const ResultDocument::Accuracy& accuracy) {
  // TF32 keeps ten bits of a fraction, 3e-4 of a sum's norm; eager without it is a thousand times closer. Nothing else
  // that the gate permits lies between.
  if (accuracy.gate != "permitted" || accuracy.error < 5e-5 || accuracy.error > 1e-2 || accuracy.ratio < 16) return {};
  return Note{
      "tf32_permitted", "tf32 products",
      fmt::format("eager's error here is {:.2g}: torch's flags permit it TF32, which its kernels for these shapes "
                  "do not use, and the program does; --accuracy eager forbids it",
                  accuracy.eager_error),
      accuracy.eager_error, accuracy.error};
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
                       {"degenerate", a.degenerate},
                       {"notes", notes_to_json(a.notes)}};
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
      if (t.kept_ms > 0) times[t.name]["kept"] = {{"median", t.kept_ms}, {"lo", t.kept_lo_ms}, {"hi", t.kept_hi_ms}};
    }
  }
  out["times_ms"] = std::move(times);
  out["latency"] = latency_json(r.times);
  const auto headline = headline_of(r);
  out["headline"] = nullptr;
  if (headline) {
    out["headline"] = {{"speedup", headline->speedup}, {"baseline", headline->baseline}};
    if (const auto share = memory_share(r, headline->baseline)) out["headline"]["memory_share"] = *share;
  }
  out["speedup"] = Json::object();
  for (const auto& [name, value] : r.speedup) out["speedup"][name] = number_to_json(value);
  out["speedup_best_baseline"] = r.speedup_best_baseline > 0 ? Json(r.speedup_best_baseline) : Json(nullptr);
  out["best_baseline"] = r.best_baseline.empty() ? Json(nullptr) : Json(r.best_baseline);
  if (!r.refused_baselines.empty()) out["refused_baselines"] = r.refused_baselines;
  if (!r.too_noisy.empty()) out["too_noisy"] = r.too_noisy;
  if (r.roofline) {
    out["roofline"] = {{"bound", r.roofline->bound},
                       {"fraction", number_to_json(called_fraction(r))},
                       {"kernels_fraction", number_to_json(r.roofline->fraction)},
                       {"bound_ms", number_to_json(r.roofline->bound_ms)},
                       {"bytes", number_to_json(r.roofline->bytes)},
                       {"flops", number_to_json(r.roofline->flops)}};
  } else {
    out["roofline"] = nullptr;
  }
  out["why"] = r.why ? why_json(r) : Json(nullptr);
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
  out["search"]["models"] = models_json(r.searched.models);
  out["search"]["best"] = best_json(r.searched.best);
  out["search"]["coders"] = Json::array();
  for (const search::SeatReport& seat : r.searched.coders) {
    out["search"]["coders"].push_back({{"name", seat.name},
                                       {"proposed", seat.proposed},
                                       {"not_built", seat.not_built},
                                       {"duplicates", seat.duplicates},
                                       {"passed", seat.passed},
                                       {"improved", seat.improved},
                                       {"trouble", seat.trouble.empty() ? Json(nullptr) : Json(seat.trouble)}});
  }
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
  out["fusion_plans"] = Json::array();
  for (const auto& fusion : r.fusions) {
    const auto uses = [](const std::vector<std::pair<std::string, int>>& list) {
      Json all = Json::array();
      for (const auto& [region, count] : list) all.push_back({{"region", region}, {"count", count}});
      return all;
    };
    out["fusion_plans"].push_back({{"replaces", uses(fusion.replaces)},
                                   {"by", uses(fusion.by)},
                                   {"before_ms", number_to_json(fusion.before_ms)},
                                   {"after_ms", number_to_json(fusion.after_ms)},
                                   {"used", fusion.used}});
  }
  out["seconds"] = {{"total", number_to_json(r.seconds_total)},
                    {"first_verified", number_to_json(r.seconds_first_verified)},
                    {"in", Json::object()}};
  out["seconds"]["max"] = r.seconds_max > 0 ? Json(r.seconds_max) : Json(nullptr);
  out["seconds"]["ended_in"] = r.out_of_time.empty() ? Json(nullptr) : Json(r.out_of_time);
  for (const auto& [phase, seconds] : r.seconds_in) out["seconds"]["in"][phase] = number_to_json(seconds);
  return dump_json(out);
}

}  // namespace planish::session
