#include <fmt/core.h>

#include <algorithm>
#include <future>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "base/work_scope.h"
#include "evaluate/launches.h"
#include "evaluate/lock.h"
#include "evaluate/outcome_of.h"
#include "evaluate/task_evaluator.h"
#include "program/solution.h"

namespace planish {
namespace {

bool needs_torch(const program::Program& program) {
  // A state is written in place: the torch runner gives it a private copy, the native one would need the oracle's
  // memory writable.
  return program.has_aten() || std::ranges::any_of(program.buffers, [](const program::Buffer& buffer) {
           return buffer.role == program::Role::state;
         });
}

}  // namespace

Result<Evaluation> TaskEvaluator::evaluate(const EvaluateRequest& request) {
  constexpr double worth_saying = 0.01;
  const double before = device_wait_seconds();
  auto evaluation = evaluate_here(request);
  const double waited = device_wait_seconds() - before;
  if (evaluation.has_value() && waited >= worth_saying) evaluation->waited_seconds = waited;
  return evaluation;
}

Result<Evaluation> TaskEvaluator::evaluate_here(const EvaluateRequest& request) {
  Evaluation evaluation;
  evaluation.region = request.region;
  evaluation.level = request.level;
  // Not under the stage: while one candidate is timed, the next one is compiled.
  PLANISH_CHECK(check_region(request.region));
  if (request.level != "screen" && request.level != "full")
    return fail("bad_request", fmt::format("no level `{}`", request.level));
  if (const auto python = program::solution_of(request.program.text()); python.has_value())
    return evaluate_solution(request, *python, std::move(evaluation));
  auto parsed = request.program.checked();
  if (!parsed.has_value()) {
    evaluation.outcome = Outcome::invalid_program;
    evaluation.message = parsed.error().message;
    return evaluation;
  }
  evaluation.program = parsed->hash();
  if (const std::string& target = parsed->program().target; target != device_->facts.target) {
    evaluation.outcome = Outcome::invalid_program;
    evaluation.message = fmt::format("the program is for {}, the device is {}", target, device_->facts.target);
    return evaluation;
  }
  const std::string asked =
      fmt::format("{}/{}/{}/{}", request.region, request.level, request.bench, evaluation.program);
  if (request.known) {
    const std::scoped_lock lock(names_mutex_);
    if (const auto found = known_.find(asked); found != known_.end()) return found->second;
  }
  auto answer = evaluate_anew(request, *parsed, std::move(evaluation));
  if (request.known && answer.has_value() && answer->ok()) {
    const std::scoped_lock lock(names_mutex_);
    known_[asked] = *answer;
  }
  return answer;
}

Result<Evaluation> TaskEvaluator::evaluate_anew(const EvaluateRequest& request, const program::Checked& program,
                                                Evaluation evaluation) {
  std::string failure;
  auto first = attempt(request, program, evaluation, failure);
  // Whatever was cut off by the end of the time says nothing about the candidate.
  const auto cut_off = [](const Result<Evaluation>& result) {
    return work_seconds_left() <= 0 && !(result.has_value() && result->ok());
  };
  if (cut_off(first)) return fail("out_of_time", "time ran out while a candidate was evaluated");
  const bool again = first.has_value() ? first->outcome == Outcome::infrastructure : true;
  if (!again || (!first.has_value() && failure.empty() && ends_the_run(first.error()))) return first;
  const std::string broke = first.has_value() ? first->message : first.error().message;
  report_work(fmt::format("again with new processes, since {}", broke));
  {
    // Our own fault: whatever broke is replaced, and the candidate gets a second try.
    PLANISH_TRY(const auto lock, take_stage());
    if (!failure.empty()) PLANISH_CHECK(renew_device(failure));
    PLANISH_CHECK(revive_oracle());
  }
  failure.clear();
  evaluation.again_after = broke;
  auto second = attempt(request, program, evaluation, failure);
  if (cut_off(second)) return fail("out_of_time", "time ran out while a candidate was evaluated");
  // Processes that were all new have met it again. Host code of a candidate may say what it likes.
  if (!failure.empty() && !backend::named(device_->facts.target).on_host) return device_lost(failure);
  if (second.has_value()) return second;
  evaluation.outcome = Outcome::infrastructure;
  evaluation.message = second.error().message;
  return evaluation;
}

std::unexpected<Error> TaskEvaluator::device_lost(const std::string& message) const {
  return fail("device_lost", fmt::format("{} no longer works: {}", device_->facts.name, message),
              "nvidia-smi and the system log say what happened to it");
}

Status TaskEvaluator::renew_device(const std::string& message) {
  // A failed device takes every context on it along: the oracle's too, which would answer nothing right from now on.
  device_->runners.discard(worker::Runner::Kind::native);
  device_->runners.discard(worker::Runner::Kind::torch);
  oracle_.reset();
  early_.reset();
  prover_.reset();
  baseline_.reset();
  if (auto fresh = device_->runners.get(worker::Runner::Kind::native); !fresh.has_value()) {
    auto lost = device_lost(message);
    lost.error().causes.push_back("a new process on it: " + fresh.error().message);
    return lost;
  }
  return {};
}

Result<Evaluation> TaskEvaluator::attempt(const EvaluateRequest& request, const program::Checked& checked,
                                          Evaluation evaluation, std::string& device_failure) {
  const program::Program& program = checked.program();
  std::vector<std::string> claimed;
  const auto claim = [&](const std::string& key) {
    // Measuring an elite again is the point of `full`: only screening looks for what is known.
    if (request.level != "screen" || request.again) return false;
    const std::string full_key = fmt::format("{}/{}/{}", request.region, request.bench, key);
    const auto earlier = dedup_.claim(full_key, evaluation.program);
    if (!earlier.has_value()) {
      claimed.push_back(full_key);
      return false;
    }
    evaluation.outcome = Outcome::duplicate;
    evaluation.duplicate_of = *earlier;
    return true;
  };
  const auto finish = [&](Result<Evaluation> result) {
    if (!result.has_value() && is_device_failure(result.error())) device_failure = result.error().message;
    if (!result.has_value() || result->outcome == Outcome::infrastructure) dedup_.release(claimed);
    return result;
  };
  evaluation.tier = Tier::dedup;
  if (claim(evaluation.program)) return evaluation;
  if (const std::string& normal = checked.variant(); normal != evaluation.program && claim("n" + normal))
    return finish(evaluation);

  evaluation.tier = Tier::compile;
  auto tried = compile(program, evaluation);
  if (!tried.has_value()) return finish(std::unexpected(std::move(tried).error()));
  const std::optional<Compiled>& compiled = *tried;
  if (!compiled.has_value()) return finish(evaluation);
  if (!program.kernels.empty() && claim("b" + Dedup::binary_key(program, compiled->hashes))) return finish(evaluation);

  auto stage = take_stage();
  if (!stage.has_value()) return finish(std::unexpected(std::move(stage).error()));
  if (auto revived = revive_oracle(); !revived.has_value()) return finish(std::unexpected(std::move(revived).error()));
  // In a process that ran others before, who dies may have been killed by them: `shared` says so.
  bool shared = false;
  const auto stages = [&](bool alone) -> Result<Evaluation> {
    PLANISH_TRY(Region * region, find_region(request.region));
    make_room(*region);
    PLANISH_CHECK(ensure_data(*region, 1));
    evaluation.tier = Tier::test;
    const auto testable = with_own_outputs(program, region->checked);
    if (!testable.has_value()) {
      evaluation.outcome = Outcome::invalid_program;
      evaluation.message = testable.error().message;
      return evaluation;
    }
    Loaded loaded;
    loaded.device_failure = &device_failure;
    touched_ = true;
    // A claim builds on this measurement: no other candidate's host code may have touched the process that takes it.
    const bool for_claim =
        request.level == "full" && backend::named(program.target).on_host && !program.kernels.empty();
    const bool fresh = alone || for_claim;
    PLANISH_TRY(bool go, load(*region, *testable, *compiled, fresh, loaded, evaluation));
    if (go) {
      open_for_proof(request);
      auto tested = test(*region, request.level, loaded, evaluation);
      if (prover_ != nullptr) prover_->settle();
      if (!tested.has_value()) {
        release(loaded);
        return std::unexpected(std::move(tested).error());
      }
      go = *tested;
    }
    if (go && request.bench) {
      auto timed = bench(*region, request, loaded, evaluation);
      if (!timed.has_value()) {
        release(loaded);
        return std::unexpected(std::move(timed).error());
      }
      go = *timed;
    }
    if (go) {
      evaluation.outcome = Outcome::ok;
      evaluation.message.clear();
    }
    // Whoever found it: the runner's clock may be another for whoever comes next.
    if (evaluation.outcome == Outcome::time_mismatch && loaded.runner != nullptr) replace_runner(loaded);
    release(loaded);
    shared = loaded.died && loaded.after_others;
    return evaluation;
  };
  auto judged = stages(false);
  if (!judged.has_value() || !shared) return finish(std::move(judged));
  evaluation.test.reset();
  evaluation.bench.reset();
  return finish(stages(true));
}

Result<std::optional<TaskEvaluator::Compiled>> TaskEvaluator::compile(const program::Program& program,
                                                                      Evaluation& evaluation) {
  Compiled compiled;
  CompileReport report;
  report.cached = true;
  bool good = true;
  // A network has hundreds: so many wait for a worker at once.
  constexpr std::size_t most_waiting = 64;
  std::vector<Result<worker::CompileReply>> replies;
  for (std::size_t first = 0; first < program.kernels.size(); first += most_waiting) {
    std::vector<std::future<Result<worker::CompileReply>>> waiting;
    for (std::size_t k = first; k < std::min(first + most_waiting, program.kernels.size()); ++k) {
      const program::KernelSource& kernel = program.kernels[k];
      worker::CompileJob job;
      job.language = kernel.language;
      job.source = kernel.source;
      job.entry = kernel.entry;
      job.flags = kernel.flags;
      job.arch = program.arch;
      job.cache = tools_.cache_dir.string();
      job.limit_seconds = limits_.compile;
      if (program.kernels.size() == 1)
        replies.push_back(device_->pool.compile(job));
      else
        waiting.push_back(with_time_left([this, job = std::move(job)] { return device_->pool.compile(job); }));
    }
    for (auto& one : waiting) replies.push_back(one.get());
  }
  for (auto& reply : replies) {
    if (!reply.has_value()) {
      const Error& error = reply.error();
      if (ends_the_run(error)) return std::unexpected(error);
      evaluation.outcome = outcome_of_compiler(error);
      evaluation.message = error.message;
      if (!error.hint.empty()) evaluation.message += " (" + error.hint + ")";
      report.log += error.message;
      report.cached = false;
      good = false;
      break;
    }
    report.seconds += reply->seconds;
    report.cached = report.cached && reply->cached;
    report.log += reply->log;
    report.kernels.push_back({reply->sha256, reply->registers, reply->spill_bytes, reply->shared_bytes,
                              reply->local_bytes, std::move(reply->instructions)});
    compiled.paths.push_back(reply->path);
    compiled.hashes.push_back(reply->sha256);
  }
  if (good) report.launches = launches_of(program, report.kernels, device_->facts);
  evaluation.compile = std::move(report);
  if (!good) return std::optional<Compiled>();
  return std::optional(std::move(compiled));
}

bool TaskEvaluator::runner_failed(const Error& error, Loaded& loaded, Outcome& outcome, std::string& message) {
  outcome = outcome_of_runner(error, loaded.runner->fault());
  message = error.message;
  // An illegal address poisons a GPU's context for good; a runner that ran out of memory may hold the rest of it.
  if (is_device_failure(error)) *loaded.device_failure = error.message;
  const bool poisoned = error.kind == "illegal_address" || error.kind == "out_of_memory" ||
                        error.kind == "launch_failed" || is_device_failure(error);
  loaded.died = !loaded.runner->alive() && error.kind != "hang" && error.kind != "out_of_time";
  if (!loaded.runner->alive() || poisoned) replace_runner(loaded);
  return false;
}

void TaskEvaluator::replace_runner(Loaded& loaded) {
  device_->runners.discard(loaded.kind);
  loaded.runner = nullptr;
  if (loaded.kind == worker::Runner::Kind::native) device_->runners.warm_up();
}

void TaskEvaluator::release(Loaded& loaded) {
  if (loaded.runner == nullptr || loaded.handle < 0) return;
  Status done;
  for (const std::string& data : loaded.bound) {
    if (done.has_value()) done = loaded.runner->unbind(data, limits_.load);
  }
  if (done.has_value()) done = loaded.runner->unload(loaded.handle, limits_.load);
  if (!done.has_value()) device_->runners.discard(loaded.kind);
  loaded.runner = nullptr;
}

Result<bool> TaskEvaluator::load(Region& region, const program::Program& program, const Compiled& compiled, bool fresh,
                                 Loaded& loaded, Evaluation& evaluation) {
  auto plan = plan_bindings(program, graph_, region.request.region == "task", region.inputs, region.outputs);
  if (!plan.has_value()) {
    evaluation.outcome = Outcome::invalid_program;
    evaluation.message = plan.error().message;
    return false;
  }
  loaded.plan = std::move(*plan);
  loaded.kind = needs_torch(program) ? worker::Runner::Kind::torch : worker::Runner::Kind::native;
  PLANISH_TRY(loaded.runner, device_->runners.get_for_candidate(loaded.kind, fresh, &loaded.after_others));
  auto reply = loaded.runner->load(program, compiled.paths, request_.blobs, limits_.load);
  if (!reply.has_value()) return runner_failed(reply.error(), loaded, evaluation.outcome, evaluation.message);
  loaded.handle = reply->handle;
  for (std::size_t i = 0; i < reply->kernels.size() && i < evaluation.compile->kernels.size(); ++i) {
    KernelReport& report = evaluation.compile->kernels[i];
    report.local_bytes = std::max(report.local_bytes, reply->kernels[i].local_bytes);
    if (report.registers == 0) report.registers = reply->kernels[i].registers;
    if (report.shared_bytes == 0) report.shared_bytes = reply->kernels[i].shared_bytes;
  }
  return true;
}

Result<bool> TaskEvaluator::bind(Region& region, std::size_t index, Loaded& loaded, Evaluation& evaluation) {
  const Data& data = region.data[index];
  if (std::ranges::find(loaded.bound, data.name) != loaded.bound.end()) return true;
  PLANISH_TRY(const auto bindings, bindings_of(loaded.plan, data.set));
  auto bound = loaded.runner->bind(loaded.handle, data.name, bindings, limits_.load);
  if (!bound.has_value()) return runner_failed(bound.error(), loaded, evaluation.outcome, evaluation.message);
  loaded.bound.push_back(data.name);
  return true;
}

}  // namespace planish
