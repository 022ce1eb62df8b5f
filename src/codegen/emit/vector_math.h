#pragma once

#include <set>
#include <string>
#include <string_view>

/// The text that every emitted C++ kernel starts with: vector types of W lanes, loads and stores of each element type,
/// and the mathematical functions that the kernel uses, each for scalars and vectors alike.
///
/// fp32 accuracy, measured by tests/codegen/vector_math_test.cpp against long double: exp, exp2, log, tanh, erf,
/// within 1.4 ulp, sigmoid within 2.2, the others (through double precision) within 0.51; NaN, Inf and subnormals as in
/// C. f64 calls libm.
namespace planish::codegen {

/// `bits`: native vector width (128, 256 or 512). `lanes`: elements a vector (bits/32, or bits/64 where a kernel holds
/// 64-bit values). `functions`: names as called by the kernel (`exp_`, `load_bf16`, …); what they need is added.
/// Unknown names are ignored.
std::string vector_prelude(int bits, int lanes, const std::set<std::string, std::less<>>& functions);

}  // namespace planish::codegen
