#pragma once

#include <cstdint>
#include <string>
#include <vector>

/// Recurrent networks as torch.nn has them: what a kernel of the `recurrence` anchor computes. Its scalar expressions
/// say nothing of that: they only read each of its inputs once. Plain data; thread-safe to read.
namespace planish::codegen {

/// What a cell makes of its pre-activations, in torch's formulas and order of gates.
enum class Cell : std::uint8_t {
  lstm,  ///< i, f, g, o: c' = σ(f) c + σ(i) tanh(g), h' = σ(o) tanh(c')
  gru,   ///< r, z, n: n = tanh(x_n + σ(r) h_n), h' = (1 − σ(z)) n + σ(z) h
  tanh,
  relu,
};
/// Rows of weights for each unit.
constexpr int gates(Cell cell) {
  return cell == Cell::lstm ? 4 : cell == Cell::gru ? 3 : 1;
}

/// Layers of cells over a batch of sequences, all in f32. A layer of two directions reads both of the layer below, one
/// behind the other: the second runs from the last step to the first.
struct Recurrence {
  /// A tensor among the kernel's inputs: where it begins in that input's storage, and its strides, in elements.
  struct Operand {
    int input = -1;  ///< -1: all zeros
    std::int64_t offset = 0;
    std::vector<std::int64_t> strides;
  };
  /// Rows gate by gate, in each the units. Biases are absent (-1) where there are none.
  struct Weights {
    Operand input;   ///< [gates · hidden, width of what the layer reads]
    Operand hidden;  ///< [gates · hidden, hidden]
    Operand input_bias, hidden_bias;
  };
  /// Strides of a result in the storage of one of the kernel's outputs.
  struct Result {
    int output = -1;  ///< -1: not asked for
    std::vector<std::int64_t> strides;
  };

  Cell cell = Cell::lstm;
  std::int64_t steps = 0, batch = 0, width = 0, hidden = 0;
  int layers = 1, directions = 1;
  Operand x;                     ///< [steps, batch, width]
  Operand h0, c0;                ///< [layers · directions, batch, hidden]
  std::vector<Weights> weights;  ///< [layer · directions + direction]
  Result all;                    ///< [steps, batch, directions · hidden]: of the last layer
  Result last_h, last_c;         ///< [layers · directions, batch, hidden]

  /// What a layer reads at each step.
  std::int64_t width_of(int layer) const { return layer == 0 ? width : directions * hidden; }
};
/// For messages and golden tests.
std::string text(const Recurrence& network);

}  // namespace planish::codegen
