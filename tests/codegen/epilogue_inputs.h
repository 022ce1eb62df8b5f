#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <cstring>
#include <string>

#include "codegen/contraction/epilogue.h"
#include "codegen/emit/expression.h"

/// What printed epilogues are called with, where they run on the CPU.
namespace planish::codegen {

/// Text of a product's sum at a place, all different from their neighbours.
inline constexpr const char* sums =
    R"(static float sum_at(int batch, int y, int x) { return (float)(((batch * 31 + y) * 977 + x) % 8191) / 64.0f - 60.0f; }
)";

/// "(const float*)in[2], (float*)out[0], ".
inline std::string arguments_of(const contraction::Epilogue& epilogue, const Kernel& kernel) {
  std::string text;
  for (const int i : epilogue.inputs)
    text +=
        fmt::format("(const {}*)in[{}], ", printing::storage_type(kernel.inputs[static_cast<std::size_t>(i)].dtype), i);
  for (std::size_t o = 0; o < kernel.outputs.size(); ++o)
    text += fmt::format("({}*)out[{}], ", printing::storage_type(kernel.outputs[o].dtype), o);
  return text;
}

/// Values that fp32 and 16-bit types have, all different from their neighbours.
inline void fill(const Input& input, void* memory) {
  auto* const bytes = static_cast<unsigned char*>(memory);
  for (std::int64_t e = 0; e < input.storage_elements; ++e) {
    const float value = static_cast<float>(e * 37 % 1021) / 128;
    const auto half = static_cast<std::uint16_t>(0x3c00 + e % 512);
    if (input.dtype == DType::f32) std::memcpy(bytes + 4 * e, &value, 4);
    if (size_of(input.dtype) == 2) std::memcpy(bytes + 2 * e, &half, 2);
  }
}

/// Elements from a tensor's first to its last.
inline std::int64_t reach_of(const Output& output) {
  std::int64_t reach = 1;
  for (std::size_t d = 0; d < output.shape.size(); ++d) reach += (output.shape[d] - 1) * output.strides[d];
  return reach;
}

}  // namespace planish::codegen
