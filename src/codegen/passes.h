#pragma once

#include <optional>

#include "codegen/genome.h"
#include "codegen/kernel.h"

namespace planish::codegen {

/// The 16-bit type whose values a factor has, all of them exactly: it is loaded as such, or rounded to it.
std::optional<DType> half_type(const Kernel& kernel, int factor);

/// Whether all values of a factor are floats or integers of 8 bits, which each 16-bit type has exactly.
bool has_eight_bits(const Kernel& kernel, int factor);

/// The 16-bit type that has the values of both factors exactly.
std::optional<DType> common_half_type(const Kernel& kernel, int first, int second);

/// Products of 16-bit numbers, summed in f32, that make one product of a contraction's factors without loss of
/// accuracy: 1 where both have such values of one type, else 3 (high by high, and high by low both ways).
int contraction_passes(const Kernel& kernel);

/// Whether a schedule makes one product of factors that it rounds for that (gene `passes`); of others false.
bool rounds_factors(const Genome& genome);

/// Whether PyTorch itself may round the fp32 factors of a contraction to ten bits, as its convolutions do unless told
/// otherwise: one product of rounded factors may then be as good. The gate says whether it is.
bool may_round(const Kernel& kernel);

}  // namespace planish::codegen
