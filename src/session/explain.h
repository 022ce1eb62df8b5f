#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "codegen/partition/partition.h"
#include "ir/graph.h"

/// Why a program is faster than what it replaces, from the captured graph and the program alone: nothing here is
/// measured.
namespace planish::session {

struct Explanation {
  /// What runs a call. Bytes are the least that must move: every tensor read and written once by each launch.
  struct Side {
    std::int64_t launches = 0;
    double bytes = 0;
  };
  Side before;  ///< PyTorch's operators one after the other
  Side after;   ///< the program

  /// One generated kernel, or several equal ones.
  struct Fused {
    std::string region;     ///< id
    std::string operators;  ///< "mul, relu ×2, sum"
    std::string where;      ///< "model.py:14-17"; empty where the source is not known
    int count = 1;          ///< of equal ones in the task
    Side before, after;     ///< of one of them
  };
  std::vector<Fused> fused;
  std::vector<std::pair<std::string, int>> left;  ///< operators that PyTorch still runs, and how many of each
};

/// What `explain` must know of one region of a partition.
struct ExplainedRegion {
  std::string id;
  bool used = false;          ///< false: PyTorch runs its nodes
  double bytes = 0;           ///< the least that its kernel must move
  std::int64_t launches = 1;  ///< of its kernels
};
/// `regions` in the order of those of the partition. `program` is the document of the whole. Error kinds: those of
/// program::parse, and of codegen::arrange.
Result<Explanation> explain(const ir::Graph& graph, const codegen::Partition& partition,
                            const std::vector<ExplainedRegion>& regions, const std::string& program);

/// Sentences for people: what runs in place of what, one line a fused group.
std::vector<std::string> sentences(const Explanation& why);

}  // namespace planish::session
