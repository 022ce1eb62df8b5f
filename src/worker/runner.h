#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/owned_folder.h"
#include "base/result.h"
#include "program/program.h"
#include "worker/messages.h"
#include "worker/toolbox.h"

namespace planish::worker {

class Child;

/// KernelBench's own rule, where the torch runner was asked for it.
struct KernelBenchReply {
  bool compiled = false;
  bool correct = false;
  std::string message;
  int trials = 0;
  std::string metadata;  ///< JSON text: the harness's own fields
};

/// How a module's parameters and buffers were told to be the task's.
enum class ModuleState {
  by_name,
  by_order,  ///< other names, the same shapes and values in the same order
  own,       ///< they cannot be: it keeps those that it was constructed with
};

struct LoadedModule {
  std::int64_t handle = -1;
  ModuleState state = ModuleState::by_name;
};

/// What a module is loaded for, other than to be run.
enum class ModuleUse {
  run,
  rehearse,   ///< it gets copies of what it may not write, and `run` fails as `input_write` if it has written one
  reference,  ///< the task's own model, whatever the path says
};

/// How a call that is rung for is done.
struct CallKind {
  bool empty = false;  ///< it calls nothing, and answers with tensors that were there before
  bool store = false;  ///< the bound outputs are written before it answers, and a GPU has nothing left to do
};

/// A call that was rung for (Child::ring).
struct RungCall {
  double ms = 0;
  pid_t process = 0;     ///< in whose memory the results lie; 0 where that is not known
  std::string results;   ///< where (results_of.h); its own word, and empty where they were stored
  double worked_ms = 0;  ///< of a processor, before it was rung for: nothing, of who does nothing while it is stopped
};

/// How many calls of a loaded module its shipped program answered; `ran` is absent where it has none.
struct ProgramRanReply {
  int calls = 0;
  std::optional<int> ran;
  std::string reason;  ///< why the original ran instead; empty where it never did
};

/// The process that executes programs. Nothing it says is believed beyond its declared fields. One caller at a time.
///
/// Errors a runner reports itself: `bad_program`, `load_failed`, `launch_failed`, `illegal_address`, `input_write`,
/// `out_of_memory`; any other kind becomes `runner_error`. Errors of Child (rpc.h) mean that it must be replaced. After
/// `illegal_address` on a GPU the context is poisoned: replace it too.
class Runner {
 public:
  enum class Kind { native, torch };
  /// `device` is cpu or cuda; `max_rss` bytes of resident memory, 0 for no limit.
  /// A torch runner is a guest (docs/sandbox.md); `own_code_only`: it will run nothing but code of ours,
  /// PyTorch's own compilers first, and imports those beforehand.
  static Result<Runner> start(const Toolbox& tools, Kind kind, const std::string& device, std::size_t max_rss = 0,
                              bool own_code_only = false);
  static Result<Runner> start(const SpawnOptions& options, Kind kind);
  Runner(Runner&&) noexcept;
  Runner& operator=(Runner&&) noexcept;
  ~Runner();

  Result<HelloReply> hello(const std::string& device, double timeout_seconds = 120);
  /// `program` is a document; `binaries` one path a kernel.
  Result<LoadReply> load(const program::Program& program, const std::vector<std::string>& binaries,
                         const std::string& blobs, double timeout_seconds);
  /// `graph`: the task's captured graph. Parameters and buffers come from the bound data where the module's can be told
  /// to be the task's.
  Result<LoadedModule> load_module(const std::string& path, const std::string& task, const std::string& graph,
                                   double timeout_seconds, ModuleUse use = ModuleUse::run,
                                   Variation variation = std::nullopt);
  Status bind(std::int64_t handle, const std::string& data, const std::vector<Binding>& bindings,
              double timeout_seconds);
  /// Milliseconds that the runtime took. `threads`: how many host code may have; 0 for as many as the machine has.
  Result<double> run(std::int64_t handle, const std::string& data, double timeout_seconds, int threads = 0);
  /// The same for a caller with torch in another state (callers.py). What a module raised; empty where it answered, and
  /// its results are stored.
  Result<std::string> run_as(std::int64_t handle, const std::string& data, std::string_view caller,
                             double timeout_seconds);
  /// Calls a module so often, or until the time is over, and at least once: how often it did. Stores what the last call
  /// gave.
  Result<int> run_often(std::int64_t handle, const std::string& data, int calls, double seconds,
                        double timeout_seconds);
  /// Moves what a module's code counts, and its clocks, on as if it had been called so often: what, in words.
  Result<std::vector<std::string>> wind(std::int64_t handle, int calls, double timeout_seconds);
  Result<Timing> time(std::int64_t handle, const TimeRequest& request, double timeout_seconds);
  /// One call of a loaded module, for whoever holds a clock outside. After prepare_call() it waits, and is stopped with
  /// all that came of it; call_now() is the call, after which it is stopped again; finish_call() says what came of it.
  Status prepare_call(std::int64_t handle, const std::string& data, CallKind kind, double timeout_seconds);
  Result<RungCall> call_now(double timeout_seconds);
  Status finish_call(double timeout_seconds);
  /// Stops it, with all that came of it, until the next request: nothing of it runs while something else is timed.
  void hold();
  /// Milliseconds of a processor that they have used all the same since they were last stopped.
  double worked_while_stopped_ms() const;
  Status unbind(const std::string& data, double timeout_seconds);
  Status unload(std::int64_t handle, double timeout_seconds);
  /// Of a handle that load_module gave.
  Result<ProgramRanReply> program_ran(std::int64_t handle, double timeout_seconds);
  /// `precision`: fp32, fp16 or bf16.
  Result<KernelBenchReply> kernelbench(const std::string& task, const std::string& path, const std::string& precision,
                                       double timeout_seconds);

  Kind kind() const { return kind_; }
  bool alive() const;
  /// Whether a spare's process is still there.
  bool running();
  const std::optional<Fault>& fault() const;
  /// JSON text of what holds a torch runner in its place; empty for others, and before hello().
  const std::string& sandbox() const;
  void set_memory_limit(std::size_t bytes);
  void kill();

 private:
  Runner(std::unique_ptr<Child> child, Kind kind);
  std::optional<OwnedFolder> scratch_;  ///< outlives the child
  std::unique_ptr<Child> child_;
  Kind kind_ = Kind::native;
};

}  // namespace planish::worker
