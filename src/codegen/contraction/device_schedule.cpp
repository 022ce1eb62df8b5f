#include "codegen/contraction/device_schedule.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "codegen/contraction/epilogue.h"
#include "codegen/emit/cuda_math.h"

namespace planish::codegen::contraction {
namespace {

struct DeviceTile {
  std::int64_t rows, columns, turns;  ///< turns: two consumers have tiles of their own
};

/// Factors of 16 bits, or integers of 8: a consumer has its sums once.
constexpr std::array tiles_of_single_sums{
    DeviceTile{128, 256, 0}, DeviceTile{256, 128, 0}, DeviceTile{128, 192, 0}, DeviceTile{128, 128, 0},
    DeviceTile{128, 64, 0},  DeviceTile{192, 128, 0}, DeviceTile{64, 256, 0},  DeviceTile{64, 192, 0},
    DeviceTile{64, 128, 0},  DeviceTile{64, 64, 0},   DeviceTile{64, 32, 0},   DeviceTile{128, 128, 1},
    DeviceTile{64, 256, 1},  DeviceTile{64, 192, 1},  DeviceTile{64, 128, 1},  DeviceTile{64, 64, 1}};
/// Floats of 8 bits: twice.
constexpr std::array tiles_of_double_sums{DeviceTile{128, 192, 0}, DeviceTile{128, 160, 0}, DeviceTile{128, 128, 0},
                                          DeviceTile{128, 96, 0},  DeviceTile{128, 64, 0},  DeviceTile{64, 128, 0},
                                          DeviceTile{64, 64, 0},   DeviceTile{64, 32, 0}};
constexpr std::int64_t most_stages = 8, narrowest_tile = 32;

std::vector<DeviceTile> tiles_of(const Product& product) {
  if (product.bits && !product.bits->integers()) return {tiles_of_double_sums.begin(), tiles_of_double_sums.end()};
  return {tiles_of_single_sums.begin(), tiles_of_single_sums.end()};
}

/// Parts of k, while they fill the device at most twice and each has a few steps.
std::vector<std::int64_t> splits_of(const Product& product, const Device& device, const DeviceGroups* groups) {
  const Problem& problem = product.problem;
  const std::int64_t least_tiles = (problem.m + 127) / 128 * ((problem.n + 127) / 128) * problem.batches;
  std::vector<std::int64_t> out{1};
  for (const std::int64_t count : {2, 3, 4, 6, 8, 12, 16}) {
    if (groups == nullptr && count * 4 * step_of(product) <= problem.k && least_tiles * count <= 2 * device.sms)
      out.push_back(count);
  }
  return out;
}

}  // namespace

std::vector<Gene> device_genes(const Product& product, const Device& device, const DeviceGroups* groups) {
  std::set<std::int64_t> heights, widths;
  for (const DeviceTile& tile : tiles_of(product)) {
    heights.insert(tile.rows);
    widths.insert(tile.columns);
  }
  std::vector<Gene> genes{{"tile_m", {heights.begin(), heights.end()}},
                          {"tile_n", {widths.begin(), widths.end()}},
                          {"stages", {2, 3, 4, 5, 6, 7, 8}},
                          {"raster", {1, 2, 4, 8, 16, 32}},
                          {"pingpong", {0, 1}},
                          {"multicast", {0, 1, 2}}};
  if (auto splits = splits_of(product, device, groups); splits.size() > 1)
    genes.push_back({"split", std::move(splits)});
  if (has_fast_forms(product.kernel)) genes.push_back({"fast", {0, 1}});
  return genes;
}

std::string device_illegal(const Product& product, const Device& device, const Genome& genome,
                           const DeviceGroups* groups) {
  const DeviceTiling tiling = device_tiling_of(genome);
  if (auto why = device_tiling_lacks(product, tiling, device, groups); !why.empty()) return why;
  const Problem& problem = product.problem;
  if (tiling.tile_rows > 64 && problem.m <= tiling.tile_rows / 2) return "tile_m is twice what there is";
  if (tiling.tile_columns > narrowest_tile && problem.n <= tiling.tile_columns / 2)
    return "tile_n is twice what there is";
  return {};
}

std::vector<Genome> device_seeds(const Product& product, const Device& device, const DeviceGroups* groups) {
  const auto genes = device_genes(product, device, groups);
  const bool fast = find_gene(genes, "fast") != nullptr, splits = find_gene(genes, "split") != nullptr;
  std::vector<std::pair<double, Genome>> found;
  const auto add = [&](const DeviceTile& tile, std::int64_t multicast, std::int64_t split) {
    Genome genome{{"tile_m", tile.rows}, {"tile_n", tile.columns}, {"stages", most_stages}, {"pingpong", tile.turns},
                  {"raster", 8},         {"multicast", multicast}};
    if (fast) genome["fast"] = 1;
    if (splits) genome["split"] = split;
    while (genome["stages"] > 2 && !device_illegal(product, device, genome, groups).empty()) --genome["stages"];
    if (!device_illegal(product, device, genome, groups).empty()) return;
    for (const std::int64_t raster : {4, 8, 16}) {
      genome["raster"] = raster;
      found.emplace_back(device_product_clocks(product, device_tiling_of(genome), device, groups), genome);
    }
  };
  for (const DeviceTile& tile : tiles_of(product)) {
    for (const std::int64_t multicast : {0, 1, 2}) {
      for (const std::int64_t split : splits_of(product, device, groups)) add(tile, multicast, split);
    }
  }
  std::ranges::stable_sort(found, {}, [](const auto& one) { return one.first; });
  constexpr std::size_t most = 8;
  std::set<std::array<std::int64_t, 4>> taken;
  std::vector<Genome> out;
  for (auto& [clocks, genome] : found) {
    const std::int64_t pairs = genome["multicast"] != 0 ? 1 : 0;
    if (out.size() < most && taken.insert({genome["tile_m"], genome["tile_n"], genome["pingpong"], pairs}).second)
      out.push_back(std::move(genome));
  }
  // Where approximations are not good enough, that is known soon.
  if (!out.empty() && out.front().contains("fast")) {
    Genome exact = out.front();
    exact["fast"] = 0;
    out.insert(out.begin() + 1, std::move(exact));
  }
  return out;
}

}  // namespace planish::codegen::contraction
