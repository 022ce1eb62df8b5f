#include "judge/judge.h"

#include <algorithm>

#include "judge/parts.h"

namespace planish::judge {
namespace {

Verdict nothing(const char* issue, std::string message) {
  Verdict out;
  out.issue = issue;
  out.message = std::move(message);
  return out;
}

}  // namespace

std::vector<Launch> launches_of(const program::Program& program) {
  std::vector<Launch> out;
  for (const program::Step& step : program.steps) {
    const auto* launch = std::get_if<program::Launch>(&step);
    if (launch == nullptr) continue;
    const auto product = [](const std::array<std::int64_t, 3>& of) { return of[0] * of[1] * of[2]; };
    out.push_back({product(launch->grid), product(launch->block), launch->shared, launch->kernel});
  }
  return out;
}

Verdict judge(const Question& question) {
  switch (question.evaluation.outcome) {
    case Outcome::ok:
    case Outcome::degenerate:
    case Outcome::given_up:
      return judge_bottleneck(question);
    case Outcome::duplicate:
      return nothing("duplicate", "the same program was evaluated before: " + question.evaluation.duplicate_of);
    case Outcome::infrastructure:
      return nothing("infrastructure",
                     "our own fault, nothing is known of the candidate: " + question.evaluation.message);
    case Outcome::invalid_program:
    case Outcome::compile_error:
    case Outcome::compile_timeout:
    case Outcome::load_failed:
      return judge_compile_error(question);
    case Outcome::wrong:
    case Outcome::finite_only:
    case Outcome::unwritten:
    case Outcome::nan:
    case Outcome::nondeterministic:
    case Outcome::wrong_when_timed:
      return judge_mismatch(question);
    case Outcome::launch_failed:
    case Outcome::guard_overwritten:
    case Outcome::input_changed:
    case Outcome::input_write:
    case Outcome::out_of_bounds:
    case Outcome::illegal_address:
    case Outcome::crash:
    case Outcome::exit:
    case Outcome::hang:
    case Outcome::out_of_memory:
    case Outcome::time_mismatch:
    case Outcome::faster_than_possible:
    case Outcome::invalid_access:
    case Outcome::race:
    case Outcome::uninitialized_read:
      return judge_fault(question);
  }
  return nothing("unknown", "an outcome that the judge does not know");
}

}  // namespace planish::judge
