#include "codegen/lower/row_fold.h"

// Products of matrices, as sums over rows of products: only where LowerLimits::contractions allows them.
namespace planish::codegen {
namespace {

using ir::IndexExpr;

/// Σ over the last dim of `x` of x[…, m, k] · y[…, k, n], or y[…, n, k] with `transposed`; a vector lacks m or n. The
/// result's dims are the batch's (to which both are broadcast), m and n. Accumulated in f32 (f64 for f64); with `whole`
/// in i32, of integers.
Result<int> contract(const Site& s, int x, int y, bool transposed = false, bool whole = false) {
  if (!is_floating(s.out_dtype) && !whole) return unsupported("a product of integers");
  const auto& left = s.low.info(x).shape;
  const auto& right = s.low.info(y).shape;
  if (left.empty() || right.empty()) return unsupported("a product with a number");
  const std::size_t has_m = left.size() > 1 ? 1 : 0, has_n = right.size() > 1 ? 1 : 0;
  if (s.coords.size() < has_m + has_n) return unsupported("a product of unexpected rank");
  const std::size_t batch = s.coords.size() - has_m - has_n;
  const auto& shape = s.low.info(s.out_id).shape;
  const std::int64_t depth = left.back();
  Coords k(1);
  Reach reach = Reach::row;
  if (depth > 1) {
    PLANISH_TRY(k, s.low.row(s.coords, shape, std::span(&depth, 1), s.low.attending() ? &reach : nullptr));
    s.low.contracted();
  }
  const auto at = [&](std::size_t rank, std::size_t own, Coords last) -> Result<Coords> {
    const std::size_t shared = rank - 1 - own;  // dims of the batch that this operand has
    if (shared > batch) return unsupported("a product of unexpected rank");
    const auto end = s.coords.begin() + static_cast<std::ptrdiff_t>(batch);
    Coords coords(end - static_cast<std::ptrdiff_t>(shared), end);
    coords.insert(coords.end(), last.begin(), last.end());
    return coords;
  };
  Coords row = k, column = k;
  if (has_m != 0) row.insert(row.begin(), s.coords[batch]);
  if (has_n != 0) column.insert(transposed ? column.begin() : column.end(), s.coords.back());
  PLANISH_TRY(auto row_at, at(left.size(), has_m, std::move(row)));
  PLANISH_TRY(auto column_at, at(right.size(), has_n, std::move(column)));
  const DType dtype = whole ? DType::i32 : wide(s.out_dtype);
  // Attention keeps its weights in registers: nothing rounds them.
  const auto factor = [&](int id, Coords coords) {
    return s.low.attending() ? s.low.value_as(id, std::move(coords), dtype)
                             : s.low.factor(id, std::move(coords), dtype);
  };
  PLANISH_TRY(const int a, factor(x, std::move(row_at)));
  PLANISH_TRY(const int b, factor(y, std::move(column_at)));
  const int product = s.b.mul(a, b);
  return depth > 1 ? s.b.reduce(ReduceKind::sum, product, dtype, -1, reach) : product;
}

Result<int> matmul(const Site& s, std::string_view left, std::string_view right) {
  PLANISH_TRY(const int sum, contract(s, s.args.value(left), s.args.value(right)));
  return s.b.cast(sum, s.out_dtype);
}

Result<int> mm(const Site& s) {
  return matmul(s, "self", "mat2");
}
/// Of int8, exact in i32.
Result<int> int_mm(const Site& s) {
  if (s.out_dtype != DType::i32) return unsupported("a product of integers in another type");
  return contract(s, s.args.value("self"), s.args.value("mat2"), false, true);
}
Result<int> product_of_any(const Site& s) {
  return matmul(s, "self", "other");
}
Result<int> mv(const Site& s) {
  return matmul(s, "self", "vec");
}

/// input · weightᵀ + bias.
Result<int> linear(const Site& s) {
  PLANISH_TRY(int sum, contract(s, s.args.value("input"), s.args.value("weight"), true));
  if (const int bias = s.args.value("bias"); bias >= 0) {
    PLANISH_TRY(const int b, s.low.operand(s.args.get("bias"), s.coords, s.b.dtype(sum)));
    sum = s.b.add(sum, b);
  }
  return s.b.cast(sum, s.out_dtype);
}

/// beta · self + alpha · product. With beta 0 torch does not read self, whose NaN would stay.
Result<int> added(const Site& s, std::string_view left, std::string_view right) {
  PLANISH_TRY(int sum, contract(s, s.args.value(left), s.args.value(right)));
  const double alpha = s.args.number("alpha").value_or(1), beta = s.args.number("beta").value_or(1);
  if (alpha != 1) sum = s.b.mul(sum, alpha);
  if (beta != 0) {
    PLANISH_TRY(int self, s.low.operand(s.args.get("self"), s.coords, s.b.dtype(sum)));
    if (beta != 1) self = s.b.mul(self, beta);
    sum = s.b.add(sum, self);
  }
  return s.b.cast(sum, s.out_dtype);
}

Result<int> addmm(const Site& s) {
  return added(s, "mat1", "mat2");
}
Result<int> baddbmm(const Site& s) {
  return added(s, "batch1", "batch2");
}
Result<int> addmv(const Site& s) {
  return added(s, "mat", "vec");
}

}  // namespace

const HandlerTable& contraction_handlers() {
  static const HandlerTable table{
      {"mm", mm},           {"bmm", mm}, {"matmul", product_of_any}, {"linear", linear},  {"addmm", addmm},
      {"baddbmm", baddbmm}, {"mv", mv},  {"addmv", addmv},           {"_int_mm", int_mm},
  };
  return table;
}

}  // namespace planish::codegen
