#include "codegen/attention/cuda_half_attention.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <ranges>
#include <set>
#include <utility>

#include "codegen/attention/half_kernel.h"
#include "codegen/cheapest.h"

namespace planish::codegen {
namespace {

using attention::HalfAttention;
using attention::HalfTiling;

HalfTiling half_plan_of(const Genome& genome) {
  const auto value = [&](GeneName name, std::int64_t otherwise) {
    return static_cast<int>(gene(genome, name, otherwise));
  };
  HalfTiling plan;
  plan.consumers = value("tile_m", 128) / 64;
  plan.keys = value("tile_n", 128);
  plan.stages = value("stages", 2);
  plan.ping_pong = value("pingpong", 0) != 0;
  plan.overlap = value("pipeline_depth", 1) != 0;
  plan.section = value("raster", 1);
  return plan;
}

/// Units side by side: powers of two, all of them, and as many as make whole rounds of all multiprocessors.
std::vector<std::int64_t> half_sections(const HalfAttention& half, const Device& device) {
  std::set<std::int64_t> found{half.unit_count, half.sharing};
  for (std::int64_t n = 1; n < half.unit_count; n *= 2) found.insert(n);
  for (const int consumers : {1, 2, 3}) {
    HalfTiling plan;
    plan.consumers = consumers;
    const std::int64_t blocks = attention::blocks_of_unit(half, plan);
    const std::int64_t whole = device.sms / std::gcd<std::int64_t>(device.sms, blocks);
    for (const int times : {1, 2}) {
      if (whole * times < half.unit_count) found.insert(whole * times);
    }
  }
  return {found.begin(), found.end()};
}

/// Clocks that a multiprocessor takes for the kernel's longest share, as it would be dealt out. The weights are of what
/// was measured on an H200 (docs/results/attention.md): the tensor core and the exponentials do not hide each
/// other.
class HalfEstimate {
 public:
  HalfEstimate(const HalfAttention& half, const Device& device) : half_(half), device_(device) {}

  double clocks(const HalfTiling& plan) const {
    constexpr double rate = 4096, exponential = 1.0 / 16, turn = 400, begin = 1500;
    constexpr double box = 60;  // of keys and of values, where pages make a tile of several
    const auto up = [](std::int64_t n, std::int64_t to) { return static_cast<double>((n + to - 1) / to * to); };
    const double pair =
        2 * (up(half_.features, 16) + up(half_.columns, 8)) / rate + exponential + (half_.plain ? 0 : 0.1);
    // With three consumers two do softmax while one multiplies, where a thread's registers hold all that they need.
    const double three = half_.plain ? (half_.columns <= 96 ? 0.82 : 0.95) : 1.3;
    const double overlapped[] = {1.4, 1, three}, in_order[] = {1.6, 1.2, half_.plain ? 1.02 : 1.5};
    const double alone = (plan.overlap ? overlapped : in_order)[plan.consumers - 1];
    const double boxes = in_pages(half_) ? static_cast<double>(plan.keys / box_of(half_, plan)) : 0;
    const double rows = 64.0 * plan.consumers, tile = rows * plan.keys * pair * alone + turn + boxes * box;
    const std::int64_t blocks = attention::blocks_of_unit(half_, plan), tiles = blocks * half_.unit_count;
    const auto cost = [&](std::int64_t block) {
      const auto span = attention::key_tiles(half_, plan, block * static_cast<std::int64_t>(rows));
      return static_cast<double>(span.end - span.begin) * tile + begin;
    };
    const std::int64_t grid = std::min<std::int64_t>(device_.sms, tiles);
    if (half_.tests.empty() && !half_.packing)
      return std::ceil(static_cast<double>(tiles) / static_cast<double>(grid)) * cost(0);
    std::vector<double> of_block, loads(static_cast<std::size_t>(grid), 0.0);
    // Packed sequences that fit the least block have one each, however high it is; the rest have nothing to do.
    const std::int64_t sequences = half_.packing ? half_.packing->count : 0;
    const std::int64_t live = half_.rows <= 64 * sequences ? std::min(blocks, sequences) : blocks;
    for (std::int64_t block = 0; block < blocks; ++block) of_block.push_back(block < live ? cost(block) : 0);
    const std::int64_t each = plan.section * blocks;
    for (std::int64_t tile_at = 0; tile_at < tiles; ++tile_at) {  // as attention_turn() deals them out
      const std::int64_t turn_at = tile_at / grid, place = tile_at % grid;
      const std::int64_t units = std::min<std::int64_t>(plan.section, half_.unit_count - tile_at / each * plan.section);
      loads[static_cast<std::size_t>(turn_at % 2 != 0 ? grid - 1 - place : place)] +=
          of_block[static_cast<std::size_t>(blocks - 1 - tile_at % each / units)];
    }
    return *std::ranges::max_element(loads);
  }

