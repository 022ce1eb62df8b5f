#include "codegen/templates/row_and_column/cuda_row_and_column_plan.h"

#include <algorithm>

#include "base/rounding.h"
#include "codegen/emit/cuda_fold.h"
#include "codegen/emit/cuda_gathering.h"
#include "codegen/emit/expression.h"

namespace planish::codegen::printing {
namespace {

std::vector<RowColumnField> fields_of(const Kernel& kernel, const std::vector<RowColumnPair>& pairs, bool across) {
  std::vector<RowColumnField> out;
  for (int r = 0; r < static_cast<int>(kernel.reductions.size()); ++r) {
    const Reduction& reduction = kernel.reductions[static_cast<std::size_t>(r)];
    if (reduction.across != across) continue;
    if (std::ranges::find(pairs, r, &RowColumnPair::leader) != pairs.end()) {
      out.push_back({r, "m", DType::f32, std::string(fold_bottom)});
    } else if (std::ranges::find(pairs, r, &RowColumnPair::follower) != pairs.end()) {
      out.push_back({r, "s", DType::f32, "0.0f"});
    } else {
      out.push_back({r, "", reduction.accumulate, neutral(reduction.kind, reduction.accumulate)});
    }
  }
  return out;
}

int words(DType dtype) {
  return size_of(dtype) > 4 ? 2 : 1;
}

void plan_accesses(const Kernel& kernel, RowColumnPlan& plan) {
  CudaPlan& base = plan.base;
  const std::size_t count = kernel.nodes.size();
  base.places = place(kernel);
  base.lane.assign(count, false);
  base.swept.assign(count, false);
  base.loads.assign(count, {});
  base.needs.assign(count, {});
  base.strip_of.assign(count, -1);
  for (std::size_t i = 0; i < count; ++i) {
    const Node& node = kernel.nodes[i];
    bool lane = false;
    if (node.op == Op::load || node.op == Op::index) {
      lane = varies(node.index, base.lanes) ||
             std::ranges::any_of(node.where, [&](const ir::Bound& b) { return varies(b.e, base.lanes); });
    }
    for (const int arg : node.args) lane = lane || base.lane[static_cast<std::size_t>(arg)];
    base.lane[i] = lane;
    if (node.op != Op::load) continue;
    base.loads[i] = classify(node.index, node.where, kernel.inputs[static_cast<std::size_t>(node.input)].dtype,
                             kernel.space, base.lanes);
    base.swept[i] = plan.levels[i].inner && !gathers(node);
    if (base.swept[i] && !plan.levels[i].across && node.where.empty()) plan.held.push_back(static_cast<int>(i));
  }
  for (const auto& output : kernel.outputs)
    base.stores.push_back(classify(output.index, {}, output.dtype, kernel.space, base.lanes));
}

void plan_registers(const Kernel& kernel, RowColumnPlan& plan) {
  const CudaPlan& base = plan.base;
  const int owned = plan.trips * base.width;
  std::int64_t total = plain_registers;
  total += 2 * static_cast<std::int64_t>(kernel.inputs.size() + kernel.outputs.size());
  for (const auto& field : plan.column_fields) total += std::int64_t{owned} * words(field.dtype);
  for (std::size_t i = 0; i < kernel.nodes.size(); ++i) {
    if (!base.swept[i]) continue;
    // Narrow elements are converted once, and lie there as 32 bits.
    const int size = size_of(kernel.inputs[static_cast<std::size_t>(kernel.nodes[i].input)].dtype);
    const int bytes = base.vector_bytes(kernel, static_cast<int>(i)) / std::max(1, size) * std::max(4, size);
    const bool held = std::ranges::binary_search(plan.held, static_cast<int>(i));
    total += ceil_div(bytes, 4) * plan.trips * (held ? 1 : plan.ahead);
  }
  for (const auto& reduction : kernel.reductions) {
    if (!reduction.across) total += (plan.ahead - 1) * words(reduction.accumulate);
  }
  if (!plan.column_pairs.empty()) total += base.width;
  plan.registers = static_cast<int>(std::min<std::int64_t>(1 << 20, total + (base.wide ? 6 : 0)));
}

}  // namespace

RowColumnPlan make_row_column_plan(const Kernel& kernel, const Device& device, const Genome& genome) {
  RowColumnPlan plan;
  CudaPlan& base = plan.base;
  const int n = static_cast<int>(kernel.space.extents.size());
  const int outer = n - kernel.inner, common = outer - kernel.across;
  plan.levels = row_column_levels(kernel);
  base.row = true;
  base.wide = !fits_int32(kernel);
  base.threads = static_cast<int>(gene(genome, "threads", 256));
  base.min_blocks = static_cast<int>(gene(genome, "min_blocks", 1));
  base.across = static_cast<int>(std::min<std::int64_t>(base.threads, gene(genome, "across", 32)));
  base.rows = base.threads / base.across;
  base.fast = gene(genome, "fast", 0) != 0;
  const auto hints = gene(genome, "hints", 0);
  base.stream_loads = (hints & 1) != 0;
  base.stream_stores = (hints & 2) != 0;
  base.narrow = std::ranges::all_of(kernel.outputs, [](const Output& o) { return size_of(o.dtype) == 2; });
  base.length = kernel.inner_extent();
  int element = 1;
  for (std::size_t i = 0; i < kernel.nodes.size(); ++i) {
    const Node& node = kernel.nodes[i];
    if (node.op == Op::load && plan.levels[i].inner && plan.levels[i].across)
      element = std::max(element, size_of(kernel.inputs[static_cast<std::size_t>(node.input)].dtype));
  }
  base.width = static_cast<int>(std::max<std::int64_t>(1, gene(genome, "vector", 16) / element));
  while (base.width > 1 && kernel.space.extents.back() % base.width != 0) base.width /= 2;
  base.lanes.mode = Lanes::Mode::along;
  base.lanes.variable = n - 1;
  base.lanes.width = base.width;
  base.vectors = base.length / base.width;
  plan.trips = static_cast<int>(gene(genome, "trips", 1));
  plan.ahead = static_cast<int>(gene(genome, "unroll", 1));
  base.unroll = plan.ahead;
  plan.strip_vectors = std::int64_t{base.across} * plan.trips;
  plan.strips = ceil_div(base.vectors, plan.strip_vectors);
  for (int v = 0; v < common; ++v) plan.commons *= kernel.space.extents[static_cast<std::size_t>(v)];
  for (int v = common; v < outer; ++v) plan.rows_each *= kernel.space.extents[static_cast<std::size_t>(v)];

  // As many runs as give every multiprocessor its blocks, and no thread a chain of additions longer than is accurate.
  const std::int64_t wanted = gene(genome, "blocks", 1) * device.sms;
  const std::int64_t least = ceil_div(plan.rows_each, longest_chain * base.rows);
  const std::int64_t most = ceil_div(plan.rows_each, std::int64_t{base.rows} * plan.ahead);
  const std::int64_t runs = wanted / std::max<std::int64_t>(1, plan.strips * plan.commons);
  plan.chunks = std::max(least, std::clamp<std::int64_t>(runs, 1, most));
  plan.chunk_rows = ceil_div(ceil_div(plan.rows_each, plan.chunks), base.rows) * base.rows;
  plan.chunks = ceil_div(plan.rows_each, plan.chunk_rows);
  base.groups = plan.chunks * plan.commons;
  base.grid = base.groups * plan.strips;

  plan.row_pairs = row_column_pairs(kernel, false);
  plan.column_pairs = row_column_pairs(kernel, true);
  plan.column_fields = fields_of(kernel, plan.column_pairs, true);
  if (!plan.whole()) plan.row_fields = fields_of(kernel, plan.row_pairs, false);
  plan_accesses(kernel, plan);
  for (const auto& field : plan.column_fields) {
    plan.scratch_bytes += plan.chunks * plan.commons * base.length * size_of(field.dtype);
    if (base.rows > 1) plan.static_shared += std::int64_t{base.threads} * base.width * size_of(field.dtype);
  }
  for (const auto& field : plan.row_fields)
    plan.scratch_bytes += plan.strips * plan.commons * plan.rows_each * size_of(field.dtype);
  if (base.across > 32) {
    for (const auto& reduction : kernel.reductions) {
      if (!reduction.across)
        plan.static_shared += 2 * std::int64_t{plan.ahead} * (base.threads / 32) * size_of(reduction.accumulate);
    }
  }
  plan_registers(kernel, plan);
  return plan;
}

namespace {

/// Rows, or columns, together with the variables that they have in common.
std::vector<bool> staying(const Kernel& kernel, bool across) {
  const std::size_t n = kernel.space.extents.size(), outer = n - static_cast<std::size_t>(kernel.inner);
  const std::size_t common = outer - static_cast<std::size_t>(kernel.across);
  std::vector<bool> stays;
  for (std::size_t v = 0; v < n; ++v) stays.push_back(v < common || (across ? v >= outer : v < outer));
  return stays;
}

/// Makes columns of what chunks of rows left, or rows of what strips did, and computes their outputs.
class RowColumnGathering : private Gathering {
 public:
  RowColumnGathering(const Kernel& kernel, const RowColumnPlan& plan, bool across, std::vector<int>& inputs)
      : Gathering(kernel, staying(kernel, across), across ? plan.chunks : plan.strips, inputs),
        plan_(plan),
        across_(across) {}

