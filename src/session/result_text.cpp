#include "session/result_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "session/degenerate.h"
#include "session/model_words.h"

namespace planish::session {
namespace {

std::string times_text(const ResultDocument& r) {
  std::string out;
  const auto headline = headline_of(r);
  const bool kept = std::ranges::any_of(r.times, [](const ClaimTime& t) { return t.kept_ms > 0; });
  for (const ClaimTime& t : r.times) {
    const std::string label = suite::mode_label(t.name);
    const auto fault = r.baseline_faults.find(t.name);
    const bool refused = std::ranges::find(r.refused_baselines, t.name) != r.refused_baselines.end();
    if (t.error) {
      out += fmt::format("  {:<9} {:<42} {}: {}\n", "time", label, refused ? "refused" : "not timed", t.error->message);
      continue;
    }
    out += fmt::format("  {:<9} {:<42} {:>9.4g} ms  [{:.4g}, {:.4g}]", "time", label, t.median_ms, t.lo_ms, t.hi_ms);
    if (t.kept_ms > 0) out += fmt::format("  {:.4g} ms where results are kept", t.kept_ms);
    if (const auto found = r.speedup.find(t.name); found != r.speedup.end() && r.form != "baseline") {
      const auto gain = r.gains.find(t.name);  // of noisy times their near end is told
      const bool least = gain != r.gains.end() && found->second < gain->second.ratio;
      out += fmt::format("   {}{:.2f}x", least ? "at least " : "", found->second);
      if (headline && headline->baseline == t.name) out += "  (headline)";
    } else if (is_noisy(t)) {
      out += "   too noisy to be compared";
    }
    if (fault != r.baseline_faults.end()) {
      out += fmt::format("\n  {:<9} {:<42} {} ({}): {}", "", "", refused ? "refused" : "could not be judged",
                         fault->second.kind, fault->second.message);
    }
    out += "\n";
  }
  const auto busiest = std::ranges::max_element(r.times, {}, &ClaimTime::busy);
  if (busiest != r.times.end() && busiest->busy >= 1)
    out += fmt::format(
        "            the machine was busy: {:.1f} threads of others wanted each processor while these were timed; "
        "gains may be others at rest\n",
        busiest->busy);
  if (kept) out += "            gains are the lesser of the two: results dropped at once, and the last ten kept\n";
  return out;
}

std::string accuracy_text(const ResultDocument::Accuracy& a) {
  std::string out;
  // Where nothing was compared there are no errors to speak of.
  if (a.verified || a.error != 0 || a.eager_error != 0) {
    out += fmt::format("  error     {:.3g} against a float64 reference; eager's own is {:.3g} (ratio {}, gate {}){}\n",
                       a.error, a.eager_error, suite::ratio_text(a.ratio), a.gate,
                       a.verified ? ", verified in fresh processes" : "");
    out += fmt::format("  data      {}\n", fmt::join(a.regimes, ", "));
  }
  if (!a.degenerate.empty()) {
    out += fmt::format("  warning   {}; no claim is made\n", degenerate_words(a.degenerate));
  }
  for (const Note& note : a.notes) out += fmt::format("  note      {}\n", note.text);
  return out;
}

const char* why_no_time(const ResultDocument::Region& region) {
  if (!region.tried) return "not searched";
  return *region.tried > 0 ? "no candidate passed" : "not tried: the budget ended before its turn";
}

std::string regions_text(const ResultDocument& r) {
  std::string out;
  for (const auto& region : r.regions) {
    out += fmt::format("  kernel    {} {}{}: ", region.id, region.summary,
                       region.count > 1 ? fmt::format(", {} times", region.count) : "");
    if (region.best_ms > 0) {
      out += fmt::format("{:.4g} ms by itself", region.best_ms);
      if (region.fallback_ms > 0) out += fmt::format(", PyTorch's operators {:.4g} ms", region.fallback_ms);
    } else {
      out += why_no_time(region);
    }
    out += region.used ? "\n" : "; not used\n";
  }
  return out;
}

double seconds_in(const ResultDocument& r, std::string_view phase) {
  double out = 0;
  for (const auto& [name, seconds] : r.seconds_in) out += name == phase ? seconds : 0;
  return out;
}

}  // namespace

std::string text(const Conclusion& r) {
  if (r.outcome == "searched") return "searched; nothing was put together or shipped (--resume does)";
  const auto& headline = r.headline;
  if (r.outcome == "interrupted" && !headline) {
    if (r.form.empty()) return "interrupted; nothing was put together or shipped (--resume does)";
    return r.form == "baseline" ? "nothing proved (interrupted)" : "proved, not timed (interrupted)";
  }
  std::string out = headline ? suite::headline_text(headline) : std::string("no improvement");
  if (headline && r.form != "baseline" && headline->baseline != r.best_baseline && r.speedup_best_baseline > 0) {
    out += fmt::format(", {:.2f}x against the best baseline, {}", r.speedup_best_baseline,
                       suite::mode_label(r.best_baseline));
  }
  if (r.form == "baseline" && headline) {
    const bool same = r.shipped_baseline.empty() || r.shipped_baseline == headline->baseline;
    out += same ? ", which is what ships" : fmt::format("; what ships is {}", suite::mode_label(r.shipped_baseline));
  }
  if (r.outcome == "interrupted") out += " (interrupted)";
  return out;
}

std::vector<std::string> why_text(const ResultDocument& r) {
  if (!r.why || r.form != "program") return {};
  std::vector<std::string> out = sentences(*r.why);
  if (const double called = called_fraction(r); called > 0) {
    std::string line = fmt::format("the limit is {}: a call reaches {:.0f} % of it",
                                   r.roofline->bound == "memory" ? "how fast memory moves the bytes that must move"
                                                                 : "how fast the device computes what must be computed",
                                   100 * called);
    if (r.roofline->fraction > 0)
      line += fmt::format(", the kernels by themselves {:.0f} %", 100 * r.roofline->fraction);
    if (r.roofline->bound == "memory" && called > 1)
      line += "; more than all of it, since caches keep what was just used";
    out.push_back(std::move(line));
  }
  if (const auto headline = headline_of(r); headline) {
    if (const auto share = memory_share(r, headline->baseline); share) {
      out.push_back(
          *share < 0.005
              ? std::string("none of the gain comes from using the memory of outputs again")
              : fmt::format("where results are dropped at once, {:.0f} % of the time saved is memory of outputs used "
                            "again; a caller who keeps results does not have that, and the gain above is theirs",
                            100 * *share));
    }
  }
  return out;
}

std::string to_text(const ResultDocument& r) {
  std::string out = fmt::format(
      "{}: {}\n", r.task,
      text({r.outcome, r.form, headline_of(r), r.best_baseline, r.speedup_best_baseline, r.shipped_baseline}));
  if (!r.reason.empty()) out += fmt::format("  reason    {}\n", r.reason);
  out += fmt::format("  device    {} ({})\n", r.device.name, r.target);
  out += times_text(r);
  bool first = true;
  for (const std::string& line : why_text(r)) {
    out += fmt::format("  {:<9} {}\n", first ? "why" : "", line);
    first = false;
  }
  if (r.accuracy) out += accuracy_text(*r.accuracy);
  out += regions_text(r);
  // What the search proposed alone: the captured program and what was measured again went in beside it.
  out += fmt::format("  search    {} kernels compiled, {} of them right and timed, in {:.1f} s\n", r.searched.compiled,
                     r.searched.timed, seconds_in(r, "search"));
  if (r.searched.models.seats > 0) {
    for (const auto& [name, value] : search_words({{"search", {{"models", models_json(r.searched.models)}}}}))
      out += fmt::format("  {:<9} {}\n", name, value);
  }
  out += fmt::format("  took      {:.1f} s in all ({:.1f} s to the first verified program)\n", r.seconds_total,
                     r.seconds_first_verified);
  if (!r.shipped.empty()) out += fmt::format("  shipped   {}\n", r.shipped);
  out += fmt::format("  run       {}\n", r.run);
  return out;
}

}  // namespace planish::session
