#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/work_scope.h"
#include "evaluate/module_data.h"
#include "evaluate/task_evaluator.h"

// Solutions that say they take other shapes than the task's, on the shapes that the task's file declares.
namespace planish {
namespace {

/// Data sets for each of them. What is new is the shapes: contents were tried on the task's own.
constexpr int seeds_a_variant = 2, runs_a_seed = 2;
constexpr const char* variant_data = "variant";

}  // namespace

Status TaskEvaluator::prove_variants(const VerifyRequest& request, worker::Runner& runner, VerifyReply& reply) {
  std::error_code ignored;
  if (std::filesystem::is_directory(request.path, ignored)) {
    reply.notes.push_back(Note{.kind = "own_shapes",
                               .about = {},
                               .text = "the other shapes that the task declares were not tried: what is shipped holds "
                                       "for the task's own, and hands others to the original"});
    return {};
  }
  PLANISH_CHECK(on_device());
  PLANISH_TRY(auto oracle, device_->spares.oracle());
  PLANISH_CHECK(off_device([&] { return oracle.hello(device_->facts.target, limits_.start); }));
  if (keeps_twins()) device_->spares.keep_twin(oracle);
  for (int variant = 1;; ++variant) {
    report_work(fmt::format("other shapes, number {}", variant));
    auto task = oracle.open(request_.task, request_.accuracy, request_.blobs, limits_.open, variant);
    if (!task.has_value() && task.error().kind == "no_variant") return {};
    if (!task.has_value()) {
      Error error = std::move(task).error();
      error.message = fmt::format("{} (with the {}. of get_input_variants())", error.message, variant);
      return std::unexpected(std::move(error));
    }
    const auto refused = [&](const Error& error, const char* doing, double limit) -> Status {
      reply.verified = false;
      reply.times.reset();
      return rejected(runner, error, doing, limit, reply);
    };
    auto module = runner.load_module(request.path, request_.task, task->graph, limits_.open);
    if (!module.has_value()) return refused(module.error(), "importing and constructing it", limits_.open);
    const bool own_state = module->state == worker::ModuleState::own;
    PLANISH_TRY(auto data, oracle.make("task", variant_data, fresh_seed(), "task", limits_.oracle, own_state));
    const Drop drop(oracle, variant_data, limits_.oracle);
    if (auto bound = runner.bind(module->handle, variant_data, module_bindings(data), limits_.load); !bound.has_value())
      return refused(bound.error(), "giving it buffers", limits_.load);
    const ModuleUnderTest tested{oracle, runner, module->handle, data, own_state, task->graph, variant};
    for (int seed = 0; seed < seeds_a_variant; ++seed) {
      PLANISH_TRY(const bool passed, passes(tested, request, "task", runs_a_seed, reply));
      if (passed) continue;
      reply.verified = false;
      reply.times.reset();
      return {};
    }
    (void)runner.unload(module->handle, limits_.load);
  }
}

}  // namespace planish
