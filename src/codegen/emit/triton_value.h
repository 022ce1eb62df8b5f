#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/kernel.h"

/// Prints the values of a Kernel as Triton expressions. Values have the types of `triton_type`: f16 and bf16 are
/// computed in f32, booleans are int1. Nodes are called v12. Pure functions; thread-safe.
namespace planish::codegen::printing {

/// The type a value of this dtype is computed in: "tl.float32".
std::string_view triton_type(DType dtype);
/// The element type behind a pointer in a kernel's signature, in Triton's spelling: "fp16". Booleans are "u8".
std::string_view triton_element(DType dtype);
/// A typed scalar: "tl.full((), 0.5, tl.float32)".
std::string triton_literal(DType dtype, double value, std::int64_t bits);
/// Right-hand side of node `id`, which is no load and no `reduced`. `index` is the printed index of an `index` node.
std::string triton_operation(const Kernel& kernel, int id, bool fast, std::string_view index);
/// Converts an expression of triton_type(from) to triton_type(to) with torch's rules, without rounding to 16 bits.
std::string triton_convert(std::string_view expression, DType from, DType to);
/// The stored element (one rounding) of a value of triton_type(from).
std::string triton_stored(std::string_view expression, DType from, DType to);
/// The value of a loaded element.
std::string triton_loaded(std::string_view expression, DType stored);

/// Text of an index over variables called `variables[i]`.
std::string triton_index(const ir::IndexExpr& e, const ir::Space& space, std::span<const std::string> variables);
/// Condition under which all bounds hold, as an expression in parentheses; empty where nothing is left to test.
std::string triton_where(std::span<const ir::Bound> where, const ir::Space& space,
                         std::span<const std::string> variables);

/// How a reduction is folded.
struct TritonFold {
  DType type = DType::f32;   ///< of the terms and of the running value
  std::string neutral;       ///< a literal of it
  std::string_view combine;  ///< a function of the prelude, of two values
};
TritonFold triton_fold(const Reduction& reduction);
/// Node `reduction.arg` as a term to fold.
std::string triton_term(const Kernel& kernel, const Reduction& reduction);

/// Imports, and the helper functions that `body` calls.
std::string triton_prelude(std::string_view body);

}  // namespace planish::codegen::printing
