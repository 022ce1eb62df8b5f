#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "program/program.h"

/// One CUDA launch that zeroes scratch memory of a whole program: counters that blocks of a kernel meet at, and the
/// like. A step that sets a buffer costs a call of the driver each, and a program with such steps cannot be replayed as
/// a graph of kernels.
namespace planish::codegen {

/// Buffers that one launch may zero: whole words, and few of them.
bool can_be_zeroed_jointly(std::int64_t bytes);

/// `buffers`: each with its bytes; 1 to most_zeroed of them. The kernel of the launch is not set.
inline constexpr std::size_t most_zeroed = 128;
std::pair<program::KernelSource, program::Launch> joint_zeros(const std::vector<std::pair<int, std::int64_t>>& buffers);

}  // namespace planish::codegen
