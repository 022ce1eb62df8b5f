#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "base/dtype.h"
#include "codegen/contraction/contraction.h"
#include "codegen/contraction/plan.h"

/// Products of two tensors of 8 bits as the tensor cores of sm_90a multiply them, 128 k at a time: factors that are
/// loads, which tensor maps reach with memory along k. Those of floats may each be times scales of blocks of 128 k;
/// sums of integers are exact in i32. Pure; thread-safe.
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
  bool integers() const { return !is_float8(a); }
  const std::optional<BlockScale>& scale(Operand operand) const { return operand == Operand::a ? scale_a : scale_b; }
};

/// Numbers along k that a step multiplies. These tensor cores sum so many floats before what they have is added in fp32
/// (they keep some 14 bits), and so many share a scale.
constexpr std::int64_t eight_bit_step = 128;

/// The same product with its factors as they are in 8 bits; null where they are neither two float8 tensors nor two of
/// 8-bit integers, where scales are others, where results of floats keep more than 16 bits, which such sums do not
/// have, or where a sum in f32 of integers may be more than i32 has.
std::shared_ptr<const Product> eight_bit_product(const Product& from);

/// True if both factors of the kernel's first sum are tensors of 8 bits, perhaps scaled: its tensor cores may have
/// twice the rate that they have with 16 bits.
bool multiplies_eight_bits(const Kernel& kernel);

/// contraction_passes(), or a half where factors have 8 bits: these are multiplied at twice the rate of 16 bits.
double tensor_passes(const Kernel& kernel);
/// True if the kernel's sums are of integers, as `_int_mm` has them: its Product is the one of 8 bits, or none.
bool sums_integers(const Kernel& kernel);

}  // namespace planish::codegen::contraction
