#include <algorithm>
#include <cmath>
#include <functional>

#include "codegen/lower/lowering.h"

// Operators that fold whole rows, and the normalisations built from them.
namespace planish::codegen {
namespace {

/// The dims of one reduction of a tensor, and how its result's coordinates name a row.
class Rows {
 public:
  Rows(Lowering& low, std::vector<std::int64_t> shape, const std::vector<int>& dims)
      : low_(low), shape_(std::move(shape)) {
    reduced_.assign(shape_.size(), false);
    for (const int d : dims) reduced_[static_cast<std::size_t>(d)] = true;
    for (std::size_t i = 0; i < shape_.size(); ++i)
      (reduced_[i] ? reduced_extents_ : kept_extents_).push_back(shape_[i]);
  }

  std::int64_t length() const { return product(reduced_extents_); }

  /// `coords` are those of the result, which has one dim for each kept dim, or also 1-dims for reduced ones, or is as
  /// the argument.
  Status at(const Coords& coords) {
    kept_.clear();
    if (coords.size() == kept_extents_.size() && coords.size() != shape_.size()) {
      kept_ = coords;
    } else if (coords.size() == shape_.size()) {
      for (std::size_t i = 0; i < shape_.size(); ++i) {
        if (!reduced_[i]) kept_.push_back(coords[i]);
      }
    } else {
      return unsupported("a reduction of unexpected rank");
    }
    // A size-1 kept dim may carry any expression: it is 0.
    for (std::size_t i = 0; i < kept_.size(); ++i) {
      if (kept_extents_[i] == 1) kept_[i] = ir::IndexExpr();
    }
    if (length() == 1) {
      row_.assign(reduced_extents_.size(), ir::IndexExpr());
    } else {
      PLANISH_TRY(row_, low_.row(kept_, kept_extents_, reduced_extents_));
    }
    full_.clear();
    std::size_t k = 0, r = 0;
    for (std::size_t i = 0; i < shape_.size(); ++i) full_.push_back(reduced_[i] ? row_[r++] : kept_[k++]);
    return {};
  }

  /// Coordinates of the argument while a row is swept, and those of its reduced and kept dims.
  const Coords& full() const { return full_; }
  const Coords& row() const { return row_; }
  const Coords& kept() const { return kept_; }

  int fold(ReduceKind kind, int node) const {
    Builder& b = low_.builder();
    if (kind == ReduceKind::any || kind == ReduceKind::all) {
      const int flag = b.cast(node, DType::boolean);
      return length() == 1 ? flag : b.reduce(kind, flag, DType::boolean);
    }
    const DType accumulate = accumulate_dtype(b.dtype(node));
    node = b.cast(node, accumulate);
    return length() == 1 ? node : b.reduce(kind, node, accumulate);
  }

  /// Position of the extreme value, counted over the reduced dims in their own order.
  int find(ReduceKind kind, int node) const {
    Builder& b = low_.builder();
    if (length() == 1) return b.integer(DType::i64, 0);
    if (!is_floating(b.dtype(node)) && b.dtype(node) != DType::i64) node = b.cast(node, DType::i32);
    return b.reduce(kind, node, DType::i64, b.index(low_.ravel(row_, reduced_extents_)));
  }

