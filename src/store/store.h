#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

/// What is remembered between commands: runs, their regions and every evaluation. Metadata in SQLite, documents and
/// programs in content-addressed files beside it.
namespace planish::store {

/// `user_version` of the files that this code writes.
inline constexpr int schema_version = 4;

struct RunRecord {
  std::string id;
  std::string task;          ///< name
  std::string task_path;     ///< absolute
  std::string task_sha256;   ///< of the source when the run began
  std::string target;        ///< cpu | cuda
  std::string device;        ///< name of the device
  std::string settings;      ///< JSON object: what must be equal for a resumed run to replay
  std::string state;         ///< running | finished | interrupted | failed
  std::string outcome;       ///< empty until there is one
  std::string out_folder;    ///< absolute
  double started = 0;        ///< seconds since 1970
  double finished = 0;       ///< 0 while running
  double speedup = 0;        ///< against the headline baseline; 0 if not known
  std::string result;        ///< object name of the result document; empty until finished
  std::string graph;         ///< object name of the captured graph; empty where not kept
  std::string device_facts;  ///< JSON object: what the evaluator said of the device; empty where not kept
};

struct RegionRecord {
  std::string id;          ///< "r0"
  std::string key;         ///< canonical key: equal regions have equal keys
  int count = 1;           ///< how many times the task has it
  std::string genes{};     ///< "name=1,2,4 name=…": the choices that the search had; empty where not known
  bool searched = false;   ///< it could be set up
  double fallback_ms = 0;  ///< of its PyTorch form, as the search took it; 0 where not known
  double bound_ms = 0;     ///< roofline, likewise
};

struct EvaluationRecord {
  std::string region;      ///< id within the run
  std::string region_key;  ///< canonical key
  std::string program;     ///< hash; also the object name of its canonical text
  std::string genome;      ///< text form; empty for programs without one
  std::string level;       ///< screen | full
  bool benched = false;
  std::string tier;
  std::string outcome;
  double median_ms = 0;     ///< 0 if not benched
  double at_seconds = 0;    ///< since the run began
  std::string document;     ///< the evaluation document itself (not its name)
  std::string parent;       ///< program that this one was made from; empty where not known
  int cell = -1;            ///< of the archive; −1 where not known
  std::string proposer;     ///< who proposed it, in the search's own words; may be empty
  std::int64_t asked = -1;  ///< number of the proposal within the search; −1 where it was none
  double predicted_ms = 0;  ///< what a model said before it was measured; 0 where none did
};

/// A coder's turn in a search: what no replay could derive again.
struct TurnRecord {
  std::int64_t asked = 0;  ///< as in EvaluationRecord
  std::string region;      ///< id within the run
  std::string seat;        ///< name
  std::string proposal;    ///< its text, "source HASH" or "patch HASH": the object of that name is its document
  bool dry = false;        ///< the strategies were asked first and had nothing
  std::string error;       ///< why it could not be built; empty where it could, or was not tried
};

/// What a kernel is filed under. The words are the model's (model/features.h); the store only compares them.
struct KernelRecord {
  std::string device;  ///< name of the device
  std::string key;     ///< canonical key of the region
  std::string pattern, kinds, bucket, facts;
};

/// What became of one genome of a kernel: a record that outlives its run.
struct OutcomeRecord {
  std::string device, key;  ///< of its KernelRecord
  std::string run;
  std::string genome, features;
  std::string outcome;
  double median_ms = 0, bound_ms = 0;  ///< 0 where not known
  double at = 0;                       ///< seconds since 1970
};

/// A kernel with what is known of its genomes.
struct TuningRecord {
  KernelRecord kernel;
  std::vector<OutcomeRecord> outcomes;  ///< oldest first
};

/// One thread at a time. Several processes may share a store.
///
/// Every call commits before it returns, objects first, so that a row never names an object that is not there: killing
/// the process at any moment loses at most the call in progress.
///
/// Error kinds: `store_newer`, `store_unwritable`, `store_corrupt`, `store_busy`, `disk_full`, `no_such_run`.
class Store {
 public:
  /// Opens for writing; creates the file and its folder where missing. `:memory:` keeps everything in memory.
  static Result<Store> open(const std::filesystem::path& file);
  /// Opens for reading. A file that does not exist reads as an empty store and is not created.
  static Result<Store> open_existing(const std::filesystem::path& file);
  /// `$XDG_DATA_HOME/planish/store.db`, with the usual fallback to `~/.local/share`.
  static std::filesystem::path default_file();

