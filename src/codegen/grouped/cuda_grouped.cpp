#include "codegen/grouped/cuda_grouped.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "codegen/contraction/contraction.h"
#include "codegen/contraction/epilogue.h"
#include "codegen/emit/cuda_math.h"

namespace planish::codegen {
namespace {

/// Rows, columns, and whether two consumers take turns.
constexpr std::array<std::array<std::int64_t, 3>, 16> grouped_tiles{{{128, 256, 0},
                                                                     {256, 128, 0},
                                                                     {128, 192, 0},
                                                                     {128, 128, 0},
                                                                     {128, 64, 0},
                                                                     {192, 128, 0},
                                                                     {64, 256, 0},
                                                                     {64, 192, 0},
                                                                     {64, 128, 0},
                                                                     {64, 64, 0},
                                                                     {64, 32, 0},
                                                                     {128, 128, 1},
                                                                     {64, 256, 1},
                                                                     {64, 192, 1},
                                                                     {64, 128, 1},
                                                                     {64, 64, 1}}};
constexpr std::int64_t most_stages = 8;

}  // namespace

Result<DeviceGrouped> device_grouped_of(const Grouped& grouped) {
  const auto no = [](std::string why) { return fail("unsupported", std::move(why)); };
  PLANISH_TRY(contraction::Product product, contraction::product_of(grouped.plain));
  if (auto why = contraction::device_product_lacks(product); !why.empty()) return no(std::move(why));
  const Node& weights = grouped.plain.nodes[static_cast<std::size_t>(grouped.weights)];
  if (product.direct_b->input != weights.input || product.direct_a->input == weights.input)
    return no("results whose memory runs along rows");
  if (!product.c.batch.empty() || product.c.m.size() != 1) return no("rows in several dims");
  if (grouped.stride % 8 != 0 || grouped.stride < 0) return no("matrices that do not begin at multiples of 16 bytes");
  constexpr std::int64_t most_groups = 2048;  // their table lies in shared memory
  if (grouped.ends.count > most_groups) return no("more groups than shared memory has room for");
  DeviceGrouped out{std::move(product), {}};
  out.groups = {.input = grouped.ends.input,
                .first = grouped.ends.first,
                .step = grouped.ends.stride,
                .count = grouped.ends.count,
                .stride = grouped.stride};
  return out;
}

std::vector<Gene> device_grouped_genes(const DeviceGrouped& grouped) {
  std::set<std::int64_t> widths;
  for (const auto& tile : grouped_tiles) widths.insert(tile[1]);
  std::vector<Gene> genes{{"tile_m", {64, 128, 192, 256}},
                          {"tile_n", {widths.begin(), widths.end()}},
                          {"stages", {2, 3, 4, 5, 6, 7, 8}},
                          {"raster", {1, 2, 4, 8, 16, 32}},
                          {"pingpong", {0, 1}},
                          {"multicast", {0, 1, 2}}};
  if (contraction::has_fast_forms(grouped.product.kernel)) genes.push_back({"fast", {0, 1}});
  return genes;
}

std::string device_grouped_illegal(const DeviceGrouped& grouped, const Device& device, const Genome& genome) {
  const auto tiling = contraction::device_tiling_of(genome);
  if (auto why = contraction::device_tiling_lacks(grouped.product, tiling, device, &grouped.groups); !why.empty())
    return why;
  const contraction::Problem& problem = grouped.product.problem;
  if (tiling.tile_rows > 64 && problem.m <= tiling.tile_rows / 2) return "tile_m is twice what there is";
  if (tiling.tile_columns > 32 && problem.n <= tiling.tile_columns / 2) return "tile_n is twice what there is";
  return {};
}

std::vector<Genome> device_grouped_seeds(const DeviceGrouped& grouped, const Device& device) {
  const auto genes = device_grouped_genes(grouped);
  std::vector<std::pair<double, Genome>> found;
  for (const auto& [rows, columns, turns] : grouped_tiles) {
    for (const std::int64_t multicast : {0, 1, 2}) {
      for (const std::int64_t raster : {4, 8, 16}) {
        Genome genome{{"tile_m", rows},    {"tile_n", columns}, {"stages", most_stages},
                      {"pingpong", turns}, {"raster", raster},  {"multicast", multicast}};
        if (find_gene(genes, "fast") != nullptr) genome["fast"] = 1;
        while (genome["stages"] > 2 && !device_grouped_illegal(grouped, device, genome).empty()) --genome["stages"];
        if (!device_grouped_illegal(grouped, device, genome).empty()) continue;
        const auto tiling = contraction::device_tiling_of(genome);
        const double clocks = contraction::device_product_clocks(grouped.product, tiling, device, &grouped.groups);
        found.emplace_back(clocks, std::move(genome));
      }
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

Result<Emitted> emit_device_grouped(const DeviceGrouped& grouped, const Device& device, const Genome& genome) {
  if (const auto why = device_grouped_illegal(grouped, device, genome); !why.empty())
    return fail("illegal_genome", why);
  return contraction::emit_device_product(grouped.product, contraction::device_tiling_of(genome), device,
                                          &grouped.groups);
}

}  // namespace planish::codegen
