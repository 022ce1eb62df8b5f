#pragma once

#include <string>

#include "codegen/emit/cuda_math.h"

namespace planish::codegen {

/// The short forms of functions for a compiler of C++, behind printing::prelude(false): what they leave to the machine
/// is computed exactly.
inline std::string machine_math() {
  return "static float pl_fast_div(float a, float b) { return a / b; }\n"
         "static float pl_fast_rcp(float x) { return 1.0f / x; }\n"
         "static float pl_fast_exp2(float x) { return exp2f(x); }\n" +
         std::string(printing::math_prelude());
}

}  // namespace planish::codegen
