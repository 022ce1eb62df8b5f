#include "session/time_plan.h"

#include <algorithm>
#include <chrono>
#include <limits>

namespace planish::session {
namespace {

/// Starting a process that imports torch, and timing a few modules.
constexpr double claim_base_seconds = 10;
/// Compiling a mode of torch.compile; the larger ones of a deep network take minutes, which only a large limit allows.
constexpr double compile_seconds = 10;
/// Seeds and regimes that a proof goes through, each like the check of the captured program.
constexpr double cases_a_proof = 12;
/// No reserve takes more of the whole than this: a short limit still searches.
constexpr double most_for_claim = 0.3, most_for_proof = 0.3;
constexpr double most_for_answers = 5;

}  // namespace

TimePlan::TimePlan(const Clock& clock, double max_seconds) : clock_(clock), began_(clock.now()), max_(max_seconds) {}

double TimePlan::used() const {
  return std::chrono::duration<double>(clock_.now() - began_).count();
}

double TimePlan::left() const {
  return limited() ? std::max(max_ - used(), 0.0) : std::numeric_limits<double>::infinity();
}

void TimePlan::took(double capture_seconds, double check_seconds) {
  capture_ = capture_seconds;
  check_ = check_seconds;
}

double TimePlan::proof_estimate() const {
  return capture_ + cases_a_proof * check_;
}

double TimePlan::claim_seconds(double budget_seconds) {
  constexpr double least = 1, most = 5;
  return budget_seconds > 0 ? std::clamp(budget_seconds / 4, least, most) : most;
}

double TimePlan::claim_reserve() const {
  return std::min(most_for_claim * max_, claim_base_seconds + capture_ + compile_seconds * modes_);
}

double TimePlan::proof_reserve() const {
  return std::min(most_for_proof * max_, proof_estimate());
}

double TimePlan::for_search() const {
  return std::max(left() - claim_reserve() - proof_reserve(), 0.0);
}

double TimePlan::for_last_answers() const {
  return std::max(left() - claim_reserve() - proof_reserve() + std::min(most_for_answers, proof_reserve() / 4), 0.0);
}

double TimePlan::for_composing() const {
  return std::max(left() - claim_reserve() - proof_reserve() / 2, 0.0);
}

double TimePlan::for_proof() const {
  return std::max(left() - claim_reserve(), 0.0);
}

}  // namespace planish::session
