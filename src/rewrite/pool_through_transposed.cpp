#include <algorithm>
#include <limits>
#include <string>

#include "rewrite/affine.h"
#include "rewrite/pools.h"
#include "rewrite/products.h"
#include "rewrite/rules.h"

namespace planish::rewrite {
namespace {

using Extents = std::vector<std::int64_t>;

/// One dim of what is done instead. Tap k of a transposed convolution adds to place s·i + k - padding. A window of s·m
/// places from s·m'·Y on has those elements i of tap k that lie in the window of m from m'·Y + c on, where c is
/// (padding - k) / s, rounded up. Taps of one c, s of them but at the ends, are one tap of an ordinary convolution of
/// averages over m elements.
struct Along {
  std::int64_t s = 1, taps = 1;
  std::int64_t groups = 1, front = 0, back = 0;  ///< taps together, and how many the first and last have too few
  std::int64_t window = 1, step = 1;             ///< m and m'
  std::int64_t before = 0, behind = 0;           ///< zeros, or fewer elements, around the data
  std::int64_t padding = 0;                      ///< zeros that the convolution can have instead
};

std::optional<Along> along(std::int64_t s, std::int64_t padding, std::int64_t taps, std::int64_t window,
                           std::int64_t stride, std::int64_t elements, std::int64_t results) {
  if (s < 1 || window % s != 0 || stride % s != 0) return std::nullopt;
  Along out;
  out.s = s, out.taps = taps, out.window = window / s, out.step = stride / s;
  const std::int64_t most = up(padding, s), least = up(padding - taps + 1, s);
  out.groups = most - least + 1;
  out.front = s * most - padding;
  out.back = padding - s * least + s - taps;
  out.before = -least;
  // As many averages as the last result needs, of as many elements.
  const std::int64_t needed = out.step * (results - 1) + out.groups + out.window - 1;
  out.behind = needed - elements - out.before;
  const std::int64_t left = elements + 2 * out.before - out.groups;
  if (out.window == 1 && out.before >= 0 && left >= 0 && left / out.step + 1 == results) {
    out.padding = out.before;
    out.before = out.behind = 0;
  }
  return out;
}

struct TransposedPlan {
  int x = -1, w = -1, bias = -1;
  std::vector<Along> dims;
  bool mixes = false;  ///< taps of more than one sign may become one
};

std::optional<TransposedPlan> transposed_plan(const Editor& editor, const ir::GraphNode& node, const AveragePool& pool,
                                              const ir::Value& last) {
  TransposedPlan out{tensor(node, "input"), tensor(node, "weight"), tensor(node, "bias"), {}, false};
  const std::size_t dims = pool.dims();
  if (out.x < 0 || !editor.is_parameter(out.w) || number(node, "groups").value_or(1) != 1) return std::nullopt;
  const auto& x = editor.value(out.x).shape;
  const auto& w = editor.value(out.w).shape;
  if (x.size() != dims + 2 || w.size() != dims + 2) return std::nullopt;
  const auto stride = by_dim(node, "stride", dims, 1), padding = by_dim(node, "padding", dims, 0),
             dilation = by_dim(node, "dilation", dims, 1);
  if (!stride || !padding || !dilation) return std::nullopt;
  for (std::size_t d = 0; d < dims; ++d) {
    if ((*dilation)[d] != 1) return std::nullopt;
    const auto one =
        along((*stride)[d], (*padding)[d], w[d + 2], pool.window[d], pool.stride[d], x[d + 2], last.shape[d + 2]);
    if (!one) return std::nullopt;
    out.dims.push_back(*one);
    out.mixes = out.mixes || (one->s > 1 && one->taps > 1);
  }
  return out;
}

/// Whether the convolution has less to do than the transposed one, and the averages less than is saved.
bool has_less_to_do(const Editor& editor, const TransposedPlan& p, const ir::Value& last) {
  const auto& w = editor.value(p.w).shape;
  const std::int64_t elements = editor.value(p.x).elements();
  std::int64_t taps = w[1], groups = p.mixes ? 2 * w[0] : w[0], window = 1;
  for (const Along& a : p.dims) {
    taps *= a.taps;
    groups *= a.groups;
    window *= a.window;
  }
  return last.elements() * groups <= elements * taps && (window == 1 || window <= taps / 2);
}

/// Weights as (results' channels, data's channels, groups, taps of one, groups, …), the last group of each dim first,
/// where they have a group's taps apart; zeros, or another number, for taps that a group has too few.
int apart(Editor& editor, const TransposedPlan& p, double missing) {
  Extents around, shape = editor.value(p.w).shape;
  bool same = true;
  for (std::size_t d = p.dims.size(); d-- > 0;) {
    const Along& a = p.dims[d];
    around.insert(around.end(), {a.front, a.back});
    shape[d + 2] += a.front + a.back;
    same = same && a.front == 0 && a.back == 0;
  }
  int w = p.w;
  if (!same)
    w = editor.add("aten.constant_pad_nd.default", {of("self", w), {"pad", around}, {"value", missing}}, shape, w);
  Extents split{shape[0], shape[1]};
  for (const Along& a : p.dims) split.insert(split.end(), {a.groups, a.s});
  return editor.add("aten.view.default", {of("self", w), {"size", split}}, split, w);
}

/// As the weights of an ordinary convolution: channels the other way round, the first group for the last elements.
int turned(Editor& editor, const TransposedPlan& p, int grouped) {
  Extents shape = editor.value(grouped).shape, order{1, 0}, all;
  std::swap(shape[0], shape[1]);
  for (std::size_t d = 0; d < p.dims.size(); ++d) {
    order.push_back(static_cast<std::int64_t>(d + 2));
    if (p.dims[d].groups > 1) all.push_back(static_cast<std::int64_t>(d + 2));
  }
  const int w = editor.add("aten.permute.default", {of("self", grouped), {"dims", order}}, shape, grouped);
  return all.empty() ? w : editor.add("aten.flip.default", {of("self", w), {"dims", all}}, shape, w);
}

/// The weights of the convolution. Where groups may mix signs, those of twice the channels: the latter have a weight
/// with the sign that all of a group have, or zero.
int weights(Editor& editor, const TransposedPlan& p) {
  Extents over, grouped{editor.value(p.w).shape[0], editor.value(p.w).shape[1]};
  double s = 1;
  for (std::size_t d = 0; d < p.dims.size(); ++d) {
    over.push_back(static_cast<std::int64_t>(2 * d + 3));
    grouped.push_back(p.dims[d].groups);
    s *= static_cast<double>(p.dims[d].s);
  }
  const auto extreme = [&](const char* op, double missing) {
    return editor.add(op, {of("self", apart(editor, p, missing)), dims(over), flag("keepdim", false)}, grouped, p.w);
  };
  int usual = editor.add("aten.sum.dim_IntList",
                         {of("self", apart(editor, p, 0)), dims(over), flag("keepdim", false), {"dtype", ir::None{}}},
                         grouped, p.w);
  // An average over m elements is s^dims times what one over the window of places is.
  if (s != 1) usual = editor.add("aten.div.Tensor", {of("self", usual), {"other", s}}, grouped, p.w);
  if (!p.mixes) return turned(editor, p, usual);
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const auto of_one = [&](const char* op, int id) { return editor.add(op, {of("self", id)}, grouped, p.w); };
  // The least of all where it is above zero, the greatest where it is below.
  const int above = of_one("aten.relu.default", extreme("aten.amin.default", infinity));
  const int below = of_one("aten.relu.default", of_one("aten.neg.default", extreme("aten.amax.default", -infinity)));
  const int sign =
      editor.add("aten.sub.Tensor", {of("self", above), of("other", below), {"alpha", std::int64_t{1}}}, grouped, p.w);
  Extents both = grouped;
  both[0] *= 2;
  const int all =
      editor.add("aten.cat.default", {{"tensors", ir::ValueList{{usual, sign}}}, {"dim", std::int64_t{0}}}, both, p.w);
  return turned(editor, p, all);
}

/// The data's averages, and where taps are added what of them is not finite once more, with zeros elsewhere.
int averages(Editor& editor, const TransposedPlan& p, AveragePool pool) {
  Extents before, behind;
  bool averaged = false;
  for (std::size_t d = 0; d < p.dims.size(); ++d) {
    before.push_back(p.dims[d].before);
    behind.push_back(p.dims[d].behind);
    pool.window[d] = p.dims[d].window;
    pool.stride[d] = 1;
    averaged = averaged || p.dims[d].window > 1;
  }
  pool.of = padded(editor, p.x, before, behind);
  const int some = averaged ? add(editor, pool) : pool.of;
  if (!p.mixes) return some;
  Extents shape = editor.value(some).shape;
  const int finite = editor.add_boolean("aten.isfinite.default", {of("self", some)}, shape, some);
  const int nothing = editor.add("aten.scalar_tensor.default", {{"s", 0.0}}, {}, some);
  const int others =
      editor.add("aten.where.self", {of("condition", finite), of("self", nothing), of("other", some)}, shape, some);
  shape[1] *= 2;
  return editor.add("aten.cat.default", {{"tensors", ir::ValueList{{some, others}}}, {"dim", std::int64_t{1}}}, shape,
                    some);
}

}  // namespace

bool pool_through_transposed(Editor& editor, int index) {
  const auto pool = average_pool(editor, editor.node(index));
  if (!pool || is_pooled_again(editor, index)) return false;
  const auto chain = affine_chain(editor, pool->of, is_transposed);
  if (!chain || !is_convolution(*editor.maker(chain->made))) return false;
  const int result = *editor.node(index).outs[0];
  const ir::Value made = editor.value(chain->made), last = editor.value(result);
  const auto p = transposed_plan(editor, *editor.maker(chain->made), *pool, last);
  if (!p || !one_dtype(editor, {result, p->x, p->w, p->bias})) return false;
  for (const int id : {p->x, chain->made, result}) {
    if (!is_contiguous(editor.value(id))) return false;
  }
  if (places(made) < least_fewer * places(last) || made.elements() < editor.value(p->x).elements()) return false;
  if (!has_less_to_do(editor, *p, last)) return false;

  const int x = averages(editor, *p, *pool), w = weights(editor, *p);
  Extents step, padding;
  for (const Along& a : p->dims) {
    step.push_back(a.step);
    padding.push_back(a.padding);
  }
  std::vector<ir::Arg> args{of("input", x), of("weight", w)};
  args.push_back(p->bias < 0 ? ir::Arg{"bias", ir::None{}} : of("bias", p->bias));
  args.push_back({"stride", step});
  args.push_back({"padding", padding});
  args.push_back({"dilation", Extents(p->dims.size(), 1)});
  args.push_back({"groups", std::int64_t{1}});
  apply(editor, *chain,
        editor.add("aten.conv" + std::to_string(p->dims.size()) + "d.default", std::move(args), last.shape, result));
  editor.replace(index);
  return true;
}

}  // namespace planish::rewrite
