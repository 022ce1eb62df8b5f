#include "codegen/contraction/mma_product.h"

#include <algorithm>
#include <array>
#include <bit>
#include <set>
#include <utility>

#include "backend/architecture.h"
#include "base/rounding.h"
#include "codegen/contraction/epilogue.h"
#include "codegen/contraction/place_writer.h"
#include "codegen/device/device_files.h"
#include "codegen/emit/cuda_limits.h"

namespace planish::codegen::contraction {
namespace {

bool runs_across(const Product& product, Operand operand) {
  return product.direct(operand)->load_mode == LoadMode::along_rows;
}

bool is_power(int n) {
  return std::has_single_bit(static_cast<unsigned>(n));
}

/// What a warp may have of an operand's tile, of so many rows.
bool shares(const Product& product, Operand operand, int tile, int own) {
  return own % 16 == 0 && (!runs_across(product, operand) || (is_power(own) && is_power(tile)));
}

constexpr std::int64_t most_tiles = std::int64_t{1} << 30;

}  // namespace

std::optional<MmaTiling> with_warps(const Product& product, MmaTiling t, int warps) {
  std::optional<MmaTiling> best;
  int least = 0;
  for (int rows = 1; rows <= warps; rows *= 2) {
    const int columns = warps / rows;
    if (t.tile_rows % rows != 0 || t.tile_columns % columns != 0 ||
        !shares(product, Operand::a, t.tile_rows, t.tile_rows / rows) ||
        !shares(product, Operand::b, t.tile_columns, t.tile_columns / columns))
      continue;
    const int reads = t.tile_rows * columns + t.tile_columns * rows;
    if (best && reads >= least) continue;
    least = reads;
    best = t;
    best->warps_rows = rows;
    best->warps_columns = columns;
  }
  return best;
}

MmaLayout mma_layout_of(const Product& product, const MmaTiling& t, const DeviceGroups* groups) {
  const auto bytes = [&](Operand operand, std::int64_t rows) {
    return (runs_across(product, operand) ? ceil_div(rows, 64) * 64 : rows) * t.tile_depth * 2;
  };
  const int warps = t.warps_rows * t.warps_columns;
  MmaLayout out;
  out.shared_bytes = t.stages * (bytes(Operand::a, t.tile_rows) + bytes(Operand::b, t.tile_columns)) +
                     std::int64_t{2048} * warps + 16 + 128;
  out.across = ceil_div(product.problem.n, t.tile_columns);
  out.down = ceil_div(product.problem.m, t.tile_rows);
  out.steps = ceil_div(product.problem.k, t.tile_depth);
  if (groups != nullptr) {  // each begins a tile of its own
    out.shared_bytes += 8 * (groups->count + 1);
    out.down = std::min(product.problem.m, out.down + groups->count);
  }
  out.tiles = out.across * out.down * product.problem.batches;
  if (t.splits > 1) out.partial_bytes = out.tiles * t.splits * t.tile_rows * t.tile_columns * 4;
  const int own_rows = t.tile_rows / t.warps_rows, own_columns = t.tile_columns / t.warps_columns;
  out.registers = own_rows * own_columns / 32 + (own_rows + own_columns) / 2 + 16;
  return out;
}

std::string mma_tiling_lacks(const Product& product, const MmaTiling& t, const Device& device,
                             const DeviceGroups* groups) {
  const MmaLayout layout = mma_layout_of(product, t, groups);
  const int own_rows = t.tile_rows / t.warps_rows, own_columns = t.tile_columns / t.warps_columns;
  if (own_rows * own_columns > 64 * 64) return "a warp's sums are more than its registers";
  if (layout.shared_bytes > device.shared_bytes) return "more shared memory than a block can have";
  const backend::Architecture& arch = backend::architecture(device.arch);
  if (t.resident * (layout.shared_bytes + arch.reserved_shared) > arch.shared_bytes)
    return "shared memory for fewer blocks than asked for";
  if (auto why = printing::does_not_hold(device, t.resident, t.threads(), 0, layout.registers); !why.empty())
    return why;
  // Pieces of 16 bytes that threads bring, as many each.
  for (const auto& [operand, rows] : {std::pair{Operand::a, t.tile_rows}, {Operand::b, t.tile_columns}}) {
    const int line = runs_across(product, operand) ? rows / 8 : t.tile_depth / 8;
    if (t.threads() % line != 0) return "threads that do not share the pieces of a line";
    if (ceil_div(std::int64_t{rows} * t.tile_depth / 8, t.threads()) > 32) return "more pieces than a thread counts";
  }
  if (groups != nullptr && t.splits > 1) return "parts of k of groups";
  if (t.splits > layout.steps) return "more parts than there are steps of k";
  if (layout.tiles * t.splits > most_tiles) return "too many tiles";
  return {};
}

double mma_product_clocks(const Product& product, const MmaTiling& t, const Device& device,
                          const DeviceGroups* groups) {
  const Problem& problem = product.problem;
  const backend::Architecture& arch = backend::architecture(device.arch);
  MmaLayout layout = mma_layout_of(product, t, groups);
  std::int64_t matrices = 1;  // that are read
  if (groups != nullptr) {
    matrices = std::min(groups->count, problem.m);
    layout.down = matrices * ceil_div(ceil_div(problem.m, matrices), t.tile_rows);
    layout.tiles = layout.across * layout.down;
  }
  const double rows = t.tile_rows, columns = t.tile_columns, depth = t.tile_depth;
  // A step: the tensor core; shared memory, written once and read by each warp, 128 bytes a clock; or the L2 cache.
  constexpr double shared_rate = 128, level2_rate = 48;
  const double tensor = 2 * rows * columns * depth / arch.mma_rate();
  const double brought = (rows + columns) * depth * 2;
  const double read = (rows * t.warps_columns + columns * t.warps_rows) * depth * 2;
  // What no other warp hides of a step's barrier and of its first fragments.
  const double bubble = 600.0 / (t.resident * t.threads() / 32);
  const double step = std::max({tensor, (brought + read) / shared_rate, brought / level2_rate}) + bubble;
  const double steps = static_cast<double>(layout.steps) / t.splits, tile = rows * columns;
  const double parts = t.splits > 1 ? tile * t.splits / 12 + 8000.0 / t.resident : 0;
  const double stores = tile / (t.resident > 1 ? 32 : 16) + 600.0 / t.resident + parts;
  const double rounds = static_cast<double>(ceil_div(layout.tiles * t.splits, std::int64_t{device.sms} * t.resident));
  const double computed = rounds * t.resident * (steps * step + stores) + 3000;
  constexpr double clock = 1.5;  // GHz, under load
  return clocks_with_memory(product, computed, matrices, ceil_div(ceil_div(layout.down, matrices), t.raster), clock,
                            device);
}

Emitted emit_mma_product(const Product& product, const MmaTiling& tiling, const Device& device,
                         const DeviceGroups* groups) {
  const MmaLayout layout = mma_layout_of(product, tiling, groups);
  DevicePrinted printed = print_mma_product(product, tiling, groups);
  static constexpr std::array<std::string_view, 1> files{"sm80/product.cuh"};
  Emitted out;
  out.language = "cuda";
  out.entry = "planish_kernel";
  out.source = place_prelude() + device_text(files) + printed.text;
  out.grid[0] = std::min<std::int64_t>(std::int64_t{device.sms} * tiling.resident, layout.tiles * tiling.splits);
  out.block[0] = tiling.threads();
  out.shared = layout.shared_bytes;
  using Kind = Emitted::Argument::Kind;
  for (const int input : printed.inputs) out.args.push_back({Kind::input, input});
  out.args.push_back({Kind::output, 0});
  if (tiling.splits > 1) {
    out.scratch_bytes = {layout.partial_bytes, layout.tiles * 4};
    out.zeroed = {1};
    out.args.push_back({Kind::scratch, 0});
    out.args.push_back({Kind::scratch, 1});
  }
  return out;
}

namespace {

/// Tiles and threads that are guessed first.
struct MmaTile {
  int rows, columns, depth, threads;
};
constexpr std::array mma_tiles{MmaTile{128, 128, 32, 128}, MmaTile{128, 128, 64, 128}, MmaTile{128, 256, 32, 256},
                               MmaTile{256, 128, 32, 256}, MmaTile{128, 256, 64, 256}, MmaTile{256, 128, 64, 256},
                               MmaTile{128, 128, 32, 256}, MmaTile{128, 128, 64, 256}, MmaTile{128, 64, 32, 128},
                               MmaTile{128, 64, 64, 128},  MmaTile{64, 128, 32, 128},  MmaTile{64, 128, 64, 128},
                               MmaTile{64, 64, 64, 128},   MmaTile{64, 64, 32, 128},   MmaTile{32, 128, 64, 128},
                               MmaTile{32, 64, 64, 128},   MmaTile{32, 64, 64, 64},    MmaTile{64, 32, 64, 64},
                               MmaTile{32, 32, 64, 64},    MmaTile{128, 96, 32, 128},  MmaTile{128, 192, 32, 256}};

class MmaSchedule : public Schedule {
 public:
  MmaSchedule(Product product, std::optional<DeviceGroups> groups, const Device& device)
      : product_(std::move(product)), groups_(std::move(groups)), device_(device) {}

