#include "codegen/lower/recurrence.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "codegen/lower/lower.h"
#include "codegen/lower/lowering.h"

namespace planish::codegen {
namespace {

std::optional<Cell> cell_of(std::string_view op) {
  if (op == "aten.lstm.input") return Cell::lstm;
  if (op == "aten.gru.input") return Cell::gru;
  if (op == "aten.rnn_tanh.input") return Cell::tanh;
  if (op == "aten.rnn_relu.input") return Cell::relu;
  return std::nullopt;
}

class RecurrentNetwork {
 public:
  RecurrentNetwork(const ir::Graph& graph, const std::vector<bool>& inside, const ir::GraphNode& node, Cell cell)
      : graph_(graph), inside_(inside), node_(node), args_(node) {
    network_.cell = cell;
  }

  Result<Kernel> run(std::span<const int> outputs) {
    PLANISH_CHECK(read_sizes());
    PLANISH_CHECK(read_operands());
    PLANISH_CHECK(take_outputs(outputs));
    kernel_.anchor = Anchor::recurrence;
    kernel_.recurrence = std::move(network_);
    return std::move(kernel_);
  }

 private:
  const ir::Value& info(int id) const { return graph_.values[static_cast<std::size_t>(id)]; }

  std::vector<int> list(std::string_view name) const {
    std::vector<int> out;
    const ir::Arg* arg = args_.get(name);
    if (arg == nullptr) return out;
    if (const auto* one = std::get_if<ir::ValueRef>(&arg->data)) out.push_back(one->id);
    if (const auto* many = std::get_if<ir::ValueList>(&arg->data)) {
      for (const auto& id : many->ids) out.push_back(id.value_or(-1));
    }
    return out;
  }

  Status read_sizes() {
    const int x = args_.value("input");
    if (x < 0 || info(x).shape.size() != 3) return unsupported("a recurrent network over packed sequences");
    first_is_batch_ = args_.flag("batch_first");
    network_.steps = info(x).shape[first_is_batch_ ? 1 : 0];
    network_.batch = info(x).shape[first_is_batch_ ? 0 : 1];
    network_.width = info(x).shape[2];
    network_.layers = static_cast<int>(args_.integer("num_layers").value_or(1));
    network_.directions = args_.flag("bidirectional") ? 2 : 1;
    if (args_.flag("train") && network_.layers > 1 && args_.number("dropout").value_or(0) > 0)
      return unsupported("dropout between layers");
    return {};
  }

  Status read_operands() {
    const bool biases = args_.flag("has_biases");
    const auto params = list("params");
    const auto states = list("hx");
    const auto cells = static_cast<std::size_t>(network_.layers * network_.directions);
    const std::size_t each = biases ? 4 : 2;
    if (params.size() != cells * each) return unsupported("a recurrent network with projections");
    if (states.size() != (network_.cell == Cell::lstm ? 2U : 1U)) return unsupported("states of an unknown kind");
    PLANISH_TRY(network_.x, place(args_.value("input"), first_is_batch_));
    if (network_.x.input < 0) return unsupported("a recurrent network over zeros");
    PLANISH_TRY(network_.h0, place(states[0], false));
    if (states.size() > 1) {
      PLANISH_TRY(network_.c0, place(states[1], false));
    }
    network_.hidden = info(states[0]).shape[2];
    const std::int64_t rows = gates(network_.cell) * network_.hidden;
    for (std::size_t c = 0; c < cells; ++c) {
      Recurrence::Weights w;
      const auto width = network_.width_of(static_cast<int>(c) / network_.directions);
      PLANISH_TRY(w.input, matrix(params[c * each], rows, width));
      PLANISH_TRY(w.hidden, matrix(params[c * each + 1], rows, network_.hidden));
      if (biases) {
        PLANISH_TRY(w.input_bias, place(params[c * each + 2], false));
        PLANISH_TRY(w.hidden_bias, place(params[c * each + 3], false));
        if (w.input_bias.strides != std::vector<std::int64_t>{1} || w.hidden_bias.strides != w.input_bias.strides)
          return unsupported("biases with gaps");
      }
      network_.weights.push_back(std::move(w));
    }
    return {};
  }

  /// Row by row, without gaps.
  Result<Recurrence::Operand> matrix(int id, std::int64_t rows, std::int64_t columns) {
    if (info(id).shape != std::vector<std::int64_t>{rows, columns}) return unsupported("weights of another shape");
    PLANISH_TRY(auto found, place(id, false));
    if (found.input < 0 || found.strides != std::vector<std::int64_t>{columns, 1})
      return unsupported("weights that do not lie row by row");
    return found;
  }