 private:
  Lowering& low_;
  std::vector<std::int64_t> shape_;
  std::vector<bool> reduced_;
  std::vector<std::int64_t> kept_extents_, reduced_extents_;
  Coords kept_, row_, full_;
};

DType wide(DType dtype) {
  return dtype == DType::f64 ? DType::f64 : DType::f32;
}

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

Result<int> nansum(const Site& s) {
  const int id = s.args.value("self");
  const auto& shape = s.low.info(id).shape;
  Rows rows(s.low, shape, dims_of(s, shape.size()));
  PLANISH_CHECK(rows.at(s.coords));
  PLANISH_TRY(int x, s.low.value_as(id, rows.full(), s.out_dtype));
  if (is_floating(s.b.dtype(x))) x = s.b.select(s.b.test(Op::isnan, x), s.b.like(x, 0), x);
  return s.b.cast(rows.fold(ReduceKind::sum, x), s.out_dtype);
}

/// Mean and Σ(x-mean)² of the row at hand: two sweeps, as accurate as torch's Welford.
struct Moments {
  int mean, centred, squares;
};
Moments moments(const Rows& rows, Builder& b, int x) {
  Moments m{};
  m.mean = b.div(rows.fold(ReduceKind::sum, x), static_cast<double>(rows.length()));
  m.centred = b.sub(x, m.mean);
  m.squares = rows.fold(ReduceKind::sum, b.mul(m.centred, m.centred));
  return m;
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
  Rows rows(s.low, shape, {s.args.dim("dim", shape.size())});
  PLANISH_CHECK(rows.at(s.coords));
  PLANISH_TRY(const int swept, s.low.value_as(id, rows.full(), data));
  PLANISH_TRY(const int x, s.low.value_as(id, s.coords, data));
  Builder& b = s.b;
  const int max = rows.fold(ReduceKind::max, swept);
  const int total = rows.fold(ReduceKind::sum, b.op(Op::exp, b.sub(swept, max)));
  const int shifted = b.sub(x, max);
  const int y = logarithm ? b.sub(shifted, b.op(Op::log, total)) : b.div(b.op(Op::exp, shifted), total);
  return b.cast(y, s.out_dtype);
}
Result<int> softmax(const Site& s) {
  return softmax_form(s, false);
}
Result<int> log_softmax(const Site& s) {
  return softmax_form(s, true);
}

/// weight and bias at `coords` where given: y·w + b.
Result<int> affine(const Site& s, int y, const Coords& coords) {
  Builder& b = s.b;
  for (const char* name : {"weight", "bias"}) {
    const int id = s.args.value(name);
    if (id < 0) continue;
    PLANISH_TRY(const int p, s.low.value_as(id, coords, b.dtype(y)));
    y = name[0] == 'w' ? b.mul(y, p) : b.add(y, p);
  }
  return b.cast(y, s.out_dtype);
}

std::vector<int> trailing(std::size_t rank, std::size_t count) {
  std::vector<int> dims;
  for (std::size_t i = rank - count; i < rank; ++i) dims.push_back(static_cast<int>(i));
  return dims;
}

Result<int> layer_norm(const Site& s) {
  const int id = s.args.value("input");
  const auto& shape = s.low.info(id).shape;
  const auto normalized = s.args.integers("normalized_shape");
  if (!normalized || normalized->size() > shape.size()) return unsupported("layer_norm without a shape");
  Rows rows(s.low, shape, trailing(shape.size(), normalized->size()));
  PLANISH_CHECK(rows.at(s.coords));
  const DType data = wide(s.low.info(id).dtype);
  PLANISH_TRY(const int swept, s.low.value_as(id, rows.full(), data));
  Builder& b = s.b;
  const Moments m = moments(rows, b, swept);
  const int var = b.div(m.squares, static_cast<double>(rows.length()));
  const int rstd = b.op(Op::rsqrt, b.add(var, s.args.number("eps").value_or(1e-5)));
  if (s.out_position == 1) return b.cast(m.mean, s.out_dtype);
  if (s.out_position == 2) return b.cast(rstd, s.out_dtype);
  PLANISH_TRY(const int x, s.low.value_as(id, s.coords, data));
  return affine(s, b.mul(b.sub(x, m.mean), rstd),
                Coords(s.coords.end() - static_cast<std::ptrdiff_t>(normalized->size()), s.coords.end()));
}

double epsilon(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return 0x1p-52;
    case DType::f16:
      return 0x1p-10;
    case DType::bf16:
      return 0x1p-7;
    default:
      return 0x1p-23;
  }
}

Result<int> rms_norm(const Site& s) {
  const int id = s.args.value("input");
  const auto& shape = s.low.info(id).shape;
  const auto normalized = s.args.integers("normalized_shape");
  if (!normalized || normalized->size() > shape.size()) return unsupported("rms_norm without a shape");
  Rows rows(s.low, shape, trailing(shape.size(), normalized->size()));
  PLANISH_CHECK(rows.at(s.coords));
  const DType data = wide(s.low.info(id).dtype);
  PLANISH_TRY(const int swept, s.low.value_as(id, rows.full(), data));
  Builder& b = s.b;
  const int mean = b.div(rows.fold(ReduceKind::sum, b.mul(swept, swept)), static_cast<double>(rows.length()));
  const double eps = s.args.number("eps").value_or(epsilon(data));
  const int rstd = b.op(Op::rsqrt, b.add(mean, eps));
  if (s.out_position == 1) return b.cast(rstd, s.out_dtype);
  PLANISH_TRY(const int x, s.low.value_as(id, s.coords, data));
  return affine(s, b.mul(x, rstd),
                Coords(s.coords.end() - static_cast<std::ptrdiff_t>(normalized->size()), s.coords.end()));
}

/// Groups of channels normalised over the group and all positions; a group of one channel is instance norm.
Result<int> group_norm(const Site& s) {
  if (s.out_position != 0) return unsupported("the statistics of a group norm");
  const int id = s.args.value("input");
  const auto& shape = s.low.info(id).shape;
  if (shape.size() < 2) return unsupported("a group norm of rank 1");
  const bool instance = base_name(s.node.op) == "instance_norm";
  if (instance && !s.args.flag("use_input_stats")) return unsupported("an instance norm with running statistics");
  if (instance && (s.args.value("running_mean") >= 0 || s.args.value("running_var") >= 0)) {
    return unsupported("an instance norm with running statistics");
  }
  std::int64_t groups = shape[1];
  if (!instance) groups = s.args.integer("num_groups").value_or(s.args.integer("group").value_or(0));
  if (groups < 1 || shape[1] % groups != 0) return unsupported("a group norm whose groups do not divide the channels");
  const std::int64_t channels = shape[1] / groups;
  // The argument seen as [N, G, C/G, …]; its coordinates come back by c = g·(C/G) + c'.
  std::vector<std::int64_t> grouped{shape[0], groups, channels};
  grouped.insert(grouped.end(), shape.begin() + 2, shape.end());
  Coords seen{s.coords[0], ir::floor_div(s.coords[1], channels, s.low.space()),
              ir::mod(s.coords[1], channels, s.low.space())};
  seen.insert(seen.end(), s.coords.begin() + 2, s.coords.end());
  Rows rows(s.low, grouped, trailing(grouped.size(), grouped.size() - 2));
  PLANISH_CHECK(rows.at(seen));
  const Coords& full = rows.full();
  Coords back{full[0], ir::add(ir::scale(full[1], channels), full[2], s.low.space())};
  back.insert(back.end(), full.begin() + 3, full.end());
  const DType data = wide(s.low.info(id).dtype);
  PLANISH_TRY(const int swept, s.low.value_as(id, std::move(back), data));
  Builder& b = s.b;
  const Moments m = moments(rows, b, swept);
  const int var = b.div(m.squares, static_cast<double>(rows.length()));
  const int rstd = b.op(Op::rsqrt, b.add(var, s.args.number("eps").value_or(1e-5)));
  PLANISH_TRY(const int x, s.low.value_as(id, s.coords, data));
  return affine(s, b.mul(b.sub(x, m.mean), rstd), {s.coords[1]});
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
                                  {"layer_norm", layer_norm},
                                  {"native_layer_norm", layer_norm},
                                  {"rms_norm", rms_norm},
                                  {"_fused_rms_norm", rms_norm},
                                  {"group_norm", group_norm},
                                  {"native_group_norm", group_norm},
                                  {"instance_norm", group_norm},
                                  {"mse_loss", mse_loss},
                                  {"l1_loss", l1_loss},
                                  {"smooth_l1_loss", smooth_l1_loss},
                                  {"huber_loss", huber_loss},
                                  {"cosine_similarity", cosine_similarity}};
  return table;
}

}  // namespace planish::codegen
