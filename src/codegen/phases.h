#pragma once

#include <vector>

#include "codegen/kernel.h"

/// Transposed convolutions as one product. Pure; thread-safe.
///
/// Where the factors of a contraction know a variable v of its results only by (v + c) // s and (v + c) % s, the one by
/// the quotient and the other by the remainder, neither is a matrix as it stands: v moves both. Written as
/// v = s · i - c + r, the quotient i is a variable of the rows of one factor, the phase r one of the other's rows. i
/// takes one value more than v has whole strides where c is not 0 or s does not divide: what lies outside is computed
/// and dropped (Output::where).
///
/// A phase may have fewer taps than others. The factor of the taps is 0 there, and so is the other, which then would
/// move with the phase: it is read as if there were a tap, as 0 times it is 0. Not where it is not finite. See `taps`.
namespace planish::codegen::contraction {

struct Phased {
  Kernel kernel;
  bool phases = false;  ///< whether a variable was split
  /// Where one of these does not hold the sum has no product, though `kernel` multiplies: with 0. They were conditions
  /// of both factors' loads and are now of one's alone.
  std::vector<ir::Bound> taps;
};

/// Puts replacements[i], over the new space, for variable i wherever the kernel knows it. Bounds that always hold go.
void change_space(Kernel& kernel, const std::vector<ir::IndexExpr>& replacements, ir::Space space);

/// The kernel over i and r in place of `variable` v = by · i - shift + r, one of the outer: i has its place, r < by
/// comes behind it, and all variables after it move up by one. 0 <= shift < by. Returns what stands for each former
/// variable, over the new space.
std::vector<ir::IndexExpr> split(Kernel& kernel, int variable, std::int64_t by, std::int64_t shift);

/// The kernel over one variable in place of two, `outer` and `within`, which lies behind it; neither, or both, are
/// inner ones. It has the former's place and counts settings of both, the latter's one after the other.
void join(Kernel& kernel, int outer, int within);

/// The kernel with windows (variables of Kernel::across) that are phases of places. Where one factor's loads know a
/// window's variable w by (w + c) // s alone, and beside it an offset e of the sum, they are over f = e + (w + c) // s
/// - a constant: that factor then does not know w, and the other one is 0 where f is no offset's. A window whose stride
/// is a multiple of s, as it lies over a transposed convolution, then is all that a variable of the taps' factor has.
/// The kernel as it is where there are none.
Kernel windows_apart(const Kernel& kernel);

/// The kernel as it is where nothing of this helps.
Phased phased(const Kernel& kernel);

/// Of the settings of phases and offsets, the share that has a tap; 1 where nothing is missing.
double tapped(const Phased& phased);

}  // namespace planish::codegen::contraction
