#include "evaluate/outcome_of.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace planish {

Outcome outcome_of_runner(const Error& error, const std::optional<worker::Fault>& fault) {
  const ErrorKind kind = error.kind;
  if (kind == "bad_program" || kind == "bad_argument") return Outcome::invalid_program;
  if (kind == "load_failed") return Outcome::load_failed;
  if (kind == "launch_failed" || kind == "runner_error") return Outcome::launch_failed;
  if (kind == "input_write") return Outcome::input_write;
  if (kind == "illegal_address") return Outcome::illegal_address;
  if (kind == "out_of_memory") return Outcome::out_of_memory;
  if (kind == "exit") return Outcome::exit;
  if (kind == "hang") return Outcome::hang;
  if (kind == "killed") return Outcome::crash;
  if (kind == "crash") {
    if (fault.has_value() && fault->where.starts_with("input:")) return Outcome::input_write;
    if (fault.has_value() && fault->where.starts_with("guard:")) return Outcome::out_of_bounds;
    return Outcome::crash;
  }
  // Garbage on the wire comes from a runner whose memory the candidate has overwritten.
  if (kind == "protocol") return Outcome::crash;
  return Outcome::infrastructure;
}

bool ends_the_run(const Error& error) {
  return error.kind == "disk_full" || error.kind == "cache_unwritable" || error.kind == "no_compiler" ||
         error.kind == "device_lost";
}

bool is_device_failure(const Error& error) {
  return error.kind == "device_lost" || error.kind == "no_device";
}

Outcome outcome_of_compiler(const Error& error) {
  if (error.kind == "compile_error") return Outcome::compile_error;
  if (error.kind == "compile_timeout") return Outcome::compile_timeout;
  // A compiler that a source brings down is that source's fault.
  if (error.kind == "crash" || error.kind == "killed" || error.kind == "exit" || error.kind == "out_of_memory")
    return Outcome::compile_error;
  return Outcome::infrastructure;
}

Outcome outcome_of_check(const worker::CheckReply& check) {
  if (check.ok) return Outcome::ok;
  if (check.problem == "unwritten") return Outcome::unwritten;
  if (check.problem == "nan") return Outcome::nan;
  if (check.problem == "finite_only") return Outcome::finite_only;
  if (check.problem == "guard") return Outcome::guard_overwritten;
  if (check.problem == "input_changed") return Outcome::input_changed;
  return Outcome::wrong;
}

void enter(TestCase& test_case, const worker::CheckReply& check) {
  test_case.ok = check.ok;
  test_case.problem = check.problem;
  test_case.reference = check.reference;
  test_case.outputs = check.outputs;
}

void judge_again(worker::CheckReply& check, std::size_t outputs) {
  if (!check.ok) return;
  const auto refuse = [&](std::string message) {
    check.ok = false;
    check.problem = "mismatch";
    check.message = std::move(message);
  };
  if (check.outputs.size() != outputs)
    return refuse(fmt::format("the check compared {} of {} outputs", check.outputs.size(), outputs));
  // Of what is not finite the oracle says so in numbers this large.
  constexpr double endless = 1e299;
  const auto within = [](double error, double gate) { return error >= 0 && error <= gate && gate < endless; };
  for (std::size_t i = 0; i < outputs; ++i) {
    const OutputErrors& e = check.outputs[i];
    if (!within(e.fro, e.gate_fro) || !within(e.max, e.gate_max))
      return refuse(fmt::format("output {}: errors {:.3g} and {:.3g} are not within {:.3g} and {:.3g}", i, e.fro, e.max,
                                e.gate_fro, e.gate_max));
    if (!within(e.ratio, 1))
      return refuse(fmt::format("output {}: `{}` is {:.3g} times what is allowed", i, e.statistic, e.ratio));
  }
}

bool is_near_gate(const TestCase& item) {
  // What honest programs reach in one draw of some hundred, and do not reach again (docs/accuracy.md).
  constexpr double from = 0.95, to = 1.5;
  if (!item.ok && item.problem != "mismatch") return false;
  double ratio = 0;
  for (const OutputErrors& errors : item.outputs) ratio = std::max(ratio, errors.ratio);
  return ratio > from && ratio <= to;
}

std::size_t outputs_of(const worker::DataSet& set) {
  return static_cast<std::size_t>(
      std::ranges::count_if(set.buffers, [](const auto& buffer) { return buffer.role == "output"; }));
}

bool repeats_disagree(const worker::CheckReply& first, const worker::CheckReply& second) {
  if (first.outputs.size() != second.outputs.size()) return true;
  // Atomics may add in another order: that moves the error by a part of what rounding is allowed, or each element by
  // one of its last places to either side where eager rounds no more than once; a race by more.
  const auto differ = [](double a, double b, double gate, double eps) {
    return std::fabs(a - b) > std::max(0.5 * gate, 2 * eps);
  };
  for (std::size_t i = 0; i < first.outputs.size(); ++i) {
    const OutputErrors& a = first.outputs[i];
    const OutputErrors& b = second.outputs[i];
    if (differ(a.fro, b.fro, a.gate_fro, a.eps) || differ(a.max, b.max, a.gate_max, a.eps)) return true;
  }
  return false;
}

bool is_wrong(Outcome outcome) {
  switch (outcome) {
    case Outcome::wrong:
    case Outcome::finite_only:
    case Outcome::nan:
    case Outcome::unwritten:
    case Outcome::nondeterministic:
    case Outcome::wrong_when_timed:
      return true;
    default:
      return false;
  }
}

std::string time_mismatch(const worker::Timing& timing, double wall_seconds) {
  double sum_ms = 0;
  for (double sample : timing.samples_ms) sum_ms += sample;
  const double wall_ms = wall_seconds * 1000;
  const double runs = static_cast<double>(timing.samples_ms.size());
  if (sum_ms > wall_ms * 1.01 + 0.5) {
    return fmt::format("the runner reports {:.3f} ms of runs within {:.3f} ms of wall time", sum_ms, wall_ms);
  }
  // Warm-up, cache flushes, launches, resets and a torch runner's first allocations lie outside the samples: generous,
  // and a run of any length that reports a tenth still stands out.
  const double allowed_ms = 4 * sum_ms + 2.0 * runs + 2500;
  if (wall_ms > allowed_ms) {
    return fmt::format("{} runs took {:.1f} ms of wall time, and the runner reports {:.3f} ms", runs, wall_ms, sum_ms);
  }
  return {};
}

}  // namespace planish
