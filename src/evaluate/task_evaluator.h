#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "evaluate/api.h"
#include "evaluate/binding.h"
#include "evaluate/dedup.h"
#include "evaluate/device_host.h"
#include "evaluate/early_baseline.h"
#include "evaluate/early_oracle.h"
#include "evaluate/file_stamps.h"
#include "evaluate/needed_work.h"
#include "evaluate/session.h"
#include "ir/graph.h"
#include "worker/baseline.h"
#include "worker/oracle.h"

namespace planish {

/// One open task: its oracle, regions, data sets, and the four tiers. Thread-safe; the device stage is the DeviceHost's
/// mutex, which also guards the oracle and everything below it.
class TaskEvaluator {
 public:
  TaskEvaluator(worker::Toolbox tools, Limits limits, std::shared_ptr<DeviceHost> device, OpenRequest request);
  ~TaskEvaluator();

  Result<OpenReply> open();
  /// For another client: what open() gave, with this one's limits.
  Result<OpenReply> open_again(const OpenRequest& request);
  /// Whether it was opened to be tried again and again: whatever it has met, it stays the same task.
  bool for_tries() const { return request_.keep; }
  /// Whether the next client may have it as if it had opened it: it is still what its files say, and was opened for
  /// tries or has met nothing but solutions. With a request, whether that asks for it. While nobody asks it anything.
  bool can_be_kept() const;
  bool can_be_kept(const OpenRequest& request) const;
  Result<RegionReply> region(const RegionRequest& request);
  Result<Evaluation> evaluate(const EvaluateRequest& request);
  Result<VerifyReply> verify(const VerifyRequest& request);
  Result<ClaimReply> claim(const ClaimRequest& request);
  /// Starts what the next task will need. Ends nothing of this one's.
  void make_ready();
  /// Gives back what its data take of the device: they are made again when somebody asks. While nobody asks it
  /// anything.
  void let_go();

 private:
  struct Data {
    std::string name;
    worker::DataSet set;
    int uses = 0;                  ///< candidates that met its contents since they were made
    std::uint64_t seed = 0;        ///< of its contents
    bool own_kind = true;          ///< these are of the task's own kind, not of another regime
    double expecting_seconds = 0;  ///< that the float64 reference took when they were first compared with
  };
  struct Region {
    RegionRequest request;
    int inputs = 0, outputs = 0;  ///< tensors; known once data were made
    std::vector<int> checked;     ///< numbers of the output buffers: k of `out{k}`
    std::vector<Data> data;       ///< [0] is tested on, all are timed
    double new_data_seconds = 0;  ///< that other contents of data[0], and what is expected of them, took last
    RegionReply reply;
    bool knows_regimes = false;  ///< in the reply
    bool described = false;      ///< all of the reply is there
  };
  /// A candidate in the device stage.
  struct Loaded {
    worker::Runner* runner = nullptr;
    worker::Runner::Kind kind = worker::Runner::Kind::native;
    std::int64_t handle = -1;
    BindingPlan plan;
    std::vector<std::string> bound;
    bool after_others = false;              ///< the runner has run other candidates
    bool died = false;                      ///< the runner did, and not for taking too long
    std::string* device_failure = nullptr;  ///< set where the device failed and not the candidate
  };
  struct Compiled {
    std::vector<std::string> paths, hashes;
  };

  class Bench;
  class Claiming;
  class ModuleTiming;
  class InTurn;
  /// Two guests that have run nothing yet, for a module and the task's own.
  struct Guests {
    worker::Runner own, original;
  };
  /// A module in the process that runs it, on a data set that it was verified on.
  struct ModuleUnderTest {
    worker::Oracle& oracle;
    worker::Runner& runner;
    std::int64_t handle;
    const worker::DataSet& data;
    bool own_state;
    const std::string& graph;  ///< that it was loaded with
    int variant;               ///< which of the task's other shapes; 0: its own
  };

