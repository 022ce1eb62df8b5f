#include <algorithm>

#include "codegen/lower/lowering.h"

// Operators that move no data: their result at some coordinates is their argument at others.
namespace planish::codegen {
namespace {

using ir::IndexExpr;

int self_id(const Site& s) {
  for (const char* name : {"self", "input", "tensor", "a"}) {
    if (const int id = s.args.value(name); id >= 0) return id;
  }
  return -1;
}

Result<int> identity(const Site& s) {
  return s.low.value(self_id(s), s.coords);
}

Result<int> dropout(const Site& s) {
  if (s.args.flag("train") || s.out_position != 0) return unsupported("dropout in training");
  return identity(s);
}

Result<int> reshape(const Site& s) {
  const int id = self_id(s);
  const auto& from = s.low.info(id);
  if (from.dtype != s.out_dtype) return unsupported("a view as another dtype");
  return s.low.value(id, s.low.unravel(s.low.ravel(s.coords, s.low.info(s.out_id).shape), from.shape));
}

Result<int> permuted(const Site& s, const std::vector<int>& order) {
  const int id = self_id(s);
  if (order.size() != s.coords.size()) return unsupported("a permutation of another rank");
  Coords coords(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) coords[static_cast<std::size_t>(order[i])] = s.coords[i];
  return s.low.value(id, std::move(coords));
}

Result<int> permute(const Site& s) {
  std::vector<int> order;
  const auto rank = static_cast<std::int64_t>(s.coords.size());
  const auto dims = s.args.integers("dims");
  if (!dims) return unsupported("permute without dims");
  for (const std::int64_t d : *dims) order.push_back(static_cast<int>(d < 0 ? d + rank : d));
  return permuted(s, order);
}

Result<int> transpose(const Site& s) {
  std::vector<int> order(s.coords.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
  if (order.size() < 2) return permuted(s, order);
  const bool named = s.args.get("dim0") != nullptr;
  const int a = named ? s.args.dim("dim0", order.size()) : 0;
  const int b = named ? s.args.dim("dim1", order.size()) : 1;
  if (!named && order.size() != 2) return unsupported("t of a rank above 2");
  std::swap(order[static_cast<std::size_t>(a)], order[static_cast<std::size_t>(b)]);
  return permuted(s, order);
}

Result<int> expand(const Site& s) {
  const int id = self_id(s);
  const std::size_t rank = s.low.info(id).shape.size();
  return s.low.value(id, Coords(s.coords.end() - static_cast<std::ptrdiff_t>(rank), s.coords.end()));
}

/// The argument's coordinate along `dim` becomes start + step·c.
Result<int> shifted(const Site& s, int dim, std::int64_t start, std::int64_t step) {
  Coords coords = s.coords;
  auto& c = coords[static_cast<std::size_t>(dim)];
  c = s.low.plus(ir::scale(c, step), start);
  return s.low.value(self_id(s), std::move(coords));
}

Result<int> slice(const Site& s) {
  const auto& shape = s.low.info(self_id(s)).shape;
  const int dim = s.args.dim("dim", shape.size());
  const std::int64_t extent = shape[static_cast<std::size_t>(dim)];
  std::int64_t start = s.args.integer("start").value_or(0);
  if (start < 0) start += extent;
  return shifted(s, dim, std::clamp<std::int64_t>(start, 0, extent), s.args.integer("step").value_or(1));
}

Result<int> narrow(const Site& s) {
  const auto& shape = s.low.info(self_id(s)).shape;
  const int dim = s.args.dim("dim", shape.size());
  std::int64_t start = s.args.integer("start").value_or(0);
  if (start < 0) start += shape[static_cast<std::size_t>(dim)];
  return shifted(s, dim, start, 1);
}

Result<int> selected(const Site& s, int dim, std::int64_t index) {
  Coords coords = s.coords;
  coords.insert(coords.begin() + dim, IndexExpr::constant(index));
  return s.low.value(self_id(s), std::move(coords));
}

Result<int> select(const Site& s) {
  const auto& shape = s.low.info(self_id(s)).shape;
  const int dim = s.args.dim("dim", shape.size());
  std::int64_t index = s.args.integer("index").value_or(0);
  if (index < 0) index += shape[static_cast<std::size_t>(dim)];
  return selected(s, dim, index);
}

Result<int> unbind(const Site& s) {
  return selected(s, s.args.dim("dim", s.coords.size() + 1), s.out_position);
}

Result<int> split(const Site& s) {
  const auto& shape = s.low.info(self_id(s)).shape;
  const int dim = s.args.dim("dim", shape.size());
  const std::int64_t extent = shape[static_cast<std::size_t>(dim)];
  std::int64_t start = 0;
  const auto name = base_name(s.node.op);
  if (name == "chunk") {
    const std::int64_t chunks = s.args.integer("chunks").value_or(1);
    start = s.out_position * ((extent + chunks - 1) / chunks);
  } else if (const auto sizes = s.args.integers("split_sizes"); sizes) {
    for (int i = 0; i < s.out_position; ++i) start += (*sizes)[static_cast<std::size_t>(i)];
  } else if (const auto size = s.args.integer("split_size")) {
    start = s.out_position * *size;
  } else {
    return unsupported("a split of this form");
  }
  return shifted(s, dim, start, 1);
}

Result<int> diagonal(const Site& s) {
  const std::size_t rank = s.coords.size() + 1;
  const int d1 = s.args.dim("dim1", rank, 0), d2 = s.args.dim("dim2", rank, 1);
  const std::int64_t offset = s.args.integer("offset").value_or(0);
  Coords coords(rank);
  std::size_t next = 0;
  for (std::size_t i = 0; i < rank; ++i) {
    if (static_cast<int>(i) == d1) {
      coords[i] = s.low.plus(s.coords.back(), std::max<std::int64_t>(0, -offset));
    } else if (static_cast<int>(i) == d2) {
      coords[i] = s.low.plus(s.coords.back(), std::max<std::int64_t>(0, offset));
    } else {
      coords[i] = s.coords[next++];
    }
  }
  return s.low.value(self_id(s), std::move(coords));
}

Result<int> unfold(const Site& s) {
  const int id = self_id(s);
  const int dim = s.args.dim("dimension", s.low.info(id).shape.size());
  Coords coords(s.coords.begin(), s.coords.end() - 1);
  if (coords.empty()) return s.low.value(id, {});  // of one number, whose only window it is
  auto& c = coords[static_cast<std::size_t>(dim)];
  c = ir::add(ir::scale(c, s.args.integer("step").value_or(1)), s.coords.back(), s.low.space());
  return s.low.value(id, std::move(coords));
}

}  // namespace

const HandlerTable& view_handlers() {
  static const HandlerTable table{{"alias", identity},
                                  {"detach", identity},
                                  {"lift_fresh_copy", identity},
                                  {"lift_fresh", identity},
                                  {"dropout", dropout},
                                  {"feature_dropout", dropout},
                                  {"alpha_dropout", dropout},
                                  {"native_dropout", dropout},
                                  {"view", reshape},
                                  {"reshape", reshape},
                                  {"_unsafe_view", reshape},
                                  {"flatten", reshape},
                                  {"unflatten", reshape},
                                  {"unsqueeze", reshape},
                                  {"squeeze", reshape},
                                  {"view_as", reshape},
                                  {"reshape_as", reshape},
                                  {"ravel", reshape},
                                  {"permute", permute},
                                  {"transpose", transpose},
                                  {"swapaxes", transpose},
                                  {"swapdims", transpose},
                                  {"t", transpose},
                                  {"numpy_T", transpose},
                                  {"expand", expand},
                                  {"expand_as", expand},
                                  {"broadcast_to", expand},
                                  {"slice", slice},
                                  {"narrow", narrow},
                                  {"select", select},
                                  {"unbind", unbind},
                                  {"split", split},
                                  {"split_with_sizes", split},
                                  {"chunk", split},
                                  {"diagonal", diagonal},
                                  {"unfold", unfold}};
  return table;
}

}  // namespace planish::codegen
