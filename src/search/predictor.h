#pragma once

#include <optional>

#include "codegen/genome.h"

namespace planish::search {

struct RegionSpec;
struct Told;

/// Guesses a genome's time before anything is compiled. The command line fills this with a model, analytic or learned.
/// One thread. Answers may depend on what was observed, in its order, and on nothing else: a run must replay.
class Predictor {
 public:
  virtual ~Predictor() = default;
  /// Natural logarithm of milliseconds; nothing where the model cannot say. Asked for thousands of genomes a second.
  virtual std::optional<double> predicted_log_ms(const RegionSpec& region, const codegen::Genome& genome) const = 0;
  virtual void observe(const RegionSpec& region, const codegen::Genome& genome, const Told& told) = 0;
};

}  // namespace planish::search
