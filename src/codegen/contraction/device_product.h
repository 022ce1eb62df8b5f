#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "codegen/contraction/product.h"
#include "codegen/genome.h"

/// Products of two tensors of 16 bits, or of 8 (see eight_bits.h), that tensor maps reach where they lie: the device
/// file `sm90/product.cuh` takes them in one launch. So it does convolutions whose images they reach in boxes (see
/// boxes.h), behind one that packs weights which they do not reach. Gene `direct` has the value `by_file` then. Pure;
/// thread-safe.
namespace planish::codegen::contraction {

/// Of the gene `direct`: the device file.
constexpr std::int64_t by_file = 4;

/// Why it is no such product; empty where it is one.
std::string device_product_lacks(const Product& product);
/// Reasons against warpgroups' device file, which carries along what is folded of rows (see cross_tile.h), and takes
/// images in boxes: the rest of this file expects that there is nothing against it.
std::string warpgroup_product_lacks(const Product& product);
/// The product as that file takes it: as it is, in boxes, or in 8 bits; null where it does not.
const Product* warpgroup_way(const Product& product);

/// Rows that are sorted in groups, each with a second factor of its own: where the groups end, and how far apart these
/// factors lie. The product is the one with the first of them.
struct DeviceGroups {
  int input = -1;                    ///< of the kernel: the ends, i32 or i64
  std::int64_t first = 0, step = 1;  ///< where the first end lies, and how far apart they are
  std::int64_t count = 0;
  std::int64_t stride = 0;  ///< elements from one factor to the next
  /// By node, a load: so many elements further is what the next group has of it.
  std::map<int, std::int64_t> strides;
};

/// How it is cut: the policy of the device file, by genes tile_m, tile_n, stages, pingpong, multicast, split and
/// raster.
struct DeviceTiling {
  int tile_rows = 128, tile_columns = 256, consumers = 2, stages = 4;
  bool ping_pong = false;
  int cluster = 1;
  bool share_b = true;
  int splits = 1, raster = 8;
  bool fast = false;
};
DeviceTiling device_tiling_of(const Genome& genome);

/// What ProductLayout counts, in C++.
struct DeviceLayout {
  std::int64_t shared_bytes = 0;  ///< of a block, what aligns them included
  std::int64_t across = 0, down = 0;
  std::int64_t clusters = 0;  ///< tiles, or pairs of these, in all products
  std::int64_t partial_bytes = 0, counters = 0;
};
DeviceLayout device_layout_of(const Product& product, const DeviceTiling& tiling, const DeviceGroups* groups = nullptr);

/// Why it does not fit; empty where it does.
std::string device_tiling_lacks(const Product& product, const DeviceTiling& tiling, const Device& device,
                                const DeviceGroups* groups = nullptr);

/// The product that is multiplied: this one, or with a CrossTileReduction that of its elements.
const Product& multiplied(const Product& product);
/// A plan whose pieces (see cross_tile.h) are those of these tiles.
TilePlan pieces_plan(const DeviceTiling& tiling);

/// The length of k that a step of the file has.
std::int64_t step_of(const Product& product);

/// Clocks that a multiprocessor takes for it, as they were measured on an H200 (docs/results/contraction.md). Of
/// groups: where they are of one size.
double device_product_clocks(const Product& product, const DeviceTiling& tiling, const Device& device,
                             const DeviceGroups* groups = nullptr);

/// The launch, with a CrossTileReduction one behind it that joins its pieces, and one before it where a factor is
/// packed. Expects a tiling that fits.
Emitted emit_device_product(const Product& product, const DeviceTiling& tiling, const Device& device,
                            const DeviceGroups* groups = nullptr);
/// Its text behind the device file: policy, functors and `planish_kernel`. Arguments: `inputs`, the output, memory for
/// tensor maps, of a packed factor, with a CrossTileReduction for pieces and, where k is split, for parts and counters.
struct DevicePrinted {
  std::string text;
  std::vector<int> inputs;
};
DevicePrinted print_device_product(const Product& product, const DeviceTiling& tiling,
                                   const DeviceGroups* groups = nullptr);

}  // namespace planish::codegen::contraction
