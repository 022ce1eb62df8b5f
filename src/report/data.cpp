#include "report/data.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <set>

#include "base/json.h"
#include "session/model_words.h"
#include "session/run_lock.h"

namespace planish::report {
using namespace session;

namespace {

/// Reads what is there of a result document; a field of another type counts as missing.
class Reader {
 public:
  explicit Reader(const Json& json) : json_(json) {}
  double number(const char* name) const {
    const Json* found = find(name);
    return found != nullptr && found->is_number() ? found->get<double>() : 0;
  }
  std::string text(const char* name) const {
    const Json* found = find(name);
    return found != nullptr && found->is_string() ? found->get<std::string>() : "";
  }
  const Json* find(const char* name) const {
    if (!json_.is_object()) return nullptr;
    const auto at = json_.find(name);
    return at == json_.end() || at->is_null() ? nullptr : &*at;
  }

 private:
  const Json& json_;
};

std::string list(const Json* json) {
  std::vector<std::string> words;
  if (json != nullptr && json->is_array()) {
    for (const Json& item : *json) words.push_back(item.is_string() ? item.get<std::string>() : dump_json(item));
  }
  return words.empty() ? "none" : fmt::format("{}", fmt::join(words, ", "));
}

void read_times(const Json* times, Report& report) {
  if (times == nullptr || !times->is_object()) return;
  for (const auto& [name, value] : times->items()) {
    const Reader reader(value);
    Report::Time time;
    time.name = name;
    time.median = reader.number("median");
    time.lo = reader.number("lo");
    time.hi = reader.number("hi");
    time.compile_seconds = reader.number("compile_seconds");
    if (const Json* kept = reader.find("kept")) time.kept = Reader(*kept).number("median");
    if (const Json* error = reader.find("error")) time.error = Reader(*error).text("message");
    report.times.push_back(std::move(time));
  }
  std::ranges::stable_sort(report.times, {}, [](const Report::Time& t) { return t.error.empty() ? t.median : 1e300; });
}

void read_accuracy(const Json* json, Report& report) {
  if (json == nullptr || !json->is_object()) return;
  const Reader reader(*json);
  const Json* verified = reader.find("verified");
  report.accuracy = {
      {"gate", reader.text("gate")},
      {"verified", verified != nullptr && verified->is_boolean() && verified->get<bool>() ? "yes" : "no"},
      {"error (relative Frobenius)", fmt::format("{:.3g}", reader.number("error"))},
      {"eager's own error", fmt::format("{:.3g}", reader.number("eager_error"))},
      {"ratio of the two", fmt::format("{:.3g}", reader.number("ratio"))},
      {"largest element error", fmt::format("{:.3g}", reader.number("max_error"))},
      {"regimes", list(reader.find("regimes"))},
      {"degenerate", list(reader.find("degenerate"))}};
  if (const Json* skipped = reader.find("skipped"); skipped != nullptr && skipped->is_object()) {
    for (const auto& [regime, why] : skipped->items())
      report.skipped[regime] = why.is_string() ? why.get<std::string>() : dump_json(why);
  }
}

void read_regions(const Json* regions, Report& report) {
  if (regions == nullptr || !regions->is_array()) return;
  for (const Json& item : *regions) {
    const Reader reader(item);
    const auto known = std::ranges::find(report.regions, reader.text("id"), &Report::Region::id);
    if (known == report.regions.end()) continue;
    known->summary = reader.text("summary");
    known->genome = reader.text("genome");
    known->best_ms = reader.number("best_ms");
    known->fallback_ms = reader.number("fallback_ms");
    known->bound_ms = reader.number("bound_ms");
    if (const Json* used = reader.find("used")) known->used = used->is_boolean() && used->get<bool>();
    if (const Json* cells = reader.find("cells"); cells != nullptr && cells->is_array()) {
      for (const Json& cell : *cells) known->cells.emplace_back(Reader(cell).text("cell"), Reader(cell).number("ms"));
    }
  }
}

std::string uses_text(const Json* uses) {
  std::string out;
  if (uses == nullptr || !uses->is_array()) return out;
  for (const Json& use : *uses) {
    const Reader reader(use);
    const double count = reader.number("count");
    out += fmt::format("{}{}{}", out.empty() ? "" : " + ", reader.text("region"),
                       count > 1 ? fmt::format(" × {:.0f}", count) : "");
  }
  return out;
}

void read_fusions(const Json* fusions, Report& report) {
  if (fusions == nullptr || !fusions->is_array()) return;
  for (const Json& item : *fusions) {
    const Reader reader(item);
    const Json* used = reader.find("used");
    report.fusions.push_back({uses_text(reader.find("replaces")), uses_text(reader.find("by")),
                              reader.number("before_ms"), reader.number("after_ms"),
                              used != nullptr && used->is_boolean() && used->get<bool>()});
  }
}

/// How far candidates came. A result may know of stages before compiling; the rest is counted.
void read_funnel(const Json* search, Report& report) {
  if (search != nullptr) {
    if (const Json* funnel = Reader(*search).find("funnel"); funnel != nullptr && funnel->is_object()) {
      for (const char* stage : {"drawn", "legal", "predicted", "clustered"}) {
        if (const auto n = static_cast<std::int64_t>(Reader(*funnel).number(stage)); n > 0)
          report.funnel.emplace_back(stage, n);
      }
    }
  }
  std::int64_t duplicates = 0, compiled = 0, tested = 0, timed = 0, passed = 0;
  if (const auto dedup = report.outcomes.find("dedup"); dedup != report.outcomes.end()) {
    for (const auto& [outcome, n] : dedup->second) duplicates += n;
  }
  for (const Report::Candidate& c : report.candidates) {
    const Tier tier = c.stored.evaluation.tier;
    compiled += tier >= Tier::compile ? 1 : 0;
    tested += tier >= Tier::test ? 1 : 0;
    timed += tier >= Tier::bench ? 1 : 0;
    passed += c.stored.evaluation.ok() ? 1 : 0;
  }
  report.funnel.emplace_back("proposed", compiled + duplicates);
  report.funnel.emplace_back("compiled", compiled);
  report.funnel.emplace_back("tested", tested);
  report.funnel.emplace_back("timed", timed);
  report.funnel.emplace_back("passed", passed);
}

void read_result(const std::string& text, Report& report) {
  static const Json nothing = Json::object();
  const auto parsed = parse_json(text.empty() ? "{}" : text, "bad_result", "result");
  const Json& json = parsed ? *parsed : nothing;
  const Reader reader(json);
  report.reason = reader.text("reason");
  report.form = reader.text("form");
  report.best_baseline = reader.text("best_baseline");
  report.shipped_baseline = reader.text("shipped_baseline");
  report.speedup_best = reader.number("speedup_best_baseline");
  report.headline = suite::headline_of(text);
  if (const Json* why = reader.find("why")) {
    const Json* lines = Reader(*why).find("text");
    if (lines != nullptr && lines->is_array()) {
      for (const Json& line : *lines) {
        if (line.is_string()) report.why.push_back(line.get<std::string>());
      }
    }
  }
  read_times(reader.find("times_ms"), report);
  read_accuracy(reader.find("accuracy"), report);
  read_regions(reader.find("regions"), report);
  read_fusions(reader.find("fusion_plans"), report);
  if (const Json* tiers = reader.find("evaluations"); tiers != nullptr && tiers->is_object()) {
    for (const auto& [tier, outcomes] : tiers->items()) {
      for (const auto& [outcome, n] : outcomes.items()) {
        if (n.is_number_integer()) report.outcomes[tier][outcome] = n.get<std::int64_t>();
      }
    }
  }
  read_funnel(reader.find("search"), report);
  report.search = search_words(json);
}

bool timed_ok(const Report::Candidate& c) {
  return c.stored.evaluation.ok() && c.stored.record.median_ms > 0;
}

}  // namespace

Result<Report> load_report(const store::Store& store, const store::RunRecord& run) {
  Report report;
  report.run = run;
  report.state = live_state(run.id, run.state);
  std::string result;
  if (!run.result.empty()) {
    if (auto bytes = store.get(run.result)) result = std::move(*bytes);
  }
  PLANISH_TRY(auto records, store.evaluations(run.id, true));
  PLANISH_TRY(auto regions, store.regions(run.id));
  regions = evaluated_regions(std::move(regions), records);
  for (const auto& region : regions) {
    Report::Region row;
    row.id = region.id;
    row.key = region.key;
    row.count = region.count;
    row.fallback_ms = region.fallback_ms;
    row.bound_ms = region.bound_ms;
    report.regions.push_back(std::move(row));
  }
  report.learned = learned_from(records, regions, run.target);
  std::map<std::string, std::vector<codegen::Gene>> genes;
  const codegen::Device device = device_of_run(run, result);
  for (const auto& record : records) {
    auto candidate = read_candidate(store, record);
    if (!candidate) continue;
    const auto [known, added] = genes.try_emplace(record.region);
    if (added) known->second = genes_of(regions, records, record.region);
    auto verdict = judge_candidate(*candidate, known->second, device);
    report.candidates.push_back({std::move(*candidate), std::move(verdict)});
  }
  read_result(result, report);
  if (report.outcomes.empty()) {  // not finished: what was recorded is what there is
    for (const auto& c : report.candidates) ++report.outcomes[c.stored.record.tier][c.stored.record.outcome];
  }
  return report;
}

std::vector<std::size_t> improvements(const Report& report, const std::string& region) {
  std::vector<std::size_t> out;
  double best = 0;
  for (std::size_t i = 0; i < report.candidates.size(); ++i) {
    const auto& c = report.candidates[i];
    if (c.stored.record.region != region || !timed_ok(c) || c.stored.record.genome.empty()) continue;
    if (!out.empty() && c.stored.record.median_ms >= best) continue;
    best = c.stored.record.median_ms;
    out.push_back(i);
  }
  return out;
}

std::vector<std::size_t> lineage(const Report& report, const std::string& region) {
  const auto best = improvements(report, region);
  if (best.empty()) return {};
  std::vector<std::size_t> out;
  std::set<std::string> seen;
  std::string program = report.candidates[best.back()].stored.record.program;
  while (!program.empty() && seen.insert(program).second) {
    // The first evaluation of a program is the one that knows where it came from.
    const auto found = std::ranges::find_if(report.candidates, [&](const Report::Candidate& c) {
      return c.stored.record.program == program && c.stored.record.region == region;
    });
    if (found == report.candidates.end()) break;
    out.push_back(static_cast<std::size_t>(found - report.candidates.begin()));
    program = found->stored.record.parent;
  }
  std::ranges::reverse(out);
  return out;
}

}  // namespace planish::report
