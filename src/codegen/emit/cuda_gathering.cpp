#include "codegen/emit/cuda_gathering.h"

#include <algorithm>
#include <utility>

namespace planish::codegen::printing {

using ir::IndexExpr;

Gathering::Gathering(const Kernel& kernel, const std::vector<bool>& stays, std::int64_t pieces,
                     std::vector<int>& inputs)
    : k_(kernel), results_(kernel.reductions.size(), -1), inputs_(inputs), copied_(kernel.nodes.size(), -1) {
  for (std::size_t v = 0; v < stays.size(); ++v) {
    replacements_.push_back(stays[v] ? IndexExpr::variable(static_cast<int>(made_.space.extents.size()))
                                     : IndexExpr::constant(0));
    if (stays[v]) made_.space.extents.push_back(k_.space.extents[v]);
  }
  made_.anchor = Anchor::row;
  made_.inner = 1;
  made_.space.extents.push_back(pieces);
}

int Gathering::push(Node node) {
  made_.nodes.push_back(std::move(node));
  return static_cast<int>(made_.nodes.size()) - 1;
}

int Gathering::reduce(ReduceKind kind, int arg, DType accumulate, int phase) {
  made_.reductions.push_back({kind, arg, accumulate, phase});
  Node node;
  node.op = Op::reduced;
  node.dtype = accumulate;
  node.reduction = static_cast<int>(made_.reductions.size()) - 1;
  return push(std::move(node));
}

int Gathering::load_pieces(Input pieces, IndexExpr at) {
  Node load;
  load.op = Op::load;
  load.dtype = pieces.dtype;
  load.input = static_cast<int>(made_.inputs.size());
  load.index = std::move(at);
  made_.inputs.push_back(std::move(pieces));
  return push(std::move(load));
}

int Gathering::copy(int id) {
  int& known = copied_[static_cast<std::size_t>(id)];
  if (known >= 0) return known;
  Node node = k_.nodes[static_cast<std::size_t>(id)];
  if (node.op == Op::reduced) return known = results_[static_cast<std::size_t>(node.reduction)];
  for (int& arg : node.args) arg = copy(arg);
  if (node.op == Op::load) {
    const std::size_t arrays = made_.inputs.size() - inputs_.size();
    const auto at = std::ranges::find(inputs_, node.input);
    const auto place = static_cast<std::size_t>(at - inputs_.begin());
    if (at == inputs_.end()) {
      inputs_.push_back(node.input);
      made_.inputs.push_back(k_.inputs[static_cast<std::size_t>(node.input)]);
    }
    node.input = static_cast<int>(arrays + place);
  }
  if (node.op == Op::load || node.op == Op::index) node.index = ir::substitute(node.index, replacements_, made_.space);
  for (auto& bound : node.where) bound.e = ir::substitute(bound.e, replacements_, made_.space);
  return known = push(std::move(node));
}

Kernel Gathering::finished(const std::function<bool(const Output&)>& wanted, std::vector<int>& outputs) {
  for (std::size_t o = 0; o < k_.outputs.size(); ++o) {
    if (!wanted(k_.outputs[o])) continue;
    Output output = k_.outputs[o];
    output.node = copy(output.node);
    output.index = ir::substitute(output.index, replacements_, made_.space);
    output.per_row = true;
    output.per_column = output.per_part = false;
    made_.outputs.push_back(std::move(output));
    outputs.push_back(static_cast<int>(o));
  }
  return std::move(made_);
}

}  // namespace planish::codegen::printing
