#pragma once

#include <string_view>

#include "codegen/contraction/place_writer.h"
#include "codegen/contraction/plan.h"

/// CUDA text that kernels share which pack factors; constant, header-free, behind machine_text().
namespace planish::codegen::contraction {

/// Loads, chunks of 8 stored values, and what blocks of a cluster tell each other.
std::string_view packing_text();

/// fp32 as fp16 of a scale: exponents, rounding and what rounding left.
std::string_view scaling_text();

/// Rounds the eight floats `v`, times `factor`, to the chunk `hi`, and what is left of them to `lo` where the plan
/// splits.
void print_rounding(PlaceWriter& writer, const TilePlan& plan, std::string_view v, std::string_view factor);

}  // namespace planish::codegen::contraction
