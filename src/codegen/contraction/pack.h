#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "codegen/contraction/contraction.h"
#include "codegen/contraction/implicit_operand.h"
#include "codegen/contraction/plan.h"

namespace planish::codegen::contraction {

/// A kernel that computes one factor of a contraction and leaves it as main loops read it.
struct Packing {
  std::string source;       ///< header-free; one entry `planish_kernel`
  std::vector<int> inputs;  ///< the kernel's first arguments, positions in Kernel::inputs; then a pointer a part, and
                            ///< where operands are split, one to the rows' exponents (int)
  std::int64_t blocks = 0;
  int threads = 0;
  int cluster = 1;  ///< blocks that share 8 rows, side by side along k
  std::int64_t part_bytes = 0;
  std::int64_t exponents = 0;  ///< how many; 0: none
  bool notes = false;          ///< one more pointer, the last, is to Notes
};

/// `rows` and `depth`: of the packed operand, the tile's multiples of what there is; beyond lie zeros.
///
/// Where the plan scales: a row is multiplied by the power of two that brings its largest finite magnitude into
/// [2¹³, 2¹⁴), or, where it is long, by 2⁶ if that brings it into [2⁻⁵, 2¹⁵), so that fp16 holds it whatever its scale;
/// what it is multiplied by to get back is 2^exponent. hi is the
/// nearest fp16 value, but never 0 where the element is not (Inf times a value that vanished would be NaN); lo, where
/// the plan splits, is what is left, times 2¹¹, and 0 beside what is not finite. A row's Inf and NaN say nothing of its
/// scale.
///
/// `beside`, `columns`: how the other factor slides, if it does: this one's columns are then those of its strips.
/// `notes`: what it does to ints that others use.
struct Notes {
  std::int64_t cleared = 0;  ///< so many are 0 afterwards
  bool odd = false;          ///< the first is 1 afterwards where an element is not finite
};
Packing print_packing(const Kernel& kernel, const Contraction& contraction, Operand operand, const TilePlan& plan,
                      std::int64_t rows, std::int64_t depth, const ImplicitOperand* beside = nullptr,
                      const Im2col* columns = nullptr, Notes notes = {});

/// Packs the factor that slides, place by place (see Im2col), in two launches where the plan scales, whose texts are
/// renumbered() and know of the plan its scheme alone. The first rounds
/// elements as they are and notes each image's largest finite magnitude (arguments: inputs, a pointer a part, the
/// notes). The second repeats images whose magnitudes fp16 does not hold well, scaled as rows are above, and leaves all
/// images' exponents (arguments: the same, then the exponents); others it only looks at. The notes are 0 before. With
/// `odd` there are twice as many: the first launch sets those behind, of images with an element that is not finite,
/// to 1.
std::vector<Packing> print_implicit_packings(const Kernel& kernel, const Contraction& contraction,
                                             const ImplicitOperand& implicit, const Im2col& columns,
                                             const TilePlan& plan, bool odd = false);

/// True where the operand is the same for all products of a batch.
bool is_shared(const Kernel& kernel, const Contraction& contraction, Operand operand);

}  // namespace planish::codegen::contraction
