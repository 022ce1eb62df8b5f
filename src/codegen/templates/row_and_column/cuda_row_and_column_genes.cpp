#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <tuple>

#include "codegen/emit/cuda_limits.h"
#include "codegen/templates/row_and_column/cuda_row_and_column_plan.h"

// Genes of the schedule for kernels that fold both ways, which of their combinations may be emitted, and good first
// guesses.
namespace planish::codegen::printing {
namespace {

constexpr std::int64_t most_owned = 128;  // elements that a thread has under way, all written out

bool stores_elements(const Kernel& kernel) {
  return std::ranges::any_of(kernel.outputs, [](const Output& o) { return !o.per_row && !o.per_column; });
}

}  // namespace

std::vector<Gene> row_column_genes(const Kernel& kernel, const Device&) {
  std::vector<Gene> out;
  const std::int64_t length = kernel.inner_extent();
  out.push_back({"threads", doublings(32, 1024)});
  out.push_back({"vector", {4, 8, 16}});
  out.push_back({"unroll", doublings(1, 16)});
  out.push_back(
      {"hints", stores_elements(kernel) ? std::vector<std::int64_t>{0, 1, 2, 3} : std::vector<std::int64_t>{0, 1}});
  out.push_back({"fast", either(fast_matters(kernel))});
  out.push_back({"min_blocks", {1, 2, 3, 4, 6, 8}});
  // Threads that share a row, and vectors of each; what they do not cover has blocks of its own.
  out.push_back({"across", doublings(1, std::min<std::int64_t>(1024, power_of_two_above(length)))});
  std::vector<std::int64_t> trips;
  for (const int n : row_shares) {
    if (n == 1 || n < 2 * length) trips.push_back(n);
  }
  out.push_back({"trips", trips});
  out.push_back({"blocks", doublings(1, 64)});  // a multiprocessor
  return out;
}

std::string row_column_illegal(const Kernel& kernel, const Device& device, const Genome& genome) {
  const std::int64_t threads = gene(genome, "threads", 256), across = gene(genome, "across", 32);
  if (across > threads) return "more threads share a row than a block has";
  const RowColumnPlan plan = make_row_column_plan(kernel, device, genome);
  const CudaPlan& base = plan.base;
  if (!plan.whole() && needs_whole_rows(kernel)) return "an element needs its whole row";
  if (!plan.whole() && across > 32) return "a strip has more threads than a warp";
  if (plan.trips > 1 && across * (plan.trips - 1) >= base.vectors)
    return "threads would own nothing in their last turn";
  if (across >= 2 * power_of_two_above(base.vectors)) return "half of the threads would own nothing";
  // A warp at least: tiny kernels leave lanes of it idle.
  if (threads > 32 && base.rows >= 2 * power_of_two_above(plan.rows_each))
    return "half of the threads would have no row";
  if (plan.ahead > 1 && std::int64_t{base.rows} * plan.ahead >= 2 * power_of_two_above(plan.chunk_rows))
    return "half of the rows under way would be none";
  if (std::int64_t{plan.ahead} * plan.trips * base.width > most_owned) return "too many elements are under way";
  if (base.vectors + 2 * plan.strip_vectors > 2147483647 || plan.rows_each > 1073741823 ||
      plan.commons * plan.chunks > 2147483647)
    return "rows or columns are too many for 32-bit positions";
  if (base.grid > 2147483647) return "the grid is too large";
  if (plan.scratch_bytes > (std::int64_t{1} << 31)) return "what blocks leave would need over 2 GB";
  if (plan.static_shared > static_shared_limit) return "the threads' values do not fit where they meet";
  return does_not_hold(device, base.min_blocks, threads, plan.static_shared, plan.registers);
}

namespace {

struct RowColumnGuess {
  double microseconds = 0;
  Genome genome;
};

/// Bytes over bandwidth, and what decides among these schedules: bytes under way on a multiprocessor, full waves, the
/// wait at each row's barrier, and what is left in scratch and read again.
double guessed(const Kernel& kernel, const Device& device, const RowColumnPlan& plan) {
  const CudaPlan& base = plan.base;
  const double sms = device.sms;
  const double points = static_cast<double>(kernel.outer_extent()) * static_cast<double>(kernel.inner_extent());
  double bytes = 0, under_way = 0;
  for (std::size_t i = 0; i < kernel.nodes.size(); ++i) {
    if (!base.swept[i]) continue;
    const auto& input = kernel.inputs[static_cast<std::size_t>(kernel.nodes[i].input)];
    const bool held = std::ranges::binary_search(plan.held, static_cast<int>(i));
    bytes += std::min(points, static_cast<double>(input.storage_elements)) * size_of(input.dtype);
    if (!held)
      under_way += static_cast<double>(base.vector_bytes(kernel, static_cast<int>(i))) * plan.trips * plan.ahead;
  }
  for (const auto& output : kernel.outputs) {
    if (!output.per_row && !output.per_column) bytes += points * size_of(output.dtype);
  }
  bytes += 2.5 * static_cast<double>(plan.scratch_bytes);
  const double by_registers =
      std::floor(static_cast<double>(registers_per_sm) / (std::max(24, (plan.registers + 7) / 8 * 8) * base.threads));
  const double resident = std::min({32.0, std::floor(2048.0 / base.threads), std::max(1.0, by_registers),
                                    std::floor(static_cast<double>(device.shared_bytes + block_overhead_bytes) /
                                               static_cast<double>(plan.static_shared + block_overhead_bytes))});
  const double blocks = static_cast<double>(base.grid);
  const double per_sm = std::min(resident, std::max(1.0, blocks / sms));
  double efficiency = 1.0 - std::exp(-per_sm * base.threads * under_way * 0.6 / 14000.0);
  efficiency *= std::min(1.0, std::sqrt(per_sm * base.threads / 384.0));
  if (base.width * 4 < 16) efficiency *= 0.93;
  const double run = static_cast<double>(base.across) * base.width * 4;
  if (run < 128 && base.vectors > base.across) efficiency *= 0.7;
  const double waves = blocks / (sms * resident);
  const double used = waves < 1 ? std::min(1.0, blocks / sms) : waves / std::ceil(waves);
  const double owned = static_cast<double>(plan.strips * plan.strip_vectors) / static_cast<double>(base.vectors);
  double time = bytes / (device.bandwidth_gbs * 1e3 * efficiency * std::max(0.05, used)) * (1 + 0.3 * (owned - 1));
  if (base.across > 32) {
    // A turn's barrier is hidden by other blocks in part.
    const double turns = static_cast<double>(plan.chunk_rows) / (base.rows * plan.ahead) * std::max(1.0, waves);
    time += turns * (resident >= 3 ? 0.1 : resident >= 2 ? 0.25 : 0.6);
  }
  return time + (plan.whole() ? 0.0 : 3.0);
}

}  // namespace

std::vector<Genome> row_column_seeds(const Kernel& kernel, const Device& device) {
  const auto all = row_column_genes(kernel, device);
  const auto choices = [&](std::string_view name) -> const std::vector<std::int64_t>& {
    return std::ranges::find(all, name, &Gene::name)->choices;
  };
  double moved = 0;
  for (const auto& input : kernel.inputs) moved += static_cast<double>(input.storage_elements) * size_of(input.dtype);
  const bool streams = moved > 0.5 * static_cast<double>(device.l2_bytes);
  std::vector<RowColumnGuess> guesses;
  for (const std::int64_t threads : {128, 256, 512, 1024}) {
    for (const std::int64_t vector : {16, 8, 4}) {
      for (const std::int64_t across : choices("across")) {
        for (const std::int64_t trips : choices("trips")) {
          for (const std::int64_t unroll : {1, 2, 4, 8}) {
            for (const std::int64_t blocks : {2, 4, 8, 16}) {
              Genome genome{{"threads", threads},
                            {"vector", vector},
                            {"unroll", unroll},
                            {"hints", streams && stores_elements(kernel) ? 2 : 0},
                            {"fast", choices("fast").back()},
                            {"min_blocks", 1},
                            {"across", across},
                            {"trips", trips},
                            {"blocks", blocks}};
              if (row_column_illegal(kernel, device, genome).empty())
                guesses.push_back(
                    {guessed(kernel, device, make_row_column_plan(kernel, device, genome)), std::move(genome)});
            }
          }
        }
      }
    }
  }
  std::ranges::stable_sort(guesses, {}, &RowColumnGuess::microseconds);
  std::vector<Genome> out;
  constexpr std::size_t most = 8;
  const auto kind = [](const Genome& g) { return std::tuple(gene(g, "across", 1) > 32, gene(g, "threads", 1)); };
  // One of each kind that is not found far worse: the model is too coarse to tell them apart.
  for (const auto& one : guesses) {
    if (out.size() >= 5 || one.microseconds > 1.3 * guesses.front().microseconds) break;
    if (std::ranges::none_of(out, [&](const Genome& g) { return kind(g) == kind(one.genome); }))
      out.push_back(one.genome);
  }
  for (const auto& one : guesses) {
    if (out.size() >= most) break;
    const bool near = std::ranges::any_of(out, [&](const Genome& g) { return differences(one.genome, g) < 2; });
    if (!near) out.push_back(one.genome);
  }
  // The best without approximations of the machine: the accuracy gate decides.
  if (!out.empty() && gene(out.front(), "fast", 0) != 0) {
    Genome exact = out.front();
    exact["fast"] = 0;
    out.push_back(std::move(exact));
  }
  if (!out.empty()) return out;
  // Shapes that no seed above fits: the smallest block that is legal.
  for (const std::int64_t threads : choices("threads")) {
    for (const std::int64_t across : choices("across")) {
      for (const std::int64_t trips : choices("trips")) {
        Genome genome;
        for (const auto& one : all) genome[one.name] = one.choices.front();
        genome["threads"] = threads;
        genome["across"] = across;
        genome["trips"] = trips;
        if (row_column_illegal(kernel, device, genome).empty()) return {genome};
      }
    }
  }
  return out;
}

}  // namespace planish::codegen::printing
