#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "store/store.h"

/// What a run's evaluations tell of the search itself, for `show` and `report`.
namespace planish::cli {

/// What one way of proposing was worth.
struct Yield {
  std::string name;           ///< an operator, or an agent
  std::int64_t proposed = 0;  ///< evaluated, that is: duplicates are in no record
  std::int64_t passed = 0;
  std::int64_t improved = 0;  ///< were the best of their region so far
  double gain = 0;            ///< by how much: sum of ln(best before / it)
};

struct Learned {
  std::vector<Yield> operators;  ///< the most proposed first
  std::vector<Yield> agents;     ///< those of a swarm that proposed anything, the most gained first
  struct Region {
    std::string id;
    std::int64_t evaluations = 0;                                     ///< screened
    std::int64_t to_best = 0;                                         ///< of those, until the fastest was met
    std::int64_t cells = 0;                                           ///< of the archive, that something passed in
    double first_ms = 0, best_ms = 0, fallback_ms = 0, bound_ms = 0;  ///< 0 where not known
    std::string genome, program;                                      ///< of the fastest
    /// Between what the model said beforehand and what was measured; nothing where it said too little.
    std::optional<double> rank_correlation;
    std::int64_t predicted = 0;  ///< of those that were timed
  };
  std::vector<Region> regions;
};

/// Records in the order in which they were added; documents are not needed.
Learned learned_from(const std::vector<store::EvaluationRecord>& records,
                     const std::vector<store::RegionRecord>& regions);

/// For people; empty where nothing was searched.
std::string to_text(const Learned& learned);
/// One JSON object.
std::string to_json(const Learned& learned);

}  // namespace planish::cli
