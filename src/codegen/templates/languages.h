#pragma once

#include <memory>

#include "codegen/templates/template.h"

namespace planish::codegen {

/// A GPU's two languages as one schedule: the gene `language` chooses. What the
/// template cannot print in Triton stays as it is.
std::unique_ptr<const Schedule> in_both_languages(const Template& kind, const Kernel& kernel, const Device& device,
                                                  std::unique_ptr<const Schedule> cuda);

}  // namespace planish::codegen
