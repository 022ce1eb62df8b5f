#include "base/json.h"
#include "cli/optimize_flow.h"

namespace planish::cli {

std::string settings_text(const OptimizeRequest& request) {
  Json out = {{"target", request.target},
              {"accuracy", request.accuracy},
              {"budget_seconds", request.budget.seconds},
              {"evaluations", request.budget.evaluations},
              {"seed", request.seed},
              {"strategy", search::name(request.strategy)},
              {"baselines", request.baselines},
              {"draws", request.draws},
              {"cold", request.cold}};
  if (!request.coders.empty()) out["coders"] = request.coders;
  if (request.model_seats > 0) out["models"] = request.model_seats;
  return dump_json(out);
}

Status apply_settings(const std::string& text, OptimizeRequest& request) {
  PLANISH_TRY(Json json, parse_json(text, "store_corrupt", "the run's settings"));
  ObjectReader reader(json, "store_corrupt", "settings");
  std::int64_t seed = 0;
  // Runs of before there was a choice were hill climbing.
  std::string strategy(search::name(search::StrategyKind::hillclimb));
  reader.text("target", request.target);
  reader.text("accuracy", request.accuracy);
  reader.number("budget_seconds", request.budget.seconds);
  reader.integer("evaluations", request.budget.evaluations);
  reader.integer("seed", seed);
  reader.text("strategy", strategy, ObjectReader::Need::optional);
  reader.texts("baselines", request.baselines);
  reader.integer("draws", request.draws, ObjectReader::Need::optional);
  // Runs of before there was a choice did not look at earlier ones.
  request.cold = true;
  reader.boolean("cold", request.cold, ObjectReader::Need::optional);
  reader.integer("models", request.model_seats, ObjectReader::Need::optional);
  reader.texts("coders", request.coders, ObjectReader::Need::optional);
  PLANISH_CHECK(reader.finish());
  PLANISH_TRY(request.strategy, search::strategy_from_name(strategy));
  request.seed = static_cast<std::uint64_t>(seed);
  return {};
}

}  // namespace planish::cli
