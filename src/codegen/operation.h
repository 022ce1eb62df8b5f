#pragma once

#include <string_view>

#include "codegen/kernel.h"

/// One table of the scalar operations: what all that treats them by kind reads. How a backend spells each is said where
/// it prints.
namespace planish::codegen {

/// What an operation costs against an addition, roughly, on hardware with and without special units.
enum class OperationCost : std::uint8_t {
  free,      ///< no arithmetic
  plain,     ///< one instruction
  fused,     ///< two in one
  division,  ///< and roots
  function,  ///< of a short series or a table
  library,   ///< a call, or a loop
};
double weight(OperationCost cost);

struct OperationInfo {
  static constexpr int any = -1;  ///< arity of loads: one argument for each dimension that is gathered along
  Op op;
  std::string_view name;
  int arity;
  OperationCost cost;
  bool transcendental = false;  ///< exp, log, the trigonometric and hyperbolic functions and their kin
  bool worth_keeping = false;   ///< dear enough to be kept in memory rather than computed again
  bool approximated = false;    ///< the machine has a faster, less exact form for f32
  bool truth = false;           ///< gives a boolean, whatever its arguments are
};
const OperationInfo& info(Op op);

}  // namespace planish::codegen
