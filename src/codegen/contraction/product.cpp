#include "codegen/contraction/product.h"

#include "codegen/contraction/pack.h"

namespace planish::codegen::contraction {

Result<Product> product_of(const Kernel& kernel) {
  Product out;
  PLANISH_TRY(out.c, contraction_of(kernel));
  const Contraction& c = out.c;
  out.problem = {.m = c.rows,
                 .n = c.columns,
                 .k = c.depth,
                 .batches = c.batches,
                 .a_batched = !is_shared(kernel, c, Operand::a),
                 .b_batched = !is_shared(kernel, c, Operand::b)};
  out.sliding = sliding_of(kernel, c);
  if (!out.sliding) return out;
  const Sliding& sliding = *out.sliding;
  (sliding.operand == Operand::a ? out.problem.m : out.problem.n) = sliding.positions();
  out.problem.k = sliding.taps * sliding.chunks * 8;
  out.problem.columns = Columns{.operand = sliding.operand,
                                .positions = sliding.positions(),
                                .planes = sliding.phases * sliding.chunks,
                                .chunks = sliding.chunks,
                                .offsets = sliding.offsets(),
                                .image = sliding.plane};
  return out;
}

}  // namespace planish::codegen::contraction
