#pragma once

#include <cstdint>

#include "codegen/genome.h"
#include "codegen/kernel.h"

/// A genome applied to a kernel by the Triton emitter. Pure; thread-safe.
namespace planish::codegen::printing {

struct TritonPlan {
  bool row = false;
  bool wide = false;  ///< 64-bit offsets
  bool fast = false;  ///< the machine's approximations of exp and division
  bool stream_loads = false, stream_stores = false;
  std::int64_t threads = 128;  ///< a program
  std::int64_t rows = 1;       ///< rows a program
  std::int64_t block = 1;      ///< elements of a row (row) or of the whole space (pointwise) at a time; a power of two
  std::int64_t asked = 1;      ///< the same, before it was cut to the length
  std::int64_t length = 1;     ///< elements of a row, or of the whole space
  std::int64_t trips = 1;      ///< blocks to a row, one after the other
  std::int64_t programs = 1;
  std::int64_t words = 0;  ///< estimate of the registers of a thread
};

/// Longest chain of additions in one accumulator.
constexpr std::int64_t triton_longest_chain = 256;

TritonPlan make_triton_plan(const Kernel& kernel, const Genome& genome);

}  // namespace planish::codegen::printing
