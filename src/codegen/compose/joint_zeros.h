#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "codegen/genome.h"
#include "program/program.h"

/// One launch that zeroes scratch memory of a whole program: counters that blocks of a kernel meet at, and the like. A
/// step that sets a buffer costs a call of the driver each, and a program with such steps cannot be replayed as a graph
/// of kernels.
namespace planish::codegen {

/// Whether one launch may zero memory of so many bytes beside others: whole words, and few of them, on a target that
/// has a kernel for it (Emission::zeroing).
bool can_be_zeroed_jointly(const Device& device, std::int64_t bytes);

/// `buffers`: each with its bytes, for which the above holds; 1 to most_zeroed of them. The kernel of the launch is not
/// set.
inline constexpr std::size_t most_zeroed = 128;
std::pair<program::KernelSource, program::Launch> joint_zeros(const Device& device,
                                                              const std::vector<std::pair<int, std::int64_t>>& buffers);

}  // namespace planish::codegen