 private:
  const HalfAttention& half_;
  const Device& device_;
};

}  // namespace

std::string half_attention_lacks(const HalfAttention& half, const Device& device) {
  const HalfTiling least{1, 16, 1, false, false, 1};
  const Status fits = attention::check(half, least, device.shared_bytes);
  return fits ? "" : fits.error().message;
}

std::vector<Gene> half_attention_genes(const HalfAttention& half, const Device& device) {
  return {{"tile_m", {128, 192, 64}}, {"tile_n", {16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256}},
          {"stages", {2, 1, 3}},      {"pingpong", {0, 1}},
          {"pipeline_depth", {1, 0}}, {"raster", half_sections(half, device)}};
}

std::string half_attention_illegal(const HalfAttention& half, const Device& device, const Genome& genome) {
  const HalfTiling plan = half_plan_of(genome);
  if (const Status fits = attention::check(half, plan, device.shared_bytes); !fits) return fits.error().message;
  if (plan.consumers > 1 && half.rows <= 64 * (plan.consumers - 1)) return "tile_m is more than there is";
  if (plan.keys > 16 && half.key_count <= plan.keys - 16) return "tile_n is more than there is";
  return {};
}

std::vector<Genome> half_attention_seeds(const HalfAttention& half, const Device& device) {
  const HalfEstimate estimate(half, device);
  const auto all = half_sections(half, device);
  // Keys and values of a section should stay in the L2 cache, of which half is near a multiprocessor, or be read by
  // several multiprocessors at about the same time; and those that read the same masks should do so together.
  const std::int64_t sequences = half.packing ? half.packing->count : 1;
  const std::int64_t bytes = 2 * half.key_count / sequences * (half.features + half.columns) / half.grouped;
  std::vector<std::int64_t> near;
  if (half.sharing > 1 && half.sharing * bytes <= device.l2_bytes / 2) near.push_back(half.sharing);
  for (const std::int64_t section : all | std::views::reverse) {
    const bool stays = section * bytes <= device.l2_bytes * 3 / 4 || section * 8 <= device.sms;
    if (section == 1 || ((half.packing || !half.tests.empty()) && stays)) near.push_back(section);
  }
  std::vector<std::pair<double, Genome>> found;
  for (const int consumers : {2, 3, 1}) {
    for (const int keys : {128, 64, 96, 80, 112, 160, 176, 48, 32, 16}) {
      for (const auto& [overlap, ping_pong] : {std::pair{1, 1}, {1, 0}, {0, 1}, {0, 0}}) {
        std::pair<double, Genome> best{0, {}};
        for (const std::int64_t section : near) {
          Genome genome{{"tile_m", 64 * consumers},  {"tile_n", keys},   {"stages", 2}, {"pingpong", ping_pong},
                        {"pipeline_depth", overlap}, {"raster", section}};
          if (!half_attention_illegal(half, device, genome).empty()) continue;
          const double clocks = estimate.clocks(half_plan_of(genome)) * (ping_pong != 0 ? 1 : 1.005);
          if (best.second.empty() || clocks < best.first * 0.99) best = {clocks, std::move(genome)};
        }
        if (!best.second.empty()) found.push_back(std::move(best));
      }
    }
  }
  if (found.empty()) {
    // Heads of 256 features leave room for one place alone.
    for (const int keys : {64, 48, 32, 16}) {
      Genome genome{{"tile_m", 64},  {"tile_n", keys},      {"stages", 1},
                    {"pingpong", 0}, {"pipeline_depth", 0}, {"raster", 1}};
      if (half_attention_illegal(half, device, genome).empty()) found.emplace_back(keys, std::move(genome));
    }
  }
  return cheapest(std::move(found));
}

Result<Emitted> emit_half_attention(const Kernel& kernel, const Attention& parts, const HalfAttention& half,
                                    const Device& device, const Genome& genome) {
  if (const auto why = half_attention_illegal(half, device, genome); !why.empty()) return fail("illegal_genome", why);
  HalfTiling plan = half_plan_of(genome);
  plan.deals = half.packing && half.unit_count * attention::blocks_of_unit(half, plan) > device.sms;
  auto printed = attention::print_half_kernel(kernel, parts, half, plan, device.shared_bytes);
  Emitted out;
  out.language = "cuda";
  out.entry = "planish_kernel";
  out.source = std::move(printed.source);
  out.grid[0] = std::min<std::int64_t>(device.sms, printed.tiles);
  out.block[0] = printed.threads;
  out.shared = static_cast<int>(printed.shared_bytes);
  for (const int input : printed.inputs) out.args.push_back({Emitted::Argument::Kind::input, input});
  for (std::size_t o = 0; o < kernel.outputs.size(); ++o)
    out.args.push_back({Emitted::Argument::Kind::output, static_cast<int>(o)});
  out.scratch_bytes.push_back(out.grid[0] * attention::half_map_bytes);
  out.args.push_back({Emitted::Argument::Kind::scratch, 0});
  if (plan.deals) {
    out.scratch_bytes.push_back(attention::half_counter_bytes);
    out.args.push_back({Emitted::Argument::Kind::scratch, 1});
    out.zeroed = {1};
  }
  return out;
}

}  // namespace planish::codegen
