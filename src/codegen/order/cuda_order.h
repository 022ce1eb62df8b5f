#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "codegen/genome.h"
#include "codegen/order/order.h"

/// Elements of rows by their rank on a GPU, by the device file `order.cuh`: whole rows in registers, or the first few
/// ranks of longer ones, which blocks may share. Pure; thread-safe.
namespace planish::codegen {

/// What a genome says of its launch.
struct CudaOrderPlan {
  int threads = 128;  ///< of a block
  int each = 4;       ///< items of a thread
  int team = 32;      ///< threads that hold a row; of slices: all of a block
  int slices = 0;     ///< blocks that share a row, of which each looks for the first ranks; 0: rows are held as a whole
  int item_bytes = 8;
  std::int64_t blocks = 1;
  std::int64_t shared = 0;  ///< bytes
  int registers = 0;        ///< of a thread, an estimate
};
CudaOrderPlan cuda_order_plan(const RowOrder& order, const Genome& genome);

std::vector<Gene> cuda_order_genes(const RowOrder& order);
std::string cuda_order_illegal(const RowOrder& order, const Device& device, const Genome& genome);
std::vector<Genome> cuda_order_seeds(const RowOrder& order, const Device& device);
/// Error kind `illegal_genome`.
Result<Emitted> emit_cuda_order(const Kernel& kernel, const RowOrder& order, const Device& device,
                                const Genome& genome);

}  // namespace planish::codegen
