#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "store/store.h"

/// What a run's evaluations tell of the search itself, for `show` and `report`.
namespace planish::report {

/// Those of which anything was evaluated: other ways to cut the task hold many that are never tried. All of them while
/// nothing was: a run that ended before its first candidate still had them.
std::vector<store::RegionRecord> evaluated_regions(std::vector<store::RegionRecord> regions,
                                                   const std::vector<store::EvaluationRecord>& records);

/// What one way of proposing got of the budget, and what it was worth.
struct Yield {
  std::string name;           ///< an operator, an agent, or a cell of the archive
  std::int64_t proposed = 0;  ///< evaluated, that is: duplicates are in no record
  double share = 0;           ///< of all that were evaluated
  /// The same of each quarter of the run: how the bandits shifted the budget.
  std::array<double, 4> quarters{};
  std::int64_t passed = 0;
  std::int64_t improved = 0;  ///< were the best of their region so far
  double gain = 0;            ///< by how much: sum of ln(best before / it)
};

struct Learned {
  std::vector<Yield> operators;  ///< the most proposed first
  std::vector<Yield> agents;     ///< those of a swarm that proposed anything, the most gained first
  std::vector<Yield> cells;      ///< where what passed lies, the most first; shares are of what passed
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

/// Records in the order in which they were added; documents are not needed. The target names cells.
Learned learned_from(const std::vector<store::EvaluationRecord>& records,
                     const std::vector<store::RegionRecord>& regions, const std::string& target = "cuda");

/// Its part of each quarter of the run in percent: "40 20 10 10".
std::string quarters_text(const Yield& yield);
/// For people; empty where nothing was searched.
std::string to_text(const Learned& learned);
/// One JSON object.
std::string to_json(const Learned& learned);

}  // namespace planish::report
