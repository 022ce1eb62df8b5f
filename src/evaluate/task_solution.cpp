#include <fmt/core.h>

#include <algorithm>

#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/work_scope.h"
#include "evaluate/outcome_of.h"
#include "evaluate/solution.h"
#include "evaluate/task_evaluator.h"

namespace planish {
namespace {

constexpr int seeds_of_solution = 5;

}  // namespace

bool TaskEvaluator::makes_everything(const RegionRequest& region) const {
  if (region.region == "task") return true;
  const auto given = [&](int value) {
    return std::ranges::find(graph_.inputs, value, &ir::GraphInput::value) != graph_.inputs.end();
  };
  const auto made = [&](const ir::GraphOutput& output) {
    return output.value < 0 || std::ranges::find(region.outputs, output.value) != region.outputs.end();
  };
  return std::ranges::all_of(region.inputs, given) && std::ranges::all_of(graph_.outputs, made);
}

Result<Evaluation> TaskEvaluator::evaluate_solution(const EvaluateRequest& request, const std::string& python,
                                                    Evaluation evaluation) {
  evaluation.program = sha256_hex(request.program.text());
  RegionRequest region;
  {
    PLANISH_TRY(const auto lock, take_stage());
    PLANISH_TRY(const Region* found, find_region(request.region));
    region = found->request;
    touched_ = true;  // the proof of what ships is made in processes that have met no candidate
  }
  if (!makes_everything(region)) {
    evaluation.outcome = Outcome::invalid_program;
    evaluation.message = "a Python file stands for the whole task, not for a part of it";
    return evaluation;
  }
  const std::string key = fmt::format("{}/{}/{}", request.region, request.bench, evaluation.program);
  const bool screened = request.level == "screen" && !request.again;
  if (screened) {
    if (const auto earlier = dedup_.claim(key, evaluation.program); earlier.has_value()) {
      evaluation.outcome = Outcome::duplicate;
      evaluation.duplicate_of = *earlier;
      return evaluation;
    }
  }
  PLANISH_TRY(const auto folder, TempDir::create("planish-solution-"));
  const auto file = folder.path() / "solution.py";
  PLANISH_CHECK(write_file(file, python));
  VerifyRequest ask;
  ask.session = request.session;
  ask.path = file.string();
  ask.seeds = request.level == "full" ? seeds_of_solution : 1;
  ask.level = request.level;
  ask.time = request.bench;
  ask.trial = true;
  const TimePoint began = real_clock().now();
  auto reply = verify(ask);
  if (!reply.has_value()) {
    if (screened) dedup_.release({key});
    // Whatever was cut off by the end of the time says nothing about the candidate.
    if (work_seconds_left() <= 0) return fail("out_of_time", "time ran out while a candidate was evaluated");
    if (ends_the_run(reply.error())) return std::unexpected(std::move(reply).error());
    evaluation.outcome = Outcome::infrastructure;
    evaluation.message = reply.error().message;
    return evaluation;
  }
  Evaluation judged = evaluation_of(std::move(*reply), device_->facts, region.bytes, region.flops);
  judged.program = std::move(evaluation.program);
  judged.region = request.region;
  judged.level = request.level;
  if (judged.test) judged.test->seconds = seconds_since(began);
  return judged;
}

}  // namespace planish
