#pragma once

#include <string>
#include <string_view>

#include "codegen/kernel.h"

namespace planish::codegen {

std::string_view reduce_name(ReduceKind kind);
std::string_view scan_name(ScanKind kind);
/// "pointwise", "row" or "scan".
std::string_view anchor_name(Anchor anchor);
/// One line that determines the node completely (arguments as %position).
std::string node_text(const Node& node);
std::string bounds_text(const std::vector<ir::Bound>& where);

}  // namespace planish::codegen
