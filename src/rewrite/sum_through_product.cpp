#include "rewrite/linear_chain.h"
#include "rewrite/rules.h"

namespace planish::rewrite {
namespace {

/// From so many rows and columns on: with fewer the product reads little more than it computes.
constexpr std::int64_t least = 16;

/// A product with a matrix `w`, which is folded over its columns along `column`.
struct Product {
  int x = -1, w = -1, bias = -1;
  std::int64_t column = 0;
};

std::optional<Product> product(const Editor& editor, const ir::GraphNode& node) {
  Product out;
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
  std::int64_t rows = 1;
  for (std::size_t i = 0; i + 1 < x.size(); ++i) rows *= x[i];
  if (rows < least || w[static_cast<std::size_t>(out.column)] < least) return std::nullopt;
  return out;
}

bool is_product(const ir::GraphNode& node) {
  return node.op == "aten.linear.default" || node.op == "aten.mm.default" || node.op == "aten.matmul.default";
}

}  // namespace

bool sum_through_product(Editor& editor, int index) {
  const auto chain = linear_chain(editor, index, is_product);
  if (!chain) return false;
  const ir::Value& data = editor.value(chain->made);
  const DType dtype = data.dtype;
  if (chain->fold.dims != std::vector{static_cast<std::int64_t>(data.shape.size()) - 1}) return false;
  const auto found = product(editor, *editor.maker(chain->made));
  if (!found) return false;
  for (const int operand : {found->x, found->w, found->bias}) {
    if (operand >= 0 && editor.value(operand).dtype != dtype) return false;
  }

  const std::vector<std::int64_t> full = editor.value(found->x).shape;
  const std::vector<std::int64_t> row{full.back()};
  std::vector<std::int64_t> folded(full.begin(), full.end() - 1);
  if (chain->fold.kept) folded.push_back(1);
  const int x = found->x, w = found->w;
  const auto along = [&] { return std::vector<ir::Arg>{of("self", w), dims({found->column}), flag("keepdim", false)}; };
  auto sum_args = along();
  sum_args.push_back({"dtype", ir::None{}});
  const int sums = editor.add("aten.sum.dim_IntList", sum_args, row, w);
  const int least_of = editor.add("aten.amin.default", along(), row, w);
  const int most_of = editor.add("aten.amax.default", along(), row, w);
  const auto times = [&](int by) { return editor.add("aten.mul.Tensor", {of("self", x), of("other", by)}, full, x); };
  const auto plus = [&](int a, int b, const std::vector<std::int64_t>& shape) {
    return editor.add("aten.add.Tensor", {of("self", a), of("other", b), {"alpha", std::int64_t{1}}}, shape, x);
  };
  const int usual = times(sums);
  const int beyond = plus(times(least_of), times(most_of), full);
  const int finite = editor.add_boolean("aten.isfinite.default", {of("self", x)}, full, x);
  const int terms =
      editor.add("aten.where.self", {of("condition", finite), of("self", usual), of("other", beyond)}, full, x);
  int result = editor.add("aten.sum.dim_IntList",
                          {of("self", terms),
                           dims({static_cast<std::int64_t>(full.size()) - 1}),
                           flag("keepdim", chain->fold.kept),
                           {"dtype", ir::None{}}},
                          folded, x);
  if (found->bias >= 0) {
    const int total =
        editor.add("aten.sum.dim_IntList",
                   {of("self", found->bias), dims({0}), flag("keepdim", false), {"dtype", ir::None{}}}, {}, x);
    result = plus(result, total, folded);
  }
  apply(editor, *chain, result, folded);
  editor.replace(index);
  return true;
}

}  // namespace planish::rewrite
