#include "cli/trajectories.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "cli/exit_code.h"
#include "cli/options.h"
#include "cli/trials.h"
#include "coder/source_text.h"
#include "evaluate/codec.h"
#include "evaluate/gain_json.h"
#include "evaluate/json.h"
#include "judge/verdict.h"
#include "session/candidate.h"
#include "session/planner.h"
#include "session/result_document.h"
#include "session/run_json.h"
#include "store/store.h"

namespace planish::cli {
using namespace session;

namespace {

constexpr const char* whole_region = "task";

/// A run as it lies in the store.
struct Kept {
  store::RunRecord run;
  std::vector<store::RegionRecord> regions;
  std::vector<store::EvaluationRecord> evaluations;
  std::vector<store::TurnRecord> turns;
  std::map<std::string, std::string> descriptions;  ///< of regions; empty where the run kept no graph
  std::set<std::string> whole;                      ///< regions that are all of the task
  std::map<std::string, MeasuredTime> pytorch;      ///< of regions, by PyTorch's operators, where they were timed
  std::optional<Gain> claim;                        ///< of what the run shipped, over eager
  codegen::Device device;
  Json task;
};

MeasuredTime time_of(const BenchReport& bench) {
  return {bench.median_ms, bench.lo_ms, bench.hi_ms};
}

/// Whether a record's program has kernels: the proposals of a search, and what was composed of them.
bool has_kernels(const store::Store& store, const store::EvaluationRecord& record) {
  if (!record.genome.empty()) return true;
  const auto text = store.get(record.program);
  const auto program = text ? program::parse(*text) : std::unexpected(text.error());
  return program && !program->kernels.empty();
}

/// What the run claims over eager; nothing where it claims nothing.
std::optional<Gain> claim_of(const Json& result) {
  if (!result.is_object() || result.value("outcome", Json()) != "improved") return std::nullopt;
  if (const Json gains = result.value("gains", Json::object()); gains.contains("eager"))
    return gain_from_json(gains["eager"]);
  // A result of before gains stood in it.
  const auto time = [times = result.value("times_ms", Json::object())](const char* name) {
    const Json one = times.value(name, Json::object());
    const auto number = [&one](const char* field) {
      const Json value = one.value(field, Json());
      return value.is_number() ? value.get<double>() : 0.0;
    };
    return MeasuredTime{number("median"), number("lo"), number("hi")};
  };
  return gain_of(time("eager"), time("shipped"));
}

/// A part takes PyTorch no longer than the whole does: timed alone and once, it may seem to.
void bound_by_whole(const Json& result, Kept& kept) {
  const Json eager = result.is_object() ? result.value("times_ms", Json::object()).value("eager", Json()) : Json();
  if (!eager.is_object() || !eager.value("median", Json()).is_number()) return;
  for (auto& [id, time] : kept.pytorch) {
    const auto region = std::ranges::find(kept.regions, id, &store::RegionRecord::id);
    const int count = region == kept.regions.end() ? 1 : std::max(1, region->count);
    const double most = eager["median"].get<double>() / count;
    if (time.median_ms > most) time = {most, std::min(time.lo_ms, most), most};
  }
}

/// The task's text, where its file is still the one that the run read.
Json task_source(const store::RunRecord& run) {
  const auto text = read_file(run.task_path);
  return text && sha256_hex(*text) == run.task_sha256 ? Json(*text) : Json(nullptr);
}

/// What the run's plan says of its regions.
void describe_regions(const store::Store& store, Kept& kept) {
  const store::RunRecord& run = kept.run;
  if (run.graph.empty() || run.device_facts.empty()) return;
  const auto graph = store.get(run.graph);
  const auto json = parse_json(run.device_facts, "store_corrupt", "the run's device");
  DeviceFacts facts;
  if (!graph || !json || !codec::read(*json, facts)) return;
  const auto plan = make_planner()->plan(*graph, facts);
  if (!plan) return;
  kept.descriptions[whole_region] = (*plan)->whole_domain()->description();
  for (const PlannedRegion& region : (*plan)->regions()) {
    kept.descriptions[region.id] = region.domain->description();
    if (region.whole) kept.whole.insert(region.id);
  }
}

Result<Kept> read_run(const store::Store& store, const std::string& id) {
  Kept out;
  PLANISH_TRY(out.run, store.run(id));
  PLANISH_TRY(out.regions, store.regions(out.run.id));
  PLANISH_TRY(out.evaluations, store.evaluations(out.run.id, true));
  PLANISH_TRY(out.turns, store.turns(out.run.id));
  describe_regions(store, out);
  for (const auto& record : out.evaluations) {
    if (record.outcome != "ok" || record.median_ms <= 0 || has_kernels(store, record)) continue;
    const auto candidate = read_candidate(store, record);
    if (!candidate || !candidate->evaluation.bench) continue;
    out.pytorch.try_emplace(record.region, time_of(*candidate->evaluation.bench));
  }
  for (const auto& region : out.regions) {
    if (region.fallback_ms <= 0) continue;
    MeasuredTime& time = out.pytorch[region.id];
    if (time.median_ms <= 0 || region.fallback_ms < time.lo_ms)
      time = {region.fallback_ms, region.fallback_ms, region.fallback_ms};
  }
  std::string result;
  if (!out.run.result.empty()) {
    if (auto bytes = store.get(out.run.result)) result = std::move(*bytes);
  }
  out.device = device_of_run(out.run, result);
  if (const auto json = parse_json(result.empty() ? "null" : result, "store_corrupt", "the run's result")) {
    out.claim = claim_of(*json);
    bound_by_whole(*json, out);
  }
  out.task = {{"name", out.run.task},
              {"sha256", out.run.task_sha256},
              {"source", task_source(out.run)},
              {"target", out.run.target},
              {"device", out.run.device}};
  return out;
}

/// The region as those who write for it see it.
Json region_json(const Kept& kept, const std::string& id) {
  Json out = {{"id", id}, {"description", nullptr}, {"pytorch_ms", nullptr}, {"bound_ms", nullptr}};
  if (const auto found = kept.descriptions.find(id); found != kept.descriptions.end())
    out["description"] = found->second;
  if (const auto found = kept.pytorch.find(id); found != kept.pytorch.end())
    out["pytorch_ms"] = number_to_json(found->second.median_ms);
  const auto region = std::ranges::find(kept.regions, id, &store::RegionRecord::id);
  if (region == kept.regions.end()) return out;
  out["key"] = region->key;
  out["count"] = region->count;
  if (region->bound_ms > 0) out["bound_ms"] = number_to_json(region->bound_ms);
  return out;
}

/// Whether a region is all that the task does: what is gained there is what the run claims.
bool is_whole(const Kept& kept, const std::string& id) {
  return id == whole_region || kept.whole.contains(id);
}

/// Over PyTorch's operators, as the search timed both. Nothing where one of them has no time.
std::optional<Gain> gain_of_attempt(const Kept& kept, const StoredCandidate& candidate) {
  const auto pytorch = kept.pytorch.find(candidate.record.region);
  if (pytorch == kept.pytorch.end() || !candidate.evaluation.bench) return std::nullopt;
  return gain_of(pytorch->second, time_of(*candidate.evaluation.bench));
}

/// The gain as far as it is one, and where the run claims something of the same work, no more than that; 0 where the
/// candidate is not right; null where nothing can be said of it.
Json reward_of(const Kept& kept, const store::EvaluationRecord& record, const std::optional<Gain>& gain) {
  if (record.outcome == "duplicate" || record.outcome == "infrastructure" || record.outcome == "given_up")
    return nullptr;
  if (record.outcome != "ok") return 0;
  if (!gain) return nullptr;
  const double claimed = gain->claimed();
  return kept.claim && is_whole(kept, record.region) ? std::min(claimed, kept.claim->claimed()) : claimed;
}

/// What kind of proposal a text stands for (store: column `genome`).
const char* form_of(const std::string& proposal) {
  if (proposal.empty()) return "aten";
  if (proposal.starts_with("source ")) return "source";
  return proposal.starts_with("patch ") ? "patch" : "genome";
}

Result<Json> attempt_json(const store::Store& store, const Kept& kept, const store::EvaluationRecord& record) {
  PLANISH_TRY(const auto candidate, read_candidate(store, record));
  const auto verdict = judge_candidate(candidate, genes_of(kept.regions, kept.evaluations, record.region), kept.device);
  const auto source = source_of(candidate);
  const auto gain = gain_of_attempt(kept, candidate);
  Json out = {{"program", record.program},
              {"parent", record.parent.empty() ? Json() : Json(record.parent)},
              {"proposer", record.proposer},
              {"form", record.genome.empty() && source ? "composed" : form_of(record.genome)},
              {"proposal", record.genome},
              {"asked", record.asked},
              {"level", record.level},
              {"tier", record.tier},
              {"outcome", record.outcome},
              {"message", candidate.evaluation.message},
              {"median_ms", record.median_ms > 0 ? number_to_json(record.median_ms) : Json()},
              {"at_seconds", number_to_json(record.at_seconds)},
              {"gain", gain ? gain_to_json(*gain) : Json()},
              {"reward", reward_of(kept, record, gain)},
              {"source", source ? Json(*source) : Json()}};
  PLANISH_TRY(out["verdict"], parse_json(judge::to_json(verdict), "internal", "verdict"));
  return out;
}

/// A coder's proposal that could not be built.
Json unbuilt_json(const store::TurnRecord& turn) {
  return {
      {"program", nullptr},        {"parent", nullptr},     {"proposer", turn.seat}, {"form", form_of(turn.proposal)},
      {"proposal", turn.proposal}, {"asked", turn.asked},   {"level", nullptr},      {"tier", nullptr},
      {"outcome", "not_built"},    {"message", turn.error}, {"median_ms", nullptr},  {"at_seconds", nullptr},
      {"gain", nullptr},           {"reward", 0},           {"source", nullptr},     {"verdict", nullptr}};
}

/// One line a region that anything was tried for.
Result<std::string> trajectory_lines(const store::Store& store, const Kept& kept) {
  std::map<std::string, Json> lines;
  const auto line_of = [&](const std::string& region) -> Json& {
    const auto [at, added] = lines.try_emplace(region);
    if (added) {
      at->second = {{"schema", "planish.trajectory/1"},
                    {"run", kept.run.id},
                    {"settings", run_json(kept.run, std::nullopt)["settings"]},
                    {"task", kept.task},
                    {"region", region_json(kept, region)},
                    {"attempts", Json::array()}};
    }
    return at->second;
  };
  for (const auto& record : kept.evaluations) {
    Json& line = line_of(record.region);
    PLANISH_TRY(auto attempt, attempt_json(store, kept, record));
    line["attempts"].push_back(std::move(attempt));
  }
  // Behind the others: nothing was measured of them; `asked` says when.
  for (const auto& turn : kept.turns) {
    if (!turn.error.empty()) line_of(turn.region)["attempts"].push_back(unbuilt_json(turn));
  }
  std::string out;
  for (auto& [region, line] : lines) {
    out += dump_json(line) + "\n";
  }
  return out;
}

/// One line a region that has a right kernel: what PyTorch does there, and the fastest kernel that is right. A speed-up
/// is the run's claim, and stands at what is all of the task; of a part there is what the search timed, and no claim.
Result<std::string> pair_lines(const store::Store& store, const Kept& kept) {
  std::map<std::string, const store::EvaluationRecord*> best;
  for (const auto& record : kept.evaluations) {
    if (record.outcome != "ok" || record.median_ms <= 0 || !has_kernels(store, record)) continue;
    const auto [at, added] = best.try_emplace(record.region, &record);
    // What the whole contract was asked of goes before what one seed screened.
    const auto rank = [](const store::EvaluationRecord& one) { return std::pair(one.level != "full", one.median_ms); };
    if (!added && rank(record) < rank(*at->second)) at->second = &record;
  }
  std::string out;
  for (const auto& [id, record] : best) {
    const Json region = region_json(kept, id);
    PLANISH_TRY(const auto attempt, attempt_json(store, kept, *record));
    if (attempt["source"].is_null()) continue;
    out += dump_json({{"schema", "planish.pair/1"},
                      {"run", kept.run.id},
                      {"task", kept.task},
                      {"region", region},
                      {"pytorch", region["description"]},
                      {"kernel", attempt["source"]},
                      {"program", record->program},
                      {"level", record->level},
                      {"median_ms", attempt["median_ms"]},
                      {"search_gain", attempt["gain"]},
                      {"claim", kept.claim ? gain_to_json(*kept.claim) : Json()},
                      {"speedup", kept.claim && is_whole(kept, id) ? Json(kept.claim->claimed()) : Json()}}) +
           "\n";
  }
  return out;
}

/// A document that is written, how many it has of what it lists, and the file that it goes to where none is named.
struct Exported {
  std::string text;
  std::size_t count = 0;
  std::string name;
};

Result<Exported> exported_as(const std::string& format, const store::Store& store, const Kept& kept) {
  if (format == "csv") {  // whose lines may have line ends in their quotes
    PLANISH_TRY(auto trials, trials_csv(store, kept.run));
    return Exported{std::move(trials.csv), trials.count, fmt::format("trials-{}.csv", kept.run.id)};
  }
  PLANISH_TRY(auto lines, format == "pairs" ? pair_lines(store, kept) : trajectory_lines(store, kept));
  const auto count = static_cast<std::size_t>(std::ranges::count(lines, '\n'));
  return Exported{std::move(lines), count, fmt::format("{}-{}.jsonl", format, kept.run.id)};
}

}  // namespace

int trajectories_verb(const TrajectoriesVerb& options, const Output& output) {
  const auto store = store::Store::open_existing(store_file(options.store));
  if (!store) return output.error(store.error());
  const auto kept = read_run(*store, options.run);
  if (!kept) return output.error(kept.error());
  const auto exported = exported_as(options.format, *store, *kept);
  if (!exported) return output.error(exported.error());
  const auto& [text, count, name] = *exported;
  if (options.out.empty() && !output.json) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    return exit_code::success;
  }
  std::error_code ignored;
  const std::filesystem::path out = std::filesystem::absolute(options.out.empty() ? name : options.out, ignored);
  if (auto written = write_file(out, text); !written) return output.error(written.error());
  output.result(dump_json({{"schema_version", ResultDocument::schema_version},
                           {"run", kept->run.id},
                           {"format", options.format},
                           {"lines", count},
                           {"exported", out.string()}}),
                fmt::format("{} ({} line{})\n", out.string(), count, count == 1 ? "" : "s"));
  return exit_code::success;
}

}  // namespace planish::cli
