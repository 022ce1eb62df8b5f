#pragma once

#include <string>
#include <vector>

#include "codegen/genome.h"
#include "evaluate/evaluation.h"

namespace planish::search {

struct RegionSpec;

/// A change that an evaluation suggests.
struct Move {
  std::string gene;
  int direction = 0;         ///< −1, +1: one choice down or up; 0: draw the gene anew
  double expected_gain = 0;  ///< part of the time that may go, 0 … 1
};

/// Reads an evaluation and says what to try next, best first. The command line fills this with a judge. One thread;
/// equal arguments give equal answers, or a run could not be replayed.
class Advisor {
 public:
  virtual ~Advisor() = default;
  virtual std::vector<Move> advise(const RegionSpec& region, const Evaluation& evaluation,
                                   const codegen::Genome& genome, const std::vector<codegen::Gene>& genes) const = 0;
};

}  // namespace planish::search
