#pragma once

#include <string>
#include <vector>

#include "codegen/graph_builder.h"
#include "codegen/lower/lower.h"

/// Recurrent networks as graphs, and the kernels that they become.
namespace planish::codegen::samples {

struct Network {
  std::string cell;  ///< lstm | gru | rnn_tanh | rnn_relu
  std::int64_t steps, batch, width, hidden;
  int layers = 1, directions = 1;
  bool biases = true, first_is_batch = false, zeros = false;

  int gates() const { return cell == "lstm" ? 4 : cell == "gru" ? 3 : 1; }
  std::int64_t width_of(int layer) const { return layer == 0 ? width : directions * hidden; }
  Shape states() const { return {std::int64_t{layers} * directions, batch, hidden}; }
};

/// The graph of one network: x, h0, [c0], then weights and biases cell by cell.
struct Built {
  GraphBuilder b;
  std::vector<int> outputs;
  std::vector<bool> inside;
};

inline Built build(const Network& n) {
  Built out;
  GraphBuilder& b = out.b;
  const Shape sequence{n.steps, n.batch, n.width}, swapped{n.batch, n.steps, n.width};
  const int x = b.input(n.first_is_batch ? swapped : sequence);
  std::vector<int> states;
  for (int s = 0; s < (n.cell == "lstm" ? 2 : 1); ++s) {
    if (n.zeros) {
      states.push_back(b.node("full.default", {L("size", n.states()), F("fill_value", 0)}, n.states()));
      out.inside.push_back(true);
    } else {
      states.push_back(b.input(n.states()));
    }
  }
  std::vector<int> params;
  for (int c = 0; c < n.layers * n.directions; ++c) {
    const std::int64_t rows = n.gates() * n.hidden;
    params.push_back(b.input({rows, n.width_of(c / n.directions)}));
    params.push_back(b.input({rows, n.hidden}));
    if (!n.biases) continue;
    params.push_back(b.input({rows}));
    params.push_back(b.input({rows}));
  }
  const Shape all = n.first_is_batch ? Shape{n.batch, n.steps, n.directions * n.hidden}
                                     : Shape{n.steps, n.batch, n.directions * n.hidden};
  ir::GraphNode node;
  node.op = "aten." + n.cell + ".input";
  node.args = {V("input", x),
               n.cell == "lstm" ? VS("hx", states) : V("hx", states[0]),
               VS("params", params),
               B("has_biases", n.biases),
               I("num_layers", n.layers),
               F("dropout", 0),
               B("train", true),
               B("bidirectional", n.directions == 2),
               B("batch_first", n.first_is_batch)};
  out.outputs = {b.value(all), b.value(n.states())};
  if (n.cell == "lstm") out.outputs.push_back(b.value(n.states()));
  for (const int o : out.outputs) node.outs.emplace_back(o);
  b.graph.nodes.push_back(std::move(node));
  out.inside.push_back(true);
  return out;
}

inline Result<Kernel> lowered(const Built& built, const std::vector<int>& outputs) {
  LowerLimits limits;
  limits.contractions = true;
  return lower(built.b.graph, built.inside, outputs, limits);
}

inline Kernel recurrence_sample() {
  const Built built = build({"lstm", 5, 3, 4, 9, 2});
  return *lowered(built, built.outputs);
}

}  // namespace planish::codegen::samples
