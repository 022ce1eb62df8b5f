#include "session/solution_times.h"

#include <fmt/format.h>

#include "base/file.h"
#include "base/json.h"
#include "evaluate/codec.h"
#include "evaluate/device.h"
#include "evaluate/solution.h"
#include "session/planner.h"
#include "suite/headline.h"
#include "suite/kernelbench.h"

namespace planish::session {
namespace {

/// What must be equal for times to be of the same thing.
Json same_for(const OpenReply& opened, const std::vector<std::string>& modes) {
  return {{"task_sha256", opened.task_sha256},
          {"device", opened.device.uuid},
          {"device_name", opened.device.name},
          {"torch", opened.torch},
          {"modes", modes}};
}

/// The median and interval of a time, and what KernelBench keeps of its samples.
Json time_json(double median, double lo, double hi, const std::vector<double>& samples) {
  const auto stats = suite::kernelbench::stats_of(samples);
  return {{"median", median},   {"lo", lo},         {"hi", hi},         {"runs", samples.size()},
          {"mean", stats.mean}, {"std", stats.std}, {"min", stats.min}, {"max", stats.max}};
}

struct Gains {
  std::map<std::string, double> speedup;
  std::string best;
  double best_speedup = 0;
};

Gains gains_of(const SolutionTimes& times, const DeviceFacts& device) {
  Gains out;
  const double own = times.solution_ms(device);
  if (own <= 0) return out;
  for (const ClaimTime& time : times.baselines.times) {
    if (time.error || time.median_ms <= 0) continue;
    const double gain = time.median_ms / own;
    out.speedup[time.name] = gain;
    if (!out.best.empty() && gain >= out.best_speedup) continue;
    out.best = time.name;
    out.best_speedup = gain;
  }
  return out;
}

}  // namespace

double SolutionTimes::solution_ms(const DeviceFacts& device) const {
  return call_ms(solution, device);
}

Result<ClaimReply> baselines_of(EvaluatorApi& evaluator, const OpenReply& opened, const std::vector<std::string>& modes,
                                const std::filesystem::path& file) {
  const Json same = same_for(opened, modes);
  if (!file.empty()) {
    if (auto bytes = read_file(file)) {
      const auto kept = parse_json(*bytes, "bad_times", file.string());
      ClaimReply reply;
      if (kept && kept->is_object() && kept->contains("of") && (*kept)["of"] == same && kept->contains("claim") &&
          codec::read((*kept)["claim"], reply)) {
        return reply;
      }
    }
  }
  ClaimRequest claim;
  claim.session = opened.session;
  claim.modes = modes;
  PLANISH_TRY(auto reply, evaluator.claim(claim));
  if (!file.empty()) PLANISH_CHECK(write_file(file, dump_json({{"of", same}, {"claim", codec::write(reply)}})));
  return reply;
}

std::optional<Roofline> roofline_of_solution(const OpenReply& opened, double solution_ms) {
  const auto plan = make_planner()->plan(opened.graph, opened.device);
  if (!plan || solution_ms <= 0) return std::nullopt;
  return roofline_of(opened.device, (*plan)->bytes(), (*plan)->flops(), solution_ms);
}

std::string times_fields(const std::optional<SolutionTimes>& times, const DeviceFacts& device) {
  Json out = {{"times_ms", Json::object()}, {"speedup", Json::object()}, {"speedup_best_baseline", nullptr},
              {"best_baseline", nullptr},   {"headline", nullptr},       {"roofline", nullptr}};
  if (!times) return dump_json(out);
  const ModuleTimes& own = times->solution;
  const double ms = times->solution_ms(device);
  // On the CPU the interval moves with the time.
  const double shift = ms - own.median_ms;
  out["times_ms"]["solution"] = time_json(ms, own.lo_ms + shift, own.hi_ms + shift, own.samples_ms);
  out["times_ms"]["solution"]["outside"] = own.outside_ms;
  out["times_ms"]["solution"]["host_us"] = own.host_us;
  for (const ClaimTime& time : times->baselines.times) {
    if (time.error) {
      out["times_ms"][time.name] = {{"error", {{"kind", time.error->kind}, {"message", time.error->message}}}};
    } else {
      out["times_ms"][time.name] = time_json(time.median_ms, time.lo_ms, time.hi_ms, time.samples_ms);
    }
  }
  const Gains gains = gains_of(*times, device);
  out["speedup"] = gains.speedup;
  if (!gains.best.empty()) {
    out["best_baseline"] = gains.best;
    out["speedup_best_baseline"] = gains.best_speedup;
  }
  if (const auto headline = suite::pick_headline("program", gains.speedup, gains.best, {}))
    out["headline"] = {{"speedup", headline->speedup}, {"baseline", headline->baseline}};
  if (times->roofline) {
    out["roofline"] = {{"bound", times->roofline->bound},
                       {"fraction", number_to_json(times->roofline->fraction)},
                       {"bound_ms", number_to_json(times->roofline->bound_ms)},
                       {"bytes", number_to_json(times->roofline->bytes)},
                       {"flops", number_to_json(times->roofline->flops)}};
  }
  return dump_json(out);
}

std::string times_text(const SolutionTimes& times, const DeviceFacts& device) {
  const double own = times.solution_ms(device);
  std::string out = fmt::format("  time         {:.4g} ms", own);
  if (times.roofline && times.roofline->fraction > 0)
    out += fmt::format(" ({:.0f} % of the {} bound)", 100 * times.roofline->fraction, times.roofline->bound);
  out += '\n';
  const Gains gains = gains_of(times, device);
  for (const ClaimTime& time : times.baselines.times) {
    const std::string label = suite::mode_label(time.name);
    if (time.error) {
      out += fmt::format("               {}: {}\n", label, time.error->message);
    } else if (const auto found = gains.speedup.find(time.name); found != gains.speedup.end()) {
      out += fmt::format("               {:.2f}x of {} ({:.4g} ms)\n", found->second, label, time.median_ms);
    }
  }
  return out;
}

}  // namespace planish::session
