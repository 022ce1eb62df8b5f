#include <algorithm>

#include "rewrite/linear_chain.h"
#include "rewrite/products.h"
#include "rewrite/rules.h"

namespace planish::rewrite {
namespace {

/// From so many places on: with fewer the convolution does little more than is done instead.
constexpr std::int64_t least_places = 16;
/// Taps of a dim, each a sum of its own.
constexpr std::int64_t most_taps = 16;

std::int64_t up(std::int64_t a, std::int64_t by) {
  return a >= 0 ? (a + by - 1) / by : -(-a / by);
}

/// Elements [begin, end) of a dim that a tap meets; none where both are equal.
struct Met {
  std::int64_t begin = 0, end = 0;
  friend bool operator==(const Met&, const Met&) = default;
};

struct Convolution {
  int x = -1, w = -1, bias = -1;
  bool transposed = false;
  std::vector<std::vector<Met>> met;  ///< by dim, by tap
};

std::optional<Convolution> convolution(const Editor& editor, const ir::GraphNode& node, int made) {
  Convolution out{tensor(node, "input"), tensor(node, "weight"), tensor(node, "bias"), is_transposed(node), {}};
  if (out.x < 0 || !editor.is_parameter(out.w)) return std::nullopt;
  const auto& x = editor.value(out.x).shape;
  const auto& w = editor.value(out.w).shape;
  const auto& y = editor.value(made).shape;
  const std::size_t dims = w.size() < 3 ? 0 : w.size() - 2;
  if (dims == 0 || x.size() != dims + 2 || y.size() != dims + 2) return std::nullopt;
  if (number(node, "groups").value_or(1) != 1 || w[out.transposed ? 0 : 1] != x[1]) return std::nullopt;
  const auto stride = by_dim(node, "stride", dims, 1), padding = by_dim(node, "padding", dims, 0),
             dilation = by_dim(node, "dilation", dims, 1);
  if (!stride || !padding || !dilation) return std::nullopt;
  std::int64_t places = 1;
  for (std::size_t d = 0; d < dims; ++d) {
    const std::int64_t step = (*stride)[d], extent = x[d + 2], results = y[d + 2];
    places *= results;
    // What a tap of a strided convolution meets is not contiguous.
    if (step < 1 || (!out.transposed && step != 1) || w[d + 2] > most_taps) return std::nullopt;
    auto& met = out.met.emplace_back();
    for (std::int64_t tap = 0; tap < w[d + 2]; ++tap) {
      const std::int64_t moved = (*dilation)[d] * tap - (*padding)[d];
      // A result at q meets element q + moved, or a transposed one that for which step · element + moved = q.
      Met one = out.transposed ? Met{up(-moved, step), up(results - moved, step)} : Met{moved, results + moved};
      one.begin = std::clamp<std::int64_t>(one.begin, 0, extent);
      one.end = std::clamp<std::int64_t>(one.end, one.begin, extent);
      if (one.begin == one.end) return std::nullopt;  // a tap of padding alone
      met.push_back(one);
    }
  }
  if (places < least_places) return std::nullopt;
  return out;
}

/// Sums over dim 2, of the elements that each tap meets, as a last dim; of extent 1 where all meet the same.
int summed(Editor& editor, int x, const std::vector<Met>& met) {
  std::vector<std::int64_t> full = editor.value(x).shape, less = full;
  const std::int64_t extent = full[2];
  less.erase(less.begin() + 2);
  std::vector<Met> known;
  std::vector<int> sums;
  const auto sum_of = [&](const Met& one) {
    const auto at = std::ranges::find(known, one);
    if (at != known.end()) return sums[static_cast<std::size_t>(at - known.begin())];
    int some = x;
    if (one.end - one.begin < extent) {
      // Zeros in place of the others, so that all sums are of rows of one length: one kernel then makes them.
      std::vector<std::int64_t> part = full;
      part[2] = one.end - one.begin;
      some = editor.add(
          "aten.slice.Tensor",
          {of("self", x), {"dim", std::int64_t{2}}, {"start", one.begin}, {"end", one.end}, {"step", std::int64_t{1}}},
          part, x);
      std::vector<std::int64_t> around(2 * (full.size() - 2), 0);
      around[around.size() - 2] = one.begin;
      around[around.size() - 1] = extent - one.end;
      some = editor.add("aten.constant_pad_nd.default", {of("self", some), {"pad", around}, {"value", 0.0}}, full, x);
    }
    known.push_back(one);
    sums.push_back(editor.add("aten.sum.dim_IntList",
                              {of("self", some), dims({2}), flag("keepdim", false), {"dtype", ir::None{}}}, less, x));
    return sums.back();
  };
  ir::ValueList by_tap;
  for (const Met& one : met) by_tap.ids.emplace_back(sum_of(one));
  std::vector<std::int64_t> shape = less;
  shape.push_back(known.size() == 1 ? 1 : std::ssize(met));
  if (known.size() == 1) {
    return editor.add("aten.unsqueeze.default", {of("self", sums[0]), {"dim", std::int64_t{-1}}}, shape, x);
  }
  return editor.add("aten.stack.default", {{"tensors", by_tap}, {"dim", std::int64_t{-1}}}, shape, x);
}

}  // namespace

bool sum_through_convolution(Editor& editor, int index) {
  const auto chain = linear_chain(editor, index, is_convolution);
  if (!chain) return false;
  const auto found = convolution(editor, *editor.maker(chain->made), chain->made);
  if (!found) return false;
  const DType dtype = editor.value(chain->made).dtype;
  for (const int operand : {found->x, found->w, found->bias}) {
    if (operand >= 0 && editor.value(operand).dtype != dtype) return false;
  }
  const std::size_t rank = editor.value(found->x).shape.size();
  std::vector<std::int64_t> spatial;
  for (std::size_t d = 2; d < rank; ++d) spatial.push_back(static_cast<std::int64_t>(d));
  if (chain->fold.dims != spatial) return false;

  // (images, channels, taps by dim): each step sums the first dim that is left and puts its taps last.
  int sums = found->x;
  for (const auto& met : found->met) sums = summed(editor, sums, met);
  std::vector<std::int64_t> shape = editor.value(sums).shape;
  shape.insert(shape.begin() + 1, 1);
  sums = editor.add("aten.unsqueeze.default", {of("self", sums), {"dim", std::int64_t{1}}}, shape, found->x);
  int taps = found->w;
  std::vector<std::int64_t> window = editor.value(taps).shape;
  if (found->transposed) {
    std::vector<std::int64_t> order{1, 0};
    order.insert(order.end(), spatial.begin(), spatial.end());
    std::swap(window[0], window[1]);
    taps = editor.add("aten.permute.default", {of("self", taps), {"dims", order}}, window, taps);
  }
  const std::int64_t images = shape[0], channels = window[0];
  std::vector<std::int64_t> products{images};
  products.insert(products.end(), window.begin(), window.end());
  const int terms = editor.add("aten.mul.Tensor", {of("self", sums), of("other", taps)}, products, found->x);
  std::vector<std::int64_t> over;
  for (std::size_t d = 2; d < products.size(); ++d) over.push_back(static_cast<std::int64_t>(d));
  std::vector<std::int64_t> result_shape{images, channels};
  int result =
      editor.add("aten.sum.dim_IntList", {of("self", terms), dims(over), flag("keepdim", false), {"dtype", ir::None{}}},
                 result_shape, found->x);
  if (found->bias >= 0) {
    const int added =
        editor.add("aten.mul.Tensor", {of("self", found->bias), {"other", static_cast<double>(chain->fold.count)}},
                   {channels}, found->x);
    result = editor.add("aten.add.Tensor", {of("self", result), of("other", added), {"alpha", std::int64_t{1}}},
                        result_shape, found->x);
  }
  result = apply(editor, *chain, result, result_shape);
  if (chain->fold.kept) {
    result_shape.insert(result_shape.end(), spatial.size(), 1);
    editor.add("aten.view.default", {of("self", result), {"size", result_shape}}, result_shape, found->x);
  }
  editor.replace(index);
  return true;
}

}  // namespace planish::rewrite
