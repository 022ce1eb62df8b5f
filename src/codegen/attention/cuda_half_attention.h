#pragma once

#include <string>
#include <vector>

#include "codegen/attention/half.h"
#include "codegen/genome.h"

/// Attention of 16-bit factors on Hopper's tensor cores: one launch, which reads them where they lie. Pure;
/// thread-safe.
namespace planish::codegen {

/// Why no block of the device has room for it; empty where one has. The next four expect that.
std::string half_attention_lacks(const attention::HalfAttention& half, const Device& device);

/// Genes: tile_m (64 rows a consumer), tile_n (keys of a tile), stages, pingpong, pipeline_depth (1: the next tile's
/// scores are multiplied while this one's become weights) and raster (units whose blocks run side by side).
std::vector<Gene> half_attention_genes(const attention::HalfAttention& half, const Device& device);
/// Empty if legal. Expects every gene of half_attention_genes to be present with one of its choices.
std::string half_attention_illegal(const attention::HalfAttention& half, const Device& device, const Genome& genome);
/// Best first; every one is legal.
std::vector<Genome> half_attention_seeds(const attention::HalfAttention& half, const Device& device);
/// Error kind `illegal_genome`.
Result<Emitted> emit_half_attention(const Kernel& kernel, const Attention& parts, const attention::HalfAttention& half,
                                    const Device& device, const Genome& genome);

}  // namespace planish::codegen
