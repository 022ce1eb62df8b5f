#pragma once

#include "codegen/templates/column/cuda_column_plan.h"
#include "codegen/templates/template.h"

namespace planish::codegen {

/// Of the launch that reads the data.
Outline column_outline(const printing::ColumnPlan& plan, const Genome& genome);

}  // namespace planish::codegen
