#include "codegen/templates/row/row_genes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "codegen/emit/cuda_limits.h"
#include "codegen/emit/cuda_math.h"
#include "codegen/emit/cuda_pieces.h"
#include "codegen/emit/cuda_sweep.h"
#include "codegen/emit/early_stores.h"
#include "codegen/templates/column/cuda_column_plan.h"

namespace planish::codegen::printing {
namespace {

bool rereads(const Kernel& kernel) {
  Genome genome{{"residency", 1}, {"threads", 128}};
  return !make_plan(kernel, Device{}, genome).resident.empty();
}

/// Rows that are kept on chip and written: what a block may do one after the other.
bool stores_rows(const Kernel& kernel) {
  return std::ranges::any_of(kernel.outputs, [](const Output& o) { return !o.per_row; });
}

bool walks(const Kernel& kernel) {
  return rereads(kernel) && kernel.outer_extent() > 1 && stores_rows(kernel);
}

/// The same, where the copy engine can bring the rows.
bool streams(const Kernel& kernel) {
  return walks(kernel) && !folds_pieces(kernel) && !streamable(kernel, false).empty();
}

/// A running sum of exponentials whose arguments come out of a function that is short for small values.
bool near_pays(const Kernel& kernel) {
  return std::ranges::any_of(online_pairs(kernel), [&](const OnlinePair& pair) {
    if (pair.kind != JointKind::exponentials) return false;
    const int roots[] = {pair.x};
    return !near_arguments(kernel, closure(kernel, roots, [](int) { return false; })).empty();
  });
}

}  // namespace

std::vector<Gene> row_genes(const Kernel& kernel, const Device& device) {
  std::vector<std::int64_t> fast = either(fast_matters(kernel));
  if (near_pays(kernel)) fast.push_back(2);
  std::vector<Gene> out = sweep_genes(kernel, 32, fast);
  const bool kept = rereads(kernel), streamed = streams(kernel);
  out.push_back({"min_blocks", {1, 2, 3, 4, 6, 8}});
  out.push_back({"residency", kept ? std::vector<std::int64_t>{0, 1, 2} : std::vector<std::int64_t>{0}});
  const std::int64_t length = kernel.inner_extent();
  const std::int64_t most_rows =
      std::min<std::int64_t>(power_of_two_above(kernel.outer_extent()), length > 4096 ? 8 : 1024);
  out.push_back({"rows", doublings(1, std::max<std::int64_t>(1, most_rows))});
  out.push_back({"cluster", doublings(1, length < 4096 ? 1 : std::max(1, device.max_cluster))});
  out.push_back({"online", either(!online_pairs(kernel).empty())});
  out.push_back({"exchange", either(length >= 4096 && device.max_cluster >= 2)});
  out.push_back({"stages", streamed ? std::vector<std::int64_t>{0, 2, 3, 4, 6, 8} : std::vector<std::int64_t>{0}});
  out.push_back({"operand_residency", either(streamed && !streamable(kernel, true).empty())});
  std::vector<std::int64_t> rasters{0};
  for (const int v : shared_along(kernel)) rasters.push_back(v + 1);
  out.push_back({"raster", rasters});
  // New genes come last: those before keep their place in a random draw.
  out.push_back(
      {"persistent_rows", walks(kernel) ? std::vector<std::int64_t>{0, 4, 16, 64} : std::vector<std::int64_t>{0}});
  out.push_back({"realign", either(lies_across(kernel, device, 32) || lies_across(kernel, device, 16))});
  out.push_back({"partial_residency", either(kept)});
  out.push_back({"lines", either(off_lines(kernel, device, 16) || off_lines(kernel, device, 32))});
  out.push_back({"reverse", either(kept && !kernel.outputs.empty() && stores_last(kernel))});
  std::ranges::move(cooperative_genes(kernel, device), std::back_inserter(out));
  return out;
}

std::optional<std::string> foreign_to_cooperative(const Genome& genome) {
  if (std::ranges::none_of(
          genome, [](const auto& one) { return one.second != 0 && in_cooperative(one.first) == InCooperative::own; }))
    return std::nullopt;
  // What a team does not know is at its first choice, so that equal code has one genome.
  if (gene(genome, "rows", 1) != 1 || gene(genome, "cluster", 1) != 1) return "a team does one row at a time";
  for (const auto& [name, value] : genome) {
    if (in_cooperative(name) == InCooperative::foreign && name != "rows" && name != "cluster" && value != 0)
      return fmt::format("a team does not know `{}`", name);
  }
  return "";
}

namespace {

struct Staged {
  double score = 0;
  Genome genome;
};

/// Seeds whose rows arrive in stages: enough bytes under way on every multiprocessor, few blocks to a row.
std::vector<Staged> staged_seeds(const Kernel& kernel, const PlanFacts& facts, const Device& device,
                                 const std::vector<Gene>& all, const Genome& common) {
  const auto choices = [&](std::string_view name) {
    const Gene* const one = find_gene(all, name);
    return one == nullptr ? std::vector<std::int64_t>{0} : one->choices;
  };
  std::vector<Staged> out;
  if (choices("stages").size() < 2) return out;
  const std::int64_t length = kernel.inner_extent();
  const std::int64_t row_bytes = length * widest(kernel);
  const auto vectors = choices("vector");
  for (const std::int64_t vector : {vectors.front(), std::min<std::int64_t>(16, vectors.back())})
    for (const std::int64_t threads : {128, 256, 512, 1024})
      for (const std::int64_t cluster : choices("cluster"))
        for (const std::int64_t stages : {2, 3, 4, 6})
          for (const std::int64_t blocks : {1, 2, 3, 4}) {
            Genome genome = common;
            const std::int64_t rows =
                std::clamp<std::int64_t>(power_of_two_above(8192 / std::max<std::int64_t>(1, row_bytes)), 1,
                                         std::min(threads / 32, choices("rows").back()));
            genome["rows"] = cluster > 1 ? 1 : rows;
            genome["vector"] = vector;
            genome["threads"] = threads;
            genome["cluster"] = cluster;
            genome["stages"] = stages;
            genome["exchange"] = cluster > 1 ? choices("exchange").back() : 0;
            genome["min_blocks"] = blocks;
            genome["residency"] = static_cast<std::int64_t>(Residency::shared);
            genome["persistent_rows"] = genome["partial_residency"] = genome["reverse"] = genome["realign"] =
                genome["lines"] = 0;
            genome["operand_residency"] = choices("operand_residency").back();
            CudaPlan plan = make_plan(kernel, facts, device, genome);
            genome["unroll"] = plan.trips >= 8 && plan.width <= 2 ? 8 : plan.trips >= 4 ? 4 : plan.trips >= 2 ? 2 : 1;
            if (!sweep_illegal(kernel, facts, device, genome).empty()) continue;
            plan = make_plan(kernel, facts, device, genome);
            const double sm_bytes = static_cast<double>(plan.stage_bytes * (stages - 1) * blocks);
            double score = 1.0 - std::exp(-sm_bytes / 24000.0);
            score *= std::min(1.0, std::sqrt(static_cast<double>(threads * blocks) / 512.0));
            // A short part of a row does not pay for the row's barriers; several blocks hide each other's.
            const double part = static_cast<double>(plan.stage_bytes);
            score *= part / (part + 1000.0 + 1000.0 * (cluster > 1) + 1500.0 / static_cast<double>(blocks));
            score *=
                plan.shifted || (plan.width * widest(kernel) < 16 && length % (16 / widest(kernel)) == 0) ? 0.9 : 1.0;
            score *= static_cast<double>(plan.vectors) / static_cast<double>(plan.trips * plan.across * cluster);
            out.push_back({score, std::move(genome)});
          }
  std::ranges::stable_sort(out, std::ranges::greater{}, &Staged::score);
  return out;
}

}  // namespace

void add_row_seeds(const Kernel& kernel, const PlanFacts& facts, const Device& device, const std::vector<Gene>& all,
                   std::vector<Genome>& out) {
  // One whose rows arrive in stages: measured slower wherever many blocks hide each other's waiting, so it comes last.
  Genome common;
  for (const auto& one : all) common[one.name] = out.empty() ? one.choices.front() : value_of(out.front(), one.name, 0);
  const auto staged = staged_seeds(kernel, facts, device, all, common);
  if (!staged.empty()) out.push_back(staged.front().genome);
  // A team knows nothing of these.
  for (const auto& [name, value] : Genome(common)) {
    if (in_cooperative(name) == InCooperative::foreign || name == "reverse") common[name] = 0;
  }
  common["rows"] = common["cluster"] = 1;
  add_cooperative_seeds(kernel, device, common, out);
}

}  // namespace planish::codegen::printing
