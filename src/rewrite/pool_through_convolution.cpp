#include <algorithm>
#include <numeric>

#include "rewrite/affine.h"
#include "rewrite/pools.h"
#include "rewrite/products.h"
#include "rewrite/rules.h"

namespace planish::rewrite {
namespace {

bool is_ordinary(const ir::GraphNode& node) {
  return is_convolution(node) && !is_transposed(node);
}

/// What is done instead: zeros around the elements, an average of them, and a convolution of that.
struct OrdinaryPlan {
  int x = -1, w = -1, bias = -1;
  std::vector<std::int64_t> around;  ///< zeros before and behind, by dim
  AveragePool average;               ///< of these
  std::vector<std::int64_t> stride, padding, dilation;
};

/// A tap k of a convolution with stride 1 meets, in the window of places from t·Y on, the window of elements from
/// t·Y + d·k - padding on. Averages of the windows from all places that both t and d reach are enough.
std::optional<OrdinaryPlan> ordinary_plan(const Editor& editor, const ir::GraphNode& convolution,
                                          const AveragePool& pool) {
  OrdinaryPlan out{
      tensor(convolution, "input"), tensor(convolution, "weight"), tensor(convolution, "bias"), {}, {}, {}, {}, {}};
  if (out.x < 0 || !editor.is_parameter(out.w)) return std::nullopt;
  const std::size_t dims = pool.dims();
  const auto& x = editor.value(out.x).shape;
  const auto& w = editor.value(out.w).shape;
  if (x.size() != dims + 2 || w.size() != dims + 2) return std::nullopt;
  const auto stride = by_dim(convolution, "stride", dims, 1), padding = by_dim(convolution, "padding", dims, 0),
             dilation = by_dim(convolution, "dilation", dims, 1);
  if (!stride || !padding || !dilation) return std::nullopt;
  out.average.of = out.x;
  for (std::size_t d = 0; d < dims; ++d) {
    const bool pooled = pool.window[d] != 1 || pool.stride[d] != 1;
    if (pooled && (*stride)[d] != 1) return std::nullopt;
    // One tap is at no distance from others.
    const std::int64_t apart = w[d + 2] == 1 ? 0 : (*dilation)[d], step = std::gcd(pool.stride[d], apart);
    out.around.push_back(pooled ? (*padding)[d] : 0);
    out.average.window.push_back(pool.window[d]);
    out.average.stride.push_back(pooled ? step : 1);
    out.stride.push_back(pooled ? pool.stride[d] / step : (*stride)[d]);
    out.padding.push_back(pooled ? 0 : (*padding)[d]);
    out.dilation.push_back(!pooled ? (*dilation)[d] : apart == 0 ? 1 : apart / step);
  }
  return out;
}

/// Whether the averages, each a sum of its window, take less than the products that they save. `averages`: how many.
bool saves(const Editor& editor, const OrdinaryPlan& p, const ir::Value& made, std::int64_t averages) {
  std::int64_t window = 1, taps = 1;
  for (const std::int64_t n : p.average.window) window *= n;
  const auto& w = editor.value(p.w).shape;
  for (std::size_t d = 1; d < w.size(); ++d) taps *= w[d];
  return averages * window <= made.elements() * taps / 2;
}

}  // namespace

bool pool_through_convolution(Editor& editor, int index) {
  const auto pool = average_pool(editor, editor.node(index));
  if (!pool || is_pooled_again(editor, index)) return false;
  const auto chain = affine_chain(editor, pool->of, is_ordinary);
  if (!chain) return false;
  ir::GraphNode convolution = *editor.maker(chain->made);  // a copy: new nodes move the values
  auto p = ordinary_plan(editor, convolution, *pool);
  if (!p) return false;
  const int result = *editor.node(index).outs[0];
  const ir::Value made = editor.value(chain->made), last = editor.value(result);
  if (!one_dtype(editor, {result, p->x, p->w, p->bias})) return false;
  for (const int id : {p->x, chain->made, result}) {
    if (!is_contiguous(editor.value(id))) return false;
  }
  if (places(made) < least_fewer * places(last) || made.elements() < editor.value(p->x).elements()) return false;
  std::int64_t averages = editor.value(p->x).shape[0] * editor.value(p->x).shape[1];
  for (std::size_t d = 0; d < pool->dims(); ++d)
    averages *= (editor.value(p->x).shape[d + 2] + 2 * p->around[d]) / p->average.stride[d];
  if (!saves(editor, *p, made, averages)) return false;

  p->average.of = padded(editor, p->x, p->around, p->around);
  const int averaged = add(editor, p->average);
  redirect(convolution, "input", averaged);
  // One that the graph leaves out is given too: a stride of 1 would be another one.
  for (const auto& [name, list] :
       {std::pair{"stride", p->stride}, {"padding", p->padding}, {"dilation", p->dilation}}) {
    const auto given = std::ranges::find(convolution.args, name, &ir::Arg::name);
    if (given != convolution.args.end()) {
      given->data = list;
    } else {
      convolution.args.push_back({name, list});
    }
  }
  apply(editor, *chain, editor.add(convolution.op, std::move(convolution.args), last.shape, result));
  editor.replace(index);
  return true;
}

}  // namespace planish::rewrite
