#include "session/strategy_choice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "base/suggest.h"

namespace planish::session {

Status choose_strategy(std::string_view name, OptimizeRequest& request) {
  const auto approach = coder::approach_from_name(name);
  if (approach && *approach != coder::Approach::converse) {
    request.strategy = search::StrategyKind::coders;
    request.approach = *approach;
    return {};
  }
  const auto kind = search::strategy_from_name(name);
  if (!kind) {
    std::vector<std::string> all;
    for (const auto one : search::strategy_names) all.emplace_back(one);
    for (const auto one : coder::approach_names) {
      if (one != coder::name(coder::Approach::converse)) all.emplace_back(one);
    }
    return fail("usage", fmt::format("there is no strategy '{}'", name),
                fmt::format("{}choose from {}", did_you_mean(std::string(name), all), fmt::join(all, ", ")));
  }
  request.strategy = *kind;
  request.approach = coder::Approach::converse;
  return {};
}

std::string_view strategy_name(const OptimizeRequest& request) {
  return request.approach == coder::Approach::converse ? search::name(request.strategy) : coder::name(request.approach);
}

int model_seats(const OptimizeRequest& request) {
  return request.approach == coder::Approach::converse ? request.model_seats : std::max(request.model_seats, 1);
}

}  // namespace planish::session
