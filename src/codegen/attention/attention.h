#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "codegen/contraction/contraction.h"
#include "codegen/genome.h"
#include "codegen/kernel.h"

/// What holds in a kernel of the `attention` anchor: softmax(s(q · kᵀ)) · v, where s is any function of a product's
/// element, its place and what is loaded for it (a scale, a mask, a bias), and any epilogue follows.
///
/// Its variables are: outer ones (batch, rows of q, columns of v), then those of the keys, then the features that q ·
/// kᵀ is summed over (Kernel::parts of them). It has four reductions: the `part` sum of q · k; the maximum of the
/// scores and the sum of their exponentials over the keys; and the sum over the keys of weights times v. Pure;
/// thread-safe.
namespace planish::codegen {

/// What a row of q and a tile of keys may have, so that a block's shared memory holds both in two parts.
inline constexpr std::int64_t most_features = 256;

struct Attention {
  Contraction scores;  ///< q (first: m) times k (second: n, the keys), summed over the features
  Contraction values;  ///< weights (first: m) times v (second: n, the results' columns), summed over the keys
  int product = -1, maximum = -1, total = -1, weighted = -1;  ///< reductions
  int score = -1;                                             ///< node: what exponentials are of
  int shift = -1;    ///< node: what is taken from the score before; of the maximum and of what a row reads
  int divisor = -1;  ///< node: what weights are divided by; of the maximum, the total and of what a row reads
};

/// The parts of such a kernel, whose anchor is not looked at. Error kind `unsupported` where it is not one.
Result<Attention> attention_of(const Kernel& kernel);

/// Keys that count for no query of some rows, because every score is -inf there by its place alone: those above
/// (step · q + offset) / fall, where q is the setting of `row` (the last variable of m), which all such keys follow.
struct Causal {
  int row = -1;
  std::int64_t step = 0, offset = 0, fall = 1;  ///< fall > 0
};
std::optional<Causal> causal_of(const Kernel& kernel, const Attention& attention);

}  // namespace planish::codegen
