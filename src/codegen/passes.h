#pragma once

#include "codegen/kernel.h"

namespace planish::codegen {

/// Products of 16-bit numbers, summed in f32, that make one product of a contraction's factors without loss of
/// accuracy: 1 where both are loaded as such numbers, else 3 (high by high, and high by low both ways).
int contraction_passes(const Kernel& kernel);

}  // namespace planish::codegen
