#pragma once

#include <string>
#include <vector>

#include "codegen/genome.h"
#include "codegen/kernel.h"

/// Recurrent networks on Hopper: products of what is known beforehand, as any product of matrices, and one launch for
/// all steps of some layers, whose weights stay in registers and whose states go from block to block of a cluster
/// through shared memory. Pure; thread-safe.
namespace planish::codegen {

/// Why the kernel cannot be emitted for this device; empty where it can.
std::string recurrence_lacks(const Kernel& kernel, const Device& device);

/// The next four expect a kernel for which recurrence_lacks() is empty on the device.
std::vector<Gene> recurrence_genes(const Recurrence& network, const Device& device);
/// Empty if legal. Expects every gene of recurrence_genes to be present with one of its choices.
std::string recurrence_illegal(const Recurrence& network, const Device& device, const Genome& genome);
/// Best first; every one is legal.
std::vector<Genome> recurrence_seeds(const Recurrence& network, const Device& device);
/// Error kind `illegal_genome`.
Result<Emitted> emit_recurrence(const Kernel& kernel, const Device& device, const Genome& genome);

}  // namespace planish::codegen
