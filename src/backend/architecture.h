#pragma once

#include <cstdint>
#include <string_view>

/// What GPUs of one architecture have: the one place that asks for it by name. Figures are those of the CUDA
/// programming guide's table of compute capabilities and of the vendor's architecture papers. Plain data; thread-safe.
namespace planish::backend {

struct Architecture {
  std::string_view name;  ///< "sm_90a": as the compiler takes it

  // A multiprocessor's limits.
  int warps = 0, blocks = 0;
  std::int64_t registers = 65536;       ///< of all its four parts together
  std::int64_t shared_bytes = 0;        ///< of all resident blocks
  std::int64_t reserved_shared = 1024;  ///< what the system takes for each block
  std::int64_t block_shared_bytes = 0;  ///< what one block may ask for

  // Operations a clock of a multiprocessor; a multiply-add counts as two. Tensor: products of 16-bit numbers.
  double fp32 = 0, tensor16 = 0;
  double warp16 = 0;  ///< the same by mma.sync, where that is not all that tensor cores can do

  // Instructions.
  bool async_copies = false;      ///< cp.async
  bool mma16 = false;             ///< mma.sync.m16n8k16 of bf16 and fp16
  bool bulk_copies = false;       ///< cp.async.bulk with mbarriers, tensor maps
  bool clusters = false;          ///< clusters of blocks with distributed shared memory
  bool dependent_launch = false;  ///< griddepcontrol
  bool wgmma = false;             ///< warpgroup products
  bool tcgen05 = false;           ///< products in tensor memory

  /// Products of 16-bit numbers that warps ask for, an operation a clock as above; 0: none.
  double mma_rate() const { return !mma16 ? 0 : warp16 > 0 ? warp16 : tensor16; }
};

/// The architecture of this name, or the nearest one that is known: of the same major version, else Hopper without what
/// only Hopper has. The second of a pair of names ("sm_90", "sm_90a") has what other versions of its kind lack.
const Architecture& architecture(std::string_view name);

}  // namespace planish::backend
