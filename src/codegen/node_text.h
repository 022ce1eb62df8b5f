#pragma once

#include <string>
#include <vector>

#include "codegen/kernel.h"

namespace planish::codegen {

/// One line that determines the node completely (arguments as %position).
std::string node_text(const Node& node);
std::string bounds_text(const std::vector<ir::Bound>& where);

}  // namespace planish::codegen
