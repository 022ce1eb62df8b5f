#include <algorithm>
#include <array>
#include <string_view>

#include "rewrite/rules.h"

// A linear layer of twice the columns, one half of which gates the other.
namespace planish::rewrite {
namespace {

/// Rows, and columns of a half, of which each half keeps the device busy.
constexpr std::int64_t gated_rows = 512, gated_columns = 512;
/// Parts of weights begin as well aligned as the whole.
constexpr std::int64_t half_step = 64;
constexpr int longest_gate = 3;  ///< operators of one half before it meets the other

constexpr std::array<std::string_view, 8> gate_functions{
    "aten.gelu.default", "aten.silu.default",      "aten.sigmoid.default",  "aten.tanh.default",
    "aten.relu.default", "aten.hardswish.default", "aten.hardtanh.default", "aten.hardsigmoid.default"};

/// The product of two tensors that a value ends in, behind gate_functions of single elements; -1 where it ends
/// elsewhere.
int gate_of(const Editor& editor, int id) {
  for (int step = 0; step <= longest_gate; ++step) {
    if (!editor.read_once(id)) return -1;
    const int reader = editor.readers(id).front();
    const ir::GraphNode& node = editor.node(reader);
    if (node.op == "aten.mul.Tensor") return reader;
    if (std::ranges::find(gate_functions, node.op) == gate_functions.end() || !node.outs[0]) return -1;
    id = *node.outs[0];
  }
  return -1;
}

}  // namespace

bool gated_product(Editor& editor, int index) {
  const ir::GraphNode node = editor.node(index);  // copies: new nodes move what is there
  if (node.op != "aten.split_with_sizes.default" || editor.options().library_products) return false;
  if (node.outs.size() != 2 || !node.outs[0] || !node.outs[1]) return false;
  const int whole = tensor(node, "self");
  if (whole < 0 || !editor.read_once(whole)) return false;
  const ir::GraphNode* const maker = editor.maker(whole);
  if (maker == nullptr || maker->op != "aten.linear.default") return false;
  const ir::GraphNode linear = *maker;
  const int gate = gate_of(editor, *node.outs[0]);
  if (gate < 0 || gate != gate_of(editor, *node.outs[1])) return false;
  const ir::Value out = editor.value(whole);
  const auto dim = static_cast<std::int64_t>(number(node, "dim").value_or(0));
  const std::int64_t rank = static_cast<std::int64_t>(out.shape.size()), columns = out.shape.back();
  if ((dim < 0 ? dim + rank : dim) != rank - 1 || (out.dtype != DType::f16 && out.dtype != DType::bf16)) return false;
  const std::int64_t first = editor.value(*node.outs[0]).shape.back();
  if (out.elements() < gated_rows * columns || std::min(first, columns - first) < gated_columns ||
      first % half_step != 0)
    return false;

  const int input = tensor(linear, "input"), weight = tensor(linear, "weight"), bias = tensor(linear, "bias");
  const auto half = [&](std::int64_t begin, std::int64_t end) {
    const int w = editor.slice(weight, 0, begin, end), b = bias < 0 ? -1 : editor.slice(bias, 0, begin, end);
    std::vector<std::int64_t> shape = out.shape;
    shape.back() = end - begin;
    return editor.add("aten.linear.default",
                      {of("input", input), of("weight", w), b < 0 ? ir::Arg{"bias", ir::None{}} : of("bias", b)},
                      std::move(shape), whole);
  };
  const int a = half(0, first), b = half(first, columns);
  editor.replace(index, {{*node.outs[0], a}, {*node.outs[1], b}});
  return true;
}

}  // namespace planish::rewrite
