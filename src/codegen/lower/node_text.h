#pragma once

#include <string>
#include <string_view>

#include "codegen/kernel.h"

namespace planish::codegen {

std::string_view op_name(Op op);
std::string_view reduce_name(ReduceKind kind);
/// One line that determines the node completely (arguments as %position).
std::string node_text(const Node& node);
std::string bounds_text(const std::vector<ir::Bound>& where);

}  // namespace planish::codegen
