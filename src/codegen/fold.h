#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "codegen/operation.h"
#include "codegen/table.h"

/// One table of the kinds of folds: what each is as algebra, and how each backend spells it. All that treats folds by
/// kind reads it: a kind is its name and its row here. Scans (running values) are a second table, over the same folds;
/// a third has the states that two folds share.
namespace planish::codegen {

enum class ReduceKind : std::uint8_t { sum, product, max, min, any, all, argmax, argmin, nth_smallest, nth_largest };

/// What a fold of nothing is.
enum class Identity : unsigned char { zero, one, lowest, highest };

/// Texts for one backend, for fmt.
struct FoldSpelling {
  /// Two states, {0} and {1}, as one expression: of floating values, and of whole numbers; {2} is the type's name
  /// there. A sign alone is arithmetic that wraps.
  std::string_view real, whole;
  /// The vector {1} put into {0}, as a statement: of floating values, and of 64-bit whole numbers.
  std::string_view into, into_whole;
  /// All lanes of the vector {0} as one value of type {1}.
  std::string_view lanes;
};

struct FoldInfo {
  ReduceKind kind;
  std::string_view name;
  int key;            ///< in the keys of stored kernels: a new kind has the next, none is ever changed
  Op op;              ///< of two values
  Identity identity;  ///< of the values, where there are positions as well
  bool adds;          ///< rounding adds up: floating states are kept wider than what they are made of
  bool truth;         ///< of booleans
  ReduceKind value;   ///< what the value alone is folded by: itself, where there are no positions
  FoldSpelling cuda;  ///< empty for positions: pl_extreme and pl_later take both
  FoldSpelling cpp;
  /// Triton's functions: of floating values, of those in f64 where it is another, and of whole numbers.
  std::string_view triton, triton_wide, triton_whole;
};

namespace table_of_folds {

// clang-format off
inline constexpr std::array all{
    FoldInfo{ReduceKind::sum, "sum", 0, Op::add, Identity::zero, true, false, ReduceKind::sum,
             {"({0} + {1})", "+", {}, {}, {}},
             {"{0} + {1}", "(i64)((u64){0} + (u64){1})", "{0} += {1};", "add({0}, {1});", "({1})sum({0})"},
             "pl_add", "pl_add", "pl_add"},
    FoldInfo{ReduceKind::product, "product", 1, Op::mul, Identity::one, true, false, ReduceKind::product,
             {"({0} * {1})", "*", {}, {}, {}},
             {"{0} * {1}", "(i64)((u64){0} * (u64){1})", "{0} *= {1};", "mul({0}, {1});", "({1})product({0})"},
             "pl_multiply", "pl_multiply", "pl_multiply"},
    // Functions: an operand may be what another thread of the warp holds, which all must ask for, and once.
    FoldInfo{ReduceKind::max, "max", 2, Op::maximum, Identity::lowest, false, false, ReduceKind::max,
             {"pl_max({0}, {1})", "pl_max({0}, {1})", {}, {}, {}},
             {"({0} > {1} || {0} != {0}) ? {0} : {1}", "({0} > {1} || {0} != {0}) ? {0} : {1}",
              "{0} = greater({1}, {0});", "{0} = greater({1}, {0});", "fold_max({0})"},
             "pl_max", "pl_max64", "pl_larger"},
    FoldInfo{ReduceKind::min, "min", 3, Op::minimum, Identity::highest, false, false, ReduceKind::min,
             {"pl_min({0}, {1})", "pl_min({0}, {1})", {}, {}, {}},
             {"({0} < {1} || {0} != {0}) ? {0} : {1}", "({0} < {1} || {0} != {0}) ? {0} : {1}",
              "{0} = less({1}, {0});", "{0} = less({1}, {0});", "fold_min({0})"},
             "pl_min", "pl_min64", "pl_smaller"},
    FoldInfo{ReduceKind::any, "any", 4, Op::logical_or, Identity::zero, false, true, ReduceKind::any,
             {"({2})(({0} != 0) | ({1} != 0))", "({2})(({0} != 0) | ({1} != 0))", {}, {}, {}},
             {"{0} | {1}", "{0} | {1}", "{0} |= {1};", "{0} |= {1};", "fold_or({0})"},
             "pl_or", "pl_or", "pl_or"},
    FoldInfo{ReduceKind::all, "all", 5, Op::logical_and, Identity::one, false, true, ReduceKind::all,
             {"({2})(({0} != 0) & ({1} != 0))", "({2})(({0} != 0) & ({1} != 0))", {}, {}, {}},
             {"{0} & {1}", "{0} & {1}", "{0} &= {1};", "{0} &= {1};", "fold_and({0})"},
             "pl_and", "pl_and", "pl_and"},
    FoldInfo{ReduceKind::argmax, "argmax", 6, Op::maximum, Identity::lowest, false, false, ReduceKind::max,
             {},
             {{}, {}, "higher({0}, {1});", "higher({0}, {1});", "higher_at({0})"},
             {}, {}, {}},
    FoldInfo{ReduceKind::argmin, "argmin", 7, Op::minimum, Identity::highest, false, false, ReduceKind::min,
             {},
             {{}, {}, "lower({0}, {1});", "lower({0}, {1});", "lower_at({0})"},
             {}, {}, {}},
    // Of one rank in a row, which two states cannot be joined to: kernels of ranks have their own schedules.
    FoldInfo{ReduceKind::nth_smallest, "nth_smallest", 8, Op::minimum, Identity::highest, false, false,
             ReduceKind::nth_smallest, {}, {}, {}, {}, {}},
    FoldInfo{ReduceKind::nth_largest, "nth_largest", 9, Op::maximum, Identity::lowest, false, false,
             ReduceKind::nth_largest, {}, {}, {}, {}, {}},
};
// clang-format on
static_assert(in_order(all, &FoldInfo::kind) && numbered(all, &FoldInfo::key));

}  // namespace table_of_folds

constexpr const FoldInfo& info(ReduceKind kind) {
  return table_of_folds::all[static_cast<std::size_t>(kind)];
}

/// True for the kinds that carry a position.
constexpr bool finds_position(ReduceKind kind) {
  return info(kind).value != kind;
}

/// True for the kinds that give the element of one rank (Reduction::rank).
constexpr bool ranks(ReduceKind kind) {
  return kind == ReduceKind::nth_smallest || kind == ReduceKind::nth_largest;
}

enum class ScanKind : std::uint8_t { sum, product, max, min, log_sum_exp };

/// A scan's kind: what its states are folded by, and what they are called in each backend's prelude. One state a row,
/// joined with that of later elements; the prelude's structures say how.
struct ScanInfo {
  ScanKind kind;
  std::string_view name;
  int key;                         ///< as FoldInfo::key
  ReduceKind fold;                 ///< of values alone: identity, whether rounding adds up
  bool exponents;                  ///< a state is a maximum and a sum of exponentials, neither of which is `fold`'s
  bool ranges;                     ///< floats are held in f64, for its range
  bool totals;                     ///< f32 is added up in f64 from one vector, or block, to the next
  double operations;               ///< an element, as cost() counts them
  std::string_view cuda;           ///< type of a state of values {0}
  std::string_view cuda_position;  ///< the same with positions of type {1}; empty: there are none
  std::string_view cpp;            ///< what joins two; with positions: and "_at"
};

namespace table_of_scans {

// clang-format off
inline constexpr std::array all{
    ScanInfo{ScanKind::sum, "sum", 0, ReduceKind::sum, false, false, true, 2, "PlRunSum<{0}>", {}, "run_sum"},
    ScanInfo{ScanKind::product, "product", 1, ReduceKind::product, false, true, false, 2,
             "PlRunProduct<{0}>", {}, "run_product"},
    ScanInfo{ScanKind::max, "max", 2, ReduceKind::max, false, false, false, 2,
             "PlRunExtreme<true, {0}>", "PlRunAt<true, {0}, {1}>", "run_max"},
    ScanInfo{ScanKind::min, "min", 3, ReduceKind::min, false, false, false, 2,
             "PlRunExtreme<false, {0}>", "PlRunAt<false, {0}, {1}>", "run_min"},
    ScanInfo{ScanKind::log_sum_exp, "log_sum_exp", 4, ReduceKind::max, true, false, false, 30,
             "PlRunExps<{0}, {1}>", {}, "run_exps"},
};
// clang-format on
static_assert(in_order(all, &ScanInfo::kind) && numbered(all, &ScanInfo::key));

}  // namespace table_of_scans

constexpr const ScanInfo& info(ScanKind kind) {
  return table_of_scans::all[static_cast<std::size_t>(kind)];
}

/// Two folds that one sweep finds together, although the second folds what is relative to the first one's result: what
/// is kept is more than a value for each. How it is kept, merged and finished says the backend that has such states
/// (emit/cuda_fold.h).
enum class JointKind : std::uint8_t {
  exponentials,  ///< a maximum of x, and the sum of exp(x - base), base made of that maximum
  deviations,    ///< a sum of x, and the sum of (x - mean)²
};

struct JointInfo {
  JointKind kind;
  ReduceKind leader;    ///< of x
  ReduceKind follower;  ///< of `of` x - base
  Op of;                ///< mul: of the difference with itself
  bool mean;            ///< the base must be the leader's result over the number of elements
};

namespace table_of_joints {

inline constexpr std::array all{
    JointInfo{JointKind::exponentials, ReduceKind::max, ReduceKind::sum, Op::exp, false},
    JointInfo{JointKind::deviations, ReduceKind::sum, ReduceKind::sum, Op::mul, true},
};
static_assert(in_order(all, &JointInfo::kind));

}  // namespace table_of_joints

constexpr const JointInfo& info(JointKind kind) {
  return table_of_joints::all[static_cast<std::size_t>(kind)];
}

}  // namespace planish::codegen
