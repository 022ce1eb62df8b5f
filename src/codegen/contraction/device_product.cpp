#include "codegen/contraction/device_product.h"

#include <algorithm>
#include <array>

#include "base/rounding.h"
#include "codegen/contraction/box_loads.h"
#include "codegen/contraction/cross_tile_epilogue.h"
#include "codegen/contraction/pack.h"
#include "codegen/contraction/place_writer.h"
#include "codegen/contraction/tap_packing.h"
#include "codegen/device/device_files.h"

namespace planish::codegen::contraction {
namespace {

constexpr std::int64_t maps_bytes = 256;  ///< of a block: a map of each factor

std::int64_t steps_of(const Product& product) {
  return ceil_div(product.problem.k, step_of(product));
}

bool across(const Product& product, Operand operand) {
  const auto& direct = multiplied(product).direct(operand);
  return direct && direct->load_mode == LoadMode::along_rows;
}

/// Rows of tiles, those of boxes that are no places included.
std::int64_t rows_of(const Product& product, const DeviceTiling& tiling) {
  return product.problem.boxed ? rows_in_boxes(product.problem, boxes_plan(tiling)) : product.problem.m;
}

/// Reasons against what results are and where they go.
std::string results_lack(const Product& product) {
  const Kernel& kernel = product.kernel;
  if (product.c.n.size() != 1 || kernel.outputs.size() != 1) return "several outputs";
  const Output& output = kernel.outputs.front();
  const DType from = kernel.nodes[static_cast<std::size_t>(output.node)].dtype;
  const bool sums = sums_integers(kernel) && from == DType::i32 && output.dtype == DType::i32;
  if (!sums && (!is_floating(from) || size_of(from) > 4))
    return "results that are no floating-point numbers of at most 32 bits";
  if (!sums && output.dtype != DType::f32 && output.dtype != DType::bf16 && output.dtype != DType::f16)
    return "results of another type than 16 or 32 bits";
  if (!output.where.empty() || !output.args.empty() || !output.index.is_affine() ||
      output.index.coefficient_of(product.c.n.front()) != 1)
    return "results whose memory does not run along columns";
  return {};
}

/// Reasons against images in boxes.
std::string boxes_lack(const Product& product) {
  if (product.problem.boxed->operand != Operand::a) return "places along columns";
  if (!product.boxes_b && !can_pack_taps(product)) return "more taps than are packed at once";
  return results_lack(product);
}

/// Reasons against a tiling of 8-bit factors. Of floats a consumer has the sums twice, and blocks of columns have their
/// scales; instructions for integers have fewer widths.
std::string eight_bits_lack(const EightBits& bits, const DeviceTiling& t) {
  if (bits.integers()) {
    if (t.consumers == 1 && t.splits > 1 && t.tile_rows * t.tile_columns > 64 * 192)
      return "one consumer's sums, beside the parts that it adds, are more than its registers";
    return t.tile_columns <= 32 || t.tile_columns % 16 == 0 ? "" : "columns of integers that are no whole sixteens";
  }
  const std::int64_t most_sums = t.consumers == 1 ? 64 : 96;  // more are spilled where parts of k are added
  if (t.ping_pong || t.consumers > 2) return "what each step gives is added by two consumers of one tile";
  if (t.tile_rows / t.consumers * t.tile_columns / 128 > most_sums)
    return "a consumer's sums, twice, are more than its registers";
  const std::int64_t run = bits.scale_b ? bits.scale_b->rows : 0;
  if (run != 0 && (run % 8 != 0 || (run % t.tile_columns != 0 && t.tile_columns % run != 0)))
    return "blocks of columns that are no whole part of a tile, or the other way round";
  return {};
}

/// Runs of columns that are folded are parts of tiles, or the other way round.
bool holds_runs(const Product& product, std::int64_t tile_columns) {
  const std::int64_t run = product.cross_tile->run;
  return run >= product.problem.n || tile_columns % run == 0 || run % tile_columns == 0;
}

}  // namespace

std::int64_t step_of(const Product& product) {
  return product.bits ? eight_bit_step : 64;
}

const Product& multiplied(const Product& product) {
  return product.elements ? *product.elements : product;
}

TilePlan pieces_plan(const DeviceTiling& tiling) {
  TilePlan plan;
  plan.bn = plan.exchange = tiling.tile_columns;
  return plan;
}

std::string warpgroup_product_lacks(const Product& product) {
  if (product.problem.boxed) return boxes_lack(product);
  if (product.bits) return results_lack(product);
  if (!product.cross_tile) return device_product_lacks(product);
  if (!product.elements) return "folds of something else than the rows of one output";
  if (product.problem.n % 8 != 0 || product.cross_tile->run % 8 != 0)
    return "folds of columns that are not whole eights";
  return device_product_lacks(*product.elements);
}

const Product* warpgroup_way(const Product& product) {
  if (warpgroup_product_lacks(product).empty()) return &product;
  for (const Product* const way : {product.boxed.get(), product.eight.get()}) {
    if (way != nullptr && warpgroup_product_lacks(*way).empty()) return way;
  }
  return nullptr;
}

std::string device_product_lacks(const Product& product) {
  if (product.implicit || product.pool || product.cross_tile || !product.taps.empty() || product.problem.boxed)
    return "more than a product of two matrices";
  if (!narrow_type(product.kernel, product.c)) return "factors of another type than 16 bits";
  for (const Operand operand : {Operand::a, Operand::b}) {
    const auto& direct = product.direct(operand);
    if (!direct || !is_box(product.c, operand, *direct)) return "a factor that tensor maps do not reach";
  }
  return results_lack(product);
}

DeviceTiling device_tiling_of(const Genome& genome) {
  const auto value = [&](GeneName name, std::int64_t otherwise) {
    return static_cast<int>(gene(genome, name, otherwise));
  };
  DeviceTiling out;
  out.tile_rows = value("tile_m", 128);
  out.tile_columns = value("tile_n", 256);
  out.stages = value("stages", 4);
  out.ping_pong = value("pingpong", 0) != 0;
  out.consumers = out.ping_pong ? 2 : out.tile_rows == 192 ? 3 : std::min(out.tile_rows / 64, 2);
  const int multicast = value("multicast", 0);
  out.cluster = multicast == 0 ? 1 : 2;
  out.share_b = multicast != 2;
  out.splits = value("split", 1);
  out.raster = value("raster", 8);
  out.fast = value("fast", 0) != 0;
  return out;
}

DeviceLayout device_layout_of(const Product& product, const DeviceTiling& t, const DeviceGroups* groups) {
  const std::int64_t b_bytes = across(product, Operand::b) ? ceil_div(t.tile_columns, 64) * 8192 : t.tile_columns * 128;
  const std::int64_t rows = t.tile_rows * (t.share_b ? t.cluster : 1);
  const std::int64_t columns = t.tile_columns * (t.share_b ? 1 : t.cluster);
  DeviceLayout out;
  out.shared_bytes = t.stages * (t.tile_rows * 128 + b_bytes + 16) + t.consumers * 8192 + 16 + 1024;
  out.across = ceil_div(product.problem.n, columns);
  out.down = ceil_div(rows_of(product, t), rows);
  if (groups != nullptr) {  // each begins a tile of its own
    out.shared_bytes += 8 * (groups->count + 1);
    out.down = std::min(product.problem.m, out.down + groups->count);
  }
  out.clusters = out.across * out.down * product.problem.batches;
  if (t.splits > 1) {
    const std::int64_t tiles = out.clusters * t.cluster;
    out.partial_bytes = tiles * t.splits * t.tile_rows * t.tile_columns * 4;
    out.counters = tiles * (t.ping_pong ? 1 : t.consumers);
  }
  return out;
}

std::string device_tiling_lacks(const Product& product, const DeviceTiling& t, const Device& device,
                                const DeviceGroups* groups) {
  if (product.problem.boxed && box_of(product.problem, boxes_plan(t)).empty())
    return "no box has as many places as a tile has rows";
  if (product.bits) {
    if (std::string why = eight_bits_lack(*product.bits, t); !why.empty()) return why;
  }
  const DeviceLayout layout = device_layout_of(product, t, groups);
  constexpr std::int64_t most_sums = 128, most_of_three = 96;  // registers of a thread
  const std::int64_t own_rows = t.ping_pong ? t.tile_rows : t.tile_rows / t.consumers;
  if (own_rows * t.tile_columns / 128 > (t.consumers == 3 ? most_of_three : most_sums))
    return "a consumer's sums are more than its registers";
  if (t.cluster > device.max_cluster) return "the cluster is larger than the device allows";
  if (layout.shared_bytes > device.shared_bytes) return "more shared memory than a block can have";
  if (product.cross_tile && !holds_runs(product, t.tile_columns)) return "tiles that end within what is folded";
  if (groups != nullptr && t.splits > 1) return "parts of k of groups";
  if (t.splits > steps_of(product)) return "more parts than there are steps of k";
  // What blocks of a cluster share they bring in whole pieces each.
  const bool share_a = t.cluster > 1 && !t.share_b, share_b = t.cluster > 1 && t.share_b;
  if (share_a && across(product, Operand::a) && t.tile_rows % 128 != 0) return "half of a tile is no whole pieces";
  if (share_b && t.tile_columns % (across(product, Operand::b) ? 128 : 16) != 0)
    return "half of a tile is no whole pieces";
  if (share_a && product.problem.n <= t.tile_columns) return "no tile beside it to share with";
  if (share_a && product.problem.boxed && BoxLoads(product, t).places().sizes(true).empty())
    return "half of a tile is no box";
  if (share_b && rows_of(product, t) <= t.tile_rows) return "no tile below it to share with";
  if (layout.clusters * t.cluster * t.splits > (std::int64_t{1} << 30)) return "too many tiles";
  return {};
}

double device_product_clocks(const Product& product, const DeviceTiling& t, const Device& device,
                             const DeviceGroups* groups) {
  const Problem& problem = product.problem;
  DeviceLayout layout = device_layout_of(product, t, groups);
  std::int64_t matrices = 1;  // that are read
  if (groups != nullptr) {
    matrices = std::min(groups->count, problem.m);
    layout.down = matrices * ceil_div(ceil_div(problem.m, matrices), t.tile_rows * (t.share_b ? t.cluster : 1));
    layout.clusters = layout.across * layout.down;
  }
  const double rows = t.tile_rows, columns = t.tile_columns, tile = rows * columns;
  const bool share_a = t.cluster > 1 && !t.share_b, share_b = t.cluster > 1 && t.share_b;
  // A step of 128 bytes of k: the tensor core; shared memory, which is written once and read by each 64 rows; or the L2
  // cache.
  const double shared = rows + columns + rows / 64 * (64 + columns), least = 240;
  const double level2 = (rows / (share_a ? 2 : 1) + columns / (share_b ? 2 : 1)) * 128 / 54;
  const double step = std::max({tile / 32, shared, level2, least}) * (t.cluster == 1 ? 1.06 : 1.1);
  const double steps = static_cast<double>(steps_of(product)) / t.splits;
  const double parts = t.splits > 1 ? tile * t.splits / 12 + 10000 : 0;
  const double stores = tile / (t.ping_pong ? 64 : 8) + parts + 600;
  const auto rounds = static_cast<double>(ceil_div(layout.clusters * t.splits, device.sms / t.cluster));
  const double computed = rounds * (steps * step + stores) + 4000;
  constexpr double clock = 1.7;  // GHz, under load
  return clocks_with_memory(product, computed, matrices, ceil_div(ceil_div(layout.down, matrices), t.raster), clock,
                            device);
}

namespace {

Emitted launch_without_arguments(const Packing& packing) {
  Emitted out;
  out.language = "cuda";
  out.entry = "planish_kernel";
  out.source = packing.source;
  out.grid[0] = packing.blocks;
  out.block[0] = packing.threads;
  return out;
}

/// The launch before it that packs a factor.
Emitted packing_launch(const Product& product, const Emitted::Argument& to) {
  const Packing packing = print_tap_packing(product);
  Emitted out = launch_without_arguments(packing);
  for (const int input : packing.inputs) out.args.push_back({Emitted::Argument::Kind::input, input});
  out.args.push_back(to);
  out.packs = out.derives = true;
  return out;
}

/// Both launches; the first one names all scratch.
Emitted with_packing(Emitted first, Emitted main) {
  first.scratch_bytes = std::move(main.scratch_bytes);
  first.zeroed = std::move(main.zeroed);
  main.scratch_bytes.clear();
  main.zeroed.clear();
  first.after.push_back(std::move(main));
  return first;
}

/// The launch behind it that joins the pieces of what is folded.
Emitted joining(const Product& product, const DeviceTiling& tiling, const Emitted::Argument& pieces) {
  const Packing packing = print_cross_tile_joining(product, pieces_plan(tiling), tiling.fast);
  Emitted out = launch_without_arguments(packing);
  using Kind = Emitted::Argument::Kind;
  out.args = {pieces};
  for (const int input : packing.inputs) out.args.push_back({Kind::input, input});
  for (std::size_t o = product.cross_tile->elements; o < product.cross_tile->order.size(); ++o)
    out.args.push_back({Kind::output, product.cross_tile->order[o]});
  return out;
}

}  // namespace

Emitted emit_device_product(const Product& product, const DeviceTiling& tiling, const Device& device,
                            const DeviceGroups* groups) {
  const DeviceLayout layout = device_layout_of(product, tiling, groups);
  DevicePrinted printed = print_device_product(product, tiling, groups);
  static constexpr std::array<std::string_view, 1> files{"sm90/product.cuh"};
  Emitted out;
  out.language = "cuda";
  out.entry = "planish_kernel";
  out.source = place_prelude() + device_text(files) + printed.text;
  out.grid[0] = std::min<std::int64_t>(device.sms / tiling.cluster, layout.clusters * tiling.splits) * tiling.cluster;
  out.block[0] = 128 * (tiling.consumers + 1);
  out.cluster[0] = tiling.cluster;
  out.shared = layout.shared_bytes;
  using Kind = Emitted::Argument::Kind;
  for (const int input : printed.inputs) out.args.push_back({Kind::input, input});
  out.args.push_back({Kind::output, product.cross_tile ? product.cross_tile->order.front() : 0});
  const auto scratch = [&](std::int64_t bytes) {
    out.args.push_back({Kind::scratch, static_cast<int>(out.scratch_bytes.size())});
    out.scratch_bytes.push_back(bytes);
  };
  scratch(out.grid[0] * maps_bytes);
  const bool packs = product.problem.boxed && !product.boxes_b;
  if (packs)
    scratch((product.problem.moves(Operand::b) ? product.problem.batches : 1) * product.problem.n * product.problem.k *
            2);
  if (product.cross_tile) scratch(cross_tile_bytes(*product.cross_tile, product.problem, pieces_plan(tiling)));
  const Emitted::Argument made = out.args.back();  // pieces, or what is packed
  if (tiling.splits > 1) {
    scratch(layout.partial_bytes);
    scratch(layout.counters * 4);
    out.zeroed = {out.args.back().index};
  }
  if (product.cross_tile) out.after.push_back(joining(product, tiling, made));
  return packs ? with_packing(packing_launch(product, made), std::move(out)) : out;
}

}  // namespace planish::codegen::contraction
