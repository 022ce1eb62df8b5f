#pragma once

#include <map>

#include "codegen/compose/kernel_origin.h"

/// Attention of few queries, and right before it the write of its step's keys and values into the cache that it reads,
/// as one launch: that write is a launch of a few kilobytes, and while it is waited for no key can be asked for.
namespace planish::codegen {

/// `origins`: of kernels that write by a scatter alone, and of attention of few queries (Emitted::few_queries), by
/// their numbers. Kernels that are launched no more stay.
void join_writes(program::Program& program, const std::map<int, KernelOrigin>& origins, const Device& device);

}  // namespace planish::codegen
