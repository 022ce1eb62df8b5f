#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "codegen/attention/half.h"
#include "codegen/genome.h"
#include "codegen/templates/template.h"

/// Attention of 16-bit factors by mma.sync: the device file `sm80/attention.cuh` reads them where they lie, on every
/// GPU from sm_80 on. Pure; thread-safe.
namespace planish::codegen {

namespace attention {

/// How it is cut: the policy of the device file.
struct MmaAttentionTiling {
  int warps = 4, row_blocks = 1;  ///< of a block; 16 rows of queries each, that a warp has
  int keys = 64;                  ///< of a tile
  int stages = 1;                 ///< places for a tile of k and for one of v
  int resident = 1;               ///< blocks of a multiprocessor
  int section = 1;                ///< units whose blocks run side by side

  int rows() const { return 16 * row_blocks * warps; }
};

/// Columns that a warp's lanes hand each other at once before the epilogue.
int mma_exchange_of(const HalfAttention& half);
/// Bytes of a block's shared memory, what aligns them included.
std::int64_t mma_shared_bytes(const HalfAttention& half, const MmaAttentionTiling& plan);
/// Why it does not fit; empty where it does.
std::string mma_attention_lacks(const HalfAttention& half, const MmaAttentionTiling& plan, const Device& device);

}  // namespace attention

/// Its schedule; null where factors are no 16-bit tensors, the device's tensor cores have no warps' products, or none
/// of its tiles fits.
std::unique_ptr<const Schedule> mma_attention_schedule(const Kernel& kernel, const Device& device);

}  // namespace planish::codegen
