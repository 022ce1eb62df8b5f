#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "codegen/lower/row_fold.h"

// Operators that fold whole rows.
namespace planish::codegen {
namespace {

std::vector<int> dims_of(const Site& s, std::size_t rank) {
  return s.args.dims("dim", rank);
}

Result<int> fold_of(const Site& s, ReduceKind kind, DType data, double divisor_is_length) {
  const int id = s.args.value("self");
  const auto& shape = s.low.info(id).shape;
  Rows rows(s.low, shape, dims_of(s, shape.size()));
  PLANISH_CHECK(rows.at(s.coords));
  PLANISH_TRY(const int x, s.low.value_as(id, rows.full(), data));
  int y = rows.fold(kind, x);
  if (divisor_is_length != 0) y = s.b.div(y, static_cast<double>(rows.length()));
  return s.b.cast(y, s.out_dtype);
}

Result<int> sum(const Site& s) {
  return fold_of(s, ReduceKind::sum, s.out_dtype, 0);
}
Result<int> mean(const Site& s) {
  return fold_of(s, ReduceKind::sum, wide(s.out_dtype), 1);
}
Result<int> prod(const Site& s) {
  return fold_of(s, ReduceKind::product, s.out_dtype, 0);
}
Result<int> any(const Site& s) {
  return fold_of(s, ReduceKind::any, DType::boolean, 0);
}
Result<int> all(const Site& s) {
  return fold_of(s, ReduceKind::all, DType::boolean, 0);
}

template <ReduceKind kind>
Result<int> position(const Site& s) {
  const int id = s.args.value("self");
  const auto& value = s.low.info(id);
  Rows rows(s.low, value.shape, dims_of(s, value.shape.size()));
  PLANISH_CHECK(rows.at(s.coords));
  PLANISH_TRY(const int x, s.low.value_as(id, rows.full(), value.dtype));
  return s.b.cast(rows.find(kind, x), s.out_dtype);
}

template <ReduceKind kind>
Result<int> extreme(const Site& s) {
  if (s.out_position != 0) return position < kind == ReduceKind::max ? ReduceKind::argmax : ReduceKind::argmin > (s);
  // max.other is the pointwise maximum.
  if (s.args.value("other") >= 0) {
    PLANISH_TRY(const int x, s.low.operand(s.args.get("self"), s.coords, s.out_dtype));
    PLANISH_TRY(const int y, s.low.operand(s.args.get("other"), s.coords, s.out_dtype));
    return s.b.op(kind == ReduceKind::max ? Op::maximum : Op::minimum, x, y);
  }
  const bool flags = s.out_dtype == DType::boolean;
  return fold_of(s, flags ? (kind == ReduceKind::max ? ReduceKind::any : ReduceKind::all) : kind, s.out_dtype, 0);
}

Result<int> aminmax(const Site& s) {
  return fold_of(s, s.out_position == 0 ? ReduceKind::min : ReduceKind::max, s.out_dtype, 0);
}

Result<int> count_nonzero(const Site& s) {
  const int id = s.args.value("self");
  const auto& shape = s.low.info(id).shape;
  Rows rows(s.low, shape, dims_of(s, shape.size()));
  PLANISH_CHECK(rows.at(s.coords));
  PLANISH_TRY(const int x, s.low.value_as(id, rows.full(), DType::boolean));
  return s.b.cast(rows.fold(ReduceKind::sum, s.b.cast(x, DType::i64)), s.out_dtype);
}

/// The bin of an element, of equal ones from `least` to `most`, as PyTorch computes it: the last one has its right end.
Result<int> bin_of(Builder& b, int x, double least, double most, std::int64_t bins) {
  int place = -1;
  if (is_floating(b.dtype(x))) {
    // The ends are numbers of the elements' dtype before they are subtracted.
    const double width = b.dtype(x) == DType::f64
                             ? most - least
                             : static_cast<double>(static_cast<float>(most) - static_cast<float>(least));
    place = b.cast(b.div(b.mul(b.sub(x, least), static_cast<double>(bins)), width), DType::i64);
  } else {
    const auto from = static_cast<std::int64_t>(least), width = static_cast<std::int64_t>(most) - from;
    // PyTorch multiplies in 32 bits where the elements have no more.
    if (static_cast<double>(from) != least || static_cast<double>(from + width) != most ||
        (most - least) * static_cast<double>(bins) > std::numeric_limits<std::int32_t>::max())
      return unsupported("bins of whole numbers with other ends");
    const auto number = [&](std::int64_t n) { return b.integer(DType::i64, n); };
    place = b.op(Op::floor_div, b.op(Op::mul, b.sub(x, number(from)), number(bins)), number(width));
  }
  return b.op(Op::minimum, place, b.integer(DType::i64, bins - 1));
}

/// How many elements each bin has: a fold of all of them for each. A mixture counts the rows of its experts so.
Result<int> histc(const Site& s) {
  const int id = s.args.value("self");
  const ir::Value& value = s.low.info(id);
  const double least = s.args.number("min").value_or(0), most = s.args.number("max").value_or(0);
  const std::int64_t bins = s.args.integer("bins").value_or(100), length = product(value.shape);
  constexpr std::int64_t most_compared = std::int64_t{1} << 26;
  if (!(least < most)) return unsupported("bins between the least and the largest element");
  if (size_of(value.dtype) == 2 || value.dtype == DType::boolean) return unsupported("bins of such numbers");
  if (length < 2 || bins * length > most_compared) return unsupported("bins of as many elements");
  const Coords kept{bins == 1 ? ir::IndexExpr() : s.coords[0]};
  PLANISH_TRY(Coords row, s.low.row(kept, std::span(&bins, 1), value.shape));
  const DType computed = is_floating(value.dtype) ? value.dtype : DType::i64;
  PLANISH_TRY(const int x, s.low.value_as(id, std::move(row), computed));
  PLANISH_TRY(const int bin, bin_of(s.b, x, least, most, bins));
  const auto end = [&](double at) {
    return is_floating(computed) ? s.b.like(x, at) : s.b.integer(computed, static_cast<std::int64_t>(at));
  };
  const int inside = s.b.op(Op::logical_and, s.b.test(Op::ge, x, end(least)), s.b.test(Op::le, x, end(most)));
  const int counts = s.b.op(Op::logical_and, inside, s.b.test(Op::eq, bin, s.low.index(kept[0])));
  return s.b.cast(s.b.reduce(ReduceKind::sum, s.b.cast(counts, DType::i64), DType::i64), s.out_dtype);
}

Result<int> nansum(const Site& s) {
  const int id = s.args.value("self");
  const auto& shape = s.low.info(id).shape;
  Rows rows(s.low, shape, dims_of(s, shape.size()));
  PLANISH_CHECK(rows.at(s.coords));
  PLANISH_TRY(int x, s.low.value_as(id, rows.full(), s.out_dtype));
  if (is_floating(s.b.dtype(x))) x = s.b.select(s.b.test(Op::isnan, x), s.b.like(x, 0), x);
  return s.b.cast(rows.fold(ReduceKind::sum, x), s.out_dtype);
}

Result<int> variance(const Site& s) {
  const int id = s.args.value("self");
  const auto& shape = s.low.info(id).shape;
  const auto name = base_name(s.node.op);
  const bool with_mean = name == "var_mean" || name == "std_mean";
  double correction = 1;
  if (const auto given = s.args.number("correction")) correction = *given;
  if (s.args.get("unbiased") != nullptr) correction = s.args.flag("unbiased") ? 1 : 0;
  Rows rows(s.low, shape, dims_of(s, shape.size()));
  PLANISH_CHECK(rows.at(s.coords));
  PLANISH_TRY(const int x, s.low.value_as(id, rows.full(), wide(s.out_dtype)));
  const Moments m = moments(rows, s.b, x);
  if (with_mean && s.out_position == 1) return s.b.cast(m.mean, s.out_dtype);
  const double count = std::max(0.0, static_cast<double>(rows.length()) - correction);
  int var = s.b.div(m.squares, s.b.like(m.squares, count));
  if (name == "std" || name == "std_mean") var = s.b.op(Op::sqrt, var);
  return s.b.cast(var, s.out_dtype);
}

/// (Σ |x|^p)^(1/p) of the row at hand.
int length_of(const Rows& rows, Builder& b, int x, double p) {
  const int magnitude = b.op(Op::abs, x);
  if (p == 2) return b.op(Op::sqrt, rows.fold(ReduceKind::sum, b.mul(x, x)));
  if (p == 1) return rows.fold(ReduceKind::sum, magnitude);
  if (std::isinf(p)) return rows.fold(p > 0 ? ReduceKind::max : ReduceKind::min, magnitude);
  if (p == 0) return rows.fold(ReduceKind::sum, b.cast(b.test(Op::ne, x, b.like(x, 0)), b.dtype(x)));
  return b.op(Op::pow, rows.fold(ReduceKind::sum, b.op(Op::pow, magnitude, b.like(x, p))), b.like(x, 1 / p));
}

Result<int> norm(const Site& s) {
  const int id = s.args.value("self");
  const auto& shape = s.low.info(id).shape;
  const ir::Arg* order = s.args.get("ord") != nullptr ? s.args.get("ord") : s.args.get("p");
  if (order != nullptr && std::holds_alternative<std::string>(order->data)) return unsupported("a matrix norm");
  const double p = s.args.number(s.args.get("ord") != nullptr ? "ord" : "p").value_or(2);
  Rows rows(s.low, shape, dims_of(s, shape.size()));
  PLANISH_CHECK(rows.at(s.coords));
  PLANISH_TRY(const int x, s.low.value_as(id, rows.full(), wide(s.out_dtype)));
  return s.b.cast(length_of(rows, s.b, x, p), s.out_dtype);
}

Result<int> pairwise_distance(const Site& s) {
  const int a = s.args.value("x1"), c = s.args.value("x2");
  if (a < 0 || c < 0 || s.low.info(a).shape != s.low.info(c).shape) return unsupported("a broadcast distance");
  const auto& shape = s.low.info(a).shape;
  if (shape.empty()) return unsupported("a distance of scalars");
  Rows rows(s.low, shape, {static_cast<int>(shape.size()) - 1});
  PLANISH_CHECK(rows.at(s.coords));
  const DType data = wide(s.out_dtype);
  PLANISH_TRY(const int x, s.low.value_as(a, rows.full(), data));
  PLANISH_TRY(const int y, s.low.value_as(c, rows.full(), data));
  const int gap = s.b.add(s.b.sub(x, y), s.args.number("eps").value_or(1e-6));
  return s.b.cast(length_of(rows, s.b, gap, s.args.number("p").value_or(2)), s.out_dtype);
}

Result<int> logsumexp(const Site& s) {
  const int id = s.args.value("self");
  const auto& shape = s.low.info(id).shape;
  Rows rows(s.low, shape, dims_of(s, shape.size()));
  PLANISH_CHECK(rows.at(s.coords));
  PLANISH_TRY(const int x, s.low.value_as(id, rows.full(), wide(s.out_dtype)));
  Builder& b = s.b;
  const int max = rows.fold(ReduceKind::max, x);
  // An infinite maximum would give inf - inf.
  const int infinite = b.test(Op::eq, b.op(Op::abs, max), b.like(max, INFINITY));
  const int shift = b.select(infinite, b.like(max, 0), max);
  const int total = rows.fold(ReduceKind::sum, b.op(Op::exp, b.sub(x, shift)));
  return b.cast(b.add(b.op(Op::log, total), shift), s.out_dtype);
}

Result<int> softmax_form(const Site& s, bool logarithm) {
  const int id = s.args.value("self");
  const auto& shape = s.low.info(id).shape;
  const DType data = wide(s.out_dtype);
  if (shape.empty()) {  // 1, or 0 as a logarithm; but NaN for what is not finite, like any row of one element
    PLANISH_TRY(const int alone, s.low.value_as(id, s.coords, data));
    const int shifted = s.b.sub(alone, alone);
    return s.b.cast(logarithm ? shifted : s.b.op(Op::exp, shifted), s.out_dtype);
  }
  Builder& b = s.b;
  const int dim = s.args.dim("dim", shape.size());
  const auto result = [&](int x, int max, int total) {
    const int shifted = b.sub(x, max);
    const int y = logarithm ? b.sub(shifted, b.op(Op::log, total)) : b.div(b.op(Op::exp, shifted), total);
    return b.cast(y, s.out_dtype);
  };
  if (const auto given = given_statistics(s); !given.empty()) {
    Coords row = s.coords;
    row[static_cast<std::size_t>(dim)] = ir::IndexExpr();
    PLANISH_TRY(const int x, s.low.value_as(id, s.coords, data));
    PLANISH_TRY(const int max, s.low.value_as(given[0], row, data));
    PLANISH_TRY(const int total, s.low.value_as(given[1], row, data));
    return result(x, max, total);
  }
  Rows rows(s.low, shape, {dim});
  PLANISH_CHECK(rows.at(s.coords));
  PLANISH_TRY(const int swept, s.low.value_as(id, rows.full(), data));
  PLANISH_TRY(const int x, s.low.value_as(id, s.coords, data));
  const int max = rows.fold(ReduceKind::max, swept);
  return result(x, max, rows.fold(ReduceKind::sum, b.op(Op::exp, b.sub(swept, max))));
}
Result<int> softmax(const Site& s) {
  return softmax_form(s, false);
}
Result<int> log_softmax(const Site& s) {
  return softmax_form(s, true);
}

/// Σ f(self - target), or its mean, or f itself.
template <typename F>
Result<int> loss(const Site& s, F&& f) {
  const std::int64_t reduction = s.args.integer("reduction").value_or(1);
  const auto& shape = s.low.info(s.args.value("self")).shape;
  if (s.args.value("target") < 0 || s.low.info(s.args.value("target")).shape != shape)
    return unsupported("a broadcast loss");
  const DType data = wide(s.out_dtype);
  Coords coords = s.coords;
  std::optional<Rows> rows;
  if (reduction != 0) {
    rows.emplace(s.low, shape, trailing(shape.size(), shape.size()));
    PLANISH_CHECK(rows->at(s.coords));
    coords = rows->full();
  }
  PLANISH_TRY(const int x, s.low.value_as(s.args.value("self"), coords, data));
  PLANISH_TRY(const int y, s.low.value_as(s.args.value("target"), coords, data));
  int result = f(s.b, s.b.sub(x, y));
  if (rows) {
    result = rows->fold(ReduceKind::sum, result);
    if (reduction == 1) result = s.b.div(result, static_cast<double>(rows->length()));
  }
  return s.b.cast(result, s.out_dtype);
}

Result<int> mse_loss(const Site& s) {
  return loss(s, [](Builder& b, int d) { return b.mul(d, d); });
}
Result<int> l1_loss(const Site& s) {
  return loss(s, [](Builder& b, int d) { return b.op(Op::abs, d); });
}
Result<int> smooth_l1_loss(const Site& s) {
  const double beta = s.args.number("beta").value_or(1);
  return loss(s, [beta](Builder& b, int d) {
    const int z = b.op(Op::abs, d);
    if (beta == 0) return z;
    return b.select(b.test(Op::lt, z, b.like(z, beta)), b.div(b.mul(b.mul(z, z), 0.5), beta), b.sub(z, 0.5 * beta));
  });
}
Result<int> huber_loss(const Site& s) {
  const double delta = s.args.number("delta").value_or(1);
  return loss(s, [delta](Builder& b, int d) {
    const int z = b.op(Op::abs, d);
    return b.select(b.test(Op::le, z, b.like(z, delta)), b.mul(b.mul(z, z), 0.5), b.mul(b.sub(z, 0.5 * delta), delta));
  });
}

/// Logarithms are no less than -100, so that a sure mistake costs something finite.
Result<int> binary_cross_entropy(const Site& s) {
  const std::int64_t reduction = s.args.integer("reduction").value_or(1);
  const int self = s.args.value("self"), target = s.args.value("target"), weight = s.args.value("weight");
  const auto& shape = s.low.info(self).shape;
  for (const int id : {target, weight}) {
    if (id >= 0 && s.low.info(id).shape != shape) return unsupported("a broadcast loss");
  }
  const DType data = wide(s.out_dtype);
  Coords coords = s.coords;
  std::optional<Rows> rows;
  if (reduction != 0) {
    rows.emplace(s.low, shape, trailing(shape.size(), shape.size()));
    PLANISH_CHECK(rows->at(s.coords));
    coords = rows->full();
  }
  PLANISH_TRY(const int x, s.low.value_as(self, coords, data));
  PLANISH_TRY(const int y, s.low.value_as(target, coords, data));
  Builder& b = s.b;
  const auto bounded = [&](int logarithm) { return b.op(Op::maximum, logarithm, b.like(logarithm, -100)); };
  const int of_no = bounded(b.op(Op::log1p, b.op(Op::neg, x))), of_yes = bounded(b.op(Op::log, x));
  int result = b.sub(b.mul(b.sub(y, 1.0), of_no), b.mul(y, of_yes));
  if (weight >= 0) {
    PLANISH_TRY(const int w, s.low.value_as(weight, coords, data));
    result = b.mul(result, w);
  }
  if (rows) {
    result = rows->fold(ReduceKind::sum, result);
    if (reduction == 1) result = b.div(result, static_cast<double>(rows->length()));
  }
  return b.cast(result, s.out_dtype);
}

Result<int> cosine_similarity(const Site& s) {
  const int a = s.args.value("x1"), c = s.args.value("x2");
  if (a < 0 || c < 0 || s.low.info(a).shape != s.low.info(c).shape) return unsupported("a broadcast cosine_similarity");
  const auto& shape = s.low.info(a).shape;
  Rows rows(s.low, shape, {s.args.dim("dim", shape.size(), 1)});
  PLANISH_CHECK(rows.at(s.coords));
  const DType data = wide(s.out_dtype);
  PLANISH_TRY(const int x, s.low.value_as(a, rows.full(), data));
  PLANISH_TRY(const int y, s.low.value_as(c, rows.full(), data));
  Builder& b = s.b;
  const double eps = s.args.number("eps").value_or(1e-8);
  const auto length = [&](int v) {
    const int n = b.op(Op::sqrt, rows.fold(ReduceKind::sum, b.mul(v, v)));
    return b.op(Op::maximum, n, b.like(n, eps));
  };
  const int dot = rows.fold(ReduceKind::sum, b.mul(x, y));
  return b.cast(b.div(dot, b.mul(length(x), length(y))), s.out_dtype);
}

}  // namespace

const HandlerTable& row_handlers() {
  static const HandlerTable table{{"sum", sum},
                                  {"nansum", nansum},
                                  {"mean", mean},
                                  {"prod", prod},
                                  {"any", any},
                                  {"all", all},
                                  {"amax", extreme<ReduceKind::max>},
                                  {"amin", extreme<ReduceKind::min>},
                                  {"max", extreme<ReduceKind::max>},
                                  {"min", extreme<ReduceKind::min>},
                                  {"argmax", position<ReduceKind::argmax>},
                                  {"argmin", position<ReduceKind::argmin>},
                                  {"aminmax", aminmax},
                                  {"count_nonzero", count_nonzero},
                                  {"histc", histc},
                                  {"var", variance},
                                  {"std", variance},
                                  {"var_mean", variance},
                                  {"std_mean", variance},
                                  {"linalg_vector_norm", norm},
                                  {"norm", norm},
                                  {"pairwise_distance", pairwise_distance},
                                  {"logsumexp", logsumexp},
                                  {"_softmax", softmax},
                                  {"softmax", softmax},
                                  {"_log_softmax", log_softmax},
                                  {"log_softmax", log_softmax},
                                  {"mse_loss", mse_loss},
                                  {"l1_loss", l1_loss},
                                  {"smooth_l1_loss", smooth_l1_loss},
                                  {"huber_loss", huber_loss},
                                  {"binary_cross_entropy", binary_cross_entropy},
                                  {"cosine_similarity", cosine_similarity}};
  return table;
}

}  // namespace planish::codegen
