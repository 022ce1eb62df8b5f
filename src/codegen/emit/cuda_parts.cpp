#include "codegen/emit/cuda_parts.h"

#include <algorithm>
#include <iterator>

#include "codegen/emit/cuda_column_plan.h"
#include "codegen/emit/cuda_emit.h"
#include "codegen/parts.h"

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

/// Copies what parts' outputs need into a kernel of its own.
class Joining {
 public:
  Joining(const Kernel& kernel, std::int64_t pieces, std::vector<int>& inputs)
      : k_(kernel), inputs_(inputs), copied_(kernel.nodes.size(), -1), results_(kernel.reductions.size(), -1) {
    const std::size_t all = k_.space.extents.size(), stays = all - static_cast<std::size_t>(k_.parts);
    for (std::size_t v = 0; v < all; ++v) {
      replacements_.push_back(v < stays ? IndexExpr::variable(static_cast<int>(v)) : IndexExpr::constant(0));
      if (v < stays) made_.space.extents.push_back(k_.space.extents[v]);
    }
    made_.anchor = Anchor::row;
    made_.inner = 1;
    made_.space.extents.push_back(pieces / parts_of_row(k_));
  }

  Kernel make(std::vector<int>& outputs) {
    for (std::size_t r = 0; r < k_.reductions.size(); ++r) {
      if (k_.reductions[r].part) add_pieces(r);
    }
    fields_ = made_.inputs.size();
    for (std::size_t o = 0; o < k_.outputs.size(); ++o) {
      Output output = k_.outputs[o];
      if (!output.per_part) continue;
      output.node = copy(output.node);
      output.index = ir::substitute(output.index, replacements_, made_.space);
      output.per_row = true;
      output.per_part = false;
      made_.outputs.push_back(std::move(output));
      outputs.push_back(static_cast<int>(o));
    }
    return std::move(made_);
  }

 private:
  int push(Node node) {
    made_.nodes.push_back(std::move(node));
    return static_cast<int>(made_.nodes.size()) - 1;
  }

  void add_pieces(std::size_t r) {
    const Reduction& reduction = k_.reductions[r];
    Input input;
    input.dtype = reduction.accumulate;
    const std::int64_t each = made_.space.extents.back();
    input.shape = {made_.outer_extent(), each};
    input.strides = {each, 1};
    input.storage_elements = made_.outer_extent() * each;
    made_.inputs.push_back(std::move(input));
    Node load;
    load.op = Op::load;
    load.dtype = reduction.accumulate;
    load.input = static_cast<int>(made_.inputs.size()) - 1;
    load.index = row_major(made_.space, 0, made_.space.extents.size());
    const int piece = push(std::move(load));
    made_.reductions.push_back({reduction.kind, piece, reduction.accumulate});
    Node result;
    result.op = Op::reduced;
    result.dtype = reduction.accumulate;
    result.reduction = static_cast<int>(made_.reductions.size()) - 1;
    results_[r] = push(std::move(result));
  }

  int copy(int id) {
    int& known = copied_[static_cast<std::size_t>(id)];
    if (known >= 0) return known;
    Node node = k_.nodes[static_cast<std::size_t>(id)];
    if (node.op == Op::reduced) return known = results_[static_cast<std::size_t>(node.reduction)];
    for (int& arg : node.args) arg = copy(arg);
    if (node.op == Op::load) {
      const auto at = std::ranges::find(inputs_, node.input);
      const auto place = static_cast<std::size_t>(at - inputs_.begin());
      if (at == inputs_.end()) {
        inputs_.push_back(node.input);
        made_.inputs.push_back(k_.inputs[static_cast<std::size_t>(node.input)]);
      }
      node.input = static_cast<int>(fields_ + place);
    }
    if (node.op == Op::load || node.op == Op::index)
      node.index = ir::substitute(node.index, replacements_, made_.space);
    for (auto& bound : node.where) bound.e = ir::substitute(bound.e, replacements_, made_.space);
    return known = push(std::move(node));
  }

  const Kernel& k_;
  std::vector<int>& inputs_;
  std::vector<int> copied_, results_;  ///< by node; by reduction: the node that holds its result
  std::size_t fields_ = 0;
  std::vector<IndexExpr> replacements_;
  Kernel made_;
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
  facts = std::make_shared<const PlanFacts>(kernel);
}

Kernel joining_kernel(const Kernel& kernel, std::int64_t pieces_of_row, std::vector<int>& inputs,
                      std::vector<int>& outputs) {
  return Joining(kernel, pieces_of_row, inputs).make(outputs);
}

Result<Emitted> emit_parts(const Kernel& kernel, const Device& device, const Genome& genome) {
  using Kind = Emitted::Argument::Kind;
  const Parted parted(kernel);
  PLANISH_TRY(Emitted emitted, emit_cuda(parted.kernel, device, genome));
  const bool column = uses_column_schedule(parted.kernel) || gene(genome, "team", 0) != 0;
  const Pieces pieces = column ? make_column_plan(parted.kernel, device, genome).base.pieces
                               : make_plan(parted.kernel, *parted.facts, device, genome).pieces;
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
  PLANISH_CHECK(append_launches(joining, device, buffers, outputs, emitted));
  return emitted;
}

Status append_launches(const Kernel& kernel, const Device& device, const std::vector<Emitted::Argument>& buffers,
                       const std::vector<int>& outputs, Emitted& whole) {
  using Kind = Emitted::Argument::Kind;
  for (const Genome& genome : cuda_seeds(kernel, device)) {
    if (!cuda_illegal(kernel, device, genome).empty()) continue;
    PLANISH_TRY(Emitted made, emit_cuda(kernel, device, genome));
    if (made.cooperative) continue;
    const int scratch = static_cast<int>(whole.scratch_bytes.size());
    whole.scratch_bytes.insert(whole.scratch_bytes.end(), made.scratch_bytes.begin(), made.scratch_bytes.end());
    std::vector<Emitted> launches = std::move(made.after);
    made.after.clear();
    made.scratch_bytes.clear();
    launches.insert(launches.begin(), std::move(made));
    for (Emitted& one : launches) {
      for (auto& arg : one.args) {
        const auto i = static_cast<std::size_t>(arg.index);
        if (arg.kind == Kind::input)
          arg = buffers[i];
        else if (arg.kind == Kind::output)
          arg.index = outputs[i];
        else
          arg.index += scratch;
      }
      whole.after.push_back(std::move(one));
    }
    return {};
  }
  return fail("unsupported", "no schedule folds what the blocks leave");
}

}  // namespace planish::codegen::printing
