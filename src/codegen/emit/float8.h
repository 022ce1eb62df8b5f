#pragma once

#include <string>
#include <string_view>

#include "codegen/kernel.h"

/// Floats of 8 bits in the text of kernels; in that of CUDA as `pl_from_float8_e4m3fn(code)` and
/// `pl_to_float8_e4m3fn(x)`, and so for the three other types. Roundings are torch's: to the nearest, ties to even;
/// beyond the largest number e4m3fn and the `fnuz` types have NaN, e5m2 infinity. Devices from sm_89 on convert e4m3fn
/// and e5m2 by instructions, all else is arithmetic on bits. Pure; thread-safe.
namespace planish::codegen::printing {

/// Whether any value of the kernel is a float of 8 bits.
bool has_float8(const Kernel& kernel);

/// The functions of all four types; stands alone, before or behind everything else.
std::string_view float8_prelude();

/// `source` with the functions in front where it is CUDA and calls any.
std::string with_float8(std::string source);

}  // namespace planish::codegen::printing

namespace planish::codegen {

/// The same for vectors of C++ kernels: sections of vector_prelude(), `load_float8_e4m3fn`, `store_…`, and the type's
/// own with `round_…`.
std::string_view float8_sections();

}  // namespace planish::codegen
