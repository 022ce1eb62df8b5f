#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/work_scope.h"
#include "evaluate/evaluation.h"
#include "evaluate/gain.h"
#include "program/checked.h"
#include "worker/memory_report.h"
#include "worker/note.h"

/// What an evaluator does, without saying where: implemented by EvaluatorSession (in this process, session.h), by
/// EvaluatorClient (over a Unix socket, client.h) and by fakes in tests.
namespace planish {

struct DeviceFacts {
  std::string target;         ///< cuda | cpu
  std::string name;           ///< "NVIDIA H200", or the CPU's model
  std::string arch;           ///< "sm_90a"; for the CPU the -march value, resolved, never "native"
  std::string uuid;           ///< "GPU-…"; "cpu"
  std::int64_t sms = 0;       ///< multiprocessors; 0 on the CPU
  std::int64_t l2_bytes = 0;  ///< on the CPU the last-level cache
  double bandwidth_gbs = 0;   ///< streaming copy, bytes read + written, 10⁹ a second
  double peak_gflops = 0;     ///< fp32 without tensor cores, an upper bound
  double tensor_gflops = 0;   ///< dense products of 16-bit operands summed in fp32, an upper bound; 0: not known
  std::int64_t memory_bytes = 0;
  std::int64_t shared_bytes = 0;  ///< shared memory a block may opt in to; 0 on the CPU
  int cores = 0;                  ///< CPU cores this process may use
  bool triton = false;            ///< kernels in Triton can be compiled for it
};

struct OpenRequest {
  std::string task;                ///< path of the task file
  std::string target = "auto";     ///< auto (cuda where there is one) | cuda | cpu
  std::string accuracy = "eager";  ///< eager | permitted | tf32 | a tolerance such as "1e-4"
  std::uint64_t seeds = 0;         ///< seeds the generator that test seeds are drawn from; 0 takes fresh entropy
  std::string blobs;               ///< folder for constants; empty takes <cache>/blobs
  double task_timeout = 0;         ///< seconds to import, build, run once and capture it; 0: the evaluator's own limit
  bool ahead = false;              ///< proofs and claims will follow: what they need is started at once
  /// An evaluator that outlives its clients may keep the task when it is closed, and gives it to the next client that
  /// asks for the same, unless one of its files changed. For trials: its oracle has met candidates before.
  bool keep = false;
  std::vector<std::string> baselines;  ///< with `ahead`: the modes that the claim will ask for
  std::vector<std::string> hidden;     ///< absolute paths that guests are not to see: stores and results
};

struct OpenReply {
  std::string session;
  std::string graph;  ///< planish.graph/1, JSON text
  std::string task_name;
  std::string task_sha256;      ///< of the source file
  std::int64_t parameters = 0;  ///< elements
  std::int64_t input_bytes = 0;
  std::string blobs;              ///< the folder in use
  std::string torch, python;      ///< versions of the oracle's
  std::vector<std::string> dsls;  ///< languages for kernels that a guest could import: "Triton 3.6.0 (import triton)"
  bool kept = false;              ///< it was open already (OpenRequest::keep)
  DeviceFacts device;
};

/// A part of the graph that is searched on its own. Region `task` is the whole.
struct RegionRequest {
  std::string session;
  std::string region;
  std::vector<int> nodes, inputs, outputs;  ///< node indices and value ids of the graph; ignored for `task`
  double bytes = 0, flops = 0;              ///< the least this region must move and compute, for the roofline
  /// Its regimes and trivial outputs are wanted now. They cost a dozen interpretations: without, the reply is empty,
  /// and the regimes are looked for when a candidate is first tested in full.
  bool describe = true;
};

struct RegionReply {
  std::vector<std::string> regimes;            ///< those that stay in the task's domain, `task` first
  std::map<std::string, std::string> skipped;  ///< regime → reason
  std::vector<std::string> degenerate;  ///< trivial outputs that would pass: no claim is made where this is not empty
  std::vector<Note> notes;
};

struct EvaluateRequest {
  std::string session;
  std::string region;
  /// planish.program/1, or planish.solution/1 (program/solution.h) for all of the task.
  program::Given program;
  std::string level = "screen";  ///< screen: one fresh seed. full: five and every regime
  bool bench = true;
  double give_up_ms = 0;  ///< > 0: timing stops with `given_up` when the first runs are slower than this
  bool again = false;     ///< what is known already is evaluated anew, and is no `duplicate`
  bool known = false;     ///< the answer to the same request before, where it was `ok`, will do
};

/// As KernelBench's own rule would have it: its seeds, its tolerances.
struct KernelBenchVerdict {
  bool compiled = false;
  bool correct = false;
  std::string message;
  int trials = 0;
  std::string metadata;  ///< JSON text: the fields that its harness keeps
};

/// A module and the task's own, timed in turn on fresh contents: on the host by our clock, on a GPU each in a guest of
/// its own, by the same messages.
struct BesideTask {
  std::vector<double> own_ms, original_ms;  ///< one a round: on the host a call, on a GPU the median of a turn
  Gain gain;                                ///< of the module over the task's own
};

/// What a verified module took in the process that verified it: on the CPU by our clock (call_times.h); on a GPU it
/// measured itself, and `outside_ms` did not.
struct ModuleTimes {
  double median_ms = 0, lo_ms = 0, hi_ms = 0;
  double host_us = 0;     ///< until a call returns
  double outside_ms = 0;  ///< of single calls on new contents, by our clock: the median, on a GPU the least
  std::vector<double> samples_ms;
  std::optional<BesideTask> beside;  ///< absent where the task's own could not be timed so
  std::string not_beside;            ///< why, where it is absent
};

struct VerifyRequest {
  std::string session;
  std::string path;  ///< a shipped folder, or a .py with a `ModelNew`
  int seeds = 5;
  /// fp32, fp16 or bf16: also ask what KernelBench's own rule says at that precision; its inputs are made on the CPU,
  /// which takes long at real sizes. Empty: do not.
  std::string kernelbench;
  bool own_code = false;       ///< a folder known to hold none but ours: it may use the shared compiler caches
  bool time = false;           ///< also time what was verified; what cheats the clock is not verified
  bool beside = false;         ///< with `time`: in turn with the task's own as well, which a gain is told of
  std::string level = "full";  ///< screen: the task's own data alone
  /// On a GPU: also ask compute-sanitizer about what was verified. What it finds refuses it.
  bool memory_check = false;
  /// No claim is made of it: the task's own oracle judges it, whatever it has met before, instead of a new one that
  /// would capture the task once more. The solution runs in a new guest of its own all the same.
  bool trial = false;
  /// What is right for finite values, and spreads NaN and Inf further than eager does, is verified as well (with a
  /// note); else it is `finite_only`.
  bool finite_only = false;
};

/// What a shipped module did with the calls that verified it.
struct ProgramCalls {
  int calls = 0;
  int ran = 0;         ///< those that its program answered; the original did the others
  std::string reason;  ///< why, where there are others
};

struct VerifyReply {
  bool verified = false;
  Outcome outcome = Outcome::infrastructure;  ///< ok when verified, else by name
  std::string message;
  std::vector<TestCase> cases;
  std::map<std::string, std::string> skipped;
  std::vector<std::string> degenerate;
  std::vector<Note> notes;
  std::optional<KernelBenchVerdict> kernelbench;
  std::optional<ModuleTimes> times;  ///< where they were asked for, and it was verified
  /// Whether eager gives the same bits each time; asked where the solution does not, and memory suffices.
  std::optional<bool> eager_same_bits;
  /// On a GPU: what each tool of compute-sanitizer said, or why it was not asked.
  std::vector<worker::MemoryCheck> memory;
  std::optional<ProgramCalls> program;  ///< absent where the solution ships no program
  std::string sandbox;                  ///< JSON text: what held the solution in its place (docs/sandbox.md)

