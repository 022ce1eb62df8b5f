#include <algorithm>
#include <iterator>

#include "rewrite/linear_chain.h"
#include "rewrite/products.h"
#include "rewrite/rules.h"

namespace planish::rewrite {
namespace {

/// From so many places on: with fewer the convolution does little more than is done instead. Where a convolution of
/// fewer dims stays, it does that many times less.
constexpr std::int64_t least_places = 16, least_summed = 8;
/// Taps of a dim, each a sum of its own.
constexpr std::int64_t most_taps = 16;

/// Elements [begin, end) of a dim that a tap meets; none where both are equal.
struct Met {
  std::int64_t begin = 0, end = 0;
  friend bool operator==(const Met&, const Met&) = default;
};

struct Convolution {
  int x = -1, w = -1, bias = -1;
  bool transposed = false;
  std::size_t dims = 0;
  std::vector<std::int64_t> stride, padding, more, dilation;  ///< by dim; `more`: output_padding
  std::vector<std::vector<Met>> met;                          ///< by dim, by tap; empty for a dim that is not summed
};

bool is_summed(const Fold& fold, std::size_t dim) {
  return std::ranges::find(fold.dims, static_cast<std::int64_t>(dim + 2)) != fold.dims.end();
}

/// What each tap meets along a dim; nothing where that is not contiguous, or padding alone.
std::optional<std::vector<Met>> met_along(const Convolution& c, std::size_t d, std::int64_t extent,
                                          std::int64_t results, std::int64_t taps) {
  const std::int64_t step = c.stride[d];
  // What a tap of a strided convolution meets is not contiguous.
  if (step < 1 || (!c.transposed && step != 1) || taps > most_taps) return std::nullopt;
  std::vector<Met> met;
  for (std::int64_t tap = 0; tap < taps; ++tap) {
    const std::int64_t moved = c.dilation[d] * tap - c.padding[d];
    // A result at q meets element q + moved, or a transposed one that for which step · element + moved = q.
    Met one = c.transposed ? Met{up(-moved, step), up(results - moved, step)} : Met{moved, results + moved};
    one.begin = std::clamp<std::int64_t>(one.begin, 0, extent);
    one.end = std::clamp<std::int64_t>(one.end, one.begin, extent);
    if (one.begin == one.end) return std::nullopt;
    met.push_back(one);
  }
  return met;
}

std::optional<Convolution> convolution(const Editor& editor, const ir::GraphNode& node, int made, const Fold& fold) {
  Convolution out;
  out.x = tensor(node, "input"), out.w = tensor(node, "weight"), out.bias = tensor(node, "bias");
  out.transposed = is_transposed(node);
  if (out.x < 0 || !editor.is_parameter(out.w)) return std::nullopt;
  const auto& x = editor.value(out.x).shape;
  const auto& w = editor.value(out.w).shape;
  const auto& y = editor.value(made).shape;
  const std::size_t dims = out.dims = w.size() < 3 ? 0 : w.size() - 2;
  if (dims == 0 || x.size() != dims + 2 || y.size() != dims + 2 || fold.dims.front() < 2) return std::nullopt;
  if (number(node, "groups").value_or(1) != 1 || w[out.transposed ? 0 : 1] != x[1]) return std::nullopt;
  const auto stride = by_dim(node, "stride", dims, 1), padding = by_dim(node, "padding", dims, 0),
             more = by_dim(node, "output_padding", dims, 0), dilation = by_dim(node, "dilation", dims, 1);
  if (!stride || !padding || !more || !dilation) return std::nullopt;
  out.stride = *stride, out.padding = *padding, out.more = *more, out.dilation = *dilation;
  for (std::size_t d = 0; d < dims; ++d) {
    auto& met = out.met.emplace_back();
    if (!is_summed(fold, d)) continue;
    auto along = met_along(out, d, x[d + 2], y[d + 2], w[d + 2]);
    if (!along) return std::nullopt;
    met = std::move(*along);
  }
  if (fold.count < (fold.dims.size() == dims ? least_places : least_summed)) return std::nullopt;
  return out;
}

/// Sums over a dim, of the elements that each tap meets; one where all meet the same.
std::vector<int> sums_by_tap(Editor& editor, int x, std::size_t dim, const std::vector<Met>& met) {
  const std::vector<std::int64_t> full = editor.value(x).shape;
  std::vector<std::int64_t> less = full;
  const auto over = static_cast<std::int64_t>(dim);
  less.erase(less.begin() + over);
  std::vector<Met> known;
  std::vector<int> sums;
  const auto sum_of = [&](const Met& one) {
    const auto same = std::ranges::find(known, one);
    if (same != known.end()) return sums[static_cast<std::size_t>(same - known.begin())];
    int some = x;
    if (one.end - one.begin < full[dim]) {
      // Zeros in place of the others, so that all sums are of rows of one length: one kernel then makes them.
      std::vector<std::int64_t> part = full;
      part[dim] = one.end - one.begin;
      some = editor.add(
          "aten.slice.Tensor",
          {of("self", x), {"dim", over}, {"start", one.begin}, {"end", one.end}, {"step", std::int64_t{1}}}, part, x);
      std::vector<std::int64_t> around(2 * (full.size() - dim), 0);
      around[around.size() - 2] = one.begin;
      around[around.size() - 1] = full[dim] - one.end;
      some = editor.add("aten.constant_pad_nd.default", {of("self", some), {"pad", around}, {"value", 0.0}}, full, x);
    }
    known.push_back(one);
    sums.push_back(editor.add("aten.sum.dim_IntList",
                              {of("self", some), dims({over}), flag("keepdim", false), {"dtype", ir::None{}}}, less,
                              x));
    return sums.back();
  };
  std::vector<int> by_tap;
  for (const Met& one : met) by_tap.push_back(sum_of(one));
  if (known.size() == 1) by_tap.resize(1);
  return by_tap;
}

/// Sums over dim 2 side by side along a last dim, of extent 1 where all taps meet the same.
int summed(Editor& editor, int x, const std::vector<Met>& met) {
  const std::vector<int> sums = sums_by_tap(editor, x, 2, met);
  std::vector<std::int64_t> shape = editor.value(sums.front()).shape;
  shape.push_back(std::ssize(sums));
  if (sums.size() == 1) {
    return editor.add("aten.unsqueeze.default", {of("self", sums[0]), {"dim", std::int64_t{-1}}}, shape, x);
  }
  ir::ValueList tensors;
  for (const int sum : sums) tensors.ids.emplace_back(sum);
  return editor.add("aten.stack.default", {{"tensors", tensors}, {"dim", std::int64_t{-1}}}, shape, x);
}

int permuted(Editor& editor, int x, const std::vector<std::int64_t>& order) {
  std::vector<std::int64_t> shape;
  for (const std::int64_t d : order) shape.push_back(editor.value(x).shape[static_cast<std::size_t>(d)]);
  return editor.add("aten.permute.default", {of("self", x), {"dims", order}}, shape, x);
}

/// Over all places: (image, channel) of sums by tap, and a small product with the weights.
int product_of_sums(Editor& editor, const Convolution& c) {
  // (images, channels, taps by dim): each step sums the first dim that is left and puts its taps last.
  int sums = c.x;
  for (const auto& met : c.met) sums = summed(editor, sums, met);
  std::vector<std::int64_t> shape = editor.value(sums).shape;
  shape.insert(shape.begin() + 1, 1);
  sums = editor.add("aten.unsqueeze.default", {of("self", sums), {"dim", std::int64_t{1}}}, shape, c.x);
  int taps = c.w;
  if (c.transposed) {
    std::vector<std::int64_t> order{1, 0};
    for (std::size_t d = 0; d < c.dims; ++d) order.push_back(static_cast<std::int64_t>(d + 2));
    taps = permuted(editor, taps, order);
  }
  const std::vector<std::int64_t>& window = editor.value(taps).shape;
  std::vector<std::int64_t> products{shape[0]};
  products.insert(products.end(), window.begin(), window.end());
  const int terms = editor.add("aten.mul.Tensor", {of("self", sums), of("other", taps)}, products, c.x);
  std::vector<std::int64_t> over;
  for (std::size_t d = 2; d < products.size(); ++d) over.push_back(static_cast<std::int64_t>(d));
  return editor.add("aten.sum.dim_IntList",
                    {of("self", terms), dims(over), flag("keepdim", false), {"dtype", ir::None{}}},
                    {products[0], products[1]}, c.x);
}

/// The weights of one tap along a dim.
int weights_at(Editor& editor, int w, std::size_t dim, std::int64_t tap) {
  std::vector<std::int64_t> shape = editor.value(w).shape;
  shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(dim));
  return editor.add("aten.select.int", {of("self", w), {"dim", static_cast<std::int64_t>(dim)}, {"index", tap}}, shape,
                    w);
}

int beside(Editor& editor, const std::vector<int>& parts, std::size_t dim) {
  if (parts.size() == 1) return parts[0];
  std::vector<std::int64_t> shape = editor.value(parts[0]).shape;
  shape[dim] *= std::ssize(parts);
  ir::ValueList tensors;
  for (const int part : parts) tensors.ids.emplace_back(part);
  return editor.add("aten.cat.default", {{"tensors", tensors}, {"dim", static_cast<std::int64_t>(dim)}}, shape,
                    parts[0]);
}

/// Over some dims: a convolution along the others, with a channel for each tap of those and each channel.
int convolution_of_sums(Editor& editor, const Convolution& c, const std::vector<std::int64_t>& result, int bias) {
  std::vector<int> sums{c.x}, weights{c.w};
  std::size_t done = 0;
  for (std::size_t d = 0; d < c.dims; ++d) {
    if (c.met[d].empty()) continue;
    const std::size_t dim = d + 2 - done++;  // those before it are gone
    const std::size_t taps = c.met[d].size();
    std::vector<int> less, fewer;
    for (const int x : sums) {
      const std::vector<int> by_tap = sums_by_tap(editor, x, dim, c.met[d]);
      // One sum for all taps still meets each of their weights: an infinity times weights of both signs is NaN.
      for (std::size_t tap = 0; tap < taps; ++tap) less.push_back(by_tap[by_tap.size() == 1 ? 0 : tap]);
    }
    for (const int w : weights) {
      for (std::size_t tap = 0; tap < taps; ++tap)
        fewer.push_back(weights_at(editor, w, dim, static_cast<std::int64_t>(tap)));
    }
    sums = std::move(less);
    weights = std::move(fewer);
  }
  const int x = beside(editor, sums, 1), w = beside(editor, weights, c.transposed ? 0 : 1);
  const auto left = [&](const std::vector<std::int64_t>& by_dim) {
    std::vector<std::int64_t> out;
    for (std::size_t d = 0; d < c.dims; ++d) {
      if (c.met[d].empty()) out.push_back(by_dim[d]);
    }
    return out;
  };
  const std::size_t dims = c.dims - done;
  std::vector<ir::Arg> args{of("input", x), of("weight", w)};
  args.push_back(bias < 0 ? ir::Arg{"bias", ir::None{}} : of("bias", bias));
  args.push_back({"stride", left(c.stride)});
  args.push_back({"padding", left(c.padding)});
  if (c.transposed) args.push_back({"output_padding", left(c.more)});
  if (c.transposed) args.push_back({"groups", std::int64_t{1}});
  args.push_back({"dilation", left(c.dilation)});
  if (!c.transposed) args.push_back({"groups", std::int64_t{1}});
  const std::string op = std::string(c.transposed ? "aten.conv_transpose" : "aten.conv") + std::to_string(dims) + "d." +
                         (c.transposed && dims > 1 ? "input" : "default");
  return editor.add(op, std::move(args), result, c.x);
}

}  // namespace

