#include <algorithm>

#include "codegen/lower/lowering.h"

// Operators that read places which the values of other tensors name.
namespace planish::codegen {
namespace {

bool is_index(DType dtype) {
  return dtype == DType::i64 || dtype == DType::i32;
}

/// The index tensor's element at the coordinates (the last ones, where it has fewer dims), as a coordinate of a dim of
/// this extent. `wraps`: negative ones count from the end.
Result<ir::IndexExpr> place(const Site& s, int index, const Coords& at, std::int64_t extent, bool wraps) {
  const ir::Value& tensor = s.low.info(index);
  if (!is_index(tensor.dtype)) return unsupported("an index that is not an integer tensor");
  if (tensor.shape.size() > at.size()) return unsupported("an index of higher rank than the result");
  Coords coords(at.end() - static_cast<std::ptrdiff_t>(tensor.shape.size()), at.end());
  PLANISH_TRY(int i, s.low.value_as(index, std::move(coords), DType::i64));
  const Node& node = s.b.at(i);
  const bool positive = (node.op == Op::index && node.index.range(s.low.space()).first >= 0) ||
                        (node.op == Op::constant && node.bits >= 0);
  if (wraps && !positive) {
    const int from_end = s.b.add(i, s.b.integer(DType::i64, extent));
    i = s.b.select(s.b.test(Op::lt, i, s.b.integer(DType::i64, 0)), from_end, i);
  }
  return s.low.at_run_time(i, extent);
}

Result<int> embedding(const Site& s) {
  const int weight = s.args.value("weight"), indices = s.args.value("indices");
  if (weight < 0 || indices < 0) return unsupported("an embedding without tensors");
  const auto& shape = s.low.info(weight).shape;
  const Coords at(s.coords.begin(), s.coords.end() - 1);
  PLANISH_TRY(auto row, place(s, indices, at, shape[0], false));
  return s.low.value(weight, {std::move(row), s.coords.back()});
}

Result<int> index_select(const Site& s) {
  const int self = s.args.value("self"), index = s.args.value("index");
  const auto& shape = s.low.info(self).shape;
  if (shape.empty()) return unsupported("an index_select of a scalar");
  const auto dim = static_cast<std::size_t>(s.args.dim("dim", shape.size()));
  Coords coords = s.coords;
  PLANISH_TRY(coords[dim], place(s, index, {s.coords[dim]}, shape[dim], false));
  return s.low.value(self, std::move(coords));
}

Result<int> gather(const Site& s) {
  const int self = s.args.value("self"), index = s.args.value("index");
  const auto& shape = s.low.info(self).shape;
  if (shape.size() != s.coords.size() || shape.empty()) return unsupported("a gather of another rank");
  const auto dim = static_cast<std::size_t>(s.args.dim("dim", shape.size()));
  Coords coords = s.coords;
  PLANISH_TRY(coords[dim], place(s, index, s.coords, shape[dim], false));
  return s.low.value(self, std::move(coords));
}

/// x[i, :, j]: the index tensors are broadcast together. Their dims stand where the first of them was, or in front
/// where something else lies between them.
Result<int> advanced(const Site& s) {
  const int self = s.args.value("self");
  const auto& shape = s.low.info(self).shape;
  const ir::Arg* arg = s.args.get("indices");
  const auto* list = arg == nullptr ? nullptr : std::get_if<ir::ValueList>(&arg->data);
  if (list == nullptr || list->ids.size() > shape.size()) return unsupported("an index without tensors");
  std::size_t first = shape.size(), last = 0, count = 0, rank = 0;
  for (std::size_t d = 0; d < list->ids.size(); ++d) {
    const auto& id = list->ids[d];
    if (!id) continue;
    if (!is_index(s.low.info(*id).dtype)) return unsupported("an index by a mask");
    first = std::min(first, d);
    last = d;
    ++count;
    rank = std::max(rank, s.low.info(*id).shape.size());
  }
  if (count == 0) return unsupported("an index without tensors");
  const std::size_t front = last - first + 1 == count ? first : 0;
  if (front + rank > s.coords.size()) return unsupported("an index of unexpected rank");
  const auto begin = s.coords.begin() + static_cast<std::ptrdiff_t>(front);
  const Coords at(begin, begin + static_cast<std::ptrdiff_t>(rank));
  Coords others(s.coords.begin(), begin);
  others.insert(others.end(), begin + static_cast<std::ptrdiff_t>(rank), s.coords.end());
  if (others.size() + count != shape.size()) return unsupported("an index of unexpected rank");
  Coords coords(shape.size());
  std::size_t next = 0;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (d < list->ids.size() && list->ids[d]) {
      PLANISH_TRY(coords[d], place(s, *list->ids[d], at, shape[d], true));
    } else {
      coords[d] = others[next++];
    }
  }
  return s.low.value(self, std::move(coords));
}

}  // namespace

const HandlerTable& gather_handlers() {
  static const HandlerTable table{{"embedding", embedding},
                                  {"index_select", index_select},
                                  {"gather", gather},
                                  {"index", advanced},
                                  {"_unsafe_index", advanced}};
  return table;
}

}  // namespace planish::codegen
