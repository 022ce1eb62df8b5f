#pragma once

#include <string>
#include <string_view>

namespace planish::codegen::contraction {

/// A kernel's text with the numbers of its inputs, coordinates and values (`in3`, `d7`, `v12`), behind the line that
/// says where its own begins, in the order in which it names them: texts of kernels that do the same are the same,
/// whatever else their kernels compute. Thread-safe.
std::string renumbered(std::string_view text);

}  // namespace planish::codegen::contraction
