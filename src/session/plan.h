#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "codegen/compose/compose.h"
#include "coder/domain.h"
#include "evaluate/api.h"
#include "model/features.h"
#include "session/explain.h"

/// The two things `optimize` needs beside an evaluator and a store, as interfaces, so that its whole flow runs in a
/// test with fakes.
namespace planish::session {

/// Id and key of the whole task, where it stands as a region.
inline constexpr const char* whole_task = "task";

/// A region as it is searched: the first of `count` that are scheduled alike (codegen::schedule_key).
struct PlannedRegion {
  std::string id;   ///< "r0"
  std::string key;  ///< canonical, of the first
  int count = 1;
  std::vector<int> nodes, inputs, outputs;  ///< of the graph, first occurrence
  double bytes = 0, flops = 0;              ///< the least one call must move and compute
  std::string aten_program;                 ///< the region as aten steps: its fallback and yardstick
  std::string summary;                      ///< for people: "row, 3 ops"
  bool whole = false;                       ///< the task is this region and nothing else
  bool alternative = false;                 ///< no part of the task as it was cut first: it stands in a PlannedFusion
  bool library_call = false;                ///< one product or convolution: PyTorch has a library for it
  double launch_ms = 0;                     ///< the least that a launch takes beside its work
  std::shared_ptr<const coder::Domain> domain;
  std::shared_ptr<const model::Featurizer> features;  ///< what a model sees of its genomes; null: nothing is learned
};

/// Another way to cut the task: some regions in place of others.
struct PlannedFusion {
  struct Use {
    std::string region;  ///< id
    int times = 1;
  };
  std::vector<Use> replaces, by;
};

/// A task cut into regions. Immutable; may be called from one thread at a time.
class Plan {
 public:
  virtual ~Plan() = default;
  /// Only regions that can be searched; what is in none stays aten steps. May be empty. Alternatives come last.
  virtual const std::vector<PlannedRegion>& regions() const = 0;
  virtual const std::vector<PlannedFusion>& fusions() const = 0;
  /// The least the whole task must move and compute.
  virtual double bytes() const = 0;
  virtual double flops() const = 0;
  /// Steps of PyTorch that stay whatever is found: those outside all regions.
  virtual int kept_steps() const { return 0; }
  /// The whole task as one region for sources (coder/whole.h). Its programs are those of the task.
  virtual std::shared_ptr<const coder::Domain> whole_domain() const { return nullptr; }
  /// The same as a region of the search, for coders alone; nothing where the task is one region anyway.
  virtual std::optional<PlannedRegion> whole() const { return std::nullopt; }
  /// Why the task has no graph; empty where it has one. Without, solutions of the whole are all there can be.
  virtual std::string no_graph() const { return {}; }
  /// The whole task as aten steps alone; empty without a graph.
  virtual Result<std::string> aten_program() const = 0;
  /// The whole task, cut with these ways (by their places), with the given proposal for every region named and aten
  /// steps for all else; a proposal for `whole_task` stands for everything. Kind `cycle` where the ways do not go
  /// together.
  virtual Result<std::string> compose(const std::map<std::string, coder::Proposal>& chosen,
                                      const std::vector<std::size_t>& fusions, codegen::Packings packings) const = 0;
  /// What a program that was composed so runs in place of what; `used` are the regions it has kernels for.
  virtual Result<Explanation> explain(const std::set<std::string>& used, const std::vector<std::size_t>& fusions,
                                      const std::string& program) const = 0;
};

class Planner {
 public:
  virtual ~Planner() = default;
  virtual Result<std::unique_ptr<Plan>> plan(const std::string& graph, const DeviceFacts& device) = 0;
};

struct ShipRequest {
  std::string graph;                  ///< document
  std::string program;                ///< document; empty ships the solution or the baseline instead
  std::string solution;               ///< text of a Python file with ModelNew, which ships in a program's place
  std::vector<std::string> binaries;  ///< SHA-256 of each kernel's compiled form, in the program's order
  std::string baseline;               ///< eager | compile | max_autotune_no_cudagraphs | max_autotune
  std::filesystem::path task, folder;
  std::string blobs;     ///< folder of constants
  std::string evidence;  ///< document
  std::string torch;     ///< version
};

class Shipper {
 public:
  virtual ~Shipper() = default;
  /// Writes (or replaces) the shipped folder. Kinds: `disk_full`, `permission_denied`, `read_only`, …
  virtual Status ship(const ShipRequest& request) = 0;
};

}  // namespace planish::session
