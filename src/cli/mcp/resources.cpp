#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "cli/mcp/tools.h"
#include "cli/options.h"
#include "cli/patterns.h"

namespace planish::cli {
namespace {

constexpr std::string_view pattern_uri = "planish://pattern/";
constexpr std::string_view run_uri = "planish://run/";
constexpr int most_runs_listed = 50;
constexpr int most_patterns_listed = 100;

Result<mcp::Answer> show(const Workshop& workshop, PatternsAction action, PatternsVerb verb) {
  verb.index = workshop.patterns;
  verb.store = workshop.store;
  Said said;
  patterns_verb(action, verb, {.json = true, .quiet = true, .verbose = false, .said = &said});
  return answer_of(said);
}

Result<std::vector<mcp::Resource>> list(const Workshop& workshop) {
  std::vector<mcp::Resource> out;
  PatternsVerb own;
  own.kind = "planish";
  own.limit = most_patterns_listed;
  PLANISH_TRY(const auto patterns, show(workshop, PatternsAction::search, own));
  for (const Json& hit : patterns.document["hits"]) {
    out.push_back({fmt::format("{}{}", pattern_uri, hit["id"].get<std::string>()), hit["name"].get<std::string>(),
                   hit["summary"].get<std::string>(), "text/plain"});
  }
  PLANISH_TRY(const auto store, store::Store::open_existing(store_file(workshop.store)));
  PLANISH_TRY(const auto runs, store.runs(most_runs_listed));
  for (const auto& run : runs) {
    out.push_back({fmt::format("{}{}", run_uri, run.id), fmt::format("run {}", run.id),
                   fmt::format("{} on {}: {}", run.task, run.device, run.outcome.empty() ? run.state : run.outcome),
                   "application/json"});
  }
  return out;
}

Result<std::optional<mcp::Contents>> read(Workshop& workshop, const std::string& uri) {
  const auto none = [](const Error& error) -> Result<std::optional<mcp::Contents>> {
    if (error.kind.name().starts_with("no_such_") || error.kind.name().starts_with("ambiguous_")) return std::nullopt;
    return std::unexpected(error);
  };
  if (uri.starts_with(pattern_uri) && uri.size() > pattern_uri.size()) {
    PatternsVerb verb;
    verb.id = uri.substr(pattern_uri.size());
    auto shown = show(workshop, PatternsAction::show, verb);
    if (!shown) return none(shown.error());
    return mcp::Contents{"text/plain", std::move(shown->text)};
  }
  if (uri.starts_with(run_uri) && uri.size() > run_uri.size()) {
    PLANISH_TRY(const auto store, store::Store::open_existing(store_file(workshop.store)));
    const auto run = store.run(uri.substr(run_uri.size()));
    if (!run) return none(run.error());
    PLANISH_TRY(Json document, run_summary(workshop, store, *run));
    document["result"] = nullptr;
    if (!run->result.empty()) {
      if (const auto bytes = store.get(run->result)) document["result"] = without_samples(json_or_discarded(*bytes));
    }
    return mcp::Contents{"application/json", dump_json(document)};
  }
  return std::nullopt;
}

}  // namespace

mcp::Resources resources_of(Workshop& workshop) {
  return {
      [&workshop] { return list(workshop); },
      {{std::string(pattern_uri) + "{id}", "pattern", "A pattern: its facts, its source, what it achieved",
        "text/plain"},
       {std::string(run_uri) + "{id}", "run", "A run: settings, regions, best times, its result", "application/json"}},
      [&workshop](const std::string& uri) { return read(workshop, uri); }};
}

}  // namespace planish::cli
