#pragma once

#include <cstdint>
#include <string_view>

/// One table of the scalar operations: what all that treats them by kind reads, and how families of them are spelled.
/// What a backend says in a way of its own is said where it prints.
namespace planish::codegen {

/// Scalar operations. Types are those of Node::dtype unless said otherwise. Floating operations on f16/bf16 nodes are
/// computed in f32 and *not* rounded between operations of one kernel; `cast` to f16/bf16 rounds only where the graph
/// had an explicit cast (its `rounds` flag). NaN and Inf behave as in PyTorch: maximum/minimum propagate NaN,
/// comparisons with NaN are false (ne true), integer floor_div/remainder follow Python's sign rules, shifts and integer
/// overflow wrap.
enum class Op : std::uint8_t {
  constant,  ///< Node::value (bit pattern in `bits` for integers)
  load,      ///< Kernel::inputs[Node::input] at Node::index + Σ args[i]·strides[i] where every bound of Node::where
             ///< holds, else constant `bits`/`value`. Nothing is read where some args[i] is not in [0, limits[i]): the
             ///< value is then `out_of_range`
  index,     ///< the integer value of Node::index (arange and friends)
  reduced,   ///< result of Kernel::reductions[Node::reduction], one value for each setting of the outer variables
  scanned,   ///< Kernel::scans[Node::scan] so far: the element at hand included, or (Node::exclusive) all before it
  cast,      ///< converts args[0] to dtype with torch's rules (float→int truncates, →bool is != 0)
  neg,
  abs,
  sign,
  ceil,
  floor,
  round_even,
  trunc,
  frac,
  reciprocal,
  sqrt,
  rsqrt,
  exp,
  exp2,
  expm1,
  log,
  log2,
  log10,
  log1p,
  sin,
  cos,
  tan,
  asin,
  acos,
  atan,
  sinh,
  cosh,
  tanh,
  asinh,
  acosh,
  atanh,
  erf,
  erfc,
  sigmoid,
  logical_not,
  bitwise_not,
  isnan,
  isinf,
  isfinite,
  relu,
  add,
  sub,
  mul,
  div,  ///< div is true division on floats
  floor_div,
  trunc_div,
  remainder,
  fmod,
  pow,
  atan2,
  maximum,
  minimum,
  fmax,
  fmin,
  hypot,
  copysign,
  eq,
  ne,
  lt,
  le,
  gt,
  ge,  ///< args share a dtype; result is boolean
  logical_and,
  logical_or,
  logical_xor,
  bitwise_and,
  bitwise_or,
  bitwise_xor,
  shift_left,
  shift_right,
  select,  ///< args: boolean condition, then, else
  fma,     ///< args[0]*args[1]+args[2]
};

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
