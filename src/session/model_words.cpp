#include "session/model_words.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "worker/printable.h"

namespace planish::session {
namespace {

/// Of each region, the latest ones.
constexpr std::size_t most_best = 4;

std::string shortened(const std::string& text) {
  constexpr std::size_t most = 160;
  const std::string out = worker::printable(text.substr(0, text.find('\n')));
  return out.size() <= most ? out : out.substr(0, most) + "…";
}

std::int64_t count_in(const Json& object, const char* name) {
  const auto at = object.find(name);
  return at != object.end() && at->is_number_integer() ? at->get<std::int64_t>() : 0;
}

std::string model_line(const Json& models) {
  std::vector<std::string> calls;
  std::int64_t all = 0, failed = 0, cached = 0;
  for (const auto& [purpose, cost] : models["purposes"].items()) {
    all += count_in(cost, "calls");
    failed += count_in(cost, "failed");
    cached += count_in(cost, "cached");
    calls.push_back(fmt::format("{} {} of {} tokens", purpose, count_in(cost, "calls"), count_in(cost, "tokens")));
  }
  std::string out = fmt::format("{} calls ({})", all, fmt::join(calls, ", "));
  if (failed > 0) out += fmt::format(", {} of them failed", failed);
  out += fmt::format("; {} tokens in all", count_in(models, "tokens"));
  if (cached > 0) out += fmt::format(", {} from caches", cached);
  if (const Json dollars = models.value("dollars", Json(0)); dollars.is_number())
    out += fmt::format(", {:.4f} dollars", dollars.get<double>());
  if (count_in(models, "unusable") > 0)
    out += fmt::format("; {} of {} answers held nothing to use", count_in(models, "unusable"),
                       count_in(models, "answers"));
  return out;
}

}  // namespace

Json models_json(const ResultDocument::Models& models) {
  Json out = {{"seats", models.seats},
              {"tokens", models.tokens},
              {"dollars", number_to_json(models.dollars)},
              {"answers", models.report.answers},
              {"unusable", models.report.unusable},
              {"purposes", Json::object()},
              {"judge", nullptr},
              {"fallbacks", Json::array()}};
  for (const auto& [purpose, cost] : models.report.costs)
    out["purposes"][purpose] = {{"calls", cost.calls},
                                {"failed", cost.failed},
                                {"tokens", cost.amount.tokens},
                                {"dollars", number_to_json(static_cast<double>(cost.amount.nanodollars) / 1e9)},
                                {"fresh", cost.usage.fresh},
                                {"cached", cost.usage.cached},
                                {"cache_writes", cost.usage.cache_writes},
                                {"output", cost.usage.output}};
  if (models.judge)
    out["judge"] = {
        {"asked", models.report.judged},
        {"built_in", models.report.judge_fallbacks},
        {"trouble", models.report.judge_trouble.empty() ? Json(nullptr) : Json(models.report.judge_trouble)}};
  for (const auto& [what, times] : models.report.fallbacks)
    out["fallbacks"].push_back({{"what", what}, {"times", times}});
  return out;
}

Json best_json(const std::vector<ResultDocument::Best>& best) {
  Json out = Json::array();
  for (const ResultDocument::Best& one : best)
    out.push_back({{"asked", one.asked},
                   {"region", one.region},
                   {"by", one.by},
                   {"ms", number_to_json(one.ms)},
                   {"seconds", number_to_json(one.seconds)}});
  return out;
}

bool cap_let_nothing_through(const ResultDocument::Searched& searched) {
  if (searched.models.seats == 0 || searched.models.tokens > 0) return false;
  return std::ranges::any_of(searched.coders, [](const search::SeatReport& seat) {
    return seat.proposed == 0 && seat.trouble.ends_with("(spending_cap)");
  });
}

std::vector<std::string> notes_of(const ResultDocument::Models& models) {
  std::vector<std::string> out;
  if (models.report.judge_fallbacks > 0)
    out.push_back(fmt::format("the built-in judge stood in for the model {} of {} times: {}",
                              models.report.judge_fallbacks, models.report.judged,
                              shortened(models.report.judge_trouble)));
  for (const auto& [what, times] : models.report.fallbacks)
    out.push_back(fmt::format("another model was asked {} time{}: {}", times, times == 1 ? "" : "s", shortened(what)));
  return out;
}

std::vector<std::pair<std::string, std::string>> search_words(const Json& result) {
  std::vector<std::pair<std::string, std::string>> out;
  const auto search = result.is_object() ? result.find("search") : result.end();
  if (search == result.end() || !search->is_object()) return out;
  const auto models = search->find("models");
  const bool asked = models != search->end() && models->is_object() && models->contains("purposes") &&
                     (*models)["purposes"].is_object();
  if (asked && count_in(*models, "seats") > 0) {
    out.emplace_back("models", model_line(*models));
    if (const Json judge = models->value("judge", Json()); judge.is_object()) {
      std::string line = fmt::format("{} verdicts asked of a model", count_in(judge, "asked"));
      if (count_in(judge, "built_in") > 0)
        line += fmt::format(", {} given by the built-in judge in its place ({})", count_in(judge, "built_in"),
                            shortened(judge.value("trouble", std::string())));
      out.emplace_back("judge", std::move(line));
    }
  }
  if (const auto coders = search->find("coders"); coders != search->end() && coders->is_array()) {
    for (const Json& seat : *coders) {
      if (!seat.is_object()) continue;
      const Json trouble = seat.value("trouble", Json());
      out.emplace_back("seat", fmt::format("{}: {} proposed, {} not built, {} known, {} right, {} the best so far{}",
                                           shortened(seat.value("name", std::string())), count_in(seat, "proposed"),
                                           count_in(seat, "not_built"), count_in(seat, "duplicates"),
                                           count_in(seat, "passed"), count_in(seat, "improved"),
                                           trouble.is_string() ? "; " + shortened(trouble.get<std::string>()) : ""));
    }
  }
  std::map<std::string, std::vector<std::string>> best;
  if (const auto all = search->find("best"); all != search->end() && all->is_array()) {
    for (const Json& one : *all) {
      if (!one.is_object() || !one.contains("ms") || !one["ms"].is_number()) continue;
      best[one.value("region", std::string())].push_back(fmt::format("{:.4g} ms at proposal {} ({})",
                                                                     one["ms"].get<double>(), count_in(one, "asked"),
                                                                     shortened(one.value("by", std::string()))));
    }
  }
  for (auto& [region, steps] : best) {
    const bool many = steps.size() > most_best;
    if (many) steps.erase(steps.begin(), steps.end() - static_cast<std::ptrdiff_t>(most_best));
    out.emplace_back("best", fmt::format("{}: {}{}", region, many ? "… " : "", fmt::join(steps, ", ")));
  }
  return out;
}

}  // namespace planish::session
