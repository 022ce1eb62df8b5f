#include "base/json.h"
#include "session/optimize_flow.h"
#include "session/strategy_choice.h"

namespace planish::session {

std::string settings_text(const OptimizeRequest& request) {
  Json out = {{"target", request.target},
              {"accuracy", request.accuracy},
              {"budget_seconds", request.budget.seconds},
              {"evaluations", request.budget.evaluations},
              {"seed", request.seed},
              {"strategy", strategy_name(request)},
              {"baselines", request.baselines},
              {"draws", request.draws},
              {"cold", request.cold}};
  if (request.memory_check) out["memory_check"] = true;
  if (!request.coders.empty()) out["coders"] = request.coders;
  if (model_seats(request) > 0) {
    out["models"] = model_seats(request);
    out["turns"] = request.turns;
    out["judge"] = request.model_judge ? "model" : "built-in";
  }
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
  reader.boolean("memory_check", request.memory_check, ObjectReader::Need::optional);
  reader.integer("models", request.model_seats, ObjectReader::Need::optional);
  reader.texts("coders", request.coders, ObjectReader::Need::optional);
  std::string judge = "built-in";
  reader.integer("turns", request.turns, ObjectReader::Need::optional);
  reader.text("judge", judge, ObjectReader::Need::optional);
  PLANISH_CHECK(reader.finish());
  request.model_judge = judge == "model";
  PLANISH_CHECK(choose_strategy(strategy, request));
  request.seed = static_cast<std::uint64_t>(seed);
  return {};
}

}  // namespace planish::session
