#pragma once

#include <optional>

#include "codegen/contraction/contraction.h"
#include "codegen/contraction/plan.h"
#include "codegen/contraction/sliding.h"

namespace planish::codegen::contraction {

/// What a contraction kernel multiplies, and how its factors lie: all that tile plans are made for.
struct Product {
  Contraction c;
  std::optional<Sliding> sliding;
  Problem problem;
};

/// Errors are contraction_of()'s.
Result<Product> product_of(const Kernel& kernel);

}  // namespace planish::codegen::contraction
