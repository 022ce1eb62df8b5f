#pragma once

#include <string>
#include <vector>

#include "codegen/genome.h"
#include "model/features.h"

/// Which genomes of other kernels are worth a first try.
namespace planish::model {

/// A genome that passed on some kernel, and how well.
struct Known {
  KernelClass kernel;  ///< facts may be empty
  std::string key;     ///< canonical key of the kernel
  codegen::Genome genome;
  double ms = 0, bound_ms = 0;  ///< bound 0: not known
};

/// How alike two kernels are for a schedule, 0 … 1: 0 for other patterns; then the operator kinds they share, and how
/// close dtype and sizes are. 1 for equal keys only.
double likeness(const KernelClass& a, const std::string& key_a, const KernelClass& b, const std::string& key_b);

/// At most `count` different genomes, best first: of each kernel its fastest few, the most alike kernels first. Genomes
/// may be illegal for this kernel: the caller asks its domain.
std::vector<codegen::Genome> seeds_from(const std::vector<Known>& known, const KernelClass& kernel,
                                        const std::string& key, std::size_t count);

}  // namespace planish::model
