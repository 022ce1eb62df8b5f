#include "codegen/contraction/genome_plan.h"

#include <algorithm>
#include <cstdint>

#include "codegen/contraction/device_product.h"
#include "codegen/contraction/strip_reader.h"

namespace planish::codegen::contraction {

TilePlan plan_of(const Product& product, const Genome& genome, const Device& device) {
  const auto value = [&](GeneName name, std::int64_t otherwise) {
    return static_cast<int>(gene(genome, name, otherwise));
  };
  TilePlan plan;
  const auto narrow = narrow_type(product.kernel, product.c);
  plan.scheme = narrow ? Scheme::plain : value("passes", 3) == 1 ? Scheme::single : Scheme::split;
  plan.element = narrow == DType::bf16 ? Element::bf16 : Element::f16;
  plan.bm = value("tile_m", 128);
  // Others that store while one multiplies.
  const int others = value("pingpong", 0);
  plan.ping_pong = others != 0 ? 1 : 0;
  plan.consumers = plan.ping_pong != 0 ? others + 1 : plan.bm / 64;
  plan.bn = value("tile_n", 128);
  plan.bk = value("tile_k", 64);
  plan.stages = value("stages", 3);
  plan.promote_k = value("promote", 64);
  plan.raster = value("raster", 8);
  plan.split_k = value("split", 1);
  plan.blocks = value("min_blocks", 1);
  if (value("overlap", 0) != 0) plan.overlap = product.overlap.at(value("weave", 0) != 0 ? 1 : 0);
  const int direct = value("direct", 0);
  plan.maps = direct >= 2 ? 1 : 0;
  plan.stationary = value("stationary", 0);
  if (product.implicit) {
    if (direct == 1 && can_read_strips(product)) plan.load_mode_b = LoadMode::strips;
  } else if (direct == 3) {
    if (can_split_in_registers(product)) plan.load_mode_a = LoadMode::registers;
  } else if (direct != 0 && (narrow || (product.direct_a && product.direct_b))) {
    // A factor whose tile does not come in whole rows of 128 bytes is packed, whatever becomes of the other one.
    if (product.direct_a && fits(product.direct_a->load_mode, plan.bm)) plan.load_mode_a = product.direct_a->load_mode;
    if (product.direct_b && fits(product.direct_b->load_mode, plan.bn)) plan.load_mode_b = product.direct_b->load_mode;
  }
  return with_exchange(product.problem, with_strips(product.problem, plan), device.shared_bytes);
}

std::vector<std::int64_t> tile_widths(const Problem& problem, bool wide) {
  if (!problem.folding)
    return wide ? std::vector<std::int64_t>{16, 32, 64, 96, 128, 160, 192, 224, 256}
                : std::vector<std::int64_t>{16, 32, 48, 64, 80, 96, 112, 128};
  // Whole windows.
  std::vector<std::int64_t> widths;
  const std::int64_t least = least_columns(problem);
  for (std::int64_t width = least; width <= (wide ? 256 : 128); width += least) widths.push_back(width);
  return widths;
}

Genome with_all_packed(Genome genome) {
  genome["direct"] = 0;
  return genome;
}

bool can_split_in_registers(const Product& product) {
  return !narrow_type(product.kernel, product.c) && product.direct_a &&
         product.direct_a->load_mode == LoadMode::along_k && is_box(product.c, Operand::a, *product.direct_a);
}

bool can_read_strips(const Product& product) {
  return product.implicit && product.problem.is_implicit(Operand::b) && !wasted(product) &&
         can_read_strips(product.kernel, product.c, *product.implicit);
}

const Product& way_of(const Product& product, const Genome& genome) {
  const Product& way = value_of(genome, "swap_operands", 0) != 0 ? *product.swapped : product;
  const std::int64_t direct = value_of(genome, "direct", 0);
  if (direct == by_file) {
    const Product* const file = warpgroup_way(way);
    return file != nullptr ? *file : way;
  }
  return way.boxed && direct == by_maps ? *way.boxed : way;
}

}  // namespace planish::codegen::contraction
