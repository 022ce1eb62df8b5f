#pragma once

#include <memory>

#include "codegen/genome.h"
#include "coder/domain.h"

namespace planish::bench {

/// The real genomes of a kernel: the coder's genes, legality, guesses and moves. Builds nothing but a name.
std::shared_ptr<const coder::Domain> kernel_domain(codegen::Kernel kernel, codegen::Device device);

}  // namespace planish::bench
