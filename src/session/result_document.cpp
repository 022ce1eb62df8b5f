#include "session/result_document.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/json.h"
#include "evaluate/gain_json.h"
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

constexpr const char* baseline_names[] = {"eager", "compile", "max_autotune_no_cudagraphs", "max_autotune"};

/// How many times longer the baseline takes, however the caller treats the results: the lesser gain. Of a solution,
/// that was timed beside eager in turn, what it gained there times what eager is to the baseline. Nothing where the two
/// cannot be compared.
std::optional<Gain> gain_over(const ResultDocument& result, const ClaimTime& shipped, const ClaimTime& baseline) {
  if (result.solution_gain) {
    if (baseline.name == "eager") return result.solution_gain;
    const ClaimTime* eager = timed(result, "eager");
    const auto over_mode = eager == nullptr ? std::nullopt : gain_of(baseline.measured(), eager->measured());
    return over_mode ? std::optional(chained(*result.solution_gain, *over_mode)) : std::nullopt;
  }
  const auto dropped = gain_of(baseline.measured(), shipped.measured());
  const auto kept = gain_of(baseline.kept(), shipped.kept());
  return dropped && kept ? std::optional(lesser(*dropped, *kept)) : dropped;
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
  result.gains.clear();
  result.speedup_best_baseline = 0;
  result.best_baseline.clear();
  result.too_noisy.clear();
  // What was timed in turn with eager elsewhere has its noise in that interval.
  const auto noisy = [&result](const ClaimTime& time) { return !result.solution_gain && is_noisy(time); };
  for (const ClaimTime& time : result.times) {
    if (!time.error && time.median_ms > 0 && noisy(time)) result.too_noisy.push_back(time.name);
  }
  const ClaimTime* shipped = timed(result, "shipped");
  const ClaimTime* best = nullptr;
  double least = 0, told = 0;  // of the best baseline: gain, or time where nothing ships yet; what is said of it
  bool apart = true;
  for (const char* name : baseline_names) {
    const ClaimTime* time = timed(result, name);
    if (time == nullptr) continue;
    const auto gain = shipped != nullptr ? gain_over(result, *shipped, *time) : std::nullopt;
    if (shipped != nullptr && !gain) continue;
    const double rank = gain ? gain->ratio : time->median_ms;
    // Of noisy times the end of the interval that is nearer to 1, where that is far from it.
    const bool vague = gain && (noisy(*time) || noisy(*shipped)), said = gain && (!vague || gain->lo > least_of_noisy);
    if (said) {
      result.speedup[name] = vague ? gain->lo : gain->ratio;
      result.gains[name] = *gain;
    }
    if (std::ranges::find(result.refused_baselines, name) != result.refused_baselines.end()) continue;
    // A noisy one may be the faster: nothing is won against it unless all of its interval is slower.
    apart = apart && gain && gain->lo > 1 && (said || !noisy(*shipped));
    if (best != nullptr && rank >= least) continue;
    best = time;
    least = rank;
    told = said ? result.speedup[name] : rank;
    result.best_baseline = name;
  }
  if (best == nullptr || shipped == nullptr) return false;
  result.speedup_best_baseline = told;
  return apart && result.speedup.contains(result.best_baseline);
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

namespace {

Json text_or_null(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
}

/// Of what is not known where it is zero.
Json positive_or_null(double value) {
  return value > 0 ? Json(value) : Json(nullptr);
}

Json device_json(const DeviceFacts& device) {
  return {{"name", device.name},
          {"arch", device.arch},
          {"uuid", device.uuid},
          {"cores", device.cores},
          {"sms", device.sms},
          {"bandwidth_gbs", number_to_json(device.bandwidth_gbs)},
          {"memory_bytes", device.memory_bytes}};
}

Json accuracy_json(const ResultDocument::Accuracy& a) {
  return {{"gate", a.gate},
          {"verified", a.verified},
          {"error", number_to_json(a.error)},
          {"eager_error", number_to_json(a.eager_error)},
          {"ratio", number_to_json(a.ratio)},
          {"max_error", number_to_json(a.max_error)},
          {"regimes", a.regimes},
          {"skipped", a.skipped},
          {"degenerate", a.degenerate},
          {"notes", notes_to_json(a.notes)}};
}

Json times_json(const std::vector<ClaimTime>& times) {
  Json out = Json::object();
  for (const ClaimTime& t : times) {
    if (t.error) {
      out[t.name] = {{"error", {{"kind", t.error->kind}, {"message", t.error->message}}}};
      continue;
    }
    Json& one = out[t.name];
    one = {{"median", number_to_json(t.median_ms)},
           {"lo", number_to_json(t.lo_ms)},
           {"hi", number_to_json(t.hi_ms)},
           {"runs", t.samples_ms.size()},
           {"compile_seconds", number_to_json(t.compile_seconds)}};
    if (t.kept_ms > 0) one["kept"] = {{"median", t.kept_ms}, {"lo", t.kept_lo_ms}, {"hi", t.kept_hi_ms}};
    if (t.busy > 0) one["busy"] = t.busy;
  }
  return out;
}

/// How much faster than each baseline, and than which of them the claim is.
void put_speedups(const ResultDocument& r, Json& out) {
  out["headline"] = nullptr;
  if (const auto headline = headline_of(r)) {
    out["headline"] = {{"speedup", headline->speedup}, {"baseline", headline->baseline}};
    if (const auto share = memory_share(r, headline->baseline)) out["headline"]["memory_share"] = *share;
  }
  out["speedup"] = Json::object();
  for (const auto& [name, value] : r.speedup) out["speedup"][name] = number_to_json(value);
  out["gains"] = Json::object();
  for (const auto& [name, gain] : r.gains) out["gains"][name] = gain_to_json(gain);
  out["speedup_best_baseline"] = positive_or_null(r.speedup_best_baseline);
  out["best_baseline"] = text_or_null(r.best_baseline);
  if (!r.refused_baselines.empty()) out["refused_baselines"] = r.refused_baselines;
  for (const auto& [name, fault] : r.baseline_faults)
    out["baseline_faults"][name] = {{"kind", fault.kind}, {"message", fault.message}};
  if (!r.too_noisy.empty()) out["too_noisy"] = r.too_noisy;
}

Json roofline_json(const ResultDocument& r) {
  if (!r.roofline) return nullptr;
  return {{"bound", r.roofline->bound},
          {"fraction", number_to_json(called_fraction(r))},
          {"kernels_fraction", number_to_json(r.roofline->fraction)},
          {"bound_ms", number_to_json(r.roofline->bound_ms)},
          {"bytes", number_to_json(r.roofline->bytes)},
          {"flops", number_to_json(r.roofline->flops)}};
}

Json evaluations_json(const ResultDocument& r) {
  Json out = Json::object();
  for (const auto& [tier, outcomes] : r.evaluations) {
    for (const auto& [outcome, n] : outcomes) out[tier][outcome] = n;
  }
  return out;
}

Json coders_json(const std::vector<search::SeatReport>& coders) {
  Json out = Json::array();
  for (const search::SeatReport& seat : coders) {
    out.push_back({{"name", seat.name},
                   {"proposed", seat.proposed},
                   {"not_built", seat.not_built},
                   {"duplicates", seat.duplicates},
                   {"passed", seat.passed},
                   {"improved", seat.improved},
                   {"trouble", text_or_null(seat.trouble)}});
  }
  return out;
}

Json search_json(const ResultDocument::Searched& searched) {
  const auto& funnel = searched.funnel;
  return {{"strategy", searched.strategy},
          {"earlier_guesses",
           {{"taken", searched.guesses},
            {"completed", searched.guesses_completed},
            {"left_out", searched.guesses_left_out}}},
          {"funnel",
           {{"drawn", funnel.drawn},
            {"legal", funnel.legal},
            {"predicted", funnel.predicted},
            {"clustered", funnel.clustered},
            {"compiled", searched.compiled},
            {"tested", searched.tested},
            {"timed", searched.timed}}},
          {"models", models_json(searched.models)},
          {"best", best_json(searched.best)},
          {"coders", coders_json(searched.coders)}};
}

Json regions_json(const std::vector<ResultDocument::Region>& regions) {
  Json out = Json::array();
  for (const ResultDocument::Region& region : regions) {
    Json cells = Json::array();
    for (const auto& [what, ms] : region.cells) cells.push_back({{"cell", what}, {"ms", number_to_json(ms)}});
    out.push_back({{"id", region.id},
                   {"key", region.key},
                   {"summary", region.summary},
                   {"count", region.count},
                   {"genome", region.genome},
                   {"best_ms", number_to_json(region.best_ms)},
                   {"fallback_ms", number_to_json(region.fallback_ms)},
                   {"bound_ms", number_to_json(region.bound_ms)},
                   {"tried", region.tried ? Json(*region.tried) : Json(nullptr)},
                   {"cells", std::move(cells)},
                   {"used", region.used}});
  }
  return out;
}

Json fusion_plans_json(const ResultDocument& r) {
  const auto uses = [](const std::vector<std::pair<std::string, int>>& list) {
    Json all = Json::array();
    for (const auto& [region, count] : list) all.push_back({{"region", region}, {"count", count}});
    return all;
  };
  Json out = Json::array();
  for (const auto& fusion : r.fusions) {
    out.push_back({{"replaces", uses(fusion.replaces)},
                   {"by", uses(fusion.by)},
                   {"before_ms", number_to_json(fusion.before_ms)},
                   {"after_ms", number_to_json(fusion.after_ms)},
                   {"used", fusion.used}});
  }
  return out;
}

Json seconds_json(const ResultDocument& r) {
  Json phases = Json::object();
  for (const auto& [phase, seconds] : r.seconds_in) phases[phase] = number_to_json(seconds);
  return {{"total", number_to_json(r.seconds_total)},
          {"first_verified", number_to_json(r.seconds_first_verified)},
          {"in", std::move(phases)},
          {"max", positive_or_null(r.seconds_max)},
          {"ended_in", text_or_null(r.out_of_time)}};
}

}  // namespace

std::string to_json(const ResultDocument& r) {
  Json out;
  out["schema_version"] = ResultDocument::schema_version;
  out["run"] = r.run;
  out["task"] = r.task;
  out["task_path"] = r.task_path;
  out["task_sha256"] = r.task_sha256;
  out["target"] = r.target;
  out["device"] = device_json(r.device);
  out["outcome"] = r.outcome;
  if (!r.reason.empty()) out["reason"] = r.reason;
  if (!r.until_then.empty()) out["until_then"] = r.until_then;
  out["shipped"] = text_or_null(r.shipped);
  if (!r.form.empty()) out["form"] = r.form;
  if (!r.shipped_baseline.empty()) out["shipped_baseline"] = r.shipped_baseline;
  out["accuracy"] = r.accuracy ? accuracy_json(*r.accuracy) : Json(nullptr);
  out["times_ms"] = times_json(r.times);
  out["latency"] = latency_json(r.times);
  put_speedups(r, out);
  out["roofline"] = roofline_json(r);
  out["why"] = r.why ? why_json(r) : Json(nullptr);
  out["host_us_per_call"] = number_to_json(r.host_us_per_call);
  out["evaluations"] = evaluations_json(r);
  out["search"] = search_json(r.searched);
  out["regions"] = regions_json(r.regions);
  out["fusion_plans"] = fusion_plans_json(r);
  out["seconds"] = seconds_json(r);
  return dump_json(out);
}

}  // namespace planish::session