  Kernel make(std::vector<int>& outputs) {
    for (const auto& field : across_ ? plan_.column_fields : plan_.row_fields) add_field(field);
    for (const auto& pair : across_ ? plan_.column_pairs : plan_.row_pairs) add_pair(pair);
    return finished([&](const Output& output) { return across_ ? output.per_column : output.per_row; }, outputs);
  }

 private:
  int op(Op what, std::vector<int> args, DType dtype = DType::f32) {
    Node node;
    node.op = what;
    node.dtype = dtype;
    node.args = std::move(args);
    return push(std::move(node));
  }
  int constant(double value) {
    Node node;
    node.value = value;
    return push(std::move(node));
  }
  /// A part of every cell, in the order of the variables that stay.
  void add_field(const RowColumnField& field) {
    const auto& extents = made_.space.extents;
    Input input;
    input.dtype = field.dtype;
    std::int64_t cells = 1;
    ir::IndexExpr at;
    for (std::size_t v = extents.size() - 1; v-- > 0;) {
      at = ir::add(at, ir::scale(ir::IndexExpr::variable(static_cast<int>(v)), cells), made_.space);
      cells *= extents[v];
    }
    at = ir::add(at, ir::scale(ir::IndexExpr::variable(static_cast<int>(extents.size()) - 1), cells), made_.space);
    input.shape = {extents.back(), cells};
    input.strides = {cells, 1};
    input.storage_elements = extents.back() * cells;
    const int part = load_pieces(std::move(input), std::move(at));
    const Reduction& reduction = k_.reductions[static_cast<std::size_t>(field.reduction)];
    results_[static_cast<std::size_t>(field.reduction)] =
        field.suffix.empty() ? reduce(reduction.kind, part, reduction.accumulate, 0) : part;
  }

