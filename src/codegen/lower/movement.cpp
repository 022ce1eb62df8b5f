#include <algorithm>
#include <limits>

#include "codegen/lower/nearest.h"
#include "codegen/lower/padded.h"

// Operators that copy elements to other places, and those that make tensors from nothing.
namespace planish::codegen {
namespace {

using ir::Bound;
using ir::IndexExpr;

Result<int> cast(const Site& s) {
  PLANISH_TRY(const int node, s.low.value(s.args.value("self"), s.coords));
  const bool narrow = is_narrow(s.out_dtype);
  return s.b.cast(node, s.out_dtype, narrow && s.low.info(s.args.value("self")).dtype != s.out_dtype);
}

Result<int> clone(const Site& s) {
  return s.low.value(s.args.value("self"), s.coords);
}

Result<int> copy(const Site& s) {
  return s.low.operand(s.args.get("src"), s.coords, s.out_dtype);
}

/// One piece of a concatenation: value id, and the interval of the coordinate that it covers.
struct Piece {
  int id;
  std::int64_t lo, hi;
};

template <typename CoordsOf>
Result<int> pieces(const Site& s, const std::vector<Piece>& list, const IndexExpr& along, CoordsOf&& coords_of) {
  int result = -1;
  // From the last backwards: each earlier piece is selected in front of those behind it.
  for (std::size_t i = list.size(); i-- > 0;) {
    const Piece& piece = list[i];
    const Bound bound{along, piece.lo, piece.hi};
    if (s.low.never(bound)) continue;
    PLANISH_TRY(const int node,
                s.low.under({bound}, [&] { return s.low.value_as(piece.id, coords_of(piece), s.out_dtype); }));
    if (result < 0) {
      result = node;
    } else {
      result = s.b.select(s.low.condition({along, std::numeric_limits<std::int64_t>::min(), piece.hi}), node, result);
    }
  }
  if (result < 0) return unsupported("a concatenation of nothing");
  return result;
}

Result<int> cat(const Site& s) {
  const ir::Arg* tensors = s.args.get("tensors");
  const auto* list = tensors == nullptr ? nullptr : std::get_if<ir::ValueList>(&tensors->data);
  if (list == nullptr) return unsupported("cat without tensors");
  const bool stack = base_name(s.node.op) == "stack";
  const auto dim = static_cast<std::size_t>(s.args.dim("dim", s.coords.size()));
  std::vector<Piece> parts;
  std::int64_t at = 0;
  for (const auto& id : list->ids) {
    if (!id) return unsupported("cat of None");
    const auto& shape = s.low.info(*id).shape;
    // torch skips one-dimensional empty tensors.
    if (!stack && shape.size() == 1 && shape[0] == 0) continue;
    const std::int64_t extent = stack ? 1 : shape[dim];
    if (extent > 0) parts.push_back({*id, at, at + extent});
    at += extent;
  }
  return pieces(s, parts, s.coords[dim], [&](const Piece& piece) {
    Coords coords = s.coords;
    if (stack) {
      coords.erase(coords.begin() + static_cast<std::ptrdiff_t>(dim));
    } else {
      coords[dim] = s.low.plus(coords[dim], -piece.lo);
    }
    return coords;
  });
}

Result<int> pad(const Site& s) {
  if (const auto mode = s.args.text("mode"); !mode.empty() && mode != "constant")
    return unsupported("padding by " + mode);
  const auto widths = s.args.integers("pad");
  if (!widths) return unsupported("pad without widths");
  const int id = s.args.value("self");
  const auto& shape = s.low.info(id).shape;
  Coords coords = s.coords;
  std::vector<Bound> bounds;
  for (std::size_t i = 0; 2 * i < widths->size(); ++i) {
    const std::size_t dim = coords.size() - 1 - i;
    coords[dim] = s.low.plus(coords[dim], -(*widths)[2 * i]);
    bounds.push_back({coords[dim], 0, shape[dim]});
  }
  return padded(s.low, id, coords, std::move(bounds), s.out_dtype, s.args.number("value").value_or(0));
}

Result<int> flip(const Site& s) {
  Coords coords = s.coords;
  const auto& shape = s.low.info(s.out_id).shape;
  const auto dims = s.args.integers("dims");
  if (!dims) return unsupported("flip without dims");
  for (const std::int64_t d : *dims) {
    const auto dim = static_cast<std::size_t>(d < 0 ? d + static_cast<std::int64_t>(shape.size()) : d);
    coords[dim] = s.low.plus(ir::scale(coords[dim], -1), shape[dim] - 1);
  }
  return s.low.value(s.args.value("self"), std::move(coords));
}

Result<int> roll(const Site& s) {
  const auto shifts = s.args.integers("shifts");
  const auto dims = s.args.integers("dims");
  const auto& shape = s.low.info(s.out_id).shape;
  if (!shifts) return unsupported("roll without shifts");
  const auto rolled = [&](const IndexExpr& c, std::int64_t shift, std::int64_t extent) {
    const std::int64_t by = ((-shift % extent) + extent) % extent;
    return ir::mod(s.low.plus(c, by), extent, s.low.space());
  };
  if (!dims || dims->empty()) {
    const IndexExpr linear = rolled(s.low.ravel(s.coords, shape), (*shifts)[0], product(shape));
    return s.low.value(s.args.value("self"), s.low.unravel(linear, shape));
  }
  Coords coords = s.coords;
  for (std::size_t i = 0; i < dims->size(); ++i) {
    const std::int64_t d = (*dims)[i];
    const auto dim = static_cast<std::size_t>(d < 0 ? d + static_cast<std::int64_t>(shape.size()) : d);
    coords[dim] = rolled(coords[dim], (*shifts)[i], shape[dim]);
  }
  return s.low.value(s.args.value("self"), std::move(coords));
}

Result<int> repeat(const Site& s) {
  const int id = s.args.value("self");
  const auto& shape = s.low.info(id).shape;
  Coords coords(s.coords.end() - static_cast<std::ptrdiff_t>(shape.size()), s.coords.end());
  for (std::size_t i = 0; i < coords.size(); ++i) coords[i] = ir::mod(coords[i], shape[i], s.low.space());
  return s.low.value(id, std::move(coords));
}

Result<int> triangle(const Site& s) {
  const std::size_t rank = s.coords.size();
  const std::int64_t diagonal = s.args.integer("diagonal").value_or(0);
  const IndexExpr offset = ir::add(s.coords[rank - 1], ir::scale(s.coords[rank - 2], -1), s.low.space());
  constexpr auto least = std::numeric_limits<std::int64_t>::min(), most = std::numeric_limits<std::int64_t>::max();
  const bool lower = base_name(s.node.op) == "tril";
  const Bound bound = lower ? Bound{offset, least, diagonal + 1} : Bound{offset, diagonal, most};
  PLANISH_TRY(const int node,
              s.low.under({bound}, [&] { return s.low.value_as(s.args.value("self"), s.coords, s.out_dtype); }));
  return s.b.select(s.low.condition(bound), node, s.b.constant(s.b.dtype(node), 0));
}

Result<int> scatter(const Site& s) {
  const int self = s.args.value("self"), src = s.args.value("src");
  const auto& shape = s.low.info(self).shape;
  const auto dim = static_cast<std::size_t>(s.args.dim("dim", shape.size()));
  const bool one = base_name(s.node.op) == "select_scatter";
  if (!one && s.args.integer("step").value_or(1) != 1) return unsupported("a strided scatter");
  std::int64_t start = s.args.integer(one ? "index" : "start").value_or(0);
  if (start < 0) start += shape[dim];
  if (!one) start = std::clamp<std::int64_t>(start, 0, shape[dim]);
  const Bound bound{s.coords[dim], start, one ? start + 1 : start + s.low.info(src).shape[dim]};
  Coords coords = s.coords;
  if (one) {
    coords.erase(coords.begin() + static_cast<std::ptrdiff_t>(dim));
  } else {
    coords[dim] = s.low.plus(coords[dim], -start);
  }
  PLANISH_TRY(const int inside, s.low.under({bound}, [&] { return s.low.value_as(src, coords, s.out_dtype); }));
  PLANISH_TRY(const int outside, s.low.value_as(self, s.coords, s.out_dtype));
  return s.b.select(s.low.condition(bound), inside, outside);
}

int number_node(const Site& s, const ir::Arg* arg, double otherwise) {
  if (arg != nullptr) {
    if (const auto* i = std::get_if<std::int64_t>(&arg->data)) return s.b.integer(compute_dtype(s.out_dtype), *i);
    if (const auto* d = std::get_if<double>(&arg->data)) return s.b.constant(s.out_dtype, *d);
    if (const auto* f = std::get_if<bool>(&arg->data)) return s.b.integer(compute_dtype(s.out_dtype), *f ? 1 : 0);
  }
  return s.b.constant(s.out_dtype, otherwise);
}

Result<int> full(const Site& s) {
  return number_node(s, s.args.get("fill_value"), 0);
}
Result<int> zeros(const Site& s) {
  return s.b.constant(s.out_dtype, 0);
}
Result<int> ones(const Site& s) {
  return s.b.constant(s.out_dtype, 1);
}
Result<int> scalar_tensor(const Site& s) {
  return number_node(s, s.args.get("s"), 0);
}

Result<int> arange(const Site& s) {
  const int i = s.low.index(s.coords[0]);
  if (!is_floating(s.out_dtype)) {
    const auto start = s.args.get("start") == nullptr ? std::optional<std::int64_t>(0) : s.args.integer("start");
    const auto step = s.args.get("step") == nullptr ? std::optional<std::int64_t>(1) : s.args.integer("step");
    if (!start || !step) return unsupported("an integer arange of fractions");
    return s.b.cast(s.low.index(s.low.plus(ir::scale(s.coords[0], *step), *start)), s.out_dtype);
  }
  const int x = s.b.cast(i, s.out_dtype);
  return s.b.add(s.b.mul(x, s.args.number("step").value_or(1)), s.args.number("start").value_or(0));
}

Result<int> eye(const Site& s) {
  const IndexExpr offset = ir::add(s.coords[0], ir::scale(s.coords[1], -1), s.low.space());
  return s.b.cast(s.low.condition({offset, 0, 1}), s.out_dtype);
}

}  // namespace

const HandlerTable& movement_handlers() {
  static const HandlerTable table{{"_to_copy", cast},
                                  {"to", cast},
                                  {"type_as", cast},
                                  {"clone", clone},
                                  {"contiguous", clone},
                                  {"copy", copy},
                                  {"cat", cat},
                                  {"stack", cat},
                                  {"constant_pad_nd", pad},
                                  {"pad", pad},
                                  {"flip", flip},
                                  {"roll", roll},
                                  {"repeat", repeat},
                                  {"tril", triangle},
                                  {"triu", triangle},
                                  {"slice_scatter", scatter},
                                  {"select_scatter", scatter},
                                  {"upsample_nearest1d", nearest},
                                  {"upsample_nearest2d", nearest},
                                  {"upsample_nearest3d", nearest},
                                  {"_upsample_nearest_exact1d", nearest},
                                  {"_upsample_nearest_exact2d", nearest},
                                  {"_upsample_nearest_exact3d", nearest}};
  return table;
}

const HandlerTable& creation_handlers() {
  static const HandlerTable table{{"full", full},        {"full_like", full},
                                  {"new_full", full},    {"zeros", zeros},
                                  {"zeros_like", zeros}, {"new_zeros", zeros},
                                  {"empty", zeros},      {"empty_like", zeros},
                                  {"new_empty", zeros},  {"empty_permuted", zeros},
                                  {"ones", ones},        {"ones_like", ones},
                                  {"new_ones", ones},    {"scalar_tensor", scalar_tensor},
                                  {"arange", arange},    {"eye", eye}};
  return table;
}

}  // namespace planish::codegen
