#include "session/region_evaluator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/work_scope.h"

namespace planish::session {

RegionEvaluator::RegionEvaluator(EvaluatorApi& api, std::string session, const Plan& plan,
                                 std::function<double()> seconds_left, Progress& progress)
    : api_(api),
      session_(std::move(session)),
      plan_(plan),
      seconds_left_(std::move(seconds_left)),
      progress_(progress) {}

Result<Evaluation> RegionEvaluator::evaluate(const search::RegionSpec& region, const coder::Candidate& candidate,
                                             bool full, double give_up_ms) {
  const double left = seconds_left_();
  if (left <= 0) return fail("out_of_time", "the time for the search is over");
  const Progress::Flight flight(progress_, full);
  const WorkScope scope(std::isfinite(left) ? left : 0);
  if (region.alternative && !region.sources_only) {  // the whole is known from the start
    if (const auto error = describe(region.id)) {
      // Where the evaluator is gone, that is what the search must hear.
      if (error->kind == "closed" || error->kind == "environment" || error->kind == "out_of_time")
        return std::unexpected(*error);
      Evaluation out;
      out.program = candidate.hash;
      out.region = region.id;
      out.level = full ? "full" : "screen";
      out.outcome = Outcome::infrastructure;
      out.message = fmt::format("region {} cannot be set up: {}", region.id, error->message);
      return out;
    }
  }
  return api_.evaluate({session_, region.id, candidate.program, full ? "full" : "screen", true, give_up_ms});
}

std::optional<Error> RegionEvaluator::describe(const std::string& id) {
  const std::scoped_lock lock(mutex_);
  if (const auto known = described_.find(id); known != described_.end()) return known->second;
  const auto region = std::ranges::find(plan_.regions(), id, &PlannedRegion::id);
  auto reply = api_.region(
      {session_, region->id, region->nodes, region->inputs, region->outputs, region->bytes, region->flops, false});
  std::optional<Error> error;
  if (!reply && reply.error().kind == "out_of_time") return std::move(reply.error());
  if (!reply) error = std::move(reply.error());
  return described_.emplace(id, std::move(error)).first->second;
}

}  // namespace planish::session