  /// Where a tensor lies: an input of the kernel, seen through views. `swapped`: its first two dims change places.
  Result<Recurrence::Operand> place(int id, bool swapped) {
    const ir::Value& value = info(id);
    if (value.dtype != DType::f32) return unsupported("a recurrent network of another dtype than f32");
    ir::Space space;
    space.extents = value.shape;
    Lowering low(graph_, inside_, {}, space);
    Coords coords;
    for (std::size_t d = 0; d < value.shape.size(); ++d)
      coords.push_back(value.shape[d] == 1 ? ir::IndexExpr() : ir::IndexExpr::variable(static_cast<int>(d)));
    PLANISH_TRY(const int scalar, low.value(id, coords));
    const Node node = low.builder().at(scalar);
    Recurrence::Operand out;
    if (node.op == Op::constant && node.value == 0) return out;
    if (node.op != Op::load || gathers(node) || !node.where.empty()) return unsupported("an operand that is computed");
    out.offset = node.index.constant_term();
    out.strides.assign(value.shape.size(), 0);
    for (const auto& term : node.index.terms()) {
      if (term.atom.kind != ir::Atom::Kind::variable) return unsupported("an operand without strides");
      out.strides[static_cast<std::size_t>(term.atom.variable)] = term.coefficient;
    }
    // An extent of one has any stride; the usual one keeps rows together.
    for (std::size_t d = value.shape.size(); d-- > 0;) {
      if (value.shape[d] == 1)
        out.strides[d] = d + 1 == value.shape.size() ? 1 : out.strides[d + 1] * value.shape[d + 1];
    }
    if (swapped) std::swap(out.strides[0], out.strides[1]);
    out.input = input(low.input_values()[static_cast<std::size_t>(node.input)]);
    return out;
  }

  int input(int id) {
    for (std::size_t i = 0; i < kernel_.inputs.size(); ++i) {
      if (kernel_.inputs[i].value == id) return static_cast<int>(i);
    }
    kernel_.inputs.push_back(input_of(info(id), id));
    Node load;
    load.op = Op::load;
    load.input = static_cast<int>(kernel_.inputs.size()) - 1;
    kernel_.nodes.push_back(std::move(load));
    return kernel_.nodes.back().input;
  }

  Status take_outputs(std::span<const int> outputs) {
    for (const int id : outputs) {
      const auto at = std::ranges::find(node_.outs, std::optional<int>(id));
      if (at == node_.outs.end()) return unsupported("a recurrent network beside other results");
      const ir::Value& value = info(id);
      Output output;
      output.node = 0;
      output.dtype = value.dtype;
      output.shape = value.shape;
      output.strides = value.strides;
      output.value = id;
      Recurrence::Result result{static_cast<int>(kernel_.outputs.size()), value.strides};
      const auto which = at - node_.outs.begin();
      if (which == 0 && first_is_batch_) std::swap(result.strides[0], result.strides[1]);
      (which == 0 ? network_.all : which == 1 ? network_.last_h : network_.last_c) = std::move(result);
      kernel_.outputs.push_back(std::move(output));
    }
    kernel_.space.extents = kernel_.outputs[0].shape;
    return {};
  }

  const ir::Graph& graph_;
  const std::vector<bool>& inside_;
  const ir::GraphNode& node_;
  const Args args_;
  bool first_is_batch_ = false;
  Recurrence network_;
  Kernel kernel_;
};

}  // namespace

bool recurs(std::string_view op) {
  return cell_of(op).has_value();
}

Result<Kernel> lower_recurrence(const ir::Graph& graph, const std::vector<bool>& inside, std::span<const int> outputs) {
  const ir::GraphNode* network = nullptr;
  for (std::size_t n = 0; n < inside.size(); ++n) {
    if (!inside[n]) continue;
    const OpClass kind = classify(graph.nodes[n].op);
    if (kind == OpClass::view || kind == OpClass::creation) continue;
    if (network != nullptr || !recurs(graph.nodes[n].op)) return unsupported("a recurrent network beside other work");
    network = &graph.nodes[n];
  }
  if (network == nullptr) return unsupported("no recurrent network");
  return RecurrentNetwork(graph, inside, *network, *cell_of(network->op)).run(outputs);
}

}  // namespace planish::codegen