  std::vector<Gene> genes() const override {
    std::vector<Gene> out{{"tile_m", {32, 64, 96, 128, 192, 256}},
                          {"tile_n", {32, 64, 96, 128, 192, 256}},
                          {"tile_k", {32, 64}},
                          {"threads", {64, 128, 256}},
                          {"stages", {2, 3, 4, 5, 6, 7, 8}},
                          {"min_blocks", {1, 2, 3, 4}},
                          {"raster", {1, 2, 4, 8, 16, 32}},
                          {"split", parts()}};
    if (has_fast_forms(product_.kernel)) out.push_back({"fast", {0, 1}});
    return out;
  }

  TensorLoop tensor_loop() const override { return TensorLoop::file; }

  std::string illegal(const Genome& genome) const override {
    const auto tiling = tiling_of(genome);
    if (!tiling) return "warps that cannot share the tile";
    if (auto why = mma_tiling_lacks(product_, *tiling, device_, groups()); !why.empty()) return why;
    if (tiling->tile_rows > 32 && product_.problem.m <= tiling->tile_rows / 2) return "tile_m is twice what there is";
    if (tiling->tile_columns > 32 && product_.problem.n <= tiling->tile_columns / 2)
      return "tile_n is twice what there is";
    return {};
  }

  std::vector<Genome> seeds() const override {
    std::vector<std::pair<double, Genome>> found;
    const bool fast = has_fast_forms(product_.kernel);
    const auto splits = parts();
    for (const MmaTile& tile : mma_tiles) {
      for (const int resident : {1, 2, 3, 4}) {
        for (const std::int64_t split : splits) {
          Genome genome{{"tile_m", tile.rows},     {"tile_n", tile.columns}, {"tile_k", tile.depth},
                        {"threads", tile.threads}, {"stages", most_stages},  {"raster", 8},
                        {"split", split},          {"min_blocks", resident}};
          if (fast) genome["fast"] = 1;
          // Beyond what hides the memory's latency more stages say nothing.
          while (genome["stages"] > 2 && !illegal(genome).empty()) --genome["stages"];
          if (genome["stages"] < 3 || !illegal(genome).empty()) continue;
          found.emplace_back(mma_product_clocks(product_, *tiling_of(genome), device_, groups()), std::move(genome));
        }
      }
    }
    std::ranges::stable_sort(found, {}, [](const auto& one) { return one.first; });
    std::set<std::array<std::int64_t, 4>> taken;
    std::vector<Genome> out;
    constexpr std::size_t most = 10;
    for (auto& [clocks, genome] : found) {
      if (out.size() < most &&
          taken.insert({genome["tile_m"], genome["tile_n"], genome["tile_k"], genome["threads"]}).second)
        out.push_back(std::move(genome));
    }
    // Where approximations are not good enough, that is known soon.
    if (fast && !out.empty()) {
      Genome exact = out.front();
      exact["fast"] = 0;
      out.insert(out.begin() + 1, std::move(exact));
    }
    return out;
  }

