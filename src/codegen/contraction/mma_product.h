#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "codegen/contraction/device_product.h"
#include "codegen/templates/template.h"

/// Products of two 16-bit tensors by mma.sync: the device file `sm80/product.cuh` reads them where they lie, on every
/// GPU from sm_80 on. It takes what device_product_lacks() has nothing against. Pure; thread-safe.
namespace planish::codegen::contraction {

/// How it is cut: the policy of the device file, by genes tile_m, tile_n, tile_k, threads, stages, min_blocks, split
/// and raster.
struct MmaTiling {
  int tile_rows = 128, tile_columns = 128, tile_depth = 32;
  int warps_rows = 2, warps_columns = 2, stages = 4, resident = 1;
  int splits = 1, raster = 8;
  bool fast = false;

  int threads() const { return 32 * warps_rows * warps_columns; }
};

/// Of the ways in which so many warps can share the tile the one that reads least; nothing where there is none.
std::optional<MmaTiling> with_warps(const Product& product, MmaTiling tiling, int warps);

/// What MmaProductLayout counts, in C++.
struct MmaLayout {
  std::int64_t shared_bytes = 0;  ///< of a block, what aligns them included
  std::int64_t across = 0, down = 0, tiles = 0, steps = 0;
  std::int64_t partial_bytes = 0;
  int registers = 0;  ///< of a thread, as ptxas found it for kernels with little beside the product
};
MmaLayout mma_layout_of(const Product& product, const MmaTiling& tiling, const DeviceGroups* groups = nullptr);

/// Why it does not fit; empty where it does.
std::string mma_tiling_lacks(const Product& product, const MmaTiling& tiling, const Device& device,
                             const DeviceGroups* groups = nullptr);

/// Clocks that a multiprocessor takes for it, counted: nothing was fitted to measurements.
double mma_product_clocks(const Product& product, const MmaTiling& tiling, const Device& device,
                          const DeviceGroups* groups = nullptr);

/// The launch. Expects a tiling that fits.
Emitted emit_mma_product(const Product& product, const MmaTiling& tiling, const Device& device,
                         const DeviceGroups* groups = nullptr);
/// Its text behind the device file. Arguments: `inputs`, the output and, where k is split, memory for parts and
/// counters.
DevicePrinted print_mma_product(const Product& product, const MmaTiling& tiling, const DeviceGroups* groups = nullptr);

/// Its schedule; null where the product is another, the device's tensor cores have no warps' products, or nothing fits.
std::unique_ptr<const Schedule> mma_schedule(Product product, std::optional<DeviceGroups> groups, const Device& device);

}  // namespace planish::codegen::contraction