bool sum_through_convolution(Editor& editor, int index) {
  const auto chain = linear_chain(editor, index, is_convolution);
  if (!chain) return false;
  const auto found = convolution(editor, *editor.maker(chain->made), chain->made, chain->fold);
  if (!found) return false;
  const ir::Value made = editor.value(chain->made);
  for (const int operand : {found->x, found->w, found->bias}) {
    if (operand >= 0 && editor.value(operand).dtype != made.dtype) return false;
  }
  std::vector<std::int64_t> shape{made.shape[0], made.shape[1]}, kept = shape;
  for (std::size_t d = 0; d < found->dims; ++d) {
    const bool goes = is_summed(chain->fold, d);
    if (!goes) shape.push_back(made.shape[d + 2]);
    kept.push_back(goes ? 1 : made.shape[d + 2]);
  }
  int bias = found->bias;
  if (bias >= 0) {
    bias = editor.add("aten.mul.Tensor", {of("self", bias), {"other", static_cast<double>(chain->fold.count)}},
                      {shape[1]}, found->x);
  }
  int result = -1;
  if (shape.size() > 2) {
    result = convolution_of_sums(editor, *found, shape, bias);
  } else {
    result = product_of_sums(editor, *found);
    if (bias >= 0) {
      result = editor.add("aten.add.Tensor", {of("self", result), of("other", bias), {"alpha", std::int64_t{1}}}, shape,
                          found->x);
    }
  }
  result = apply(editor, *chain, result, shape);
  if (chain->fold.kept) editor.add("aten.view.default", {of("self", result), {"size", kept}}, kept, found->x);
  editor.replace(index);
  return true;
}

}  // namespace planish::rewrite
