#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "codegen/kernel.h"

/// One table of the scalar operations: what all that treats them by kind reads, and how families of them are spelled.
/// What a backend says in a way of its own is said where it prints.
namespace planish::codegen {

/// Whether each row of a table stands at the place of its kind: so rows are found.
template <typename Row, std::size_t count, typename Kind>
constexpr bool in_order(const std::array<Row, count>& rows, Kind Row::* kind) {
  for (std::size_t i = 0; i < count; ++i) {
    if (rows[i].*kind != static_cast<Kind>(i)) return false;
  }
  return true;
}

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

/// Families that a printer says in one way: with the sign, or with the name of C's function.
enum class OperationForm : std::uint8_t {
  own,         ///< every printer has its own way
  arithmetic,  ///< a sign between numbers; whole ones wrap
  comparison,  ///< a sign between numbers, giving a boolean
  logic,       ///< a sign between truths
  bits,        ///< a sign between whole numbers or booleans
  function,    ///< a function, of C's library where it has a name there
};

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
  OperationForm form = OperationForm::own;
  std::string_view sign{};    ///< arithmetic, comparison, logic, bits: in C++ and in Python
  std::string_view c_name{};  ///< of C's function for f64; with an f behind it for f32
};
const OperationInfo& info(Op op);

}  // namespace planish::codegen
