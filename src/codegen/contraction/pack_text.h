#pragma once

#include <string_view>

#include "codegen/contraction/place_writer.h"
#include "codegen/contraction/plan.h"

/// What printed kernels share which pack factors; behind sm90/pack.cuh.
namespace planish::codegen::contraction {

/// Rounds the eight floats `v`, times `factor`, to the chunk `hi`, and what is left of them to `lo` where the plan
/// splits.
void print_rounding(PlaceWriter& writer, const TilePlan& plan, std::string_view v, std::string_view factor);

}  // namespace planish::codegen::contraction
