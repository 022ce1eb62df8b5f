#include "codegen/attention/mma_attention.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>
#include <vector>

#include "backend/architecture.h"
#include "codegen/attention/half_kernel.h"
#include "codegen/cheapest.h"
#include "codegen/contraction/contraction.h"
#include "codegen/emit/cuda_limits.h"

namespace planish::codegen {
namespace attention {
namespace {

std::int64_t up_to(std::int64_t n, std::int64_t whole) {
  return (n + whole - 1) / whole * whole;
}

/// Of a thread: sums, scores, queries that are kept, and what goes on beside them. With more of them ptxas spilled.
std::int64_t mma_registers(const HalfAttention& half, const MmaAttentionTiling& plan) {
  const std::int64_t steps = up_to(half.features, 16) / 16, kept = plan.row_blocks * steps <= 8 ? 4 * steps : 4;
  const std::int64_t own = up_to(half.columns, 16) / 2 + plan.keys / 2 + kept + (half.plain ? 0 : 12) +
                           static_cast<std::int64_t>(half.ahead.size()) * plan.keys / 4;
  return plan.row_blocks * (own + 42);
}

}  // namespace

int mma_exchange_of(const HalfAttention& half) {
  return half.columns > 32 ? 64 : 32;
}

std::int64_t mma_shared_bytes(const HalfAttention& half, const MmaAttentionTiling& plan) {
  const std::int64_t features = up_to(half.features, 64) / 64, columns = up_to(half.columns, 64) / 64;
  return 128 + 128 * (features * plan.rows() + plan.stages * plan.keys * (features + columns)) +
         std::int64_t{plan.warps} * 8 * (mma_exchange_of(half) + 8) * 4;
}

std::string mma_attention_lacks(const HalfAttention& half, const MmaAttentionTiling& plan, const Device& device) {
  constexpr std::int64_t widest = 256;
  if (half.features > widest || half.columns > widest) return "heads are wider than registers";
  if (plan.row_blocks < 1 || plan.row_blocks > 2) return "a warp has 16 or 32 rows";
  if (plan.section > half.unit_count) return "more units side by side than there are";
  const std::int64_t shared = mma_shared_bytes(half, plan);
  if (shared > device.shared_bytes) return "more shared memory than a block can have";
  const backend::Architecture& arch = backend::architecture(device.arch);
  if (plan.resident * (shared + arch.reserved_shared) > arch.shared_bytes)
    return "shared memory for fewer blocks than asked for";
  if (half.unit_count * (half.rows / plan.rows() + 1) >= (std::int64_t{1} << 31)) return "too many blocks";
  return printing::does_not_hold(device, plan.resident, 32 * plan.warps, 0,
                                 static_cast<int>(mma_registers(half, plan)));
}

}  // namespace attention

namespace {

using attention::HalfAttention;
using attention::MmaAttentionTiling;

class MmaAttentionSchedule : public Schedule {
 public:
  MmaAttentionSchedule(const Kernel& kernel, Attention parts, HalfAttention half, const Device& device)
      : kernel_(kernel), parts_(std::move(parts)), half_(std::move(half)), device_(device) {}

  std::vector<Gene> genes() const override {
    return {{"tile_m", {64, 128, 256}}, {"tile_n", {16, 32, 48, 64, 80, 96, 112, 128}},
            {"threads", {128, 256}},    {"stages", {1, 2, 3}},
            {"min_blocks", {1, 2, 3}},  {"raster", sections()}};
  }

  std::string illegal(const Genome& genome) const override {
    const MmaAttentionTiling plan = plan_of(genome);
    if (auto why = attention::mma_attention_lacks(half_, plan, device_); !why.empty()) return why;
    if (plan.rows() > 64 && half_.rows <= plan.rows() / 2) return "tile_m is twice what there is";
    if (plan.keys > 16 && half_.key_count <= plan.keys - 16) return "tile_n is more than there is";
    return {};
  }

  std::vector<Genome> seeds() const override {
    std::vector<std::pair<double, Genome>> found;
    const std::int64_t section = near_section();
    for (const auto& [rows, threads] : {std::pair{128, 128}, {64, 128}, {128, 256}, {256, 256}}) {
      for (const int keys : {64, 32, 128, 96, 48, 80, 112, 16}) {
        for (const int stages : {1, 2}) {
          std::pair<double, Genome> best;
          for (const int resident : {1, 2, 3}) {
            Genome genome{{"tile_m", rows},   {"tile_n", keys},         {"threads", threads},
                          {"stages", stages}, {"min_blocks", resident}, {"raster", section}};
            if (!illegal(genome).empty()) continue;
            const double cost = clocks(plan_of(genome));
            if (best.second.empty() || cost < best.first) best = {cost, std::move(genome)};
          }
          if (!best.second.empty()) found.push_back(std::move(best));
        }
      }
    }
    return cheapest(std::move(found));
  }

