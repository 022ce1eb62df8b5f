#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "codegen/kernel.h"
#include "codegen/skinny/codes.h"

/// What holds in a skinny product: results of a few rows with a large matrix of weights, whose bytes are all that
/// costs (a decode step's linear layers).
///
/// It is a row or contraction kernel whose folds are sums of products of one factor x and of weights, one sum a part
/// (gate and up are two parts of one kernel), and maybe sums along rows of x that x itself is made of (a norm's). The
/// weights are loaded as they are, in 16 bits, with k along memory; of the outer variables those that move them are n,
/// all others m. Or the weights are computed of a tensor of 8 or 4 bits an element that lies so, with scales (codes.h).
/// x is anything that moves with k and m; the outputs are anything made of the sums for m and n.
/// Pure; thread-safe.
namespace planish::codegen {

struct Skinny {
  struct Part {
    int reduction = -1;                          ///< position in Kernel::reductions
    int weights = -1;                            ///< node: the factor
    int load = -1;                               ///< node: that loads it, where it is stored in 16 bits
    std::shared_ptr<const skinny::Codes> codes;  ///< else how it is made of what is stored in fewer
  };
  std::vector<int> m, n, k;                     ///< variables of the space, as their places are counted
  std::int64_t count = 1, rows = 1, depth = 1;  ///< their extents multiplied
  std::vector<Part> parts;
  std::vector<int> statistics;  ///< positions in Kernel::reductions, each of which may need the ones before it
  int operand = -1;             ///< node: x
  DType half = DType::bf16;     ///< what weights and x are multiplied in

  /// Of all parts alike; null where weights are stored in 16 bits.
  const skinny::Codes* codes() const { return parts.front().codes.get(); }
  int weight_bits() const { return codes() == nullptr ? 16 : codes()->bits; }
  /// The inputs that the part's weights are made of, that of the weights themselves first.
  static std::vector<int> inputs(const Kernel& kernel, const Part& part);
};

constexpr std::int64_t most_skinny_rows = 16;  ///< m: beyond, tiles that several warps share do better
constexpr std::size_t most_skinny_parts = 3;

/// By node: the variables of the space that its value depends on, for row and contraction kernels without folds across.
/// A fold's result depends on what its argument does, but for the inner variables: a norm's sum is one for all n, where
/// variables_of() counts every outer variable.
std::vector<std::vector<bool>> skinny_variables(const Kernel& kernel);

/// Error kind `unsupported` where the kernel is not one; the message says why not.
Result<Skinny> skinny_of(const Kernel& kernel);

}  // namespace planish::codegen
