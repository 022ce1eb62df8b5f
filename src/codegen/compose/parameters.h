#pragma once

#include <string>
#include <string_view>
#include <vector>

/// Private to codegen/compose: kernels' parameters, read from their text.
namespace planish::codegen {

struct Parameter {
  std::string type, name;
};

/// Of "const float* __restrict__ in0, int* __restrict__ out2", without `__restrict__`; none where it has another form.
std::vector<Parameter> parameters_of(std::string_view list);

}  // namespace planish::codegen