  Outline outline(const Genome& genome) const override {
    const MmaAttentionTiling plan = plan_of(genome);
    Outline out;
    out.threads = 32 * plan.warps;
    out.shared_bytes = static_cast<double>(attention::mma_shared_bytes(half_, plan));
    return out;
  }

  Result<Emitted> emit(const Genome& genome) const override {
    if (const auto why = illegal(genome); !why.empty()) return fail("illegal_genome", why);
    auto printed = attention::print_mma_kernel(kernel_, parts_, half_, plan_of(genome));
    Emitted out;
    out.language = "cuda";
    out.entry = "planish_kernel";
    out.source = std::move(printed.source);
    out.grid[0] = printed.tiles;
    out.block[0] = printed.threads;
    out.shared = printed.shared_bytes;
    for (const int input : printed.inputs) out.args.push_back({Emitted::Argument::Kind::input, input});
    for (std::size_t o = 0; o < kernel_.outputs.size(); ++o)
      out.args.push_back({Emitted::Argument::Kind::output, static_cast<int>(o)});
    return out;
  }

 private:
  static MmaAttentionTiling plan_of(const Genome& genome) {
    const auto value = [&](GeneName name, std::int64_t otherwise) {
      return static_cast<int>(gene(genome, name, otherwise));
    };
    MmaAttentionTiling plan;
    plan.warps = value("threads", 128) / 32;
    plan.row_blocks = value("tile_m", 64) / (16 * plan.warps);
    plan.keys = value("tile_n", 64);
    plan.stages = value("stages", 1);
    plan.resident = value("min_blocks", 1);
    plan.section = value("raster", 1);
    return plan;
  }

  std::vector<std::int64_t> sections() const {
    std::set<std::int64_t> found{half_.unit_count, half_.sharing};
    for (std::int64_t n = 1; n < half_.unit_count; n *= 2) found.insert(n);
    return {found.begin(), found.end()};
  }

  /// Where rows have as many keys each: those of one unit, or of all that read the same masks. Else as many as the L2
  /// cache has room for, so that long blocks come first.
  std::int64_t near_section() const {
    if (half_.tests.empty()) return std::min(half_.sharing, half_.unit_count);
    const std::int64_t bytes = 2 * half_.key_count * (half_.features + half_.columns) / half_.grouped;
    std::int64_t found = 1;
    for (const std::int64_t section : sections())
      if (section * bytes <= device_.l2_bytes / 2) found = section;
    return found;
  }

  /// Counted, not fitted to measurements: for each tile of keys the tensor core, or shared memory, which each warp
  /// reads; and the exponentials, of which other warps hide some.
  double clocks(const MmaAttentionTiling& plan) const {
    const backend::Architecture& arch = backend::architecture(device_.arch);
    const auto wide = static_cast<double>((half_.features + 15) / 16 * 16 + (half_.columns + 15) / 16 * 16);
    const double rows = plan.rows(), keys = plan.keys;
    const double tensor = 2 * rows * keys * wide / arch.mma_rate();
    const double shared = (plan.warps + 1) * keys * wide * 2 / 128;
    const bool hidden = plan.resident * plan.warps >= 8;
    const double tile = std::max(tensor, shared) + rows * keys / 16 * (hidden ? 0.6 : 1.0) + 400.0 / plan.resident;
    attention::HalfTiling like;
    like.consumers = plan.rows() / 64;
    like.keys = plan.keys;
    double all = 0, longest = 0;
    for (std::int64_t row = 0; row < half_.rows; row += plan.rows()) {
      const auto span = attention::key_tiles(half_, like, row);
      const double cost = static_cast<double>(span.end - span.begin) * tile + 1000.0 / plan.resident;
      all += cost;
      longest = std::max(longest, cost);
    }
    all *= static_cast<double>(half_.unit_count);
    return std::max(all / device_.sms + longest / 2, longest * plan.resident);
  }

  const Kernel& kernel_;
  const Attention parts_;
  const HalfAttention half_;
  const Device& device_;
};

}  // namespace

std::unique_ptr<const Schedule> mma_attention_schedule(const Kernel& kernel, const Device& device) {
  if (tensor_cores(device) != TensorCores::warps || std::ranges::any_of(kernel.nodes, gathers)) return nullptr;
  auto parts = attention_of(kernel);
  if (!parts) return nullptr;
  auto half = attention::half_attention_of(kernel, *parts);
  if (!half) return nullptr;
  auto made = std::make_unique<MmaAttentionSchedule>(kernel, std::move(*parts), std::move(*half), device);
  return made->seeds().empty() ? nullptr : std::move(made);
}

}  // namespace planish::codegen