  /// From guests, from now on. Expects the stage.
  void hide(const std::vector<std::string>& paths);
  Status start_oracle();
  /// True where the next oracle is a twin of the last one.
  bool keeps_twins() const;
  /// Starts what proof and claim will need, where they were announced (OpenRequest::ahead). `oracle`: the next one,
  /// too.
  void start_what_proves(bool oracle);
  /// After the oracle died: a new one, with task and regions; data sets are made again when needed.
  Status revive_oracle();
  /// A candidate that is Python: verified as a guest, by the task's own oracle, and timed.
  Result<Evaluation> evaluate_solution(const EvaluateRequest& request, const std::string& python,
                                       Evaluation evaluation);
  Result<Evaluation> evaluate_anew(const EvaluateRequest& request, const program::Checked& program,
                                   Evaluation evaluation);
  /// `device_failure` says what the device did where it failed.
  Result<Evaluation> attempt(const EvaluateRequest& request, const program::Checked& checked, Evaluation evaluation,
                             std::string& device_failure);
  std::unexpected<Error> device_lost(const std::string& message) const;
  /// After the device failed: ends every process that used it. `device_lost` where a new one cannot use it either.
  Status renew_device(const std::string& message);
  /// Nothing when a kernel does not compile (the evaluation says why). Errors: `disk_full`, `cache_unwritable`.
  Result<std::optional<Compiled>> compile(const program::Program& program, Evaluation& evaluation);
  Result<Region*> find_region(const std::string& name);
  /// Whether a region of this name has been described; without the stage.
  Status check_region(const std::string& name);
  Status add_regimes(worker::Oracle& oracle, const std::string& region, RegionReply& reply) const;
  Status add_trivial_outputs(worker::Oracle& oracle, const std::string& region, RegionReply& reply) const;
  /// Regimes and trivial outputs of a region that the oracle knows.
  Result<RegionReply> description_of(worker::Oracle& oracle, const std::string& region) const;
  /// The same by the task's own oracle, which is asked once.
  Result<RegionReply> described(Region& region);
  /// Regimes alone, which is what a test needs.
  Status know_regimes(Region& region);
  /// Whether a region computes what the task does, from the same: its regimes and degenerate outputs are the task's.
  bool is_whole(const RegionRequest& request) const;
  /// Whether a region gives all that the task does, from nothing but what the task is given.
  bool makes_everything(const RegionRequest& region) const;
  Status ensure_data(Region& region, std::size_t count);
  std::size_t timed_sets(const Region& region) const;
  /// Of a region that is not the whole task, and of a task that constants answer, only what it writes is needed.
  NeededWork needed_of(const Region& region) const;
  /// Drops the data of the other regions where theirs and this one's would not fit in the device's memory together.
  void make_room(const Region& region);
  /// Of all regions but one (null: of all). Expects the oracle.
  void drop_data(const Region* kept);
  std::uint64_t fresh_seed();
  Result<Evaluation> evaluate_here(const EvaluateRequest& request);
  /// On the stage: what needs no device goes on without it (DeviceTurn::away).
  template <typename Work>
  auto off_device(Work&& work) {
    return device_->turn.away(reply_.task_name, limits_.lock, std::forward<Work>(work));
  }
  /// The same after something was measured: whoever waited to measure may have the device now, and is waited for.
  Status on_device() { return device_->turn.begin(reply_.task_name, limits_.lock); }
  Result<DeviceHost::Stage> take_stage() { return device_->take_stage(this, reply_.task_name, limits_.lock); }

