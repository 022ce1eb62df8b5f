#pragma once

#include <string>
#include <vector>

#include "codegen/attention/attention.h"
#include "codegen/genome.h"
#include "codegen/kernel.h"

/// Attention on Hopper's tensor cores, at fp32's accuracy: a launch that packs each of the three factors (what is
/// computed of their elements included), and one for all the rest. Pure; thread-safe.
namespace planish::codegen {

/// Why the kernel cannot be emitted for this device; empty where it can.
std::string attention_lacks(const Kernel& kernel, const Device& device);

/// The next four expect what attention_of() makes of a kernel for which attention_lacks() is empty on the device.
std::vector<Gene> attention_genes(const Attention& attention, const Device& device);
/// Empty if legal. Expects every gene of attention_genes to be present with one of its choices.
std::string attention_illegal(const Attention& attention, const Device& device, const Genome& genome);
/// Best first; every one is legal.
std::vector<Genome> attention_seeds(const Attention& attention, const Device& device);
/// Error kind `illegal_genome`.
Result<Emitted> emit_attention(const Kernel& kernel, const Attention& attention, const Device& device,
                               const Genome& genome);

}  // namespace planish::codegen
