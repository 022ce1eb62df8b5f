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

/// What an advisor says.
struct Advice {
  std::vector<Move> moves;  ///< best first
  std::string text;         ///< the issue in words; empty where nobody asked for it
  std::string issue;        ///< its stable name, with the words
};

/// Reads an evaluation and says what to try next. The command line fills this with a judge. One thread;
/// equal arguments give equal answers, or a run could not be replayed.
class Advisor {
 public:
  virtual ~Advisor() = default;
  /// `words`: whether a reader wants the text. A program that has no genome has no genes either.
  virtual Advice advise(const RegionSpec& region, const Evaluation& evaluation, const codegen::Genome& genome,
                        const std::vector<codegen::Gene>& genes, bool words) const = 0;
};

}  // namespace planish::search
