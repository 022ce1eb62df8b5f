#include "codegen/templates/segmented_row/cuda_segments.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "codegen/emit/cuda_gathering.h"
#include "codegen/segments.h"
#include "codegen/templates/column/cuda_column_plan.h"
#include "codegen/templates/common.h"

namespace planish::codegen::printing {
namespace {

using ir::IndexExpr;

IndexExpr row_major(const ir::Space& space, std::size_t from, std::size_t to) {
  IndexExpr at;
  std::int64_t stride = 1;
  for (std::size_t v = to; v-- > from;) {
    at = ir::add(at, ir::scale(IndexExpr::variable(static_cast<int>(v)), stride), space);
    stride *= space.extents[v];
  }
  return at;
}

std::vector<bool> apart_from_parts(const Kernel& kernel) {
  std::vector<bool> stays(kernel.space.extents.size(), true);
  std::fill_n(stays.rbegin(), kernel.parts, false);
  return stays;
}

/// Makes parts of pieces, and computes their outputs.
class Joining : private Gathering {
 public:
  Joining(const Kernel& kernel, std::int64_t pieces, std::vector<int>& inputs)
      : Gathering(kernel, apart_from_parts(kernel), pieces / parts_of_row(kernel), inputs) {}

  Kernel make(std::vector<int>& outputs) {
    for (std::size_t r = 0; r < k_.reductions.size(); ++r) {
      if (k_.reductions[r].part) add_pieces(r);
    }
    return finished([](const Output& output) { return output.per_part; }, outputs);
  }

 private:
  void add_pieces(std::size_t r) {
    const Reduction& reduction = k_.reductions[r];
    Input pieces;
    pieces.dtype = reduction.accumulate;
    const std::int64_t each = made_.space.extents.back();
    pieces.shape = {made_.outer_extent(), each};
    pieces.strides = {each, 1};
    pieces.storage_elements = made_.outer_extent() * each;
    const int piece = load_pieces(std::move(pieces), row_major(made_.space, 0, made_.space.extents.size()));
    results_[r] = reduce(reduction.kind, piece, reduction.accumulate, 0);
  }
};

}  // namespace

Parted::Parted(const Kernel& whole) {
  kernel.anchor = Anchor::row;
  kernel.space = whole.space;
  kernel.inner = whole.inner;
  kernel.parts = whole.parts;
  kernel.inputs = whole.inputs;
  std::vector<int> roots;
  for (const Output& o : whole.outputs) {
    if (!o.per_part) roots.push_back(o.node);
  }
  for (const Reduction& r : whole.reductions) {
    roots.push_back(r.arg);
    if (r.at >= 0) roots.push_back(r.at);
  }
  std::vector<int> node_of(whole.nodes.size(), -1), fold_of(whole.reductions.size(), -1);
  int folds = 0;
  for (std::size_t r = 0; r < whole.reductions.size(); ++r) {
    if (!whole.reductions[r].part) fold_of[r] = folds++;
  }
  const auto mapped = [&](int id) { return node_of[static_cast<std::size_t>(id)]; };
  for (const int id : closure(whole, roots, [](int) { return false; })) {
    Node node = whole.nodes[static_cast<std::size_t>(id)];
    for (int& arg : node.args) arg = mapped(arg);
    if (node.op == Op::reduced) node.reduction = fold_of[static_cast<std::size_t>(node.reduction)];
    node_of[static_cast<std::size_t>(id)] = static_cast<int>(kernel.nodes.size());
    kernel.nodes.push_back(std::move(node));
  }
  for (const Reduction& r : whole.reductions) {
    if (r.part) continue;
    Reduction own = r;
    own.arg = mapped(r.arg);
    if (r.at >= 0) own.at = mapped(r.at);
    kernel.reductions.push_back(own);
  }
  for (std::size_t o = 0; o < whole.outputs.size(); ++o) {
    if (whole.outputs[o].per_part) continue;
    Output own = whole.outputs[o];
    own.node = mapped(own.node);
    kernel.outputs.push_back(std::move(own));
    output_of.push_back(static_cast<int>(o));
    reduction_of.push_back(-1);
  }
  for (std::size_t r = 0; r < whole.reductions.size(); ++r) {
    const Reduction& reduction = whole.reductions[r];
    if (!reduction.part) continue;
    Output own;
    own.node = mapped(reduction.arg);
    own.dtype = reduction.accumulate;
    own.shape = {whole.outer_extent() * whole.inner_extent()};
    own.strides = {1};
    own.index = row_major(kernel.space, 0, kernel.space.extents.size());
    own.folded = true;
    own.fold = reduction.kind;
    kernel.outputs.push_back(std::move(own));
    output_of.push_back(-1);
    reduction_of.push_back(static_cast<int>(r));
  }
}

Kernel joining_kernel(const Kernel& kernel, std::int64_t pieces_of_row, std::vector<int>& inputs,
                      std::vector<int>& outputs) {
  return Joining(kernel, pieces_of_row, inputs).make(outputs);
}

Result<Emitted> join_segments(const Kernel& kernel, const Parted& parted, const Device& device, const Genome& genome,
                              Emitted rows) {
  using Kind = Emitted::Argument::Kind;
  Emitted emitted = std::move(rows);
  const bool column = uses_column_schedule(parted.kernel) || gene(genome, "cooperative", 0) != 0;
  const Pieces pieces = column ? make_column_plan(parted.kernel, device, genome).base.pieces
                               : make_plan(parted.kernel, device, genome).pieces;
  std::vector<int> scratch(parted.output_of.size(), -1);
  std::vector<Emitted::Argument> buffers;
  for (std::size_t o = 0; o < scratch.size(); ++o) {
    if (parted.output_of[o] >= 0) continue;
    scratch[o] = static_cast<int>(emitted.scratch_bytes.size());
    emitted.scratch_bytes.push_back(kernel.outer_extent() * pieces.count * size_of(parted.kernel.outputs[o].dtype));
    buffers.push_back({Kind::scratch, scratch[o]});
  }
  const auto rename = [&](Emitted& launch) {
    for (auto& arg : launch.args) {
      if (arg.kind != Kind::output) continue;
      const auto o = static_cast<std::size_t>(arg.index);
      arg = scratch[o] >= 0 ? Emitted::Argument{Kind::scratch, scratch[o]}
                            : Emitted::Argument{Kind::output, parted.output_of[o]};
    }
  };
  rename(emitted);
  for (Emitted& launch : emitted.after) rename(launch);
  std::vector<int> inputs, outputs;
  const Kernel joining = joining_kernel(kernel, pieces.count, inputs, outputs);
  for (const int i : inputs) buffers.push_back({Kind::input, i});
  PLANISH_CHECK(append_launches(joining, device, buffers, output_arguments(outputs), emitted));
  return emitted;
}

}  // namespace planish::codegen::printing
