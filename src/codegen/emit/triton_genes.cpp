#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <string_view>

#include "codegen/emit/cuda_limits.h"
#include "codegen/emit/cuda_plan.h"
#include "codegen/emit/triton_emit.h"
#include "codegen/emit/triton_plan.h"
#include "codegen/fold.h"

/// Which kernels and genomes the Triton emitter takes, and what it tries first.
namespace planish::codegen::printing {
namespace {

constexpr std::int64_t largest_tile = 1 << 20;  // Triton's own limit of elements in a block

bool sums_floats(const Kernel& kernel) {
  return std::ranges::any_of(kernel.reductions,
                             [](const Reduction& r) { return info(r.kind).adds && is_floating(r.accumulate); });
}

/// The choice nearest to `wanted` from below, else the first.
std::int64_t nearest(const Gene& gene, std::int64_t wanted) {
  std::int64_t best = gene.choices.front();
  for (const auto choice : gene.choices) {
    if (choice <= wanted) best = std::max(best, choice);
  }
  return best;
}

}  // namespace

std::string triton_lacks(const Kernel& kernel) {
  if (std::ranges::any_of(kernel.nodes, gathers)) return "loads at places that other values name";
  for (const auto& reduction : kernel.reductions) {
    if (info(reduction.kind).adds && reduction.accumulate == DType::boolean) return "sums and products of booleans";
  }
  return {};
}

std::string triton_illegal(const Kernel& kernel, const std::vector<Gene>& genes, const Genome& genome) {
  const auto first = [&](std::string_view name) {
    const Gene* one = find_gene(genes, name);
    return one == nullptr || value_of(genome, name, one->choices.front()) == one->choices.front();
  };
  // What Triton does not know stays at its first choice, so that equal code has one genome.
  for (const auto& one : genes) {
    const GeneInfo* info = find_gene(one.name);
    if ((info == nullptr || !info->in_triton) && !first(one.name))
      return fmt::format("gene {} means nothing to Triton", one.name);
  }
  if (gene(genome, "rows", 1) > gene(genome, "threads", 128)) return "more rows a program than threads";
  const auto residency = static_cast<Residency>(gene(genome, "residency", 0));
  if (residency == Residency::shared) return "Triton itself decides on shared memory";
  const TritonPlan plan = make_triton_plan(kernel, genome);
  // Triton shares a block out itself: only how large it is can be said, and is said in one way.
  const Gene* vector = find_gene(genes, "vector");
  if (vector != nullptr && !first("unroll") && gene(genome, "vector", 4) != vector->choices.back())
    return "unrolling starts where vectors are widest";
  if (residency == Residency::registers) {
    if (!first("vector") || !first("unroll")) return "a row that is held as a whole decides its block itself";
    if (plan.asked >= plan.block) return "the row fits into one block anyway";
  } else if (!first("vector") || !first("unroll")) {
    const Gene* held = find_gene(genes, "residency");
    if (plan.asked >= 2 * plan.block) return "the block is wider than the work";
    if (plan.row && plan.trips == 1 && held != nullptr && held->choices.size() > 1)
      return "the row is held as a whole, which residency says";
  }
  if (plan.rows * plan.block < plan.threads && !first("threads")) return "threads would idle";
  if (plan.rows * plan.block > largest_tile) return "the block is larger than Triton allows";
  if (plan.programs > 2147483647) return "the grid is too large";
  if (plan.row && plan.length > 1073741824) return "rows are too long for 32-bit positions";
  if (plan.trips > triton_longest_chain && sums_floats(kernel)) return "too long a chain of additions";
  const std::int64_t cap = std::min<std::int64_t>(255, registers_per_sm / plan.threads);
  if (plan.words > cap) return fmt::format("about {} registers a thread, {} are there", plan.words, cap);
  return {};
}

std::vector<Genome> triton_seeds(const Kernel& kernel, const Device& device, const std::vector<Gene>& genes) {
  double moved = 0;
  for (const auto& input : kernel.inputs) moved += static_cast<double>(input.storage_elements) * size_of(input.dtype);
  const double points = static_cast<double>(kernel.outer_extent()) * static_cast<double>(kernel.inner_extent());
  for (const auto& output : kernel.outputs) moved += output.per_row ? 0.0 : points * size_of(output.dtype);
  Genome common;
  for (const auto& one : genes) common[one.name] = one.choices.front();
  common["language"] = static_cast<std::int64_t>(Language::triton);
  if (moved > 0.5 * static_cast<double>(device.l2_bytes)) {
    if (const Gene* hints = find_gene(genes, "hints")) common["hints"] = hints->choices.size() > 2 ? 2 : 0;
  }
  if (const Gene* fast = find_gene(genes, "fast")) common["fast"] = fast->choices.back();

  const auto with = [&](std::initializer_list<std::pair<std::string_view, std::int64_t>> wanted) {
    Genome genome = common;
    for (const auto& [name, value] : wanted) {
      if (const Gene* one = find_gene(genes, name)) genome[std::string(name)] = nearest(*one, value);
    }
    return genome;
  };
  // Of each kind the first that is legal.
  std::vector<std::vector<Genome>> kinds(2);
  if (!kernel.has_rows()) {
    for (const std::int64_t threads : {128, 256, 64}) {
      kinds[0].push_back(with({{"threads", threads}, {"vector", 32}, {"unroll", 2}}));
      for (const std::int64_t vector : {32, 16, 4})
        kinds[1].push_back(with({{"threads", threads}, {"vector", vector}, {"unroll", 1}}));
    }
  } else {
    const auto length = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(kernel.inner_extent())));
    const std::int64_t rows = std::max<std::int64_t>(1, 2048 / length);
    // A row as a whole, some sixteen elements to a thread; or in parts.
    for (const std::int64_t share : {16, 8, 32}) {
      const std::int64_t threads = std::clamp<std::int64_t>(rows * length / share, 128, 1024);
      kinds[0].push_back(with({{"residency", 1}, {"threads", threads}, {"rows", rows}}));
    }
    // Parts of a short row are not worth a loop: the same with fewer elements to a thread.
    if (length <= 4096) {
      const std::int64_t threads = std::clamp<std::int64_t>(2 * rows * length / 8, 64, 512);
      kinds[1].push_back(with({{"residency", 1}, {"threads", threads}, {"rows", 2 * rows}}));
    }
    for (const std::int64_t threads : {256, 512, 128, 1024, 64, 32}) {
      for (const std::int64_t unroll : {2, 4, 1, 8}) {
        for (const std::int64_t vector : {32, 16, 4}) {
          kinds[1].push_back(with(
              {{"threads", threads}, {"vector", vector}, {"unroll", unroll}, {"rows", std::min(rows, threads / 4)}}));
        }
      }
    }
    for (const std::int64_t threads : {128, 32}) kinds[1].push_back(with({{"threads", threads}, {"rows", 1}}));
  }
  std::vector<Genome> out;
  for (const auto& kind : kinds) {
    const auto legal =
        std::ranges::find_if(kind, [&](const Genome& g) { return triton_illegal(kernel, genes, g).empty(); });
    if (legal != kind.end() && std::ranges::find(out, *legal) == out.end()) out.push_back(*legal);
  }
  return out;
}

}  // namespace planish::codegen::printing
