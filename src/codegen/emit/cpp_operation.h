#pragma once

#include <string>

#include "codegen/emit/cpp_value.h"

namespace planish::codegen::cpp {

/// The expression of a node that computes: neither a constant, nor a load or an index, nor the result of a fold. Its
/// type is the node's form, a vector where the view says so (internal to the C++ emitter).
std::string operation_text(Printer& printer, const View& view, int node, const Spot& spot);

}  // namespace planish::codegen::cpp
