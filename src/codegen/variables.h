#pragma once

#include <vector>

#include "codegen/kernel.h"

namespace planish::codegen {

/// By node: the variables of the space that its value depends on. A fold's result does not depend on what it folds.
std::vector<std::vector<bool>> variables_of(const Kernel& kernel);

}  // namespace planish::codegen
