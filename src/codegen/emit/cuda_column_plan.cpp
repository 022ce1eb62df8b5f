#include "codegen/emit/cuda_column_plan.h"

#include <algorithm>

namespace planish::codegen::printing {
namespace {

constexpr std::int64_t parts_of(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

/// Few and long: rows that neither a block nor a cluster each would fill the device with.
bool lonely_rows(const Kernel& kernel) {
  const std::int64_t rows = kernel.outer_extent(), length = kernel.inner_extent();
  return (rows <= 8 && length >= 1 << 17) || (rows < 64 && length >= 1 << 20) || (rows < 256 && length >= 1 << 22);
}

/// What each sweep needs, and which loads several sweeps read.
void plan_sweeps(const Kernel& kernel, ColumnPlan& plan) {
  CudaPlan& base = plan.base;
  const auto row_level = [&](int id) { return !base.columns && !base.places[static_cast<std::size_t>(id)].inner; };
  base.sweeps.clear();
  for (const auto& folds : plan.folds) {
    std::vector<int> roots;
    for (const Fold& fold : folds) {
      roots.push_back(fold.x);
      const int at = kernel.reductions[static_cast<std::size_t>(fold.reduction)].at;
      if (at >= 0) roots.push_back(at);
    }
    base.sweeps.push_back(closure(kernel, roots, row_level));
    plan.sweeps += !folds.empty();
  }
  std::vector<int> roots;
  for (const auto& output : kernel.outputs) {
    if (!output.per_row) roots.push_back(output.node);
  }
  plan.stores = !roots.empty();
  base.sweeps.push_back(closure(kernel, roots, row_level));
  std::erase_if(base.resident, [&](int id) {
    return std::ranges::count_if(base.sweeps,
                                 [&](const std::vector<int>& s) { return std::ranges::binary_search(s, id); }) < 2;
  });
  base.shared_offset.clear();
  base.dynamic_shared = 0;
  if (base.residency != Residency::shared) return;
  for (const int id : base.resident) {
    base.shared_offset.push_back(base.dynamic_shared);
    base.dynamic_shared +=
        parts_of(static_cast<std::int64_t>(base.vector_bytes(kernel, id)) * base.threads * base.trips, 16) * 16;
  }
}

}  // namespace

bool uses_column_schedule(const Kernel& kernel) {
  if (kernel.anchor != Anchor::row) return false;
  const bool positions =
      std::ranges::any_of(kernel.reductions, [](const Reduction& r) { return finds_position(r.kind); });
  return positions || prefers_columns(kernel) || lonely_rows(kernel);
}

std::int64_t ColumnPlan::offset_of(int reduction, const std::string& suffix) const {
  for (const auto& place : partials) {
    if (place.reduction == reduction && place.suffix == suffix) return place.offset;
  }
  return 0;
}

ColumnPlan make_column_plan(const Kernel& kernel, const Device& device, const Genome& genome) {
  ColumnPlan plan;
  Genome common = genome;
  common["cluster"] = 1;
  common["online"] = 0;
  common["walk"] = 0;
  common["keep"] = 0;
  common["lines"] = 0;
  const std::int64_t threads = gene(genome, "threads", 256), split = gene(genome, "split", 1);
  common["rows"] = std::max<std::int64_t>(1, threads / std::max<std::int64_t>(1, split));
  plan.base = make_plan(kernel, device, common);
  CudaPlan& base = plan.base;
  if (gene(genome, "online", 0) != 0) plan.pairs = online_pairs(kernel);
  const int count = phases(kernel);
  for (int p = 0; p < count; ++p) plan.folds.push_back(folds_of(kernel, plan.pairs, p));

  const std::int64_t wanted = std::max<std::int64_t>(1, gene(genome, "slices", 1));
  plan.slice_length = parts_of(base.vectors, wanted);
  plan.slices = parts_of(base.vectors, plan.slice_length);
  base.trips = std::max<std::int64_t>(1, parts_of(plan.slice_length, base.across));
  base.grid = base.groups * plan.slices;
  base.parts = 1;
  plan_sweeps(kernel, plan);

  plan.cells = kernel.outer_extent();
  std::int64_t state_bytes = 0;
  for (const auto& folds : plan.folds) {
    for (const Fold& fold : folds) {
      for (const FoldField& field : fold.fields) {
        state_bytes += field.bytes;
        plan.partials.push_back({fold.reduction, field.suffix, plan.scratch_bytes});
        plan.scratch_bytes += parts_of(plan.slices * plan.cells * field.bytes, 16) * 16;
      }
    }
  }
  if (base.across > 1 && base.columns) plan.meeting_bytes = state_bytes * base.threads * base.width;
  if (base.across > 32 && !base.columns) plan.meeting_bytes = state_bytes * (base.threads / 32);
  base.static_shared = plan.meeting_bytes;
  // Beside the accumulators that the common estimate counts: a pair's other variables, and those set aside.
  base.registers += static_cast<int>(plan.pairs.size()) * 3 * base.width;
  if (base.trips > longest_chain) base.registers += static_cast<int>(state_bytes / 4) * base.width;
  return plan;
}

}  // namespace planish::codegen::printing
