#include "codegen/templates/column/cuda_column_plan.h"

#include <algorithm>

#include "base/rounding.h"
#include "codegen/emit/cuda_pieces.h"
#include "codegen/emit/early_stores.h"

namespace planish::codegen::printing {
namespace {

/// Few and long: rows that neither a block nor a cluster each would fill the device with.
bool lonely_rows(const Kernel& kernel) {
  const std::int64_t rows = kernel.outer_extent(), length = kernel.inner_extent();
  return (rows <= 8 && length >= 1 << 17) || (rows < 64 && length >= 1 << 20) || (rows < 256 && length >= 1 << 22);
}

constexpr std::int64_t block_overhead = 1024;  // shared memory that the system takes for each resident block
constexpr std::int64_t warp_vectors = 32;      // slices of a team begin where a warp does
constexpr std::int64_t most_parts = 8;

/// What each sweep needs, and which loads several sweeps read.
void plan_sweeps(const Kernel& kernel, ColumnPlan& plan) {
  CudaPlan& base = plan.base;
  const auto row_level = [&](int id) { return !base.columns && !base.places[static_cast<std::size_t>(id)].inner; };
  base.store_sweep =
      store_sweeps(kernel, [&](int phase) { return !plan.folds[static_cast<std::size_t>(phase)].empty(); });
  base.sweeps.clear();
  // What the sweep that comes next stores.
  const auto store = [&](std::vector<int>& roots) {
    for (const int o : base.stored_in(static_cast<int>(base.sweeps.size())))
      roots.push_back(kernel.outputs[static_cast<std::size_t>(o)].node);
  };
  for (const auto& folds : plan.folds) {
    std::vector<int> roots;
    for (const Fold& fold : folds) {
      roots.push_back(fold.x);
      const int at = kernel.reductions[static_cast<std::size_t>(fold.reduction)].at;
      if (at >= 0) roots.push_back(at);
    }
    store(roots);
    base.sweeps.push_back(closure(kernel, roots, row_level));
    plan.sweeps += !folds.empty();
  }
  std::vector<int> roots;
  store(roots);
  plan.stores = !roots.empty();
  base.sweeps.push_back(closure(kernel, roots, row_level));
  std::erase_if(base.resident, [&](int id) {
    return std::ranges::count_if(base.sweeps,
                                 [&](const std::vector<int>& s) { return std::ranges::binary_search(s, id); }) < 2;
  });
  base.shared_offset.clear();
  base.dynamic_shared = 0;
  if (base.residency != Residency::shared || plan.teams != 0) return;
  for (const int id : base.resident) {
    base.shared_offset.push_back(base.dynamic_shared);
    base.dynamic_shared +=
        ceil_div(static_cast<std::int64_t>(base.vector_bytes(kernel, id)) * base.threads * base.trips, 16) * 16;
  }
}

/// Of a team: registers for a slice in place of the whole row, of which every thread would have had `whole_row` trips.
void hold_slice(const Kernel& kernel, std::int64_t whole_row, CudaPlan& base) {
  const auto padded = [&](std::int64_t trips) { return ceil_div(trips, base.unroll) * base.unroll; };
  std::int64_t words = 0;
  for (const int id : base.resident) {
    const Node& node = kernel.nodes[static_cast<std::size_t>(id)];
    const int element = size_of(kernel.inputs[static_cast<std::size_t>(node.input)].dtype);
    words += element < 4 ? base.vector_bytes(kernel, id) / std::max(1, element) : base.vector_bytes(kernel, id) / 4;
  }
  const std::int64_t spared = words * (padded(whole_row) - padded(base.trips));
  base.registers = static_cast<int>(std::max<std::int64_t>(24, base.registers - spared));
  base.least = static_cast<int>(std::max<std::int64_t>(24, base.least - spared));
}

/// Of a team: what each block keeps of its slice in shared memory, and in which portions it arrives.
void keep_slices(const Kernel& kernel, const Device& device, ColumnPlan& plan) {
  CudaPlan& base = plan.base;
  plan.kept_trips = 0;
  if (base.residency != Residency::shared || base.resident.empty()) return;
  plan.ring = plan.ahead + 1;
  std::int64_t trip = 0;
  for (const int id : base.resident) trip += static_cast<std::int64_t>(base.vector_bytes(kernel, id)) * base.threads;
  const std::int64_t share =
      (device.shared_bytes + block_overhead) / std::max(1, base.min_blocks) / shared_unit * shared_unit;
  const std::int64_t room =
      share - block_overhead - plan.meeting_shared() - 16 * static_cast<std::int64_t>(base.resident.size());
  const std::int64_t fits = std::max<std::int64_t>(0, room) / (trip * plan.ring);
  plan.kept_trips = fits >= base.trips ? base.trips : fits / base.unroll * base.unroll;
  for (const int id : base.resident) {
    base.shared_offset.push_back(base.dynamic_shared);
    const std::int64_t slot = static_cast<std::int64_t>(base.vector_bytes(kernel, id)) * base.threads * plan.kept_trips;
    base.dynamic_shared += ceil_div(slot * plan.ring, 16) * 16;
  }
  // With a row under way behind the one that is waited for, all of that one has long arrived.
  const std::int64_t chunks = std::max<std::int64_t>(1, ceil_div(plan.kept_trips, base.unroll));
  plan.part_trips = ceil_div(chunks, plan.ahead > 1 ? 1 : std::min(chunks, most_parts)) * base.unroll;
  plan.parts = ceil_div(chunks * base.unroll, plan.part_trips);
}

/// What did not fit in shared memory stays in registers; that of the next row is loaded as soon as this one's was
/// written.
void hold_rest(const Kernel& kernel, ColumnPlan& plan) {
  CudaPlan& base = plan.base;
  if (plan.kept_trips == 0 || plan.kept_trips == base.trips) return;
  plan.held_trips = ceil_div(base.trips - plan.kept_trips, base.unroll) * base.unroll;
  std::int64_t words = 0;
  for (const int id : base.resident) words += plan.held_trips * ceil_div(base.vector_bytes(kernel, id), 4);
  base.registers += static_cast<int>(std::min<std::int64_t>(255, words));
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
  common["persistent_rows"] = 0;
  common["partial_residency"] = 0;
  common["lines"] = 0;
  const std::int64_t threads = gene(genome, "threads", 256), team = gene(genome, "cooperative", 0);
  // The row schedule has no `split`: there a row is all threads' business.
  const std::int64_t split = gene(genome, "split", team != 0 ? threads : 1);
  common["split"] = split;
  common["rows"] = std::max<std::int64_t>(1, threads / std::max<std::int64_t>(1, split));
  plan.base = make_plan(kernel, device, common);
  CudaPlan& base = plan.base;
  const std::int64_t whole_row = base.trips;
  if (gene(genome, "online", 0) != 0) plan.pairs = online_pairs(kernel);
  const int count = phases(kernel);
  for (int p = 0; p < count; ++p) plan.folds.push_back(folds_of(kernel, plan.pairs, p));

  const std::int64_t wanted = std::max<std::int64_t>({1, gene(genome, "grid_split", 1), team});
  plan.slice_length = ceil_div(base.vectors, wanted);
  if (team != 0) plan.slice_length = ceil_div(plan.slice_length, warp_vectors) * warp_vectors;
  if (folds_pieces(kernel) && wanted > 1)
    plan.slice_length = slice_of_pieces(kernel, base, plan.slice_length, wanted * 7 / 8);
  plan.slices = ceil_div(base.vectors, plan.slice_length);
  base.trips = std::max<std::int64_t>(1, ceil_div(plan.slice_length, base.across));
  base.grid = base.groups * plan.slices;
  base.parts = 1;
  if (team != 0) {
    plan.teams = std::min<std::int64_t>(base.groups, std::int64_t{device.sms} * base.min_blocks / plan.slices);
    plan.ahead = static_cast<int>(gene(genome, "pipeline_depth", 0));
    base.grid = plan.teams * plan.slices;
    if (base.residency == Residency::registers) hold_slice(kernel, whole_row, base);
    plan.counter_bytes = plan.teams * ColumnPlan::cooperative_counters * ColumnPlan::counter_words * 4;
  }
  plan_sweeps(kernel, plan);

  plan.cells = kernel.outer_extent();
  std::int64_t state_bytes = 0;
  for (const auto& folds : plan.folds) {
    for (const Fold& fold : folds) {
      for (const FoldField& field : fold.fields) {
        state_bytes += field.bytes;
        if (!plan.leaves(field)) continue;
        plan.partials.push_back({fold.reduction, field.suffix, plan.scratch_bytes});
        const bool words = team != 0 && !base.columns;
        plan.scratch_bytes += words ? plan.teams * 2 * plan.slices * 8 * ColumnPlan::words_of(field)
                                    : ceil_div(plan.slices * plan.cells * field.bytes, 16) * 16;
      }
    }
  }
  if (base.across > 1 && base.columns) plan.meeting_bytes = state_bytes * base.threads * base.width;
  if (base.across > 32 && !base.columns) plan.meeting_bytes = state_bytes * (base.threads / 32);
  // Beside the warps' states that of the whole row, which one of them finds for all.
  if (team != 0 && !base.columns) plan.meeting_bytes = state_bytes * (base.threads / 32 + 1) * (plan.scouts() ? 2 : 1);
  base.static_shared = plan.meeting_bytes;
  if (team != 0) {
    keep_slices(kernel, device, plan);
    const std::int64_t held = base.residency == Residency::shared ? plan.kept_trips : base.trips;
    plan.touched_trips = ceil_div(held * gene(genome, "prefetch", 0) / 8, base.unroll) * base.unroll;
    // Measured: each vector under way has its place in the row, in memory and on chip beside it.
    const bool whole = plan.kept_trips == base.trips;
    base.registers += 4 + base.unroll * (whole ? 5 : base.residency == Residency::shared ? 9 : 11);
    base.least += 4 + 2 * base.unroll;
    if (gene(genome, "register_residency", 0) != 0) hold_rest(kernel, plan);
  }
  if (folds_pieces(kernel)) {
    const bool sliced = plan.slices > 1;
    plan_pieces(kernel, sliced ? plan.slice_length : 0, plan.kept_trips, base);
  }
  // Beside the accumulators that the common estimate counts: a pair's other variables, and those set aside.
  base.registers += static_cast<int>(plan.pairs.size()) * 3 * base.width;
  if (base.trips > longest_chain) base.registers += static_cast<int>(state_bytes / 4) * base.width;
  return plan;
}

}  // namespace planish::codegen::printing
