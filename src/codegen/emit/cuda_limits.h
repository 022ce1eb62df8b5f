#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include "backend/architecture.h"
#include "codegen/genome.h"
#include "codegen/kernel.h"

/// What all CUDA schedules count with.
namespace planish::codegen::printing {

constexpr std::int64_t registers_per_sm = 65536;  ///< of a multiprocessor
/// Shared memory that the system takes for each resident block.
constexpr std::int64_t block_overhead_bytes = 1024;
/// Shared memory that a kernel may declare.
constexpr std::int64_t static_shared_limit = 48 << 10;

/// The least power of two that is not below n.
inline std::int64_t power_of_two_above(std::int64_t n) {
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::max<std::int64_t>(1, n))));
}

/// from, 2 from, 4 from, … up to `to`.
inline std::vector<std::int64_t> doublings(std::int64_t from, std::int64_t to) {
  std::vector<std::int64_t> out;
  for (std::int64_t v = from; v <= to; v *= 2) out.push_back(v);
  return out;
}

/// Choices of a switch that may have no second position.
inline std::vector<std::int64_t> either(bool there) {
  return there ? std::vector<std::int64_t>{0, 1} : std::vector<std::int64_t>{0};
}

/// Bytes of the narrowest element among those that move with every point.
inline int narrowest_moved(const Kernel& kernel) {
  int bytes = 16;
  for (const auto& input : kernel.inputs) bytes = std::min(bytes, size_of(input.dtype));
  for (const auto& output : kernel.outputs) {
    if (!output.per_row) bytes = std::min(bytes, size_of(output.dtype));
  }
  return std::max(1, bytes);
}

/// Why a multiprocessor cannot hold so many blocks of so many threads, each with its shared memory (bytes) and
/// registers; empty where it can.
inline std::string does_not_hold(const Device& device, std::int64_t blocks, std::int64_t threads, std::int64_t shared,
                                 int registers) {
  if (blocks * (shared + block_overhead_bytes) > device.shared_bytes + block_overhead_bytes)
    return "shared memory for fewer blocks than asked for";
  if (blocks * threads > std::int64_t{32} * backend::architecture(device.arch).warps)
    return "more threads than a multiprocessor holds";
  const std::int64_t cap = std::min<std::int64_t>(255, registers_per_sm / (blocks * threads) / 8 * 8);
  if (registers > cap) return fmt::format("about {} registers a thread, {} are there", registers, cap);
  return {};
}

/// Shared memory of a block of a launch that begins beside the one before it (Emitted::early): so much that two have
/// room on a multiprocessor, with small blocks of launches between them, and three have not. Launches in a row then
/// have a block a multiprocessor each, and one that ends makes room for one of the launch after next. Where it makes
/// room for two, or for none, blocks lie unevenly, and reading weights takes a fifth longer.
inline std::int64_t half_shared(const Device& device) {
  constexpr std::int64_t small_blocks = 4096;
  return backend::architecture(device.arch).shared_bytes / 2 - block_overhead_bytes - small_blocks;
}

/// Genes of `a` that have another value in `b`.
inline int differences(const Genome& a, const Genome& b) {
  return static_cast<int>(
      std::ranges::count_if(a, [&](const auto& one) { return value_of(b, one.first, one.second) != one.second; }));
}

}  // namespace planish::codegen::printing
