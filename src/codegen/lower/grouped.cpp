#include "codegen/lower/ends.h"
#include "codegen/lower/row_fold.h"

// Products of rows that belong to groups, each with a matrix of its own: only after Lowering::group().
namespace planish::codegen {
namespace {

/// self[rows, k] with mat2[groups, k, columns].
Result<int> grouped_mm(const Site& s) {
  const int self = s.args.value("self"), mat2 = s.args.value("mat2"), offs = s.args.value("offs");
  if (self < 0 || mat2 < 0 || offs < 0 || s.args.value("bias") >= 0)
    return unsupported("another form of grouped product");
  const auto &rows = s.low.info(self).shape, &matrices = s.low.info(mat2).shape;
  if (rows.size() != 2 || matrices.size() != 3) return unsupported("groups of columns, or of parts of the sum");
  if (!is_floating(s.out_dtype) || s.coords.size() != 2) return unsupported("a product of integers");
  if (const DType ends = s.low.info(offs).dtype; ends != DType::i32 && ends != DType::i64)
    return unsupported("ends of groups of another type");
  const std::int64_t depth = rows[1], groups = matrices[0];
  if (groups < 2) return unsupported("a product of one group, which has no group to find");
  Coords k(1);
  if (depth > 1) {
    PLANISH_TRY(k, s.low.row(s.coords, s.low.info(s.out_id).shape, std::span(&depth, 1)));
    s.low.contracted();
  }
  PLANISH_TRY(const int group, ends_reached(s.low, offs, s.coords[0], 0, groups));
  PLANISH_TRY(auto matrix, s.low.at_run_time(group, groups));
  const DType dtype = wide(s.out_dtype);
  PLANISH_TRY(const int a, s.low.factor(self, {s.coords[0], k[0]}, dtype));
  PLANISH_TRY(const int b, s.low.factor(mat2, {std::move(matrix), k[0], s.coords[1]}, dtype));
  const int product = s.b.mul(a, b);
  return s.b.cast(depth > 1 ? s.b.reduce(ReduceKind::sum, product, dtype) : product, s.out_dtype);
}

}  // namespace

const HandlerTable& grouped_handlers() {
  static const HandlerTable table{{"_grouped_mm", grouped_mm}};
  return table;
}

}  // namespace planish::codegen
