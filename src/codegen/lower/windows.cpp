#include "codegen/lower/windows.h"

#include <algorithm>
#include <cmath>

#include "codegen/lower/padded.h"
#include "codegen/lower/row_fold.h"

// Operators whose result at a place is a fold over a window around it: pooling, and convolutions. The taps of a small
// window over one channel are written out, so that such an operator fuses like pointwise work; the outer dims of a
// large one are swept as a row (docs/decisions/0020). Several channels are a product of matrices (docs/decisions/0057).
namespace planish::codegen {

std::optional<std::vector<std::int64_t>> spread(const Args& args, std::string_view name, std::size_t dims,
                                                const std::vector<std::int64_t>& otherwise) {
  const auto list = args.integers(name);
  if (!list || list->empty()) return otherwise;
  if (list->size() == 1) return std::vector<std::int64_t>(dims, list->front());
  if (list->size() != dims) return std::nullopt;
  return *list;
}

std::unexpected<Error> malformed(const Site& s) {
  return unsupported(std::string(base_name(s.node.op)) + " with sizes that do not match");
}

namespace {

using ir::Bound;
using ir::IndexExpr;

/// A window over the last dims of a tensor.
struct Window {
  std::vector<std::int64_t> size, stride, padding, dilation;
  std::size_t dims() const { return size.size(); }
};

/// Dims of "max_pool2d", "conv1d".
std::size_t dims_of(std::string_view name) {
  for (const char c : name) {
    if (c >= '1' && c <= '3') return static_cast<std::size_t>(c - '0');
  }
  return 0;
}

/// Where tap `at` of the window lies in dim d of the tensor's last dims. Outside it lies padding.
IndexExpr window_place(const Site& s, const Window& window, const IndexExpr& at, std::size_t d) {
  const std::size_t dim = s.coords.size() - window.dims() + d;
  const IndexExpr begin = s.low.plus(ir::scale(s.coords[dim], window.stride[d]), -window.padding[d]);
  return ir::add(begin, ir::scale(at, window.dilation[d]), s.low.space());
}

/// The taps of one output element: a part of the window is swept as a row, the rest is written out.
class Taps {
 public:
  /// `id` is the tensor that the window moves over, `out` the coordinates of the result's last dims.
  static Result<Taps> make(const Site& s, int id, const Window& window, const std::vector<std::int64_t>& out_extents) {
    Taps taps(s, id, window);
    const std::size_t dims = window.dims();
    while (product(std::span(window.size).subspan(taps.swept_)) > most_taps) ++taps.swept_;
    taps.place_.assign(dims, IndexExpr());
    if (taps.swept_ == 0) return taps;
    const std::vector<std::int64_t> rows(window.size.begin(),
                                         window.size.begin() + static_cast<std::ptrdiff_t>(taps.swept_));
    PLANISH_TRY(const Coords row, s.low.row(s.coords, out_extents, rows));
    std::copy(row.begin(), row.end(), taps.place_.begin());
    return taps;
  }

  bool sweeps() const { return swept_ > 0; }

  /// Calls f(at), with the window's coordinate `at` in each dim, for every tap that is written out, in order.
  template <typename F>
  Status each(F&& f) const {
    Coords at = place_;
    std::vector<std::int64_t> count(window_.dims(), 0);
    while (true) {
      for (std::size_t d = swept_; d < count.size(); ++d) at[d] = IndexExpr::constant(count[d]);
      PLANISH_CHECK(f(at));
      std::size_t d = count.size();
      while (d > swept_ && ++count[d - 1] == window_.size[d - 1]) count[--d] = 0;
      if (d == swept_) return {};
    }
  }

  /// Where tap `at` lies in dim d of the tensor's last dims. Outside it lies padding.
  IndexExpr position(const Coords& at, std::size_t d) const { return window_place(s_, window_, at[d], d); }

  /// The element under tap `at`, where the other dims of the tensor have coordinates `front`; `fill` in the padding.
  Result<int> element(const Coords& at, Coords front, DType dtype, double fill) const {
    std::vector<Bound> bounds;
    const auto& shape = s_.low.info(id_).shape;
    for (std::size_t d = 0; d < window_.dims(); ++d) {
      const std::int64_t extent = shape[shape.size() - window_.dims() + d];
      front.push_back(position(at, d));
      bounds.push_back({front.back(), 0, extent});
    }
    return padded(s_.low, id_, front, std::move(bounds), dtype, fill);
  }

