#pragma once

#include <random>
#include <string>
#include <vector>

#include "base/result.h"
#include "codegen/genome.h"

namespace planish::coder {

/// One proposal for a region, as data.
struct Candidate {
  codegen::Genome genome;
  std::string program;  ///< planish.program/1, canonical text
  std::string hash;     ///< of the program: the candidate's identity
  std::string variant;  ///< hash of the normalised source; equal variants need not be evaluated twice. May be empty
};

/// What can be proposed for one region and how to move between proposals. Search sees genomes and moves, never code.
/// Deterministic: equal arguments (and an equal generator) give equal answers. Thread-safe to call.
class Domain {
 public:
  virtual ~Domain() = default;
  /// The decisions to make, each with its choices in order. A genome has exactly these genes.
  virtual std::vector<codegen::Gene> genes() const = 0;
  /// Whether a genome of such choices can be emitted. Microseconds; not to be asked where a guess will do.
  virtual bool legal(const codegen::Genome& genome) const = 0;
  /// Good first guesses, best first. Every genome given by any method is legal.
  virtual std::vector<codegen::Genome> seeds() const = 0;
  virtual codegen::Genome random(std::mt19937_64& rng) const = 0;
  virtual std::vector<codegen::Genome> neighbours(const codegen::Genome& genome) const = 0;
  virtual codegen::Genome mutate(const codegen::Genome& genome, std::mt19937_64& rng) const = 0;
  /// Emits the region's program. An error is the candidate's failure (`illegal_genome`, `unsupported`), not the run's.
  virtual Result<Candidate> build(const codegen::Genome& genome) const = 0;
  /// The genome in the form that is stored and shown.
  virtual std::string text(const codegen::Genome& genome) const = 0;
};

}  // namespace planish::coder
