#include "rewrite/products.h"

#include <algorithm>
#include <array>

namespace planish::rewrite {

bool is_transposed(const ir::GraphNode& node) {
  return node.op.starts_with("aten.conv_transpose");
}

bool is_convolution(const ir::GraphNode& node) {
  static constexpr std::array<std::string_view, 6> known{"aten.conv1d.default",         "aten.conv2d.default",
                                                         "aten.conv3d.default",         "aten.conv_transpose1d.default",
                                                         "aten.conv_transpose2d.input", "aten.conv_transpose3d.input"};
  return std::ranges::find(known, node.op) != known.end();
}

bool is_matrix_product(const ir::GraphNode& node) {
  return node.op == "aten.linear.default" || node.op == "aten.mm.default" || node.op == "aten.matmul.default";
}

bool reads_memory(const ir::GraphNode& node) {
  static constexpr std::array<std::string_view, 5> known{
      "aten.bmm.default", "aten.addmm.default", "aten.baddbmm.default", "aten.mv.default", "aten.addmv.default"};
  return is_convolution(node) || is_matrix_product(node) || std::ranges::find(known, node.op) != known.end() ||
         node.op.starts_with("aten.scaled_dot_product_attention");
}

std::optional<std::vector<std::int64_t>> by_dim(const ir::GraphNode& node, std::string_view name, std::size_t dims,
                                                std::int64_t otherwise) {
  const ir::Arg* arg = node.arg(name);
  if (arg == nullptr) return std::vector<std::int64_t>(dims, otherwise);
  const auto* list = std::get_if<std::vector<std::int64_t>>(&arg->data);
  if (list == nullptr) return std::nullopt;
  if (list->empty()) return std::vector<std::int64_t>(dims, otherwise);
  if (list->size() == 1) return std::vector<std::int64_t>(dims, list->front());
  return list->size() == dims ? std::optional(*list) : std::nullopt;
}

std::optional<MatrixProduct> matrix_product(const Editor& editor, const ir::GraphNode& node) {
  MatrixProduct out;
  if (node.op == "aten.linear.default") {
    out = {tensor(node, "input"), tensor(node, "weight"), tensor(node, "bias"), 0};
  } else if (node.op == "aten.mm.default") {
    out = {tensor(node, "self"), tensor(node, "mat2"), -1, 1};
  } else if (node.op == "aten.matmul.default") {
    out = {tensor(node, "self"), tensor(node, "other"), -1, 1};
  } else {
    return std::nullopt;
  }
  if (out.x < 0 || out.w < 0) return std::nullopt;
  const auto& x = editor.value(out.x).shape;
  const auto& w = editor.value(out.w).shape;
  if (w.size() != 2 || x.empty() || (out.bias >= 0 && editor.value(out.bias).shape.size() != 1)) return std::nullopt;
  for (std::size_t i = 0; i + 1 < x.size(); ++i) out.rows *= x[i];
  out.depth = x.back();
  out.columns = w[static_cast<std::size_t>(out.column)];
  return out;
}

std::int64_t up(std::int64_t a, std::int64_t by) {
  return a >= 0 ? (a + by - 1) / by : -(-a / by);
}

bool is_contiguous(const ir::Value& value) {
  std::int64_t step = 1;
  for (std::size_t d = value.shape.size(); d-- > 0;) {
    if (value.shape[d] != 1 && value.strides[d] != step) return false;
    step *= value.shape[d];
  }
  return true;
}

}  // namespace planish::rewrite
