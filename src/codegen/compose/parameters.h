#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "program/program.h"

/// Private to codegen/compose: kernels' parameters, read from their text.
namespace planish::codegen {

struct Parameter {
  std::string type, name;
};

/// Of "const float* __restrict__ in0, int* __restrict__ out2", without `__restrict__`; none where it has another form.
std::vector<Parameter> parameters_of(std::string_view list);

/// The buffers of a launch of `kernel`; `written`: of those alone that it may write, whose parameters are no pointers
/// to `const`. All are where the text has another form.
std::set<int> buffers_of(const program::Launch& launch, const program::KernelSource& kernel, bool written);

}  // namespace planish::codegen
