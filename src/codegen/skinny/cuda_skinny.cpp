#include "codegen/skinny/cuda_skinny.h"

#include <algorithm>
#include <utility>

#include "codegen/cheapest.h"
#include "codegen/contraction/epilogue.h"
#include "codegen/emit/cuda_limits.h"

namespace planish::codegen {
namespace {

/// Of scales and zero points: half of what a block has beside another one.
constexpr std::int64_t most_table_bytes = std::int64_t{56} << 10;
constexpr std::int64_t weights_in_registers = 1, weights_in_shared = 2;  ///< choices of `residency`: where weights wait

bool has_table(const Skinny& s, SkinnyPlan plan) {
  plan.table = s.codes() != nullptr && s.codes()->table_pieces();
  return plan.table && skinny::layout_of(s, plan).table_bytes <= most_table_bytes;
}

SkinnyPlan plan_of(const Skinny& s, const Device& device, const Genome& genome) {
  const auto value = [&](GeneName name, std::int64_t otherwise) {
    return static_cast<int>(gene(genome, name, otherwise));
  };
  SkinnyPlan plan;
  plan.tiles = value("rows", 16) / 16;
  plan.warps = value("threads", 512) / 32;
  plan.stages = value("stages", 4);
  plan.blocks = device.sms;
  // Runs of 32 rows are few: what has none of them is not launched.
  if (s.codes() != nullptr && s.codes()->turned)
    plan.blocks = static_cast<int>(std::min<std::int64_t>(device.sms, s.rows / s.codes()->together()));
  plan.resident = value("min_blocks", 1);
  plan.ring_shared = value("residency", weights_in_shared) == weights_in_shared;
  plan.x_shared = value("operand_residency", 1) != 0;
  plan.fast = value("fast", 0) != 0;
  plan.chained = backend::architecture(device.arch).dependent_launch;
  plan.table = has_table(s, plan);
  return plan;
}

/// That a block goes through its rows in.
std::int64_t passes_of(const Skinny& s, const SkinnyPlan& plan) {
  const std::int64_t rows = std::int64_t{16} * plan.tiles * plan.blocks;
  return (s.rows + rows - 1) / rows;
}

int registers_of(const Skinny& s, const SkinnyPlan& plan, const skinny::Layout& layout);

std::string does_not_hold(const Skinny& s, const SkinnyPlan& plan, const Device& device) {
  const skinny::Layout layout = skinny::layout_of(s, plan);
  if (plan.resident == 2 && layout.shared_bytes > printing::half_shared(device))
    return "more than half of the shared memory";
  return printing::does_not_hold(device, plan.resident, plan.warps * 32, layout.shared_bytes,
                                 registers_of(s, plan, layout));
}

/// Of a block, with what its place among other launches takes.
std::int64_t launch_shared(const SkinnyPlan& plan, const skinny::Layout& layout, const Device& device) {
  return plan.resident == 2 ? std::max(layout.shared_bytes, printing::half_shared(device)) : layout.shared_bytes;
}

/// Of weights in codes, beside what their bytes take: rows that are none, the end of each pass, little work of a step
/// at once, and a ring that few stages fill. Measured on an H200 (docs/results/skinny.md).
double code_costs(const Skinny& s, const SkinnyPlan& plan, const skinny::Layout& layout, std::int64_t passes) {
  const auto rows = static_cast<double>(s.rows) / plan.blocks;
  const std::int64_t all = passes * layout.steps;
  double time = 0.03 * static_cast<double>(passes);
  time += 0.25 * (static_cast<double>(16 * plan.tiles * passes) / rows - 1);
  if (layout.groups * plan.warps < 16) time += 0.12;
  if (!plan.x_shared) time += 0.5;  // 16 bytes of weights are 32 elements of it, or 16
  if (plan.stages < std::min<std::int64_t>(4, all - 1)) time += 0.05 * (4 - plan.stages);
  return time;
}

/// Whether a block with x, and one of the launch after it, have room beside each other. Codes take registers of which
/// half as many threads have enough.
bool has_room_for_two(const Skinny& s, const Device& device) {
  const auto has = [&](int warps) {
    SkinnyPlan least;
    least.warps = warps;
    least.stages = 3;
    least.resident = 2;
    least.blocks = device.sms;
    least.table = has_table(s, least);
    return does_not_hold(s, least, device).empty();
  };
  return has(16) || (s.codes() != nullptr && has(8));
}

/// Eight weights of two rows taken apart, what scales and zero points of this step and the next take, and the words of
/// four rows that were turned.
int registers_of_codes(const Skinny& s, const skinny::Layout& layout) {
  if (s.codes() == nullptr) return 0;
  using Scale = skinny::Codes::Scale;
  const int turned = s.codes()->turned ? 16 * static_cast<int>(s.parts.size()) + 8 : 0;
  const int ahead = layout.table_bytes > 0 ? 1 : 2;
  return 4 * ahead + turned + ahead * 2 * layout.groups * (int{s.codes()->scaled_inside()} + int{s.codes()->zeroed}) +
         (s.codes()->scaled == Scale::step ? 4 * layout.columns : 0);
}

/// As ptxas found it for kernels with little beside the products.
int registers_of(const Skinny& s, const SkinnyPlan& plan, const skinny::Layout& layout) {
  const int vectors = 2 * layout.groups;
  const int ring = plan.ring_shared ? 0 : plan.stages * vectors * 4;
  const int x = layout.columns * layout.chunks * 4 * (plan.x_shared ? 1 : 2);
  return 30 + 4 * layout.groups * layout.columns + 2 * vectors + x + ring + (s.statistics.empty() ? 0 : 4) +
         registers_of_codes(s, layout);
}

}  // namespace

namespace skinny {
namespace {

std::int64_t table_bytes(const Skinny& s, const SkinnyPlan& plan, const Layout& layout) {
  const Codes& codes = *s.codes();
  const int pieces = codes.table_pieces().value_or(0);
  const std::int64_t together = codes.together(), pass = std::int64_t{16} * plan.tiles;
  const std::int64_t rows = (s.rows / together + plan.blocks - 1) / plan.blocks * together;
  const std::int64_t units = pieces == 0 ? 1 : layout.steps * plan.warps * 4 / pieces;
  const int kinds = int{codes.scaled_inside()} + int{codes.zeroed};
  return kinds * static_cast<std::int64_t>(s.parts.size()) * ((rows + pass - 1) / pass * pass) *
         ((units + 31) / 32 * 32 + 4) * 4;
}

}  // namespace

Layout layout_of(const Skinny& s, const SkinnyPlan& plan) {
  Layout out;
  out.groups = plan.tiles * static_cast<int>(s.parts.size());
  out.columns = static_cast<int>((s.count + 7) / 8);
  const std::int64_t run = 4 * (128 / s.weight_bits()), step = run * plan.warps;
  out.chunks = 16 / s.weight_bits();
  out.steps = (s.depth + step - 1) / step;
  out.stage_bytes = std::int64_t{2} * out.groups * plan.warps * 32 * 16;
  const std::int64_t pitch = ((s.depth + run - 1) / run * run * 2 + 127) / 128 * 128 + 64;
  const std::int64_t sums = plan.warps * 16 * out.groups * s.count * 4 * (s.count <= 8 ? 2 : 1);
  const auto folds = static_cast<std::int64_t>(s.statistics.size());
  const std::int64_t statistics = (folds * s.count + 3) / 4 * 4 + (folds > 0 ? plan.warps : 0);
  if (plan.table) out.table_bytes = table_bytes(s, plan, out);
  out.shared_bytes = out.table_bytes + (plan.ring_shared ? plan.stages * out.stage_bytes : 0) +
                     (plan.x_shared ? s.count * pitch : 0) + sums + statistics * 4;
  return out;
}

}  // namespace skinny

std::vector<Gene> skinny_genes(const Kernel& kernel, const Skinny&, const Device&) {
  return {{"threads", {512, 256}},
          {"rows", {16, 32, 48, 64}},
          {"stages", {1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16}},
          {"min_blocks", {1, 2}},
          {"residency", {weights_in_shared, weights_in_registers}},
          {"operand_residency", {1, 0}},
          {"fast", printing::either(contraction::has_fast_forms(kernel))}};
}

std::string skinny_illegal(const Skinny& s, const Device& device, const Genome& genome) {
  const SkinnyPlan plan = plan_of(s, device, genome);
  if (plan.chained && plan.resident == 1 && has_room_for_two(s, device)) return "no room for the launch after it";
  if (!plan.chained && plan.resident == 2) return "no launch after it begins before it has ended";
  const skinny::Layout layout = skinny::layout_of(s, plan);
  const int together = s.codes() != nullptr ? s.codes()->together() : 1;
  if (together > 1 && plan.tiles % 2 != 0) return "words of several rows are two tiles";
  if (together == 32 && !plan.ring_shared) return "words of eight rows are read by other lanes than asked for them";
  if (plan.tiles > (together > 1 ? 2 : 1) && s.rows <= 16 * (plan.tiles - 1) * plan.blocks)
    return "more rows than a block has";
  if (!plan.ring_shared && layout.steps % plan.stages != 0) return "stages in registers do not divide the steps";
  if (plan.blocks > s.rows / together) return "more blocks than rows of weights";
  if (layout.columns * layout.groups > 16) return "too many sums a thread";
  return does_not_hold(s, plan, device);
}

std::vector<Genome> skinny_seeds(const Kernel&, const Skinny& s, const Device& device) {
  std::vector<std::pair<double, Genome>> found;
  for (const auto& gene_threads : {512, 256}) {
    for (const int tile : {16, 32, 48, 64}) {
      for (const int stages : {16, 14, 12, 10, 8, 7, 6, 5, 4, 3, 2}) {
        for (const int resident : {2, 1}) {
          for (const auto where : {weights_in_shared, weights_in_registers}) {
            for (const int shared : {1, 0}) {
              Genome genome{{"threads", gene_threads},
                            {"rows", tile},
                            {"stages", stages},
                            {"min_blocks", resident},
                            {"residency", where},
                            {"operand_residency", shared},
                            {"fast", 0}};
              if (!skinny_illegal(s, device, genome).empty()) continue;
              // Measured on an H200 (docs/results/skinny.md): 64 KiB under way a multiprocessor are enough, of the
              // launch after this one as many; x is read again at every pass where it is not kept, between other
              // launches at a cost that a chain of equal ones does not show (31.4 µs of 28.9).
              const SkinnyPlan plan = plan_of(s, device, genome);
              const skinny::Layout layout = skinny::layout_of(s, plan);
              const double flight = static_cast<double>(stages * layout.stage_bytes) / 65536;
              const std::int64_t passes = passes_of(s, plan);
              double time = 1 + 0.15 * std::max(0.0, 1.25 - flight) + 0.01 * std::max(0.0, flight - 1.5);
              time += resident == 2 ? 0 : 0.015;
              time += gene_threads == 512 ? 0 : 0.03;
              time += where == weights_in_shared ? 0 : 0.02;
              if (shared == 0) time += 0.04 + 0.02 * static_cast<double>(passes) * static_cast<double>(s.count + 7) / 8;
              if (s.codes() != nullptr) {
                time += code_costs(s, plan, layout, passes);
              } else if (shared == 1) {
                time += 0.01 * (plan.tiles - 1);
              }
              found.emplace_back(time, std::move(genome));
            }
          }
        }
      }
    }
  }
  return cheapest(std::move(found));
}

Outline skinny_outline(const Skinny& s, const Device& device, const Genome& genome) {
  const SkinnyPlan plan = plan_of(s, device, genome);
  const skinny::Layout layout = skinny::layout_of(s, plan);
  Outline out;
  out.threads = plan.warps * 32;
  out.registers = registers_of(s, plan, layout);
  out.shared_bytes = static_cast<double>(launch_shared(plan, layout, device));
  out.blocks = plan.blocks;
  out.trips = static_cast<double>(layout.steps * passes_of(s, plan));
  out.flight_bytes = static_cast<double>(plan.stages * layout.stage_bytes);
  return out;
}

Result<Emitted> emit_skinny(const Kernel& kernel, const Skinny& s, const Device& device, const Genome& genome) {
  if (const auto why = skinny_illegal(s, device, genome); !why.empty()) return fail("illegal_genome", why);
  const SkinnyPlan plan = plan_of(s, device, genome);
  auto printed = skinny::print(kernel, s, plan);
  Emitted out;
  out.language = "cuda";
  out.source = std::move(printed.source);
  out.entry = "planish_kernel";
  out.grid[0] = plan.blocks;
  out.block[0] = plan.warps * 32;
  out.shared = launch_shared(plan, skinny::layout_of(s, plan), device);
  for (const int input : printed.inputs) out.args.push_back({Emitted::Argument::Kind::input, input});
  for (std::size_t o = 0; o < kernel.outputs.size(); ++o)
    out.args.push_back({Emitted::Argument::Kind::output, static_cast<int>(o)});
  out.shares = static_cast<double>(s.rows * s.depth * s.weight_bits()) / 16 * static_cast<double>(s.parts.size());
  out.shared_by = [kernel, s, plan, device](std::int64_t blocks, std::int64_t threads) {
    SkinnyPlan other = plan;
    other.blocks = static_cast<int>(blocks);
    other.warps = static_cast<int>(threads / 32);
    other.stages = std::max(2, plan.stages * plan.warps / other.warps);  // as many bytes under way
    std::optional<Emitted::Shared> found;
    if (does_not_hold(s, other, device).empty())
      found = {skinny::print(kernel, s, other).source, launch_shared(other, skinny::layout_of(s, other), device)};
    return found;
  };
  if (!plan.chained) return out;
  out.early.emplace();
  for (const auto& part : s.parts)
    for (const int input : s.inputs(kernel, part))
      if (std::ranges::find(*out.early, input) == out.early->end()) out.early->push_back(input);
  return out;
}

}  // namespace planish::codegen
