#pragma once

#include <random>
#include <string>
#include <vector>

#include "base/result.h"
#include "codegen/genome.h"
#include "coder/proposal.h"
#include "program/checked.h"

namespace planish::coder {

/// One proposal for a region, as data.
struct Candidate {
  Proposal proposal;
  program::Given program;  ///< planish.program/1
  std::string hash;        ///< of the program: the candidate's identity
  std::string variant;     ///< hash of the normalised source; equal variants need not be evaluated twice. May be empty
};

/// The candidate of a program, with its hashes.
Candidate candidate_of(Proposal proposal, program::Program program);

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
  /// The program of a source (coder/source_text.h), which must read and write what the region does. Kinds `bad_source`;
  /// `unsupported` where nothing but genomes can be built.
  virtual Result<Candidate> build_source(std::string_view source) const;
  /// Whether a source may also be Python with a class ModelNew (is_solution() in coder/whole.h): where the region is
  /// the whole task.
  virtual bool takes_solutions() const { return false; }
  /// A genome's kernels as a source, to be read and edited. Kinds as of build() and build_source().
  virtual Result<std::string> source(const codegen::Genome& genome) const;
  /// The region in words for whoever writes a source of it: what in0, out0, … are, and what is computed.
  virtual std::string description() const { return {}; }
  /// The same in a few words that kernels of its kind are found by: template, operators, element types.
  virtual std::string topic() const { return {}; }
};

/// The program of any proposal. Kinds: those of Domain::build() and build_source(), `bad_patch`.
Result<Candidate> build(const Domain& domain, const Proposal& proposal);
/// What edits of a proposal are made to: its source. Kinds likewise.
Result<std::string> source_of(const Domain& domain, const Proposal& proposal);

}  // namespace planish::coder
