#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "worker/accuracy.h"

/// The evaluation document (docs/formats/evaluation.md) as plain data: one candidate's way through the tiers. Judge,
/// store, search and reports read this; no process is behind it.
namespace planish {

/// In this order: a candidate enters each only when it has passed the one before.
enum class Tier : std::uint8_t { dedup, compile, test, bench };
std::string_view name(Tier tier);

/// What became of the candidate; the names of the document.
enum class Outcome : std::uint8_t {
  ok,
  duplicate,
  invalid_program,
  compile_error,
  compile_timeout,
  load_failed,
  launch_failed,
  wrong,
  finite_only,  ///< right but for where NaN and Inf spread
  degenerate,   ///< right, on a task where what takes no work is right as well
  unwritten,
  nan,
  nondeterministic,
  guard_overwritten,
  input_changed,
  input_write,
  out_of_bounds,
  illegal_address,
  crash,
  exit,
  hang,
  out_of_memory,
  wrong_when_timed,
  time_mismatch,
  faster_than_possible,
  invalid_access,
  race,
  uninitialized_read,
  given_up,
  infrastructure
};
std::string_view name(Outcome outcome);
std::optional<Outcome> outcome_from_name(std::string_view text);

struct KernelReport {
  std::string sha256;  ///< of the binary
  std::int64_t registers = 0, spill_bytes = 0, shared_bytes = 0, local_bytes = 0;
  std::map<std::string, std::int64_t> instructions{};  ///< kind → how often it stands in the compiled code

  std::int64_t instruction(const std::string& kind_of_it) const {
    const auto found = instructions.find(kind_of_it);
    return found == instructions.end() ? 0 : found->second;
  }
};

/// One launch of the program, in its order.
struct LaunchReport {
  int kernel = 0;  ///< into CompileReport::kernels
  std::int64_t blocks = 1, threads = 1;
  std::int64_t cluster = 1;       ///< blocks of a cluster
  std::int64_t shared_bytes = 0;  ///< dynamic, a block
  double waves = 0;               ///< blocks over what the device holds at once; 0 on the CPU
};

struct CompileReport {
  double seconds = 0;
  bool cached = false;  ///< every kernel came from the cache
  std::string log;      ///< the compiler's lines, also of a success (warnings)
  std::vector<KernelReport> kernels;
  std::vector<LaunchReport> launches{};
};

/// One data set that was tried.
struct TestCase {
  std::uint64_t seed = 0;
  /// task | normal | uniform | wide | offset | sparse | rows | large | labels | no_labels | masks | special | infinite
  std::string regime;
  bool ok = false;
  std::string problem;    ///< empty, or the oracle's word: mismatch, unwritten, nan, guard, input_changed
  std::string reference;  ///< fp64 | slice | exact | module
  std::vector<OutputErrors> outputs;
  int variant = 0;           ///< which of the task's other shapes it had; 0: its own
  int runs = 0;              ///< on this data, where their outputs were compared to the bit; 0: they were not
  bool same_bits = true;     ///< they were equal
  bool finite_only = false;  ///< NaN and Inf spread further than eager's, which was permitted
  bool outvoted = false;     ///< a near miss: two further data sets of the regime were right
};

struct TestReport {
  double seconds = 0;
  std::vector<TestCase> cases;
  std::map<std::string, std::string> skipped;  ///< regime → why the task cannot take it
};

/// Absent fields are 0: the driver could not say.
struct Clocks {
  int sm_mhz = 0, mem_mhz = 0, temperature_c = 0;
};

struct BenchReport {
  double median_ms = 0, lo_ms = 0, hi_ms = 0;  ///< median and its 95 % interval
  std::int64_t runs = 0;
  double host_us = 0;  ///< host time to submit one run
  double wall_ms = 0;  ///< per run, measured outside the runner: a check, not a result
  std::vector<double> samples_ms;
  Clocks clocks_before, clocks_after;
};

struct Roofline {
  double bytes = 0, flops = 0;
  double bound_ms = 0;
  std::string bound;    ///< memory | compute
  double fraction = 0;  ///< bound_ms / median_ms; 0 where nothing was timed
};

struct Evaluation {
  std::string program;  ///< hash
  std::string region;
  std::string level;  ///< screen | full
  Tier tier = Tier::dedup;
  Outcome outcome = Outcome::infrastructure;
  std::string message;       ///< one sentence for people; empty when ok
  std::string duplicate_of;  ///< program hash, when outcome is duplicate
  std::optional<CompileReport> compile;
  std::optional<TestReport> test;
  std::optional<BenchReport> bench;
  std::optional<Roofline> roofline;
  std::string again_after;  ///< what broke at a first attempt that said nothing about the candidate; empty without one
  double waited_seconds = 0;  ///< for other processes on the device; no part of what it took

  bool ok() const { return outcome == Outcome::ok; }
};

/// The document's text. parse_evaluation(to_json(e)) gives e again.
std::string to_json(const Evaluation& evaluation);
/// Error kind `bad_evaluation`.
Result<Evaluation> parse_evaluation(std::string_view json);

}  // namespace planish
