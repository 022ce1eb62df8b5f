#pragma once

#include <string>
#include <vector>

#include "codegen/contraction/device_product.h"
#include "codegen/genome.h"

/// Choices of products that the device file `sm90/product.cuh` alone computes: of rows in groups, and of integers.
/// `groups` is null where rows are in none. Expects that there is nothing against the product. Pure; thread-safe.
namespace planish::codegen::contraction {

std::vector<Gene> device_genes(const Product& product, const Device& device, const DeviceGroups* groups = nullptr);
/// Why it is; empty where the genome is legal.
std::string device_illegal(const Product& product, const Device& device, const Genome& genome,
                           const DeviceGroups* groups = nullptr);
/// Best first; every one is legal.
std::vector<Genome> device_seeds(const Product& product, const Device& device, const DeviceGroups* groups = nullptr);

}  // namespace planish::codegen::contraction
