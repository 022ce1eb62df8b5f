#pragma once

#include "surface.h"

namespace planish::bench {

void add_gemm_surfaces(std::vector<std::unique_ptr<Surface>>& out);
void add_kernel_surfaces(std::vector<std::unique_ptr<Surface>>& out);
/// What a measurement is off by.
double measured_factor(std::mt19937_64& noise);

}  // namespace planish::bench
