#pragma once

#include <string>
#include <vector>

#include "codegen/contraction/product.h"
#include "codegen/genome.h"
#include "codegen/kernel.h"

/// Contractions on Hopper's tensor cores: a launch a factor that packs it (prologue included), the main loop with the
/// epilogue, and where k is split a launch that adds the parts up. fp32 factors are split into fp16 pairs, which keeps
/// fp32's accuracy; factors that have 16 bits already are multiplied as they are. Pure; thread-safe.
namespace planish::codegen {

/// Why the kernel cannot be emitted so for this device; empty where it can. Such kernels are rows to fold (as_rows()).
std::string tensor_cores_lack(const Kernel& kernel, const Device& device);

/// The next four expect what product_of() makes of a kernel for which tensor_cores_lack() is empty on the device.
std::vector<Gene> contraction_genes(const contraction::Product& product, const Device& device);
/// Empty if legal. Expects every gene of contraction_genes to be present with one of its choices.
std::string contraction_illegal(const contraction::Product& product, const Device& device, const Genome& genome);
/// Best first; every one is legal.
std::vector<Genome> contraction_seeds(const contraction::Product& product, const Device& device);
/// Error kind `illegal_genome`.
Result<Emitted> emit_contraction(const contraction::Product& product, const Device& device, const Genome& genome);

}  // namespace planish::codegen