  /// The coordinates in front of the window's dims.
  Coords front() const { return {s_.coords.begin(), s_.coords.end() - static_cast<std::ptrdiff_t>(window_.dims())}; }

  int fold(ReduceKind kind, int node) const {
    if (!sweeps()) return node;
    const DType accumulate = accumulate_dtype(s_.b.dtype(node));
    return s_.b.reduce(kind, s_.b.cast(node, accumulate), accumulate);
  }

 private:
  Taps(const Site& s, int id, const Window& window) : s_(s), id_(id), window_(window) {}

  const Site& s_;
  int id_;
  const Window& window_;
  std::size_t swept_ = 0;  ///< dims of the window, from the first, that are a row
  Coords place_;
};

Result<Window> pooling_window(const Site& s, std::size_t dims) {
  const std::vector<std::int64_t> ones(dims, 1), none(dims, 0);
  const auto size = spread(s.args, "kernel_size", dims, {});
  if (!size || size->size() != dims) return malformed(s);
  const auto stride = spread(s.args, "stride", dims, *size), padding = spread(s.args, "padding", dims, none),
             dilation = spread(s.args, "dilation", dims, ones);
  if (!stride || !padding || !dilation) return malformed(s);
  return Window{*size, *stride, *padding, *dilation};
}

/// The place of the first tap that is no padding, in dim d: torch starts there, also where nothing is greater than
/// what the padding holds.
int first_inside(const Site& s, const Taps& taps, const Window& window, std::size_t d) {
  Builder& b = s.b;
  const IndexExpr begin = taps.position(Coords(window.dims()), d);
  const int at = s.low.index(begin);
  if (window.padding[d] == 0) return at;
  const std::int64_t step = window.dilation[d], past = (window.padding[d] + step - 1) / step * step;
  const int inside = s.low.index(ir::mod(s.low.plus(begin, past), step, s.low.space()));
  return b.select(b.test(Op::lt, at, b.integer(DType::i64, 0)), inside, at);
}

/// The fold of windows that lie beside each other, over variables of their own, where such are allowed: what is
/// computed inside is then computed once. Nothing where taps have to be written out.
Result<std::optional<int>> folded_apart(const Site& s, int id, const Window& window, ReduceKind kind) {
  const auto& shape = s.low.info(id).shape;
  const auto& out = s.low.info(s.out_id).shape;
  const std::size_t front = shape.size() - window.dims();
  bool apart = s.low.pooling() && !s.low.windows() && !s.low.inner() && !s.low.guarded(), one = true;
  for (std::size_t d = 0; d < window.dims(); ++d) {
    const std::int64_t size = window.size[d];
    apart = apart && window.stride[d] == size && window.padding[d] == 0 && (window.dilation[d] == 1 || size == 1) &&
            size * out[front + d] <= shape[front + d];
    one = one && out[front + d] == 1;
  }
  const std::int64_t taps = product(window.size);
  if (!apart || taps < 2 || (taps > most_taps && !one)) return std::nullopt;
  PLANISH_TRY(const Coords at, s.low.window(window.size));
  Coords place(s.coords.begin(), s.coords.begin() + static_cast<std::ptrdiff_t>(front));
  for (std::size_t d = 0; d < window.dims(); ++d) place.push_back(window_place(s, window, at[d], d));
  const DType dtype = wide(s.low.info(id).dtype);
  PLANISH_TRY(const int node, s.low.value_as(id, std::move(place), dtype));
  return s.b.reduce(kind, node, dtype, -1, Reach::across);
}

Result<int> maximum(const Site& s, int id, const Window& window) {
  const ir::Value& input = s.low.info(id);
  const std::size_t dims = window.dims();
  if (input.shape.size() != s.coords.size() || dims > s.coords.size()) return malformed(s);
  if (!is_floating(input.dtype)) return unsupported("pooling of integers");
  const bool position = s.out_position == 1;
  if (!position) {
    PLANISH_TRY(const auto folded, folded_apart(s, id, window, ReduceKind::max));
    if (folded) return s.b.cast(*folded, s.out_dtype);
  }
  PLANISH_TRY(const Taps taps, Taps::make(s, id, window, s.low.info(s.out_id).shape));
  if (position && taps.sweeps()) return unsupported("positions in large windows");
  Builder& b = s.b;
  int best = -1, where = -1;
  const auto flat = [&](auto&& of_dim) {
    int sum = -1;
    for (std::size_t d = 0; d < dims; ++d) {
      const int one = of_dim(d);
      const std::int64_t extent = input.shape[input.shape.size() - dims + d];
      sum = sum < 0 ? one : b.add(b.op(Op::mul, sum, b.integer(DType::i64, extent)), one);
    }
    return sum;
  };
  if (position) {
    best = b.constant(wide(input.dtype), -INFINITY);
    where = flat([&](std::size_t d) { return first_inside(s, taps, window, d); });
  }
  PLANISH_CHECK(taps.each([&](const Coords& at) -> Status {
    PLANISH_TRY(const int x, taps.element(at, taps.front(), wide(input.dtype), -INFINITY));
    if (position) {
      // Of equal values the first one counts, of NaNs the last.
      const int better = b.op(Op::logical_or, b.test(Op::gt, x, best), b.test(Op::isnan, x));
      best = b.select(better, x, best);
      where = b.select(better, flat([&](std::size_t d) { return s.low.index(taps.position(at, d)); }), where);
    } else {
      best = best < 0 ? x : b.op(Op::maximum, best, x);
    }
    return {};
  }));
  return b.cast(position ? where : taps.fold(ReduceKind::max, best), s.out_dtype);
}

Result<int> max_pool(const Site& s) {
  PLANISH_TRY(const Window window, pooling_window(s, dims_of(base_name(s.node.op))));
  return maximum(s, s.args.value("self"), window);
}

/// Elements of the window that an average divides by in dim d: what the window covers of the tensor (`padded`: and of
/// the padding).
int covered(const Site& s, const Taps& taps, const Window& window, std::size_t d, std::int64_t extent, bool padded) {
  Builder& b = s.b;
  const IndexExpr begin = taps.position(Coords(window.dims()), d), end = s.low.plus(begin, window.size[d]);
  const std::int64_t most = padded ? extent + window.padding[d] : extent;
  const auto node = [&](const IndexExpr& e) { return b.cast(s.low.index(e), DType::i32); };
  int from = node(begin), upto = node(end);
  if (!padded && begin.range(s.low.space()).first < 0) from = b.op(Op::maximum, from, b.integer(DType::i32, 0));
  if (end.range(s.low.space()).second > most) upto = b.op(Op::minimum, upto, b.integer(DType::i32, most));
  return b.sub(upto, from);
}

Result<int> average(const Site& s, int id, const Window& window, bool padded, std::optional<std::int64_t> divisor) {
  const ir::Value& input = s.low.info(id);
  const std::size_t dims = window.dims();
  if (input.shape.size() != s.coords.size() || dims > s.coords.size()) return malformed(s);
  if (!is_floating(input.dtype)) return unsupported("pooling of integers");
  PLANISH_TRY(const auto folded, folded_apart(s, id, window, ReduceKind::sum));
  if (folded)
    return s.b.cast(s.b.div(*folded, static_cast<double>(divisor.value_or(product(window.size)))), s.out_dtype);
  PLANISH_TRY(const Taps taps, Taps::make(s, id, window, s.low.info(s.out_id).shape));
  Builder& b = s.b;
  int sum = -1;
  PLANISH_CHECK(taps.each([&](const Coords& at) -> Status {
    PLANISH_TRY(const int x, taps.element(at, taps.front(), wide(input.dtype), 0));
    sum = sum < 0 ? x : b.add(sum, x);
    return {};
  }));
  // torch begins at zero: an average of nothing but -0 is 0.
  sum = b.add(taps.fold(ReduceKind::sum, sum), 0.0);
  if (divisor) return b.cast(b.div(sum, static_cast<double>(*divisor)), s.out_dtype);
  std::int64_t fixed = 1;
  int count = -1;
  for (std::size_t d = 0; d < dims; ++d) {
    const std::int64_t extent = input.shape[input.shape.size() - dims + d];
    const auto begins = taps.position(Coords(dims), d).range(s.low.space());
    const std::int64_t most = padded ? extent + window.padding[d] : extent;
    if ((padded || begins.first >= 0) && begins.second + window.size[d] <= most) {
      fixed *= window.size[d];
      continue;
    }
    const int one = covered(s, taps, window, d, extent, padded);
    count = count < 0 ? one : b.op(Op::mul, count, one);
  }
  if (count < 0) return b.cast(b.div(sum, static_cast<double>(fixed)), s.out_dtype);
  const int divided = b.cast(b.op(Op::mul, count, b.integer(DType::i32, fixed)), b.dtype(sum));
  return b.cast(b.div(sum, divided), s.out_dtype);
}

Result<int> avg_pool(const Site& s) {
  const std::size_t dims = dims_of(base_name(s.node.op));
  PLANISH_TRY(const Window window, pooling_window(s, dims));
  const bool padded = s.args.get("count_include_pad") == nullptr || s.args.flag("count_include_pad");
  return average(s, s.args.value("self"), window, padded, s.args.integer("divisor_override"));
}

/// Windows of one size only: torch's change from place to place where the extents do not divide.
Result<Window> adaptive_window(const Site& s) {
  const auto& shape = s.low.info(s.args.value("self")).shape;
  const auto& out = s.low.info(s.out_id).shape;
  const std::size_t dims = dims_of(base_name(s.node.op));
  if (shape.size() != out.size() || dims > out.size()) return malformed(s);
  Window window;
  for (std::size_t d = shape.size() - dims; d < shape.size(); ++d) {
    if (shape[d] % out[d] != 0) return unsupported("adaptive pooling with windows of several sizes");
    window.size.push_back(shape[d] / out[d]);
  }
  window.stride = window.size;
  window.padding.assign(dims, 0);
  window.dilation.assign(dims, 1);
  return window;
}

Result<int> adaptive_avg_pool(const Site& s) {
  PLANISH_TRY(const Window window, adaptive_window(s));
  return average(s, s.args.value("self"), window, true, std::nullopt);
}

Result<int> adaptive_max_pool(const Site& s) {
  PLANISH_TRY(const Window window, adaptive_window(s));
  return maximum(s, s.args.value("self"), window);
}

/// Padding as numbers; "same" pads what keeps the extents, the odd one behind (a window without stride then).
std::optional<std::vector<std::int64_t>> convolution_padding(const Site& s, const Window& window) {
  const std::string mode = s.args.text("padding");
  const std::vector<std::int64_t> none(window.dims(), 0);
  if (mode.empty()) return spread(s.args, "padding", window.dims(), none);
  if (mode == "valid") return none;
  if (mode != "same") return std::nullopt;
  std::vector<std::int64_t> padding;
  for (std::size_t d = 0; d < window.dims(); ++d) padding.push_back(window.dilation[d] * (window.size[d] - 1) / 2);
  return padding;
}

/// Σ over the channels of a group and the window of input times weight: a product of matrices, one of whose factors
/// slides.
Result<int> over_channels(const Site& s, const Window& window, int id, int weight) {
  const auto& shape = s.low.info(id).shape;
  const auto& taps_shape = s.low.info(weight).shape;
  const std::size_t dims = window.dims(), channel = shape.size() - dims - 1;
  const std::int64_t groups = shape[channel] / taps_shape[1];
  if (groups * taps_shape[1] != shape[channel] || taps_shape[0] % groups != 0) return malformed(s);
  PLANISH_TRY(const Coords row, s.low.row(s.coords, s.low.info(s.out_id).shape, std::span(taps_shape).subspan(1)));
  s.low.contracted();
  const IndexExpr own = s.coords[channel];
  const IndexExpr group = ir::floor_div(own, taps_shape[0] / groups, s.low.space());
  Coords place(s.coords.begin(), s.coords.begin() + static_cast<std::ptrdiff_t>(channel));
  place.push_back(ir::add(ir::scale(group, taps_shape[1]), row[0], s.low.space()));
  std::vector<Bound> bounds;
  for (std::size_t d = 0; d < dims; ++d) {
    place.push_back(window_place(s, window, row[d + 1], d));
    bounds.push_back({place.back(), 0, shape[channel + 1 + d]});
  }
  const DType data = wide(s.out_dtype);
  PLANISH_TRY(int x, padded(s.low, id, place, std::move(bounds), data, 0));
  x = s.b.as_stored(x, s.low.info(id).dtype);
  Coords tap{own};
  tap.insert(tap.end(), row.begin(), row.end());
  PLANISH_TRY(const int w, s.low.factor(weight, tap, data));
  return s.b.reduce(ReduceKind::sum, s.b.mul_factors(x, w), data);
}

/// Each output channel reads one input channel: a stencil, limited by memory, whose taps are written out.
Result<int> over_taps(const Site& s, const Window& window, int id, int weight) {
  const auto& shape = s.low.info(id).shape;
  const auto& taps_shape = s.low.info(weight).shape;
  if (product(window.size) > most_taps) return unsupported("a convolution with many taps");
  PLANISH_TRY(const Taps taps, Taps::make(s, id, window, s.low.info(s.out_id).shape));
  const std::size_t channel = shape.size() - window.dims() - 1;
  const IndexExpr own = s.coords[channel];
  Coords front = taps.front();
  front[channel] = ir::floor_div(own, taps_shape[0] / shape[channel], s.low.space());
  Builder& b = s.b;
  const DType data = wide(s.out_dtype);
  int sum = -1;
  PLANISH_CHECK(taps.each([&](const Coords& at) -> Status {
    PLANISH_TRY(const int x, taps.element(at, front, data, 0));
    Coords place{own, IndexExpr()};
    place.insert(place.end(), at.begin(), at.end());
    PLANISH_TRY(const int w, s.low.value_as(weight, place, data));
    const int one = b.mul(x, w);
    sum = sum < 0 ? one : b.add(sum, one);
    return {};
  }));
  return sum;
}

/// A stencil where each output channel reads one input channel. Others are products of matrices, only where those may
/// be lowered.
Result<int> convolution(const Site& s) {
  const int id = s.args.value("input"), weight = s.args.value("weight"), bias = s.args.value("bias");
  if (id < 0 || weight < 0) return malformed(s);
  const auto& shape = s.low.info(id).shape;
  const auto& taps_shape = s.low.info(weight).shape;
  if (s.args.flag("transposed")) return transposed_convolution(s);
  if (taps_shape.size() < 3 || (taps_shape[1] != 1 && !s.low.contracting()))
    return unsupported("a convolution over several channels");
  const std::size_t dims = taps_shape.size() - 2;
  if (shape.size() != s.coords.size() || shape.size() <= dims) return malformed(s);
  const std::vector<std::int64_t> ones(dims, 1);
  Window window;
  window.size.assign(taps_shape.begin() + 2, taps_shape.end());
  const auto stride = spread(s.args, "stride", dims, ones), dilation = spread(s.args, "dilation", dims, ones);
  if (!stride || !dilation) return malformed(s);
  window.stride = *stride;
  window.dilation = *dilation;
  const auto padding = convolution_padding(s, window);
  if (!padding) return malformed(s);
  window.padding = *padding;
  Builder& b = s.b;
  PLANISH_TRY(int sum, taps_shape[1] == 1 ? over_taps(s, window, id, weight) : over_channels(s, window, id, weight));
  if (bias >= 0) {
    PLANISH_TRY(const int c, s.low.value_as(bias, {s.coords[shape.size() - dims - 1]}, b.dtype(sum)));
    sum = b.add(sum, c);
  }
  return b.cast(sum, s.out_dtype);
}

}  // namespace

const HandlerTable& window_handlers() {
  static const HandlerTable table{{"max_pool1d", max_pool},
                                  {"max_pool2d", max_pool},
                                  {"max_pool3d", max_pool},
                                  {"max_pool1d_with_indices", max_pool},
                                  {"max_pool2d_with_indices", max_pool},
                                  {"max_pool3d_with_indices", max_pool},
                                  {"avg_pool1d", avg_pool},
                                  {"avg_pool2d", avg_pool},
                                  {"avg_pool3d", avg_pool},
                                  {"adaptive_avg_pool1d", adaptive_avg_pool},
                                  {"adaptive_avg_pool2d", adaptive_avg_pool},
                                  {"adaptive_avg_pool3d", adaptive_avg_pool},
                                  {"adaptive_max_pool1d", adaptive_max_pool},
                                  {"adaptive_max_pool2d", adaptive_max_pool},
                                  {"adaptive_max_pool3d", adaptive_max_pool},
                                  {"conv1d", convolution},
                                  {"conv2d", convolution},
                                  {"conv3d", convolution},
                                  {"conv_transpose1d", transposed_convolution},
                                  {"conv_transpose2d", transposed_convolution},
                                  {"conv_transpose3d", transposed_convolution},
                                  {"convolution", convolution}};
  return table;
}

}  // namespace planish::codegen
