#include "codegen/lower/ends.h"

#include <bit>

namespace planish::codegen {

Result<int> ends_reached(Lowering& low, int ends, const ir::IndexExpr& row, std::int64_t first, std::int64_t count) {
  Builder& b = low.builder();
  const auto number = [&](std::int64_t n) { return b.integer(DType::i64, n); };
  const int at = low.index(row);
  int found = -1;
  for (auto step = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(count))); step > 0; step /= 2) {
    const int last = found < 0 ? number(step - 1) : b.add(found, number(step - 1));
    PLANISH_TRY(const auto place, low.at_run_time(last, count));
    PLANISH_TRY(const int end, low.value_as(ends, {low.plus(place, first)}, DType::i64));
    const int reaches = b.test(Op::le, end, at);
    if (found < 0) {
      found = b.select(reaches, number(step), number(0));
      continue;
    }
    const int there = b.test(Op::lt, last, number(count));
    found = b.select(b.op(Op::logical_and, there, reaches), b.add(found, number(step)), found);
  }
  return found;
}

}  // namespace planish::codegen
