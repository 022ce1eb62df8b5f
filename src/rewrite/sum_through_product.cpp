#include "rewrite/linear_chain.h"
#include "rewrite/products.h"
#include "rewrite/rules.h"

namespace planish::rewrite {
namespace {

/// From so many rows and columns on: with fewer the product reads little more than it computes.
constexpr std::int64_t least = 16;

}  // namespace

bool sum_through_product(Editor& editor, int index) {
  const auto chain = linear_chain(editor, index, is_matrix_product);
  if (!chain) return false;
  const ir::Value& data = editor.value(chain->made);
  const DType dtype = data.dtype;
  if (chain->fold.dims != std::vector{static_cast<std::int64_t>(data.shape.size()) - 1}) return false;
  const auto found = matrix_product(editor, *editor.maker(chain->made));
  if (!found || found->rows < least || found->columns < least) return false;
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
