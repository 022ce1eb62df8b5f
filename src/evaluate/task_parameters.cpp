#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/work_scope.h"
#include "evaluate/module_data.h"
#include "evaluate/task_evaluator.h"

// A solution whose parameters are not the task's one by one keeps those that it is constructed with. What they hide, as
// a gate that is zero at the start hides a branch, is seen where both are constructed with others.
namespace planish {
namespace {

constexpr const char* varied_data = "varied";
constexpr int seeds_a_variation = 2;

}  // namespace

Status TaskEvaluator::prove_other_parameters(const ModuleUnderTest& tested, const VerifyRequest& request,
                                             VerifyReply& reply) {
  report_work("constructing it with other parameters");
  const auto note = std::ranges::find(reply.notes, "own_state", &Note::kind);
  // An even one changes buffers of one number as well; not every graph holds for other settings.
  auto variation = fresh_seed() & ~std::uint64_t{1};
  PLANISH_TRY(auto data,
              tested.oracle.make("task", varied_data, fresh_seed(), "task", limits_.oracle, true, variation));
  if (!data.skipped.empty()) {
    ++variation;
    PLANISH_TRY(data, tested.oracle.make("task", varied_data, fresh_seed(), "task", limits_.oracle, true, variation));
  }
  if (!data.skipped.empty()) {
    if (note != reply.notes.end()) note->text += ", and with no others: " + data.skipped;
    return {};
  }
  if (note != reply.notes.end())
    note->text += ", from the task's seed and from another one, there with other values for constants";
  const Drop drop(tested.oracle, varied_data, limits_.oracle);
  const auto refused = [&](const Error& error, const char* doing, double limit) -> Status {
    reply.verified = false;
    return rejected(tested.runner, error, doing, limit, reply);
  };
  auto module = tested.runner.load_module(request.path, request_.task, tested.graph, limits_.open,
                                          worker::ModuleUse::run, variation);
  if (!module.has_value()) return refused(module.error(), "constructing it with other parameters", limits_.open);
  const Unbind unbind(tested.runner, varied_data, limits_.load);
  auto bound = tested.runner.bind(module->handle, varied_data, module_bindings(data), limits_.load);
  if (!bound.has_value()) return refused(bound.error(), "giving it buffers", limits_.load);
  const ModuleUnderTest other{tested.oracle, tested.runner, module->handle, data, true, tested.graph, 0};
  for (int seed = 0; seed < seeds_a_variation && reply.verified; ++seed) {
    PLANISH_TRY(reply.verified, passes_or_is_outvoted(other, request, "task", 1, reply));
  }
  if (!reply.verified)
    reply.message +=
        "\n(it was right with the parameters that it is constructed with, and is not with those of another seed, where "
        "what starts as a constant, such as a gate of zeros, has another value, and what is large (a gate that is "
        "closed by a sigmoid of -50) one about 1: construct and register what the task does, in its order, or keep the "
        "task's names)";
  (void)tested.runner.unload(module->handle, limits_.load);
  return {};
}

}  // namespace planish
