#include "codegen/lower/row_fold.h"

// Operators that give elements of rows by their rank: sort, topk, kthvalue.
namespace planish::codegen {
namespace {

/// What is wanted of a row: the element of a rank, counted from one of its ends, or where it is.
struct Rank {
  ir::IndexExpr from_end;
  bool descending = false;
};

/// `kept`: coordinates of the result, of which those of other dims say which row. `at` and `dim`: the element's.
Result<int> element_of_rank(const Site& s, std::size_t dim, const Coords& kept,
                            std::span<const std::int64_t> kept_extents, const Rank& rank) {
  const int id = s.args.value("self");
  const auto& value = s.low.info(id);
  const bool position = s.out_position == 1;
  if (value.shape.empty() || value.shape[dim] == 1) {
    if (position) return s.b.integer(DType::i64, 0);
    Coords coords = value.shape.empty() ? Coords() : s.coords;
    if (kept_extents.size() < value.shape.size())
      coords.insert(coords.begin() + static_cast<std::ptrdiff_t>(dim), ir::IndexExpr());
    return s.low.value_as(id, std::move(coords), s.out_dtype);
  }
  if (!is_number_in_order(value.dtype)) return unsupported("an order of such numbers");
  PLANISH_TRY(const Coords row, s.low.row(kept, kept_extents, std::span(&value.shape[dim], 1)));
  s.low.ranked();
  Coords coords = kept;
  if (kept_extents.size() < value.shape.size())
    coords.insert(coords.begin() + static_cast<std::ptrdiff_t>(dim), row[0]);
  else
    coords[dim] = row[0];
  // Ties are those of the numbers that PyTorch has in memory.
  PLANISH_TRY(int x, s.low.value_as(id, std::move(coords), value.dtype));
  x = s.b.as_stored(x, value.dtype);
  const ReduceKind kind = rank.descending ? ReduceKind::nth_largest : ReduceKind::nth_smallest;
  const int number = s.low.index(rank.from_end);
  if (position) return s.b.cast(s.b.nth(kind, x, number, s.low.index(row[0])), s.out_dtype);
  return s.b.cast(s.b.nth(kind, x, number), s.out_dtype);
}

std::size_t dim_of(const Site& s) {
  const auto& shape = s.low.info(s.args.value("self")).shape;
  return shape.empty() ? 0 : static_cast<std::size_t>(s.args.dim("dim", shape.size(), -1));
}

Result<int> element_in_order(const Site& s, bool descending) {
  const std::size_t dim = dim_of(s);
  return element_of_rank(s, dim, s.coords, s.low.info(s.out_id).shape,
                         {s.coords.empty() ? ir::IndexExpr() : s.coords[dim], descending});
}

Result<int> sort(const Site& s) {
  return element_in_order(s, s.args.flag("descending"));
}

Result<int> topk(const Site& s) {
  // Absent means its default, which is true.
  const bool largest = s.args.get("largest") == nullptr || s.args.flag("largest");
  const int id = s.args.value("self");
  const auto& value = s.low.info(id);
  if (!largest || s.coords.empty() || s.args.integer("k") != 1 || value.dtype == DType::boolean ||
      !is_number_in_order(value.dtype))
    return element_in_order(s, largest);
  // The largest alone is a fold like any other.
  Rows rows(s.low, value.shape, {static_cast<int>(dim_of(s))});
  PLANISH_CHECK(rows.at(s.coords));
  PLANISH_TRY(const int x, s.low.value_as(id, rows.full(), value.dtype));
  return s.b.cast(s.out_position == 1 ? rows.find(ReduceKind::argmax, x) : rows.fold(ReduceKind::max, x), s.out_dtype);
}

/// The k-th from the smallest, counted from 1.
Result<int> kthvalue(const Site& s) {
  const auto k = s.args.integer("k");
  if (!k) return unsupported("a rank that is known at run time alone");
  const std::size_t dim = dim_of(s);
  const Rank rank{ir::IndexExpr::constant(*k - 1), false};
  const bool keeps = s.args.flag("keepdim");
  std::vector<std::int64_t> extents = s.low.info(s.out_id).shape;
  Coords kept = s.coords;
  if (keeps && !kept.empty()) kept[dim] = ir::IndexExpr();
  return element_of_rank(s, dim, kept, extents, rank);
}

}  // namespace

bool is_number_in_order(DType dtype) {
  switch (dtype) {
    case DType::f64:
    case DType::f32:
    case DType::f16:
    case DType::bf16:
    case DType::i64:
    case DType::i32:
    case DType::i16:
    case DType::i8:
    case DType::u8:
    case DType::boolean:
      return true;
    default:
      return false;
  }
}

const HandlerTable& order_handlers() {
  static const HandlerTable table{{"sort", sort}, {"topk", topk}, {"kthvalue", kthvalue}};
  return table;
}

}  // namespace planish::codegen
