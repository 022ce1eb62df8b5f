#include <algorithm>
#include <limits>

#include "rewrite/rules.h"

namespace planish::rewrite {
namespace {

/// The value behind views that leave a matrix as it is.
int behind_views(const Editor& editor, int id) {
  for (const ir::GraphNode* node = editor.maker(id); node != nullptr; node = editor.maker(id)) {
    const bool view = node->op == "aten.view.default" || node->op == "aten.expand.default";
    const int self = tensor(*node, "self");
    if (!view || self < 0 || editor.value(self).shape != editor.value(id).shape) break;
    id = self;
  }
  return id;
}

/// Whether a value counts 0, 1, … along the last dim of a row, or (as a column) along the one before it.
bool counts(const Editor& editor, int id, std::int64_t n, bool column) {
  const ir::GraphNode* node = editor.maker(id);
  if (column) {
    if (node == nullptr || node->op != "aten.unsqueeze.default") return false;
    if (editor.value(id).shape != std::vector<std::int64_t>{n, 1}) return false;
    return counts(editor, tensor(*node, "self"), n, false);
  }
  return node != nullptr && node->op == "aten.arange.start_step" && number(*node, "start") == 0.0 &&
         number(*node, "step") == 1.0 && editor.value(id).shape == std::vector{n};
}

bool is_identity(const Editor& editor, int id, std::int64_t n) {
  const ir::GraphNode* node = editor.maker(behind_views(editor, id));
  if (node == nullptr || node->op != "aten.eq.Tensor") return false;
  const int a = tensor(*node, "self"), b = tensor(*node, "other");
  if (a < 0 || b < 0) return false;
  return (counts(editor, a, n, false) && counts(editor, b, n, true)) ||
         (counts(editor, a, n, true) && counts(editor, b, n, false));
}

bool is_zero(const Editor& editor, int id) {
  const ir::GraphNode* node = editor.maker(id);
  return node != nullptr && node->op == "aten.scalar_tensor.default" && number(*node, "s") == 0.0;
}

/// A matrix that is 0 beside its diagonal: the diagonal, as a row or a column, and the zero.
struct Diagonal {
  int along = -1, zero = -1;
};

std::optional<Diagonal> diagonal(const Editor& editor, int id) {
  const ir::GraphNode* node = editor.maker(id);
  if (node == nullptr || node->op != "aten.where.self" || editor.value(id).shape.size() != 2) return std::nullopt;
  const std::int64_t n = editor.value(id).shape[0];
  const Diagonal out{tensor(*node, "self"), tensor(*node, "other")};
  if (editor.value(id).shape[1] != n || out.along < 0 || out.zero < 0) return std::nullopt;
  const auto& shape = editor.value(out.along).shape;
  const bool vector = shape == std::vector<std::int64_t>{1, n} || shape == std::vector<std::int64_t>{n, 1};
  if (!vector || !is_zero(editor, out.zero) || !is_identity(editor, tensor(*node, "condition"), n)) return std::nullopt;
  for (const int part : {out.along, out.zero}) {
    if (editor.value(part).dtype != editor.value(id).dtype) return std::nullopt;
  }
  return out;
}

}  // namespace

bool diagonal_product(Editor& editor, int index) {
  const ir::GraphNode& node = editor.node(index);
  if (node.op != "aten.mm.default" && node.op != "aten.matmul.default") return false;
  const int left = tensor(node, "self"), right = tensor(node, node.op == "aten.mm.default" ? "mat2" : "other");
  if (left < 0 || right < 0) return false;
  auto found = diagonal(editor, left);
  const bool rows = found.has_value();  // the diagonal scales rows
  if (!rows) found = diagonal(editor, right);
  if (!found) return false;
  const int full = rows ? right : left;
  const ir::Value data = editor.value(full);
  if ((data.dtype != DType::f32 && data.dtype != DType::f64) || data.shape.size() != 2) return false;
  if (data.dtype != editor.value(found->along).dtype) return false;

  const auto along = editor.value(found->along).shape;
  const std::vector<std::int64_t> wanted =
      rows ? std::vector{data.shape[0], std::int64_t{1}} : std::vector{std::int64_t{1}, data.shape[1]};
  const auto arithmetic = [&](const char* op, int self, ir::Arg other, const std::vector<std::int64_t>& shape) {
    std::vector<ir::Arg> args{of("self", self), std::move(other)};
    if (std::string_view(op) == "aten.add.Tensor" || std::string_view(op) == "aten.sub.Tensor")
      args.push_back({"alpha", std::int64_t{1}});
    return editor.add(op, std::move(args), shape, full);
  };
  int scale = found->along;
  if (along != wanted)
    scale = editor.add("aten.permute.default", {of("self", scale), {"dims", std::vector<std::int64_t>{1, 0}}}, wanted,
                       full);
  // What is not finite meets a zero in every other row (or column) of the product.
  const int zero = found->zero;
  const int one = arithmetic("aten.add.Tensor", zero, {"other", 1.0}, {});
  const int nan = arithmetic("aten.mul.Tensor", one, {"other", std::numeric_limits<double>::quiet_NaN()}, {});
  const int finite = editor.add_boolean("aten.isfinite.default", {of("self", full)}, data.shape, full);
  const auto choose = [&](int condition, int a, int b) {
    return editor.add("aten.where.self", {of("condition", condition), of("self", a), of("other", b)}, data.shape, full);
  };
  const int odd = choose(finite, zero, one);
  std::vector<std::int64_t> folded = data.shape;
  folded[rows ? 0 : 1] = 1;
  const int all =
      editor.add("aten.sum.dim_IntList",
                 {of("self", odd), dims({rows ? 0 : 1}), flag("keepdim", true), {"dtype", ir::None{}}}, folded, full);
  const int others = arithmetic("aten.sub.Tensor", all, of("other", odd), data.shape);
  const int some =
      editor.add_boolean("aten.gt.Scalar", {of("self", others), {"other", std::int64_t{0}}}, data.shape, full);
  const int poison = choose(some, nan, zero);
  const int scaled = arithmetic("aten.mul.Tensor", full, of("other", scale), data.shape);
  arithmetic("aten.add.Tensor", scaled, of("other", poison), data.shape);
  editor.replace(index);
  return true;
}

}  // namespace planish::rewrite