  Outline outline(const Genome& genome) const override {
    const MmaTiling tiling = *tiling_of(genome);
    const MmaLayout layout = mma_layout_of(product_, tiling, groups());
    Outline out;
    out.threads = tiling.threads();
    out.registers = layout.registers;
    out.shared_bytes = static_cast<double>(layout.shared_bytes);
    out.blocks = static_cast<double>(layout.tiles * tiling.splits);
    return out;
  }

  Result<Emitted> emit(const Genome& genome) const override {
    if (const auto why = illegal(genome); !why.empty()) return fail("illegal_genome", why);
    return emit_mma_product(product_, *tiling_of(genome), device_, groups());
  }

 private:
  static constexpr int most_stages = 6;

  const DeviceGroups* groups() const { return groups_ ? &*groups_ : nullptr; }

  std::optional<MmaTiling> tiling_of(const Genome& genome) const {
    const auto value = [&](GeneName name, std::int64_t otherwise) {
      return static_cast<int>(gene(genome, name, otherwise));
    };
    MmaTiling out;
    out.tile_rows = value("tile_m", 128);
    out.tile_columns = value("tile_n", 128);
    out.tile_depth = value("tile_k", 32);
    out.stages = value("stages", 4);
    out.resident = value("min_blocks", 1);
    out.splits = value("split", 1);
    out.raster = value("raster", 8);
    out.fast = value("fast", 0) != 0;
    return with_warps(product_, out, value("threads", 128) / 32);
  }

  /// More parts than fill the device twice only add traffic.
  std::vector<std::int64_t> parts() const {
    const Problem& problem = product_.problem;
    std::vector<std::int64_t> out{1};
    const std::int64_t least_tiles = ceil_div(problem.m, 128) * ceil_div(problem.n, 128) * problem.batches;
    for (const std::int64_t count : {2, 3, 4, 6, 8, 12, 16})
      if (!groups_ && count * 256 <= problem.k && least_tiles * count <= 4 * device_.sms) out.push_back(count);
    return out;
  }

  const Product product_;
  const std::optional<DeviceGroups> groups_;
  const Device& device_;
};

}  // namespace

std::unique_ptr<const Schedule> mma_schedule(Product product, std::optional<DeviceGroups> groups,
                                             const Device& device) {
  if (tensor_cores(device) != TensorCores::warps || !device_product_lacks(product).empty()) return nullptr;
  auto made = std::make_unique<MmaSchedule>(std::move(product), std::move(groups), device);
  return made->seeds().empty() ? nullptr : std::move(made);
}

}  // namespace planish::codegen::contraction
