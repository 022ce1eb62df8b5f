#pragma once

#include <memory>
#include <mutex>
#include <random>
#include <vector>

#include "codegen/genome.h"

namespace planish::codegen {
class Schedule;

/// The genomes of one kernel on one device. Finding a kernel's genes takes as long as a dozen questions of legality,
/// and finding its first guesses a tenth of a second: here both are found once. Borrows the kernel and the device.
/// Thread-safe.
class Genomes {
 public:
  Genomes(const Kernel& kernel, const Device& device);

  const std::vector<Gene>& genes() const { return genes_; }
  /// Of a genome that has exactly these genes, each at one of its choices: illegal() looks at those too.
  bool legal(const Genome& genome) const;
  /// seeds(), found when they are first asked for.
  const std::vector<Genome>& seeds() const;
  /// As codegen::emit().
  Result<Emitted> emit(const Genome& genome) const;
  /// As random_genome(), neighbours() and mutate().
  Genome random(std::mt19937_64& rng) const;
  std::vector<Genome> neighbours(const Genome& genome) const;
  Genome mutate(const Genome& genome, std::mt19937_64& rng) const;

 private:
  const Kernel& kernel_;
  std::shared_ptr<const Schedule> schedule_;
  std::vector<Gene> genes_;
  std::vector<const GeneInfo*> infos_;  ///< of genes_
  mutable std::once_flag found_;
  mutable std::vector<Genome> seeds_;
};

}  // namespace planish::codegen
