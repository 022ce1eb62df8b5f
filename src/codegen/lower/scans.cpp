#include <algorithm>
#include <cmath>
#include <limits>

#include "codegen/fold.h"
#include "codegen/lower/lowering.h"

// Operators whose result at a place is a fold of everything before it along one dim.
namespace planish::codegen {
namespace {

/// What a kind of scan starts from, as a node of the scan's dtype.
int neutral(Builder& b, ScanKind kind, DType dtype) {
  const bool narrow = dtype == DType::i32;
  switch (info(info(kind).fold).identity) {
    case Identity::zero:
      return b.integer(dtype, 0);
    case Identity::one:
      return b.integer(dtype, 1);
    case Identity::lowest:
      if (is_floating(dtype)) return b.constant(dtype, -INFINITY);
      return b.integer(dtype, narrow ? std::int64_t{std::numeric_limits<std::int32_t>::min()}
                                     : std::numeric_limits<std::int64_t>::min());
    case Identity::highest:
      if (is_floating(dtype)) return b.constant(dtype, INFINITY);
      return b.integer(dtype, narrow ? std::int64_t{std::numeric_limits<std::int32_t>::max()}
                                     : std::numeric_limits<std::int64_t>::max());
  }
  return -1;
}

/// The dtype that a scan of such data folds in. Eager's products of floats have the range of f64 too.
DType fold_dtype(ScanKind kind, DType data) {
  const bool extreme = !info(kind).cuda_position.empty();
  if (is_floating(data)) return data == DType::f64 || info(kind).ranges ? DType::f64 : DType::f32;
  return extreme && data != DType::i64 ? DType::i32 : DType::i64;
}

Result<int> running(const Site& s, ScanKind kind, DType data, bool position) {
  const int id = s.args.value("self");
  const auto& shape = s.low.info(id).shape;
  const DType fold = fold_dtype(kind, data);
  const std::size_t dim = shape.empty() ? 0 : static_cast<std::size_t>(s.args.dim("dim", shape.size()));
  if (shape.empty() || shape[dim] == 1) {
    if (position) return s.b.integer(DType::i64, 0);
    return s.low.value_as(id, s.coords, s.out_dtype);
  }
  Coords kept = s.coords, coords = s.coords;
  kept.erase(kept.begin() + static_cast<std::ptrdiff_t>(dim));
  PLANISH_TRY(const Sweep sweep, s.low.sweep(s.coords[dim], kept));
  // What lies one behind the sweep is the fold of everything before the element at hand; further behind, of elements
  // further behind.
  const bool before = sweep.shift < 0;
  if (before) coords[dim] = s.low.plus(coords[dim], 1);
  std::vector<ir::Bound> bounds;
  for (std::size_t d = 0; d < shape.size(); ++d) bounds.push_back({coords[d], 0, shape[d]});
  PLANISH_TRY(int x, s.low.instead(bounds, [&] { return s.low.value_as(id, coords, data); }));
  x = s.b.cast(x, fold);
  if (!s.low.always(bounds[dim])) x = s.b.select(s.low.condition(bounds[dim]), x, neutral(s.b, kind, fold));
  const int at = position ? s.b.index(coords[dim]) : -1;
  const int result = s.b.scan({kind, x, fold, at}, before, position);
  return s.b.cast(result, s.out_dtype);
}

Result<int> cumsum(const Site& s) {
  return running(s, ScanKind::sum, s.out_dtype, false);
}
Result<int> cumprod(const Site& s) {
  return running(s, ScanKind::product, s.out_dtype, false);
}
Result<int> logcumsumexp(const Site& s) {
  return running(s, ScanKind::log_sum_exp, s.out_dtype, false);
}
template <ScanKind kind>
Result<int> extreme(const Site& s) {
  return running(s, kind, s.low.info(s.args.value("self")).dtype, s.out_position == 1);
}

}  // namespace

const HandlerTable& scan_handlers() {
  static const HandlerTable table{{"cumsum", cumsum},
                                  {"cumprod", cumprod},
                                  {"cummax", extreme<ScanKind::max>},
                                  {"cummin", extreme<ScanKind::min>},
                                  {"logcumsumexp", logcumsumexp}};
  return table;
}

}  // namespace planish::codegen