  /// Whether all of it was proved of the program, and not of the original that ran in its place.
  bool fell_back() const { return program.has_value() && program->ran < program->calls; }
};

/// Names for `modes`: eager, compile, max_autotune_no_cudagraphs, max_autotune.
struct ClaimRequest {
  std::string session;
  std::string path;                ///< the shipped folder; empty times the baselines alone
  std::vector<std::string> modes;  ///< empty means all four
  int min_runs = 10;
  int max_runs = 200;
  double max_seconds = 5;  ///< for each name
  bool more = false;       ///< another claim follows: what was started for this one may stay
  bool known = false;      ///< times of baselines that this session took before will do
};

struct ClaimTime {
  std::string name;  ///< a mode, or `shipped`
  double median_ms = 0, lo_ms = 0, hi_ms = 0, host_us = 0;
  double latency_ms = 0, latency_lo_ms = 0, latency_hi_ms = 0;  ///< of a call on an idle device; 0: not measured
  double kept_ms = 0, kept_lo_ms = 0, kept_hi_ms = 0;  ///< of calls whose caller keeps the results; 0: not measured
  double busy = 0;  ///< threads of others that wanted each processor meanwhile, on average; 0: none, or not asked
  std::vector<double> samples_ms;
  double compile_seconds = 0;
  std::optional<Error> error;  ///< this one could not be made or timed; the others stand

  MeasuredTime measured() const { return {median_ms, lo_ms, hi_ms}; }
  MeasuredTime kept() const { return {kept_ms, kept_lo_ms, kept_hi_ms}; }
};

struct ClaimReply {
  std::vector<ClaimTime> times;
  Clocks clocks_before, clocks_after;
  const ClaimTime* find(std::string_view mode) const;
};

/// Every method may be called from any thread; calls of one session overlap where the contracts allow it (compiling
/// with timing on a GPU). A failed candidate is an Evaluation with its outcome; an Error means that the question itself
/// could not be answered: `no_session`, `no_region`, `no_device`, `environment`, `closed`, or what the oracle said
/// about the task; and `out_of_time`, where the calling thread's WorkScope left less time than it took.
class EvaluatorApi {
 public:
  virtual ~EvaluatorApi() = default;
  /// Starts the oracle, captures the task. Errors about the task carry the oracle's kind (`no_such_file`, `no_model`,
  /// `not_exportable`, …).
  virtual Result<OpenReply> open(const OpenRequest& request) = 0;
  virtual Result<RegionReply> region(const RegionRequest& request) = 0;
  virtual Result<Evaluation> evaluate(const EvaluateRequest& request) = 0;
  virtual Result<VerifyReply> verify(const VerifyRequest& request) = 0;
  virtual Result<ClaimReply> claim(const ClaimRequest& request) = 0;
  virtual Status close(const std::string& session) = 0;
  /// Whoever is told what is being done or waited for while calls are in flight (a lock that another run holds, a stage
  /// of the capture). Called from another thread, not concurrently; an empty one ends it. An evaluator in this process
  /// tells the caller's WorkScope instead.
  virtual void listen(WorkScope::Listener listener) { (void)listener; }
  /// From now on, where `ends`, a call that is under way when a person interrupts ends at once and fails as
  /// `interrupted`, and so do those after it; else, and at first, calls other than `open` are waited for.
  virtual void end_when_interrupted(bool ends) { (void)ends; }
};

}  // namespace planish