  /// These fill in the evaluation and return false where the candidate is through. An Error is our own side's.
  /// `fresh`: in a runner that has run no other candidate.
  Result<bool> load(Region& region, const program::Program& program, const Compiled& compiled, bool fresh,
                    Loaded& loaded, Evaluation& evaluation);
  Result<bool> bind(Region& region, std::size_t index, Loaded& loaded, Evaluation& evaluation);
  Result<bool> test(Region& region, const std::string& level, Loaded& loaded, Evaluation& evaluation);
  Result<bool> test_case(Data& data, const std::string& stage, Loaded& loaded, TestCase& test_case, Outcome& outcome,
                         std::string& message);
  /// On one data set of a regime, which is a case of the report.
  Result<bool> test_regime(Region& region, const std::string& level, const std::string& regime, Loaded& loaded,
                           Evaluation& evaluation);
  /// Kernels for the host, on the data that they were right on, with other numbers of threads than the machine has:
  /// whoever calls them says how many they get. Its case is in the report where it failed.
  Result<bool> test_threads(Region& region, Loaded& loaded, Evaluation& evaluation);
  /// Whether the last case missed the gate narrowly, and two further data sets of its regime do not, as in a proof.
  Result<bool> is_outvoted(Region& region, const std::string& regime, Loaded& loaded, Evaluation& evaluation);
  /// New contents for data[0], unless those that it holds will do for a first look at a candidate (`screen`), which is
  /// on the task's own kind alone. True where they are new; why not is in the report's `skipped` where they were
  /// refused.
  Result<bool> renew(Region& region, const std::string& level, const std::string& regime, TestReport& report);
  /// Whether new contents take it about as long as contents it has met before: a program that keeps results does not
  /// do the work that is timed. Needs at least two data sets, bound; leaves new contents in the first.
  Result<bool> computes_anew(Region& region, Loaded& loaded, Evaluation& evaluation);
  Result<bool> bench(Region& region, const EvaluateRequest& request, Loaded& loaded, Evaluation& evaluation);
  /// Ends the candidate by the runner's error, and the runner where it is of no more use.
  bool runner_failed(const Error& error, Loaded& loaded, Outcome& outcome, std::string& message);
  /// Ends a runner that a candidate may have changed (its clock), so that the next one gets another.
  void replace_runner(Loaded& loaded);
  void release(Loaded& loaded);
  /// Opens the task for the proof while a program of the whole of it is tested, where opening takes long and the device
  /// has room for two. Whoever tests settles it before anything is timed.
  void open_for_proof(const EvaluateRequest& request);
  /// Who proves: the task's own oracle, unless there is a second one, which may have opened the task.
  struct Prover {
    std::optional<worker::Oracle> second;
    std::optional<EarlyOracle::Opened> opened;
  };
  Result<Prover> prover_for(const VerifyRequest& request);
  /// By an oracle that has answered hello().
  Result<EarlyOracle::Opened> opened_by(worker::Oracle& oracle) const;
  /// The proof itself: fills in the reply. `runner` stays for what else is asked of it.
  Status prove(const VerifyRequest& request, std::optional<worker::Runner>& runner, VerifyReply& reply);
  /// Waits, away from the device, until a guest that is new has imported PyTorch, and an oracle where one is given.
  Status import_torch(worker::Runner& runner, worker::Oracle* oracle);
  Status prove_own_shapes(const VerifyRequest& request, std::optional<worker::Runner>& runner, VerifyReply& reply);
  /// The same solution on the other shapes that the task's file declares.
  Status prove_variants(const VerifyRequest& request, worker::Runner& runner, VerifyReply& reply);
  /// A solution that keeps its own parameters, constructed once more with others. Expects it to be right with its own.
  Status prove_other_parameters(const ModuleUnderTest& tested, const VerifyRequest& request, VerifyReply& reply);
  /// One new data set, run so often. False where the solution is through, and the reply says why.
  Result<bool> passes(const ModuleUnderTest& tested, const VerifyRequest& request, const std::string& regime,
                      int repeats, VerifyReply& reply);
  /// The same, but that near the gate two further data sets of the regime decide: two of three must be right.
  Result<bool> passes_or_is_outvoted(const ModuleUnderTest& tested, const VerifyRequest& request,
                                     const std::string& regime, int repeats, VerifyReply& reply);
  /// The same module, on the data set that it was right on, for callers with torch in another state than a proof's.
  /// What raises there is noted, what answers must be right, unless the task itself is not.
  Result<bool> passes_other_callers(const ModuleUnderTest& tested, const VerifyRequest& request,
                                    const std::vector<std::string_view>& callers, VerifyReply& reply);
  Result<bool> task_answers(const ModuleUnderTest& tested, std::string_view caller);
  /// Whether the task gives other results in its other mode (dropout): then nothing is asked of a solution there. By
  /// the oracle, once, on the data set that comes first.
  Result<bool> gives_another_in_other_mode(const ModuleUnderTest& tested);
  /// What was right is called many times more, and with its counts and clocks moved on; then it must be right on new
  /// data.
  Status prove_many_calls(const ModuleUnderTest& tested, const VerifyRequest& request, VerifyReply& reply);
  /// Ends a proof by the runner's error. An Error where the fault is not the solution's.
  Status rejected(worker::Runner& runner, const Error& error, const char* doing, double limit, VerifyReply& reply);
  /// Which input a module that died writes to, where it does.
  std::optional<std::string> written_input(const ModuleUnderTest& tested, const VerifyRequest& request);
  double module_run_limit() const;
  /// Whether what the module gets for the task's parameters changes from data set to data set.
  bool draws_parameters(const ModuleUnderTest& tested) const;
  void check_memory(const VerifyRequest& request, VerifyReply& reply);
  /// Times it from outside and checks what the timed calls gave; what cheats is no longer verified.
  Status time_module(const ModuleUnderTest& tested, VerifyReply& reply);
  /// The task's own model, loaded in `yardstick_`, a process that runs nothing else: its handle.
  Result<std::int64_t> yardstick(const ModuleUnderTest& tested);
  /// On a GPU, times what time_module() let through beside the task's own, in turn, each in a guest of its own; where
  /// that fails the reply says why. On the host time_module() has done so, by our clock.
  Status time_in_turn(const ModuleUnderTest& tested, const VerifyRequest& request, VerifyReply& reply);
  /// Starts the guests for that, where there are none: they import PyTorch while something else is done.
  void begin_guests(bool own_code);
  /// Of KernelBench's own rule; nothing where the task cannot be put to it.
  std::optional<KernelBenchVerdict> kernelbench_verdict(const VerifyRequest& request,
                                                        std::optional<worker::Runner>& runner,
                                                        std::vector<Note>& notes);
  /// Whether one of these baselines is a mode of torch.compile.
  static bool compiles(const std::vector<std::string>& modes);
  /// Whether the process that times baselines may stay after this claim.
  bool keeps_baseline(const ClaimRequest& request) const;
  /// Whether so many sets of inputs, and the parameters, take less than this share of the device's memory.
  bool baseline_fits(double sets, double share) const;
  /// Compiles what the claim will ask for, where that disturbs nobody: on a GPU, whose candidates need no host.
  void begin_baselines();

