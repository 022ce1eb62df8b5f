#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "codegen/emit/cuda_limits.h"
#include "codegen/fold.h"
#include "codegen/templates/scan/cuda_scan_plan.h"

// Genes of the scan schedule, which of their combinations may be emitted, and good first guesses.
namespace planish::codegen::printing {
namespace {

constexpr std::int64_t most_scan_slices = 4096;

bool fast_differs(const Kernel& kernel) {
  return fast_matters(kernel) || std::ranges::any_of(kernel.scans, [](const Scan& s) {
           return info(s.kind).exponents && s.accumulate == DType::f32;
         });
}

}  // namespace

std::vector<Gene> scan_genes(const Kernel& kernel, const Device&) {
  std::vector<Gene> out;
  const int wide = widest(kernel);
  const std::int64_t length = kernel.inner_extent();
  out.push_back({"threads", doublings(32, 1024)});
  out.push_back({"vector", doublings(std::max(4, wide), narrowest_moved(kernel) < wide ? 32 : 16)});
  out.push_back({"unroll", doublings(1, 16)});
  out.push_back({"hints", {0, 1, 2, 3}});
  out.push_back({"fast", either(fast_differs(kernel))});
  out.push_back({"min_blocks", {1, 2, 3, 4, 6, 8}});
  // Threads of a block that share a row, and parts of a row that have blocks of their own.
  out.push_back({"split", doublings(1, std::min<std::int64_t>(1024, power_of_two_above(length)))});
  out.push_back({"grid_split", kernel.reductions.empty()
                                   ? doublings(1, std::clamp<std::int64_t>(length / 64, 1, most_scan_slices))
                                   : std::vector<std::int64_t>{1}});
  out.push_back({"pipeline_depth", {0, 1}});
  return out;
}

std::string scan_illegal(const Kernel& kernel, const Device& device, const Genome& genome) {
  const std::int64_t threads = gene(genome, "threads", 256), split = gene(genome, "split", 1);
  if (split > threads) return "more threads share a row than a block has";
  const ScanPlan plan = make_scan_plan(kernel, device, genome);
  const ColumnPlan& column = plan.column;
  const CudaPlan& base = column.base;
  if (base.grid > 2147483647) return "the grid is too large";
  const std::int64_t chunk = static_cast<std::int64_t>(base.across) * base.unroll;
  if (base.vectors + 2 * chunk > 2147483647 || base.length > 4294967295)
    return "rows are too long for 32-bit positions";
  const std::int64_t columns = base.columns ? kernel.outer_extent() / base.width : kernel.outer_extent();
  // The smallest block may have more threads than there are rows.
  if (threads > 32 && base.rows >= 2 * power_of_two_above(columns)) return "half of the threads would have no row";
  if (base.columns && base.rows * base.width < std::min<std::int64_t>(8, kernel.outer_extent()))
    return "fewer than 8 columns a block";
  if (chunk >= 2 * power_of_two_above(column.slice_length)) return "half of a chunk would be empty";
  const std::int64_t slices = gene(genome, "grid_split", 1);
  if (slices > 1 && column.slice_length < chunk) return "a slice is shorter than a chunk";
  if (plan.scratch_bytes > (std::int64_t{1} << 31)) return "totals of slices would need over 2 GB";
  if (plan.ahead && plan.chunks < 2) return "there is no next chunk to load";
  const std::int64_t shared = plan.totals_bytes + column.meeting_bytes;
  if (shared > static_shared_limit) return "the threads' totals do not fit where they meet";
  return does_not_hold(device, base.min_blocks, threads, shared, plan.registers);
}

namespace {

struct Ranked {
  double microseconds = 0;
  Genome genome;
};

/// Roofline with what decides among these schedules: bytes under way, the wait that every chunk's exchange costs, full
/// waves and chunks, whole memory lines, and what slices read twice.
double estimated(const Kernel& kernel, const Device& device, const Genome& genome) {
  const ScanPlan plan = make_scan_plan(kernel, device, genome);
  const CudaPlan& base = plan.column.base;
  const double sms = device.sms,
               points = static_cast<double>(kernel.outer_extent()) * static_cast<double>(kernel.inner_extent());
  const double by_registers =
      std::floor(static_cast<double>(registers_per_sm) / (std::max(24, (plan.registers + 7) / 8 * 8) * base.threads));
  const std::int64_t shared = plan.totals_bytes + plan.column.meeting_bytes;
  const double resident = std::min({32.0, std::floor(2048.0 / base.threads), std::max(1.0, by_registers),
                                    std::floor(static_cast<double>(device.shared_bytes + block_overhead_bytes) /
                                               static_cast<double>(shared + block_overhead_bytes))});
  double read = 0, written = 0, vector_bytes = 0;
  for (const int id : plan.loads) {
    const auto& input = kernel.inputs[static_cast<std::size_t>(kernel.nodes[static_cast<std::size_t>(id)].input)];
    read += std::min(1.0, static_cast<double>(input.storage_elements) / points) * size_of(input.dtype);
    vector_bytes += base.vector_bytes(kernel, id);
  }
  for (const auto& output : kernel.outputs) {
    if (!output.per_row) written += size_of(output.dtype);
  }
  const double sweeps = 1.0 + 0.7 * phases(kernel) + (plan.column.slices > 1 ? 1.0 : 0.0);
  const double bytes = points * (read * sweeps + written);
  const double blocks = static_cast<double>(base.grid);
  const double per_sm = std::min(resident, std::max(1.0, blocks / sms));
  const double flying = per_sm * base.threads * vector_bytes * base.unroll * (plan.ahead ? 1.0 : 0.6);
  double efficiency = 1.0 - std::exp(-flying / 9000.0);
  efficiency *= std::min(1.0, std::sqrt(per_sm * base.threads / 640.0));
  if (base.width * widest(kernel) < 16) efficiency *= 0.95;
  const double run = base.columns ? static_cast<double>(base.rows) * base.width * widest(kernel)
                                  : static_cast<double>(base.across) * base.width * widest(kernel);
  if (run < 128 && (!base.columns || base.rows * base.width < kernel.outer_extent())) efficiency *= 0.75;
  const double waves = blocks / (sms * resident);
  if (waves < 2) efficiency *= 0.96;
  const double used = waves < 1 ? std::min(1.0, blocks / sms) : waves / std::ceil(waves);
  const double chunk = static_cast<double>(base.across) * base.unroll;
  const double idle = static_cast<double>(plan.chunks) * chunk / static_cast<double>(plan.column.slice_length);
  const double streaming =
      bytes / (device.bandwidth_gbs * 1e3 * efficiency * std::max(0.02, used)) * (1 + 0.3 * (idle - 1));
  // A chunk waits for its own loads where nothing was loaded ahead, then for the other threads.
  const double exchange = base.across > 32 || base.columns ? 0.15 + 0.01 * base.across / 32 : 0.06;
  const double wait = (plan.ahead ? 0.35 : 1.0) + exchange;
  const double waiting = static_cast<double>(plan.chunks) * wait * std::max(1.0, waves);
  return std::max(streaming, waiting) + 0.15 * std::min(streaming, waiting) + (plan.column.slices > 1 ? 4.0 : 0.0) +
         2.0;
}

}  // namespace

std::vector<Genome> scan_seeds(const Kernel& kernel, const Device& device) {
  const auto all = scan_genes(kernel, device);
  const auto choices = [&](std::string_view name) -> const std::vector<std::int64_t>& {
    return std::ranges::find(all, name, &Gene::name)->choices;
  };
  const auto has = [&](std::string_view name, std::int64_t value) {
    return std::ranges::find(choices(name), value) != choices(name).end();
  };
  double moved = 0;
  for (const auto& input : kernel.inputs) moved += static_cast<double>(input.storage_elements) * size_of(input.dtype);
  const bool streams = moved > 0.5 * static_cast<double>(device.l2_bytes);
  std::vector<std::int64_t> vectors = choices("vector");
  if (vectors.size() > 2) vectors.erase(vectors.begin(), vectors.end() - 2);
  std::vector<Ranked> ranked;
  for (const std::int64_t threads : {128, 256, 512, 1024}) {
    for (const std::int64_t vector : vectors) {
      for (const std::int64_t split : choices("split")) {
        for (const std::int64_t unroll : {4, 2, 8, 1}) {
          Genome genome{{"threads", threads},       {"vector", vector}, {"unroll", unroll},
                        {"hints", streams ? 2 : 0}, {"fast", 0},        {"min_blocks", 1},
                        {"split", split},           {"grid_split", 1},  {"pipeline_depth", 0}};
          if (split > threads) continue;
          const std::int64_t groups = make_column_plan(kernel, device, genome).base.groups;
          std::vector<std::int64_t> slices{1};
          const std::int64_t held = std::max<std::int64_t>(1, 2048 / threads);
          for (const std::int64_t blocks : {std::int64_t{1}, held, 2 * held}) {
            const std::int64_t wanted = device.sms * blocks / std::max<std::int64_t>(1, groups);
            const auto some = static_cast<std::int64_t>(
                std::bit_floor(static_cast<std::uint64_t>(std::max<std::int64_t>(1, wanted))));
            if (some > 1 && has("grid_split", some)) slices.push_back(some);
          }
          for (const std::int64_t part : slices) {
            for (const std::int64_t ahead : {1, 0}) {
              genome["grid_split"] = part;
              genome["pipeline_depth"] = ahead;
              if (scan_illegal(kernel, device, genome).empty())
                ranked.push_back({estimated(kernel, device, genome), genome});
            }
          }
        }
      }
    }
  }
  std::ranges::stable_sort(ranked, {}, &Ranked::microseconds);
  std::vector<Genome> out;
  constexpr std::size_t most = 8;
  // One of each way to share a row that the model does not find far worse: it is too coarse to tell them apart.
  for (const auto& one : ranked) {
    if (out.size() >= most - 2 || one.microseconds > 1.3 * ranked.front().microseconds) break;
    const auto kind = [](const Genome& g) { return std::pair(gene(g, "split", 1), gene(g, "grid_split", 1) > 1); };
    if (std::ranges::none_of(out, [&](const Genome& g) { return kind(g) == kind(one.genome); }))
      out.push_back(one.genome);
  }
  for (const auto& one : ranked) {
    if (out.size() >= most) break;
    if (std::ranges::none_of(out, [&](const Genome& g) { return differences(g, one.genome) < 2; }))
      out.push_back(one.genome);
  }
  // The best with approximations of the machine: the accuracy gate decides.
  if (!out.empty() && choices("fast").size() > 1) {
    Genome fast = out.front();
    fast["fast"] = 1;
    if (scan_illegal(kernel, device, fast).empty()) out.push_back(std::move(fast));
  }
  if (!out.empty()) return out;
  // Shapes that no seed above fits: the smallest block that is legal.
  for (const std::int64_t threads : choices("threads")) {
    for (const std::int64_t split : choices("split")) {
      Genome genome;
      for (const auto& one : all) genome[one.name] = one.choices.front();
      genome["threads"] = threads;
      genome["split"] = split;
      if (scan_illegal(kernel, device, genome).empty()) return {genome};
    }
  }
  return out;
}

}  // namespace planish::codegen::printing
