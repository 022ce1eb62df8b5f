#include <numeric>

#include "codegen/lower/padded.h"
#include "codegen/lower/row_fold.h"
#include "codegen/lower/windows.h"

// Transposed convolutions, read from their results: the result at q is reached by those taps t whose element lies at
// stride · i + dilation · t = q + padding. With q + padding = stride · j + r, elements i = j - e are asked for offsets
// e such that stride · e + r is a tap's place: an ordinary convolution, without stride, whose taps depend on the phase
// r. No product is asked for that a zero between elements would take part in (docs/decisions/0068).
namespace planish::codegen {
namespace {

using ir::Bound;
using ir::IndexExpr;

/// One dim of it.
struct Spread {
  std::int64_t size = 1, stride = 1, dilation = 1, padding = 0;
  std::int64_t offsets = 1;  ///< how many e there are
  std::int64_t step = 1;     ///< between them
};

Spread spread_of(std::int64_t size, std::int64_t stride, std::int64_t dilation, std::int64_t padding) {
  Spread out{size, stride, dilation, padding, 1, 1};
  if (dilation % stride == 0) {  // every offset is a tap's, of the first phase
    out.step = dilation / stride;
    out.offsets = size;
  } else {
    out.offsets = dilation * (size - 1) / stride + 1;
  }
  return out;
}

/// Where the results of a Site take elements and taps from.
class Reached {
 public:
  Reached(const Site& s, std::vector<Spread> dims, int id, int weight)
      : s_(s), dims_(std::move(dims)), id_(id), weight_(weight) {
    const auto& shape = s.low.info(id).shape;
    const std::int64_t per = s.low.info(weight).shape[1];
    channel_ = shape.size() - dims_.size() - 1;
    group_ = ir::floor_div(s.coords[channel_], per, s.low.space());
    within_ = ir::mod(s.coords[channel_], per, s.low.space());
  }

  /// Element times tap at the offsets `at`, counted from the last one, of a group's channel.
  Result<int> product(const IndexExpr& channel, std::int64_t channels, std::span<const IndexExpr> at) const {
    const ir::Space& space = s_.low.space();
    const IndexExpr from = ir::add(ir::scale(group_, channels), channel, space);
    Coords place(s_.coords.begin(), s_.coords.begin() + static_cast<std::ptrdiff_t>(channel_)), tap{from, within_};
    place.push_back(from);
    std::vector<Bound> inside, tapped;
    for (std::size_t d = 0; d < dims_.size(); ++d) {
      const Spread& dim = dims_[d];
      const IndexExpr reached = s_.low.plus(s_.coords[channel_ + 1 + d], dim.padding);
      const IndexExpr phase = ir::mod(reached, dim.stride, space);
      const IndexExpr offset = s_.low.plus(ir::scale(at[d], -1), dim.offsets - 1);
      const IndexExpr whole = ir::floor_div(reached, dim.stride, space);
      place.push_back(ir::add(whole, ir::scale(offset, -dim.step), space));
      inside.push_back({place.back(), 0, s_.low.info(id_).shape[channel_ + 1 + d]});
      if (dim.dilation % dim.stride == 0) {
        tap.push_back(offset);
        tapped.push_back({phase, 0, 1});
        continue;
      }
      const IndexExpr moved = ir::add(ir::scale(offset, dim.stride), phase, space);
      tapped.push_back({ir::mod(moved, dim.dilation, space), 0, 1});
      tap.push_back(ir::floor_div(moved, dim.dilation, space));
      tapped.push_back({tap.back(), 0, dim.size});
    }
    // Where there is no tap the element counts for nothing, whatever it is.
    inside.insert(inside.end(), tapped.begin(), tapped.end());
    const DType data = wide(s_.out_dtype);
    PLANISH_TRY(const int x, padded(s_.low, id_, place, std::move(inside), data, 0));
    PLANISH_TRY(const int w, padded(s_.low, weight_, tap, std::move(tapped), data, 0));
    return s_.b.mul_factors(s_.b.as_stored(x, s_.low.info(id_).dtype), s_.b.as_stored(w, s_.low.info(weight_).dtype));
  }

 private:
  const Site& s_;
  std::vector<Spread> dims_;
  int id_, weight_;
  std::size_t channel_ = 0;
  IndexExpr group_, within_;
};

}  // namespace

Result<int> transposed_convolution(const Site& s) {
  const int id = s.args.value("input"), weight = s.args.value("weight"), bias = s.args.value("bias");
  if (id < 0 || weight < 0) return malformed(s);
  const auto& shape = s.low.info(id).shape;
  const auto& out = s.low.info(s.out_id).shape;
  const auto& taps_shape = s.low.info(weight).shape;  // (channels in, channels out of a group, …)
  if (taps_shape.size() < 3) return malformed(s);
  const std::size_t dims = taps_shape.size() - 2;
  if (shape.size() != s.coords.size() || out.size() != shape.size() || shape.size() <= dims) return malformed(s);
  const std::size_t channel = shape.size() - dims - 1;
  const std::int64_t groups = s.args.integer("groups").value_or(1);
  if (groups < 1 || shape[channel] != taps_shape[0] || shape[channel] % groups != 0 ||
      out[channel] != taps_shape[1] * groups)
    return malformed(s);
  const std::vector<std::int64_t> ones(dims, 1), none(dims, 0);
  const auto stride = spread(s.args, "stride", dims, ones), dilation = spread(s.args, "dilation", dims, ones),
             padding = spread(s.args, "padding", dims, none);
  if (!stride || !dilation || !padding) return malformed(s);
  std::vector<Spread> spreads;
  std::vector<std::int64_t> offsets;
  for (std::size_t d = 0; d < dims; ++d) {
    if ((*stride)[d] < 1 || (*dilation)[d] < 1) return malformed(s);
    spreads.push_back(spread_of(taps_shape[d + 2], (*stride)[d], (*dilation)[d], (*padding)[d]));
    offsets.push_back(spreads.back().offsets);
  }
  const std::int64_t channels = shape[channel] / groups;
  const Reached reached(s, std::move(spreads), id, weight);
  Builder& b = s.b;
  int sum = -1;
  if (channels == 1 && product(offsets) <= most_taps) {
    // A stencil, as an ordinary convolution of a channel with itself is.
    Coords at(dims);
    std::vector<std::int64_t> count(dims, 0);
    for (std::size_t d = 0; true;) {
      for (d = 0; d < dims; ++d) at[d] = IndexExpr::constant(count[d]);
      PLANISH_TRY(const int one, reached.product(IndexExpr(), 1, at));
      sum = sum < 0 ? one : b.add(sum, one);
      while (d > 0 && ++count[d - 1] == offsets[d - 1]) count[--d] = 0;
      if (d == 0) break;
    }
  } else {
    if (!s.low.contracting()) return unsupported("a transposed convolution over several channels");
    offsets.insert(offsets.begin(), channels);
    PLANISH_TRY(const Coords row, s.low.row(s.coords, out, offsets));
    s.low.contracted();
    PLANISH_TRY(const int one, reached.product(row[0], channels, std::span(row).subspan(1)));
    sum = b.reduce(ReduceKind::sum, one, wide(s.out_dtype));
  }
  if (bias >= 0) {
    PLANISH_TRY(const int c, s.low.value_as(bias, {s.coords[channel]}, b.dtype(sum)));
    sum = b.add(sum, c);
  }
  return b.cast(sum, s.out_dtype);
}

}  // namespace planish::codegen
