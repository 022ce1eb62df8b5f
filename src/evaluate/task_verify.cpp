#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <future>
#include <random>
#include <set>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "backend/backend.h"
#include "base/work_scope.h"
#include "evaluate/module_data.h"
#include "evaluate/outcome_of.h"
#include "evaluate/task_evaluator.h"

namespace planish {
namespace {

/// What to know of a solution whose parameters are not those of the task by name.
std::optional<Note> note_of(worker::ModuleState state) {
  if (state == worker::ModuleState::by_order) {
    return Note{.kind = "state_by_order",
                .about = {},
                .text =
                    "its parameters have other names than the task's: they were matched in their order, in which "
                    "shapes and values agree"};
  }
  if (state == worker::ModuleState::own) {
    return Note{.kind = "own_state",
                .about = {},
                .text =
                    "its parameters are not the task's one by one: it was judged with those that it is constructed "
                    "with"};
  }
  return std::nullopt;
}

/// What to know of outputs that were not the same to the bit each time.
std::optional<Note> note_of_bits(const VerifyReply& reply) {
  const auto again = std::ranges::count_if(reply.cases, [](const TestCase& item) { return item.runs > 1; });
  const auto differ = std::ranges::count_if(reply.cases, [](const TestCase& item) { return !item.same_bits; });
  if (differ == 0) return std::nullopt;
  const char* eager = "whether eager's do is not known";
  if (reply.eager_same_bits) eager = *reply.eager_same_bits ? "eager's do not" : "so do eager's";
  return Note{.kind = "bits_differ",
              .about = {},
              .text = fmt::format("its results differ from run to run, within rounding, in {} of the {} data sets that "
                                  "it was run on more than once; {}",
                                  differ, again, eager)};
}

/// What to know of NaN and Inf that lie in other places than eager's, where that was permitted.
std::optional<Note> note_of_spread(const VerifyReply& reply) {
  if (std::ranges::none_of(reply.cases, [](const TestCase& item) { return item.finite_only; })) return std::nullopt;
  return Note{.kind = "finite_only",
              .about = {},
              .text =
                  "it is right for finite values: where an input holds a NaN or an infinity, its results are not "
                  "finite in more places than eager's"};
}

/// A note on zeros that are right but for their sign, which no statistic sees.
std::optional<Note> note_of_zeros(const VerifyReply& reply) {
  std::int64_t zeros = 0;
  std::set<std::string> regimes;
  for (const TestCase& item : reply.cases) {
    for (const OutputErrors& output : item.outputs) {
      zeros += output.zero_signs;
      if (output.zero_signs > 0) regimes.insert(item.regime);
    }
  }
  if (zeros == 0) return std::nullopt;
  return Note{.kind = "zero_signs",
              .about = {},
              .text = fmt::format("{} zeros of its results have another sign than eager's, on {}: it matters to who "
                                  "divides by them, or asks for their sign",
                                  zeros, fmt::join(regimes, ", "))};
}

/// What to know of a proof that no regime had part in.
std::optional<Note> note_of_data(const VerifyRequest& request, const VerifyReply& reply) {
  const auto other = [](const TestCase& item) { return item.regime != "task"; };
  if (!reply.verified || request.level != "full" || std::ranges::any_of(reply.cases, other)) return std::nullopt;
  return Note{.kind = "task_data_only",
              .about = {},
              .text = "the proof is of the task's own data only: it takes none of the other kinds (skipped says why)"};
}

/// Whether an output is a few floating numbers: their errors on one data set say little, and are judged over all.
bool gives_few_numbers(const ir::Graph& graph) {
  constexpr std::int64_t few = 64;  // FEWEST of the oracle's statistics
  return std::ranges::any_of(graph.outputs, [&](const ir::GraphOutput& output) {
    if (output.value < 0) return false;
    const ir::Value& value = graph.values[static_cast<std::size_t>(output.value)];
    return is_floating(value.dtype) && value.elements() < few;
  });
}

/// The data sets of a proof by their kinds: the task's own, then the others in an order that is drawn.
std::vector<std::string> order_of(const VerifyRequest& request, const std::vector<std::string>& regimes, bool few,
                                  std::mt19937_64& draw) {
  std::vector<std::string> order(static_cast<std::size_t>(std::max(1, request.seeds)), "task");
  for (const std::string& regime : regimes) {
    if (regime != "task" && request.level == "full") order.push_back(regime);
  }
  constexpr std::size_t fewest = 10;
  while (few && request.level == "full" && order.size() < fewest) order.emplace_back("task");
  std::shuffle(order.begin() + std::max(1, request.seeds), order.end(), draw);
  return order;
}

/// Other callers for the present data set: all of them once in a proof, then one that is drawn.
std::vector<std::string_view> callers_of(const VerifyRequest& request, const VerifyReply& reply, bool on_host,
                                         std::mt19937_64& draw) {
  // The last ones say how many threads code for the host may have.
  static constexpr std::array<std::string_view, 7> known{"recorded", "differentiated", "inference",   "other_mode",
                                                         "thread",   "one_thread",     "more_threads"};
  const auto all = std::span(known).first(on_host ? known.size() : known.size() - 2);
  if (request.level == "full" && reply.cases.size() <= 1) return {all.begin(), all.end()};
  return {all[draw() % all.size()]};
}

}  // namespace

Result<VerifyReply> TaskEvaluator::verify(const VerifyRequest& request) {
  if (request.level != "screen" && request.level != "full")
    return fail("bad_request", fmt::format("no level `{}`", request.level));
  PLANISH_TRY(const auto lock, take_stage());
  std::optional<worker::Runner> runner;
  VerifyReply reply;
  const Status proved = prove(request, runner, reply);
  guests_.reset();
  PLANISH_CHECK(proved);
  // Its own rule, beside ours. Not every task can be put to it (a live module has no constructor): then there is none.
  if (!request.kernelbench.empty()) reply.kernelbench = kernelbench_verdict(request, runner, reply.notes);
  return reply;
}

Status TaskEvaluator::prove(const VerifyRequest& request, std::optional<worker::Runner>& process, VerifyReply& reply) {
  PLANISH_CHECK(prove_own_shapes(request, process, reply));
  if (variants_ && reply.verified && request.level == "full" && !request.trial)
    PLANISH_CHECK(prove_variants(request, *process, reply));
  if (auto note = note_of_bits(reply); note.has_value()) reply.notes.push_back(std::move(*note));
  if (auto note = note_of_spread(reply); note.has_value()) reply.notes.push_back(std::move(*note));
  if (auto note = note_of_zeros(reply); note.has_value()) reply.notes.push_back(std::move(*note));
  if (auto note = note_of_data(request, reply); note.has_value()) reply.notes.push_back(std::move(*note));
  check_memory(request, reply);
  return {};
}

Status TaskEvaluator::import_torch(worker::Runner& runner, worker::Oracle* oracle) {
  auto greeting = with_time_left([&] { return runner.hello(device_->facts.target); });
  // One that was started early answers at once, and the turn is not given up for nothing.
  constexpr auto at_once = std::chrono::milliseconds(50);
  if (oracle != nullptr || greeting.wait_for(at_once) != std::future_status::ready) {
    const Status imported = off_device([&] {
      Status done;
      if (oracle != nullptr) {
        auto hello = oracle->hello(device_->facts.target, limits_.start);
        if (!hello.has_value()) done = std::unexpected(std::move(hello).error());
      }
      greeting.wait();
      return done;
    });
    if (!imported.has_value()) return imported;
  }
  PLANISH_CHECK(greeting.get());
  if (oracle != nullptr && keeps_twins()) device_->spares.keep_twin(*oracle);
  return {};
}

Result<EarlyOracle::Opened> TaskEvaluator::opened_by(worker::Oracle& oracle) const {
  EarlyOracle::Opened opened;
  PLANISH_TRY(opened.task, oracle.open(request_.task, request_.accuracy, request_.blobs, limits_.open));
  PLANISH_TRY(opened.described, description_of(oracle, "task"));
  return opened;
}

void TaskEvaluator::open_for_proof(const EvaluateRequest& request) {
  constexpr double sets = 8, share = 0.05;  // two models, their references in float64, and what is between
  const bool ships = request_.ahead && request.level == "full" && request.region == "task";
  if (prover_ != nullptr || !ships || open_seconds_ < limits_.slow_open || !baseline_fits(sets, share)) return;
  auto oracle = device_->spares.oracle();
  if (!oracle.has_value()) return;  // the proof will say why
  prover_ =
      std::make_unique<EarlyOracle>(std::move(*oracle), [this](worker::Oracle& process) -> Result<EarlyOracle::Opened> {
        PLANISH_TRY(const auto hello, process.hello(device_->facts.target, limits_.start));
        (void)hello;
        return opened_by(process);
      });
}

Result<TaskEvaluator::Prover> TaskEvaluator::prover_for(const VerifyRequest& request) {
  // The proof is repeated in processes that no candidate has touched. Memory for both oracles may not be there: the old
  // data go first.
  if (!request.trial && oracle_.has_value() && oracle_->alive()) {
    for (auto& [name, region] : regions_) {
      for (const Data& data : region.data) (void)oracle_->drop(data.name, limits_.oracle);
      region.data.clear();
    }
  }
  if (!request.trial) device_->runners.discard(worker::Runner::Kind::torch);
  // Importing torch and capturing take seconds: not for a second oracle where the first is as good as new. What is
  // verified does not make it less: it meets one data set, which goes with it.
  if (!oracle_.has_value() || !oracle_->alive()) {
    PLANISH_CHECK(revive_oracle());
    touched_ = false;
  }
  const bool own = !request.trial && touched_;
  Prover prover;
  if (auto early = std::exchange(prover_, nullptr); own && early != nullptr) {
    if (auto ready = early->finish(); ready.has_value()) {
      prover.second = std::move(ready->process);
      prover.opened = std::move(ready->opened);
    }
  }
  if (own && !prover.second.has_value()) {
    PLANISH_TRY(prover.second, device_->spares.oracle());
  }
  // Its import takes longer than a claim: whoever proves a baseline, or opens the next task, would wait for the rest.
  if (own && request_.ahead && !backend::named(device_->facts.target).on_host) device_->spares.prepare_oracle();
  return prover;
}

Status TaskEvaluator::prove_own_shapes(const VerifyRequest& request, std::optional<worker::Runner>& process,
                                       VerifyReply& reply) {
  PLANISH_TRY(auto prover, prover_for(request));
  auto& [second, opened] = prover;
  const bool own = second.has_value();
  // What is known to be PyTorch's own may use the shared caches of its compilers.
  PLANISH_TRY(process, device_->runners.fresh_torch(request.own_code));
  if (request.time && request.beside && !backend::named(device_->facts.target).on_host) begin_guests(request.own_code);
  worker::Runner& runner = *process;
  worker::Oracle& oracle = own ? *second : *oracle_;
  // Two processes that wait for nothing of each other: the solution is imported and constructed while the task is
  // captured. The graph is that of the first capture, which no candidate had touched.
  std::string graph = reply_.graph;
  PLANISH_CHECK(import_torch(runner, own && !opened.has_value() ? &oracle : nullptr));
  // The path may be relative to the client's folder, which is ours as well unless a client says otherwise.
  auto loading =
      with_time_left([&] { return runner.load_module(request.path, request_.task, reply_.graph, limits_.open); });
  if (own && !opened.has_value()) {
    PLANISH_TRY(opened, opened_by(oracle));
  }
  if (opened.has_value()) graph = std::move(opened->task.graph);
  PLANISH_TRY(const auto described,
              opened.has_value() ? Result<RegionReply>(std::move(opened->described)) : described(regions_.at("task")));
  reply.skipped = described.skipped;
  reply.degenerate = described.degenerate;
  reply.notes = described.notes;

  // What takes so long compiles: nobody can tell from outside, and whoever wants to measure would wait for it.
  constexpr auto longest_on_device = std::chrono::seconds(5);
  if (loading.wait_for(longest_on_device) != std::future_status::ready) {
    PLANISH_CHECK(off_device([&] {
      loading.wait();
      return Status();
    }));
  }
  auto module = loading.get();
  reply.sandbox = runner.sandbox();
  // Constants that a task draws at random differ from capture to capture.
  if (module.has_value() && graph != reply_.graph)
    module = runner.load_module(request.path, request_.task, graph, limits_.open);
  if (!module.has_value())
    return rejected(runner, module.error(), "importing and constructing it", limits_.open, reply);
  const std::int64_t handle = module->handle;
  if (auto note = note_of(module->state); note.has_value()) reply.notes.push_back(std::move(*note));

  // Neither the order nor the number of calls can be known: what answers every second call from the last, or counts,
  // meets other data.
  std::mt19937_64 draw(static_cast<std::uint64_t>(fresh_seed()));
  const std::vector<std::string> order = order_of(request, described.regimes, gives_few_numbers(graph_), draw);
  PLANISH_TRY(auto data, oracle.make("task", "verify", fresh_seed(), "task", limits_.oracle,
                                     module->state == worker::ModuleState::own));
  const Drop drop(oracle, "verify", limits_.oracle);
  const Unbind unbind(runner, "verify", limits_.load);
  const ModuleUnderTest tested{oracle, runner, handle, data, module->state == worker::ModuleState::own, graph, 0};
  if (auto bound = runner.bind(handle, data.name, module_bindings(data), limits_.load); !bound.has_value())
    return rejected(runner, bound.error(), "giving it buffers", limits_.load, reply);
  const bool on_host = backend::named(device_->facts.target).on_host;
  int number = 0;                     // a data set may make several cases
  std::optional<std::string> spread;  // where NaN and Inf go further than eager's, but nothing else is wrong
  for (const std::string& regime : order) {
    const std::string text = fmt::format("data set {} of {} ({})", ++number, order.size(), regime);
    report_work({.text = text, .number = number, .all = static_cast<int>(order.size())});
    const int repeats = reply.cases.empty() ? 2 + static_cast<int>(draw() % 2) : 1 + static_cast<int>(draw() % 3);
    PLANISH_TRY(bool passed, passes_or_is_outvoted(tested, request, regime, repeats, reply));
    if (passed && !request.own_code && !reply.skipped.contains(regime)) {
      PLANISH_TRY(passed, passes_other_callers(tested, request, callers_of(request, reply, on_host, draw), reply));
    }
    // "Right but for NaN and Inf" is said of all data: what fails otherwise on later data says that instead.
    if (!passed && reply.outcome == Outcome::finite_only) {
      if (!spread.has_value()) spread = reply.message;
      continue;
    }
    if (!passed) {
      spread.reset();
      break;
    }
  }
  if (spread.has_value()) {
    reply.outcome = Outcome::finite_only;
    reply.message = *std::move(spread);
  }
  reply.verified = !reply.cases.empty() &&
                   std::ranges::all_of(reply.cases, [](const TestCase& item) { return item.ok || item.outvoted; });
  if (reply.verified) reply.outcome = Outcome::ok;
  if (reply.verified && tested.own_state) PLANISH_CHECK(prove_other_parameters(tested, request, reply));
  if (reply.verified && request.time) {
    report_work("timing it");
    PLANISH_CHECK(time_module(tested, reply));
    PLANISH_CHECK(time_in_turn(tested, request, reply));
  }
  // Behind the timing: what counts its calls has met those as well.
  if (reply.verified) PLANISH_CHECK(prove_many_calls(tested, request, reply));
  if (auto ran = runner.program_ran(handle, limits_.run); ran.has_value() && ran->ran.has_value())
    reply.program = ProgramCalls{ran->calls, *ran->ran, ran->reason};
  return {};
}

std::optional<KernelBenchVerdict> TaskEvaluator::kernelbench_verdict(const VerifyRequest& request,
                                                                     std::optional<worker::Runner>& runner,
                                                                     std::vector<Note>& notes) {
  if (!on_device().has_value()) return std::nullopt;
  if (!runner.has_value() || !runner->alive()) {
    auto fresh = device_->runners.fresh_torch();
    if (!fresh.has_value()) return std::nullopt;
    runner = std::move(*fresh);
    if (!off_device([&] { return runner->hello(device_->facts.target); }).has_value()) return std::nullopt;
  }
  auto said = runner->kernelbench(request_.task, request.path, request.kernelbench, limits_.open);
  if (said.has_value())
    return KernelBenchVerdict{said->compiled, said->correct, said->message, said->trials, said->metadata};
  if (runner->alive()) {  // a task of another form
    const std::string text = fmt::format("KernelBench's own rule was not asked: {}", said.error().message);
    notes.push_back(Note{.kind = "no_kernelbench", .about = {}, .text = text});
    return std::nullopt;
  }
  // Its harness waits for the process that is gone until the time is over.
  return KernelBenchVerdict{false, false, "it ended the process: " + said.error().message, 0,
                            R"({"error":"Evaluation timed out"})"};
}

}  // namespace planish
