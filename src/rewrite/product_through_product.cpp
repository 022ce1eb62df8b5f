#include <algorithm>

#include "rewrite/products.h"
#include "rewrite/rules.h"

namespace planish::rewrite {
namespace {

/// A product with more columns is a library's, and would need to know of infinities as this one does.
constexpr std::int64_t most_columns = 8;
/// So many columns of the first product for each of the second, or more: what is done instead is no library's product.
constexpr std::int64_t least_saved = 32;
/// Rows from which on the products cost more than folding the matrices into one.
constexpr std::int64_t least_rows = 64;

/// The second product: of what, with a matrix of the model's own, or a vector.
struct Second {
  int x = -1, w = -1, bias = -1;
  std::int64_t columns = 1;
  bool vector = false;
  bool transposed = false;  ///< columns first
};

std::optional<Second> second_product(const Editor& editor, const ir::GraphNode& node) {
  if (const auto matrix = matrix_product(editor, node))
    return Second{matrix->x, matrix->w, matrix->bias, matrix->columns, false, matrix->column == 0};
  const bool mv = node.op == "aten.mv.default";
  if (!mv && node.op != "aten.matmul.default") return std::nullopt;
  const Second out{tensor(node, "self"), tensor(node, mv ? "vec" : "other"), -1, 1, true, true};
  if (out.x < 0 || out.w < 0 || editor.value(out.w).shape.size() != 1) return std::nullopt;
  return out;
}

}  // namespace

bool product_through_product(Editor& editor, int index) {
  if (editor.node(index).outs.size() != 1 || !editor.node(index).outs[0]) return false;
  const int result = *editor.node(index).outs[0];
  const auto second = second_product(editor, editor.node(index));
  if (!second || !editor.is_parameter(second->w) || !editor.read_once(second->x)) return false;
  const ir::GraphNode* maker = editor.maker(second->x);
  if (maker == nullptr) return false;
  const auto first = matrix_product(editor, *maker);
  if (!first || (first->bias >= 0 && !editor.is_parameter(first->bias))) return false;
  for (const int id : {first->x, first->w, first->bias, second->x, second->w, second->bias, result}) {
    if (id >= 0 && editor.value(id).dtype != DType::f32) return false;
  }
  const std::int64_t columns = second->columns, between = first->columns, depth = first->depth;
  if (columns < 1 || columns > most_columns || between < least_saved * columns || first->rows < least_rows)
    return false;

  const int x = first->x, like = second->w;
  const std::vector<std::int64_t> shape = editor.value(result).shape;
  std::vector<std::int64_t> data = editor.value(x).shape;
  const auto unsqueezed = [&](int id, std::int64_t dim) {
    std::vector<std::int64_t> more = editor.value(id).shape;
    more.insert(more.begin() + dim, 1);
    return editor.add("aten.unsqueeze.default", {of("self", id), {"dim", dim}}, more, id);
  };
  const auto times = [&](int a, int b, const std::vector<std::int64_t>& full) {
    return editor.add("aten.mul.Tensor", {of("self", a), of("other", b)}, full, like);
  };
  const auto plus = [&](int a, int b, const std::vector<std::int64_t>& full) {
    return editor.add("aten.add.Tensor", {of("self", a), of("other", b), {"alpha", std::int64_t{1}}}, full, like);
  };
  const auto sum = [&](int of_what, std::int64_t dim, const std::vector<std::int64_t>& less) {
    return editor.add("aten.sum.dim_IntList",
                      {of("self", of_what), dims({dim}), flag("keepdim", false), {"dtype", ir::None{}}}, less, like);
  };

  // The second's matrix, columns first.
  int other = second->w;
  if (second->vector) {
    other = unsqueezed(other, 0);
  } else if (!second->transposed) {
    other = editor.add("aten.permute.default", {of("self", other), {"dims", std::vector<std::int64_t>{1, 0}}},
                       {columns, between}, like);
  }
  // (columns, depth, between), or the last two the other way round, as the first's weights lie.
  const bool along_last = first->column == 1;
  const std::vector<std::int64_t> cube{columns, along_last ? depth : between, along_last ? between : depth};
  const int terms = times(unsqueezed(first->w, 0), unsqueezed(other, along_last ? 1 : 2), cube);
  const std::int64_t folded = along_last ? 2 : 1;
  const std::vector<std::int64_t> matrix{columns, depth};
  const int sums = sum(terms, folded, matrix);
  const auto extreme = [&](const char* op) {
    return editor.add(op, {of("self", terms), dims({folded}), flag("keepdim", false)}, matrix, like);
  };
  const int least_of = extreme("aten.amin.default"), most_of = extreme("aten.amax.default");

  const auto rank = static_cast<std::int64_t>(data.size());
  const int rows = unsqueezed(x, rank - 1);
  std::vector<std::int64_t> full = editor.value(rows).shape, finite_shape = full;
  full[static_cast<std::size_t>(rank - 1)] = columns;
  const int usual = times(rows, sums, full);
  const int beyond = plus(times(rows, least_of, full), times(rows, most_of, full), full);
  const int finite = editor.add_boolean("aten.isfinite.default", {of("self", rows)}, finite_shape, like);
  const int chosen =
      editor.add("aten.where.self", {of("condition", finite), of("self", usual), of("other", beyond)}, full, like);
  data.back() = columns;
  int out = sum(chosen, rank, data);
  if (first->bias >= 0) {
    const std::vector<std::int64_t> both{columns, between};
    out = plus(out, sum(times(other, first->bias, both), 1, {columns}), data);
  }
  if (second->bias >= 0) out = plus(out, second->bias, data);
  if (second->vector) editor.add("aten.view.default", {of("self", out), {"size", shape}}, shape, like);
  editor.replace(index);
  return true;
}

}  // namespace planish::rewrite
