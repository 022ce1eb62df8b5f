#pragma once

#include <string>
#include <vector>

#include "codegen/genome.h"
#include "codegen/order/order.h"

/// Elements of rows by their rank on a processor, by the device file `cpu/order.h`: threads share the rows. Pure;
/// thread-safe.
namespace planish::codegen {

std::vector<Gene> cpp_order_genes(const RowOrder& order, const Device& device);
std::vector<Genome> cpp_order_seeds(const RowOrder& order, const Device& device);
Result<Emitted> emit_cpp_order(const Kernel& kernel, const RowOrder& order, const Device& device, const Genome& genome);

}  // namespace planish::codegen
