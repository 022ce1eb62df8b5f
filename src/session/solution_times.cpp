#include "session/solution_times.h"

#include <fmt/format.h>

#include "base/file.h"
#include "base/json.h"
#include "evaluate/codec.h"
#include "evaluate/device.h"
#include "evaluate/gain_json.h"
#include "evaluate/solution.h"
#include "session/host_bound.h"
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

Json interval_json(const MeasuredTime& time) {
  return {{"median", time.median_ms}, {"lo", time.lo_ms}, {"hi", time.hi_ms}};
}

/// The median and interval of a time, and what KernelBench keeps of its samples.
Json time_json(const MeasuredTime& time, const std::vector<double>& samples) {
  const auto stats = suite::kernelbench::stats_of(samples);
  Json out = interval_json(time);
  out.update(
      {{"runs", samples.size()}, {"mean", stats.mean}, {"std", stats.std}, {"min", stats.min}, {"max", stats.max}});
  return out;
}

struct Gains {
  std::map<std::string, Gain> by_mode;
  std::string best;  ///< the mode that least is gained over
};

/// Of the task's own, as it was timed in turn with the solution; the modes of torch.compile were timed in turn with
/// eager, in another process. Nothing where the solution was timed beside nothing.
Gains gains_of(const SolutionTimes& times) {
  Gains out;
  if (!times.solution.beside) return out;
  const Gain& over_eager = times.solution.beside->gain;
  const ClaimTime* eager = times.baselines.find("eager");
  for (const ClaimTime& time : times.baselines.times) {
    std::optional<Gain> gain = over_eager;
    if (time.name != "eager") {
      const bool both = !time.error && eager != nullptr && !eager->error;
      const auto over_mode = both ? gain_of(time.measured(), eager->measured()) : std::nullopt;
      gain = over_mode ? std::optional(chained(over_eager, *over_mode)) : std::nullopt;
    }
    if (!gain) continue;
    if (out.best.empty() || gain->ratio < out.by_mode.at(out.best).ratio) out.best = time.name;
    out.by_mode[time.name] = *gain;
  }
  return out;
}

}  // namespace

double SolutionTimes::solution_ms(const DeviceFacts& device) const {
  return call_ms(solution, device);
}

Result<ClaimReply> baselines_of(EvaluatorApi& evaluator, const OpenReply& opened, const std::vector<std::string>& modes,
                                const std::filesystem::path& file) {
  if (modes == std::vector<std::string>{"eager"}) {
    // It is timed in turn with each solution.
    ClaimReply alone;
    alone.times.emplace_back().name = "eager";
    return alone;
  }
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
  if (const ClaimTime* eager = reply.find("eager"); eager != nullptr) {
    claim.modes = with_cuda_graphs(modes, opened.device, *eager);
    if (claim.modes != modes) {
      PLANISH_TRY(reply, evaluator.claim(claim));
    }
  }
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
              {"best_baseline", nullptr},   {"headline", nullptr},       {"roofline", nullptr},
              {"gains", Json::object()},    {"beside", nullptr}};
  if (!times) return dump_json(out);
  const ModuleTimes& own = times->solution;
  const double ms = times->solution_ms(device);
  // On the CPU the interval moves with the time.
  const double shift = ms - own.median_ms;
  out["times_ms"]["solution"] = time_json({ms, own.lo_ms + shift, own.hi_ms + shift}, own.samples_ms);
  out["times_ms"]["solution"]["outside"] = own.outside_ms;
  out["times_ms"]["solution"]["host_us"] = own.host_us;
  for (const ClaimTime& time : times->baselines.times) {
    if (time.error) {
      out["times_ms"][time.name] = {{"error", {{"kind", time.error->kind}, {"message", time.error->message}}}};
    } else if (time.median_ms > 0) {
      out["times_ms"][time.name] = time_json(time.measured(), time.samples_ms);
    }
  }
  out["beside"] = nullptr;
  if (own.beside) {
    const BesideTask& beside = *own.beside;
    out["beside"] = {{"solution", time_json(measured(beside.own_ms), beside.own_ms)},
                     {"eager", time_json(measured(beside.original_ms), beside.original_ms)}};
    if (!out["times_ms"].contains("eager")) out["times_ms"]["eager"] = out["beside"]["eager"];
  } else {
    out["not_beside"] = own.not_beside;
  }
  const Gains gains = gains_of(*times);
  std::map<std::string, double> claimed;
  for (const auto& [name, gain] : gains.by_mode) {
    claimed[name] = gain.claimed();
    out["gains"][name] = gain_to_json(gain);
  }
  out["speedup"] = claimed;
  if (!gains.best.empty()) {
    out["best_baseline"] = gains.best;
    out["speedup_best_baseline"] = claimed.at(gains.best);
  }
  if (const auto headline = suite::pick_headline("program", claimed, gains.best, {}))
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
  const Gains gains = gains_of(times);
  if (gains.by_mode.empty())
    out += fmt::format("               not timed beside the task's own ({}): no gain is claimed\n",
                       times.solution.not_beside);
  for (const ClaimTime& time : times.baselines.times) {
    const std::string label = suite::mode_label(time.name);
    if (time.error) {
      out += fmt::format("               {}: {}\n", label, time.error->message);
    } else if (const auto found = gains.by_mode.find(time.name); found != gains.by_mode.end()) {
      const Gain& gain = found->second;
      out += gain.differs()
                 ? fmt::format("               {:.2f}x of {} ({:.2f} to {:.2f})\n", gain.claimed(), label, gain.lo,
                               gain.hi)
                 : fmt::format("               no difference to {} ({:.2f} to {:.2f})\n", label, gain.lo, gain.hi);
    }
  }
  return out;
}

}  // namespace planish::session
