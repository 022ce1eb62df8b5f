#include "codegen/lower/padded.h"

namespace planish::codegen {

Result<int> padded(Lowering& low, int id, const Coords& coords, std::vector<ir::Bound> bounds, DType dtype,
                   double fill) {
  Builder& b = low.builder();
  std::erase_if(bounds, [&](const ir::Bound& bound) { return low.always(bound); });
  const bool alone = !low.guarded();
  PLANISH_TRY(int node, low.under(bounds, [&] { return low.value(id, coords); }));
  if (bounds.empty()) return b.cast(node, dtype);
  const Node inner = b.at(node);
  // A plain predicated load can give the padding itself; one of places known at run time has a value of its own for
  // what lies outside.
  if (alone && inner.op == Op::load && !gathers(inner) && inner.where == bounds)
    return b.cast(b.load(inner.input, inner.dtype, inner.index, inner.where, fill), dtype);
  int condition = -1;
  for (const auto& bound : bounds) {
    const int one = low.condition(bound);
    condition = condition < 0 ? one : b.op(Op::logical_and, condition, one);
  }
  node = b.cast(node, dtype);
  return b.select(condition, node, b.constant(b.dtype(node), fill));
}

}  // namespace planish::codegen
