#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "evaluate/module_data.h"
#include "evaluate/outcome_of.h"
#include "evaluate/task_evaluator.h"

// A module is proved and timed under no_grad, in the task's mode, by one thread, with as many as the machine has.
// Whoever records gradients, is in inference mode or in another thread, allows other numbers of threads, or evaluates
// what trains, gets the same numbers of the task (or is not asked about here), and must get them of what takes its
// place.
namespace planish {
namespace {

const char* words_of(std::string_view caller) {
  if (caller == "recorded") return "with gradients recorded (torch.enable_grad())";
  if (caller == "differentiated") return "with inputs that require gradients";
  if (caller == "other_mode") return "in the other mode (eval() where the task trains, train() where it evaluates)";
  if (caller == "thread") return "in another thread";
  if (caller == "one_thread") return "where torch has one thread (torch.set_num_threads(1))";
  if (caller == "more_threads") return "where torch has one thread more (torch.set_num_threads)";
  return "in torch.inference_mode()";
}

}  // namespace

Result<bool> TaskEvaluator::task_answers(const ModuleUnderTest& tested, std::string_view caller) {
  PLANISH_TRY(const std::int64_t handle, yardstick(tested));
  const std::string& data = tested.data.name;
  const Unbind unbind(*yardstick_, data, limits_.load);
  PLANISH_CHECK(yardstick_->bind(handle, data, module_bindings(tested.data), limits_.load));
  PLANISH_CHECK(tested.oracle.poison(data, limits_.oracle));
  auto raised = yardstick_->run_as(handle, data, caller, module_run_limit());
  if (!raised.has_value() || !raised->empty()) return false;
  PLANISH_TRY(const auto check, tested.oracle.check(data, "caller", limits_.oracle));
  return check.ok || check.problem == "finite_only";
}

Result<bool> TaskEvaluator::gives_another_in_other_mode(const ModuleUnderTest& tested) {
  if (!other_mode_.contains(tested.variant)) {
    PLANISH_TRY(other_mode_[tested.variant], tested.oracle.other_mode(tested.data.name, limits_.oracle));
  }
  return !other_mode_[tested.variant].value_or(true);
}

Result<bool> TaskEvaluator::passes_other_callers(const ModuleUnderTest& tested, const VerifyRequest& request,
                                                 const std::vector<std::string_view>& callers, VerifyReply& reply) {
  std::error_code ignored;
  const bool shipped = std::filesystem::is_directory(request.path, ignored);
  for (const std::string_view caller : callers) {
    const std::string& data = tested.data.name;
    if (caller == "other_mode") {
      PLANISH_TRY(const bool other, gives_another_in_other_mode(tested));
      if (other) continue;
    }
    PLANISH_CHECK(tested.oracle.poison(data, limits_.oracle));
    TestCase item;
    item.regime = reply.cases.back().regime;
    item.seed = reply.cases.back().seed;
    item.variant = tested.variant;
    VerifyReply refused;
    const auto raised = tested.runner.run_as(tested.handle, data, caller, module_run_limit());
    if (!raised.has_value()) {
      item.problem = raised.error().kind.name();
      PLANISH_CHECK(rejected(tested.runner, raised.error(), "its forward", module_run_limit(), refused));
    } else if (!raised->empty() && !shipped) {
      if (std::ranges::none_of(reply.notes, [](const Note& note) { return note.kind == "no_grad_only"; })) {
        const std::string text = fmt::format("it cannot be called {}: {}", words_of(caller), *raised);
        reply.notes.push_back(Note{.kind = "no_grad_only", .about = {}, .text = text});
      }
      continue;
    } else if (!raised->empty()) {
      item.problem = "launch_failed";
      refused.outcome = Outcome::launch_failed;
      refused.message = *raised;
    } else {
      PLANISH_TRY(auto check, tested.oracle.check(data, "caller", limits_.oracle));
      if (check.problem == "finite_only" && request.finite_only) {
        check.ok = true;
        check.problem.clear();
      }
      judge_again(check, outputs_of(tested.data));
      enter(item, check);
      // It was right on this data set, and may round otherwise.
      if (check.ok || is_near_gate(item)) continue;
      refused.outcome = outcome_of_check(check);
      refused.message = check.message.empty() ? check.problem : check.message;
    }
    // What is fatal is the solution's own, whatever the task does there.
    if (tested.runner.alive()) {
      PLANISH_TRY(const bool answers, task_answers(tested, caller));
      if (!answers) continue;
    }
    item.ok = false;
    reply.cases.push_back(std::move(item));
    reply.outcome = refused.outcome;
    reply.message = fmt::format(
        "called {}: {}\n(under torch.no_grad() it was right on the same data: no answer may depend on "
        "who calls, and how torch is set for them; what cannot be had should raise)",
        words_of(caller), refused.message);
    return false;
  }
  return true;
}

}  // namespace planish
