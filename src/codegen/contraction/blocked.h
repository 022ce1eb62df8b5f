#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "codegen/contraction/contraction.h"
#include "codegen/kernel.h"

/// Convolutions with few channels of results, which would fill few of a tile's 64 rows: neighbouring places of one dim
/// become rows as well. Pure; thread-safe.
///
/// In place of a row variable y of the factor that slides, with u = stride · y + tap, come blocks of `by` places,
/// y = by · b + r. The sum is over v = stride · r + tap, all that a block's places read, and so u = stride · by · b +
/// v: the sliding factor does not know r. That of the taps does: its rows are (channel, r), and it is 0 where v -
/// stride · r is no tap. Of v's stride · (by - 1) + taps a place needs `taps`: the rest is multiplied with zeros, which
/// costs less than rows that nobody needs. Where the other factor is not finite there, see Product::taps.
namespace planish::codegen::contraction {

struct Blocked {
  Kernel kernel;
  /// Where one of these does not hold there is nothing to multiply, though `kernel` multiplies with 0: those that there
  /// were, over the new variables, and that of blocks.
  std::vector<ir::Bound> taps;
  int inside = -1;  ///< the new variable, r; those from there on have moved up by one
};

/// The way to cut `kernel` into blocks with the least work for tensor cores; nothing where none spares a quarter of it.
/// `taps`: such bounds of `kernel`. `orient`: which factor of a kernel with blocks is the first; `each_place`: what
/// every row of the factor that slides costs besides, in multiplications.
std::optional<Blocked> blocked(const Kernel& kernel, const Contraction& contraction, const std::vector<ir::Bound>& taps,
                               const std::function<Result<Contraction>(const Kernel&)>& orient, double each_place = 0);

}  // namespace planish::codegen::contraction