  worker::Toolbox tools_;
  Limits limits_;
  std::shared_ptr<DeviceHost> device_;
  OpenRequest request_;
  OpenReply reply_;
  FileStamps files_;                                          ///< of what the task was made of
  bool variants_ = false;                                     ///< the task's file declares other shapes
  std::map<int, std::optional<bool>> other_mode_;             ///< by variant, whether its other mode gives the same
  std::map<std::vector<std::string>, ClaimReply> baselines_;  ///< by modes, for those who need no new ones
  ir::Graph graph_;
  std::optional<worker::Oracle> oracle_;
  std::optional<worker::Baseline> baseline_;  ///< that an earlier claim left
  std::unique_ptr<EarlyBaseline> early_;      ///< what compiles for the claim
  std::unique_ptr<EarlyOracle> prover_;       ///< what opens the task for the proof of what ships
  double open_seconds_ = 0;                   ///< that the task took to be opened
  std::optional<worker::Runner> yardstick_;   ///< what solutions are timed beside, on the host
  std::optional<std::int64_t> yardstick_handle_;
  std::string yardstick_graph_;   ///< that its model was loaded with
  std::optional<Guests> guests_;  ///< for the solution that is being proved
  bool touched_ = false;          ///< a candidate of a search has run on the oracle's buffers
  std::map<std::string, Region> regions_;
  std::mutex names_mutex_;
  std::set<std::string> names_;              ///< of regions_
  std::map<std::string, Evaluation> known_;  ///< answers to requests that may be given again
  Dedup dedup_;
  std::mutex seed_mutex_;
  std::mt19937_64 seeds_;
};

}  // namespace planish
