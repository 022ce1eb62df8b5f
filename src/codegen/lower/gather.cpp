#include <algorithm>

#include "codegen/lower/indexed.h"

// Operators that read places which the values of other tensors name.
namespace planish::codegen {

namespace {

bool is_index(DType dtype) {
  return dtype == DType::i64 || dtype == DType::i32;
}

}  // namespace

Result<ir::IndexExpr> indexed_place(Lowering& low, int index, const Coords& at, std::int64_t extent, bool wraps) {
  const ir::Value& tensor = low.info(index);
  if (!is_index(tensor.dtype)) return unsupported("an index that is not an integer tensor");
  if (tensor.shape.size() > at.size()) return unsupported("an index of higher rank than the result");
  Coords coords(at.end() - static_cast<std::ptrdiff_t>(tensor.shape.size()), at.end());
  PLANISH_TRY(int i, low.value_as(index, std::move(coords), DType::i64));
  Builder& b = low.builder();
  const Node& node = b.at(i);
  const bool positive =
      (node.op == Op::index && node.index.range(low.space()).first >= 0) || (node.op == Op::constant && node.bits >= 0);
  if (wraps && !positive) {
    const int from_end = b.add(i, b.integer(DType::i64, extent));
    i = b.select(b.test(Op::lt, i, b.integer(DType::i64, 0)), from_end, i);
  }
  return low.at_run_time(i, extent);
}

Result<IndexList> index_list(const ir::Graph& graph, const ir::GraphNode& node, std::size_t dims) {
  const ir::Arg* arg = node.arg("indices");
  const auto* given = arg == nullptr ? nullptr : std::get_if<ir::ValueList>(&arg->data);
  if (given == nullptr || given->ids.size() > dims) return unsupported("an index without tensors");
  IndexList list;
  list.ids = given->ids;
  list.ids.resize(dims);
  std::size_t first = dims, last = 0;
  for (std::size_t d = 0; d < dims; ++d) {
    const auto& id = list.ids[d];
    if (!id) continue;
    const ir::Value& index = graph.values[static_cast<std::size_t>(*id)];
    if (!is_index(index.dtype)) return unsupported("an index by a mask");
    first = std::min(first, d);
    last = d;
    ++list.count;
    list.rank = std::max(list.rank, index.shape.size());
  }
  if (list.count == 0) return unsupported("an index without tensors");
  list.front = last - first + 1 == list.count ? first : 0;
  return list;
}

Result<Coords> IndexList::coords(Lowering& low, std::span<const std::int64_t> shape, const Coords& result) const {
  const auto begin = result.begin() + static_cast<std::ptrdiff_t>(front);
  const Coords at(begin, begin + static_cast<std::ptrdiff_t>(rank));
  Coords others(result.begin(), begin);
  others.insert(others.end(), begin + static_cast<std::ptrdiff_t>(rank), result.end());
  if (others.size() + count != shape.size()) return unsupported("an index of unexpected rank");
  Coords out(shape.size());
  std::size_t next = 0;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (ids[d]) {
      PLANISH_TRY(out[d], indexed_place(low, *ids[d], at, shape[d], true));
    } else {
      out[d] = others[next++];
    }
  }
  return out;
}

namespace {

/// The same of an operator at hand.
Result<ir::IndexExpr> place(const Site& s, int index, const Coords& at, std::int64_t extent, bool wraps) {
  return indexed_place(s.low, index, at, extent, wraps);
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

/// x[i, :, j].
Result<int> advanced(const Site& s) {
  const int self = s.args.value("self");
  const auto& shape = s.low.info(self).shape;
  PLANISH_TRY(const IndexList list, index_list(s.low.graph(), s.node, shape.size()));
  if (list.front + list.rank > s.coords.size()) return unsupported("an index of unexpected rank");
  PLANISH_TRY(Coords coords, list.coords(s.low, shape, s.coords));
  return s.low.value(self, std::move(coords));
}

}  // namespace

const HandlerTable& gather_handlers() {
  static const HandlerTable table{
      {"embedding", embedding},    {"index_select", index_select}, {"gather", gather},      {"index", advanced},
      {"_unsafe_index", advanced}, {"searchsorted", searchsorted}, {"bucketize", bucketize}};
  return table;
}

}  // namespace planish::codegen
