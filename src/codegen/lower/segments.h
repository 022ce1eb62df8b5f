#pragma once

#include <optional>
#include <vector>

#include "codegen/lower/lowering.h"

/// Private to codegen/lower: kernels that fold parts of their rows as well (see codegen/segments.h).
namespace planish::codegen {

/// The variables that these become where variable `v` is split in two.
std::vector<int> split_variables(const std::vector<int>& variables, int v);

/// Coordinates of a value in the leading variables of the space: what belongs to rows, or to parts of them. Nothing
/// where their settings are not as many as its elements.
std::optional<Coords> leading_coords(const Lowering& low, const ir::Value& value);

/// Makes a row kernel, all of whose variables are in place but in no order, one of the parts anchor: outer variables in
/// front, then those that say which part it is, then those within a part. Error `unsupported` where memory has them
/// otherwise, or the result is no such kernel.
Status order_segments(Kernel& kernel, const std::vector<int>& row, const std::vector<int>& part);

}  // namespace planish::codegen
