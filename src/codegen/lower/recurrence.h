#pragma once

#include <span>
#include <vector>

#include "base/result.h"
#include "codegen/kernel.h"
#include "ir/graph.h"

/// Private to codegen/lower.
namespace planish::codegen {

/// Whether this is one of torch's recurrent networks over sequences of one length.
bool recurs(std::string_view op);

/// The kernel of the recurrent network among the nodes `inside`, which has nothing else beside it but what is read
/// without being made (views, zeros). Error kind `unsupported`, as lower() has it.
Result<Kernel> lower_recurrence(const ir::Graph& graph, const std::vector<bool>& inside, std::span<const int> outputs);

}  // namespace planish::codegen
