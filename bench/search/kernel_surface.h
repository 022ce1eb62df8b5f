#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "codegen/genome.h"
#include "coder/domain.h"

namespace planish::bench {

/// What the surfaces `cuda-*` are made of.
struct SurfaceKernel {
  std::string name;
  codegen::Kernel kernel;
  codegen::Device device;
  std::uint64_t seed = 0;
};
std::vector<SurfaceKernel> surface_kernels();

/// The real genomes of a kernel: the coder's genes, legality, guesses and moves. Builds nothing but a name.
std::shared_ptr<const coder::Domain> kernel_domain(codegen::Kernel kernel, codegen::Device device);

}  // namespace planish::bench
