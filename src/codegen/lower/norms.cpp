#include <algorithm>

#include "codegen/lower/lower.h"
#include "codegen/lower/row_fold.h"

// Normalisations.
namespace planish::codegen {
namespace {

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

/// (x - mean)·rstd with these two at `coords` of theirs.
Result<int> normalised(const Site& s, const std::vector<int>& statistics, int x, const Coords& coords) {
  PLANISH_TRY(const int mean, s.low.value_as(statistics[0], coords, s.b.dtype(x)));
  PLANISH_TRY(const int rstd, s.low.value_as(statistics[1], coords, s.b.dtype(x)));
  return s.b.mul(s.b.sub(x, mean), rstd);
}

/// Coordinates of statistics whose last `count` dims are 1.
Coords ahead_of(const Coords& coords, std::size_t count) {
  Coords result = coords;
  std::fill(result.end() - static_cast<std::ptrdiff_t>(count), result.end(), ir::IndexExpr());
  return result;
}

Result<int> layer_norm(const Site& s) {
  const int id = s.args.value("input");
  const auto& shape = s.low.info(id).shape;
  const auto normalized = s.args.integers("normalized_shape");
  if (!normalized || normalized->size() > shape.size()) return unsupported("layer_norm without a shape");
  const DType data = wide(s.low.info(id).dtype);
  const Coords parameters(s.coords.end() - static_cast<std::ptrdiff_t>(std::min(normalized->size(), s.coords.size())),
                          s.coords.end());
  if (const auto given = given_statistics(s); !given.empty()) {
    PLANISH_TRY(const int x, s.low.value_as(id, s.coords, data));
    PLANISH_TRY(const int y, normalised(s, given, x, ahead_of(s.coords, normalized->size())));
    return affine(s, y, parameters);
  }
  Rows rows(s.low, shape, trailing(shape.size(), normalized->size()));
  PLANISH_CHECK(rows.at(s.coords));
  PLANISH_TRY(const int swept, s.low.value_as(id, rows.full(), data));
  Builder& b = s.b;
  const Moments m = moments(rows, b, swept);
  const int var = b.div(m.squares, static_cast<double>(rows.length()));
  const int rstd = b.op(Op::rsqrt, b.add(var, s.args.number("eps").value_or(1e-5)));
  if (s.out_position == 1) return b.cast(m.mean, s.out_dtype);
  if (s.out_position == 2) return b.cast(rstd, s.out_dtype);
  PLANISH_TRY(const int x, s.low.value_as(id, s.coords, data));
  return affine(s, b.mul(b.sub(x, m.mean), rstd), parameters);
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
  const DType data = wide(s.low.info(id).dtype);
  const Coords parameters(s.coords.end() - static_cast<std::ptrdiff_t>(std::min(normalized->size(), s.coords.size())),
                          s.coords.end());
  if (const auto given = given_statistics(s); !given.empty()) {
    PLANISH_TRY(const int x, s.low.value_as(id, s.coords, data));
    PLANISH_TRY(const int rstd, s.low.value_as(given[0], ahead_of(s.coords, normalized->size()), data));
    return affine(s, s.b.mul(x, rstd), parameters);
  }
  Rows rows(s.low, shape, trailing(shape.size(), normalized->size()));
  PLANISH_CHECK(rows.at(s.coords));
  PLANISH_TRY(const int swept, s.low.value_as(id, rows.full(), data));
  Builder& b = s.b;
  const int mean = b.div(rows.fold(ReduceKind::sum, b.mul(swept, swept)), static_cast<double>(rows.length()));
  const double eps = s.args.number("eps").value_or(epsilon(data));
  const int rstd = b.op(Op::rsqrt, b.add(mean, eps));
  if (s.out_position == 1) return b.cast(rstd, s.out_dtype);
  PLANISH_TRY(const int x, s.low.value_as(id, s.coords, data));
  return affine(s, b.mul(x, rstd), parameters);
}

/// Groups of channels normalised over the group and all positions; a group of one channel is instance norm. The
/// statistics are [N, groups].
Result<int> group_norm(const Site& s) {
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
  Coords seen = s.coords;
  if (s.out_position == 0) {
    seen = {s.coords[0], ir::floor_div(s.coords[1], channels, s.low.space()),
            ir::mod(s.coords[1], channels, s.low.space())};
    seen.insert(seen.end(), s.coords.begin() + 2, s.coords.end());
  }
  const DType data = wide(s.low.info(id).dtype);
  if (const auto given = given_statistics(s); !given.empty()) {
    PLANISH_TRY(const int x, s.low.value_as(id, s.coords, data));
    PLANISH_TRY(const int y, normalised(s, given, x, {seen[0], seen[1]}));
    return affine(s, y, {s.coords[1]});
  }
  Rows rows(s.low, grouped, trailing(grouped.size(), grouped.size() - 2));
  PLANISH_CHECK(rows.at(seen));
  const Coords& full = rows.full();
  Coords back{full[0], ir::add(ir::scale(full[1], channels), full[2], s.low.space())};
  back.insert(back.end(), full.begin() + 3, full.end());
  PLANISH_TRY(const int swept, s.low.value_as(id, std::move(back), data));
  Builder& b = s.b;
  const Moments m = moments(rows, b, swept);
  const int var = b.div(m.squares, static_cast<double>(rows.length()));
  if (s.out_position == 1) return b.cast(m.mean, s.out_dtype);
  const int rstd = b.op(Op::rsqrt, b.add(var, s.args.number("eps").value_or(1e-5)));
  if (s.out_position == 2) return b.cast(rstd, s.out_dtype);
  PLANISH_TRY(const int x, s.low.value_as(id, s.coords, data));
  return affine(s, b.mul(b.sub(x, m.mean), rstd), {s.coords[1]});
}

/// Batch norm, in evaluation with the running statistics as operands; in training with those of the batch, which also
/// move the running ones: outputs are y, mean, 1/σ, and the two updated statistics (of these the unbiased variance).
Result<int> batch_norm(const Site& s) {
  const int id = s.args.value("input");
  const auto& shape = s.low.info(id).shape;
  if (shape.size() < 2) return unsupported("a batch norm of rank 1");
  Builder& b = s.b;
  const DType data = wide(s.low.info(id).dtype);
  const double eps = s.args.number("eps").value_or(1e-5);
  const int position = s.out_position;
  const Coords channel{position == 0 ? s.coords[1] : s.coords[0]};
  const auto statistic = [&](const char* name) { return s.low.value_as(s.args.value(name), channel, data); };
  if (!s.args.flag("training") && !s.args.flag("train")) {
    if (position != 0) return unsupported("the statistics of a batch norm in evaluation");
    if (s.args.value("running_mean") < 0 || s.args.value("running_var") < 0)
      return unsupported("a batch norm without statistics");
    PLANISH_TRY(const int x, s.low.value_as(id, s.coords, data));
    PLANISH_TRY(const int mean, statistic("running_mean"));
    PLANISH_TRY(const int var, statistic("running_var"));
    return affine(s, b.mul(b.sub(x, mean), b.op(Op::rsqrt, b.add(var, eps))), channel);
  }
  if (const auto given = given_statistics(s); !given.empty()) {
    PLANISH_TRY(const int x, s.low.value_as(id, s.coords, data));
    PLANISH_TRY(const int y, normalised(s, given, x, channel));
    return affine(s, y, channel);
  }
  std::vector<int> dims{0};
  for (std::size_t d = 2; d < shape.size(); ++d) dims.push_back(static_cast<int>(d));
  Rows rows(s.low, shape, dims);
  const auto count = static_cast<double>(rows.length());
  if (count < 2) return unsupported("a batch norm of one value a channel");
  PLANISH_CHECK(rows.at(position == 0 ? s.coords : channel));
  PLANISH_TRY(const int swept, s.low.value_as(id, rows.full(), data));
  const Moments m = moments(rows, b, swept);
  if (position == 1) return b.cast(m.mean, s.out_dtype);
  if (position >= 3) {
    const double momentum = s.args.number("momentum").value_or(0.1);
    PLANISH_TRY(const int old, statistic(position == 3 ? "running_mean" : "running_var"));
    const int now = position == 3 ? m.mean : b.div(m.squares, count - 1);
    return b.cast(b.add(b.mul(old, 1 - momentum), b.mul(now, momentum)), s.out_dtype);
  }
  const int rstd = b.op(Op::rsqrt, b.add(b.div(m.squares, count), eps));
  if (position == 2) return b.cast(rstd, s.out_dtype);
  PLANISH_TRY(const int x, s.low.value_as(id, s.coords, data));
  return affine(s, b.mul(b.sub(x, m.mean), rstd), channel);
}

}  // namespace

const HandlerTable& norm_handlers() {
  static const HandlerTable table{{"layer_norm", layer_norm},
                                  {"native_layer_norm", layer_norm},
                                  {"rms_norm", rms_norm},
                                  {"_fused_rms_norm", rms_norm},
                                  {"group_norm", group_norm},
                                  {"native_group_norm", group_norm},
                                  {"instance_norm", group_norm},
                                  {"batch_norm", batch_norm},
                                  {"native_batch_norm", batch_norm},
                                  {"_native_batch_norm_legit", batch_norm},
                                  {"_native_batch_norm_legit_functional", batch_norm},
                                  {"_native_batch_norm_legit_no_training", batch_norm}};
  return table;
}

}  // namespace planish::codegen