  Store(Store&&) noexcept;
  Store& operator=(Store&&) noexcept;
  ~Store();

  /// Adds a run, or takes up again one of the same id.
  Status begin_run(const RunRecord& run);
  /// Writes state, outcome, finished, speedup; a non-empty `result_document` is stored as an object.
  Status finish_run(const RunRecord& run, std::string_view result_document);
  /// Newest first; at most `limit`.
  Result<std::vector<RunRecord>> runs(int limit = 1000) const;
  /// By id, by a unique prefix of it, or `latest`: the one that began last. Kinds `no_such_run`, `ambiguous_run`.
  Result<RunRecord> run(std::string_view id) const;

  /// Forgets a run with its regions, evaluations and turns, and deletes the objects that no other run names: their
  /// bytes. What was learned of kernels stays. Nobody may add to the store meanwhile.
  Result<std::uintmax_t> remove_run(const std::string& id);
  /// What the store takes on the disk.
  Result<std::uintmax_t> bytes() const;
  /// Gives back the room of what was removed.
  Status compact();

  /// What outlives runs, in all: kernels and outcomes on the device.
  struct TuningDatabaseSize {
    std::int64_t kernels = 0, outcomes = 0;
  };
  Result<TuningDatabaseSize> tuning_database_size(const std::string& device) const;

  Status add_region(const std::string& run, const RegionRecord& region);
  Result<std::vector<RegionRecord>> regions(const std::string& run) const;

  Status add_evaluation(const std::string& run, const EvaluationRecord& evaluation);
  /// In the order in which they were added; with their documents where `documents`.
  Result<std::vector<EvaluationRecord>> evaluations(const std::string& run, bool documents) const;

  /// Adds a turn, or replaces the one of its number. The object must be there.
  Status add_turn(const std::string& run, const TurnRecord& turn);
  /// By number.
  Result<std::vector<TurnRecord>> turns(const std::string& run) const;

  /// Adds a kernel, or replaces what was said of it.
  Status add_kernel(const KernelRecord& kernel);
  /// Of a kernel that was added.
  Status add_outcome(const OutcomeRecord& outcome);
  /// Kernels of one pattern on one device, each with its latest `limit` outcomes of the time before `before`
  /// (seconds since 1970): a run that is taken up again, or derived again, sees what it saw when it began. In the order
  /// of their keys. Outcomes are never deleted for the same reason.
  Result<std::vector<TuningRecord>> tuning_records(const std::string& device, const std::string& pattern, double before,
                                                   int limit = 256) const;

  /// What became of all kernels of one pattern on one device.
  struct Achievement {
    std::string device, pattern;
    std::int64_t kernels = 0;           ///< different ones
    std::int64_t tried = 0, right = 0;  ///< outcomes, and those that were `ok`
    double best_fraction = 0;           ///< bound over time of each kernel's best, the mean; 0 where none is known
  };
  /// In the order of devices and patterns.
  Result<std::vector<Achievement>> achievements() const;

  /// Adds the runs of another store that this one does not have, with all that belongs to them, its kernels and their
  /// outcomes. The other one is brought to our version; nobody may write to it meanwhile. All of it or nothing.
  Status merge(const std::filesystem::path& other);

  /// Content-addressed bytes.
  Result<std::string> put(std::string_view bytes);
  Result<std::string> get(const std::string& sha256) const;
  const std::filesystem::path& file() const;
  /// Makes the database refuse to grow beyond so many pages, as a full disk would.
  Status limit_pages_for_test(int pages);

 private:
  struct Impl;
  explicit Store(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace planish::store
