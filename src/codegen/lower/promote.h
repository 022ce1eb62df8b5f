#pragma once

#include "codegen/lower/lowering.h"

namespace planish::codegen {

/// torch.promote_types for the dtypes we know.
DType promote(DType a, DType b);
/// torch.result_type of two operands: a tensor with dims outranks a 0-dim tensor, which outranks a Python number,
/// within one kind (bool < integer < floating).
DType result_type(const Lowering& low, const ir::Arg* a, const ir::Arg* b);

}  // namespace planish::codegen
