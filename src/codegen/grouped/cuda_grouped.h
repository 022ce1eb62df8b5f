#pragma once

#include <optional>
#include <string>
#include <vector>

#include "codegen/contraction/device_product.h"
#include "codegen/contraction/product.h"
#include "codegen/genome.h"
#include "codegen/grouped/grouped.h"

/// Products of groups of rows on Hopper's tensor cores, by the device file `sm90/product.cuh`: factors of 16 bits, or
/// of 8, that tensor maps reach where they lie, with what is computed of the results. Pure; thread-safe.
namespace planish::codegen {

struct DeviceGrouped {
  contraction::Product product;  ///< with the first group's matrix
  contraction::DeviceGroups groups;
};
/// Error kind `unsupported` where the device file does not compute it; the message says why not.
Result<DeviceGrouped> device_grouped_of(const Grouped& grouped);

std::vector<Gene> device_grouped_genes(const DeviceGrouped& grouped, const Device& device);
std::string device_grouped_illegal(const DeviceGrouped& grouped, const Device& device, const Genome& genome);
/// Best first; every one is legal.
std::vector<Genome> device_grouped_seeds(const DeviceGrouped& grouped, const Device& device);
/// Error kind `illegal_genome`.
Result<Emitted> emit_device_grouped(const DeviceGrouped& grouped, const Device& device, const Genome& genome);

}  // namespace planish::codegen
