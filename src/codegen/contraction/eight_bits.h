#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "base/dtype.h"
#include "codegen/contraction/contraction.h"
#include "codegen/contraction/plan.h"

/// Products of two float8 tensors as the tensor cores of sm_90a multiply them, 128 k at a time: factors that are loads,
/// which tensor maps reach with memory along k, each perhaps times scales of blocks of 128 k. Pure; thread-safe.
namespace planish::codegen::contraction {

struct Product;

/// What multiplies the elements of a factor: a node of the kernel that is the same for each 128 k from a multiple on.
struct BlockScale {
  int node = -1;
  std::int64_t rows = 0;  ///< and for so many rows (of b: columns) from a multiple on; 0: for all
};

struct EightBits {
  DType a = DType::f8_e4m3, b = DType::f8_e4m3;
  std::optional<BlockScale> scale_a, scale_b;

  DType type(Operand operand) const { return operand == Operand::a ? a : b; }
  const std::optional<BlockScale>& scale(Operand operand) const { return operand == Operand::a ? scale_a : scale_b; }
};

/// Of k that these tensor cores sum before what they have is added in fp32 (they keep some 14 bits), and that share a
/// scale.
constexpr std::int64_t eight_bit_step = 128;

/// The same product with its factors as they are in 8 bits; null where they are not two float8 tensors, where results
/// keep more than 16 bits, which such sums do not have, or where scales are others.
std::shared_ptr<const Product> eight_bit_product(const Product& from);

}  // namespace planish::codegen::contraction