  /// Sums relative to each part's maximum become one, relative to what the kernel subtracts.
  void add_pair(const RowColumnPair& pair) {
    const int tops = results_[static_cast<std::size_t>(pair.leader)];
    const int sums = results_[static_cast<std::size_t>(pair.follower)];
    const int top = reduce(info(JointKind::exponentials).leader, tops, DType::f32, 0);
    const int moved = op(Op::mul, {sums, op(Op::exp, {op(Op::sub, {tops, top})})});
    const int sum = reduce(info(JointKind::exponentials).follower, moved, DType::f32, 1);
    // The element that is the maximum adds 1 to the sum: a sum of 0 saw nothing above -inf.
    constexpr double inf = std::numeric_limits<double>::infinity();
    const int none = op(Op::eq, {sum, constant(0)}, DType::boolean);
    const int most = op(Op::select, {none, constant(-inf), top});
    results_[static_cast<std::size_t>(pair.leader)] = most;
    // An infinite or NaN maximum decides the sum alone.
    const int gap = op(Op::exp, {op(Op::sub, {most, copy(pair.base)})});
    const int finite = op(Op::lt, {op(Op::abs, {most}), constant(inf)}, DType::boolean);
    results_[static_cast<std::size_t>(pair.follower)] = op(Op::select, {finite, op(Op::mul, {sum, gap}), gap});
  }

  const RowColumnPlan& plan_;
  bool across_;
};

}  // namespace

Kernel gathering_kernel(const Kernel& kernel, const RowColumnPlan& plan, bool across, std::vector<int>& inputs,
                        std::vector<int>& outputs) {
  return RowColumnGathering(kernel, plan, across, inputs).make(outputs);
}

}  // namespace planish::codegen::printing
