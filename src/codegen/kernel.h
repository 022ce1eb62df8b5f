#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "codegen/anchor.h"
#include "codegen/fold.h"
#include "codegen/operation.h"
#include "codegen/recurrence.h"
#include "ir/index.h"

/// The semantic form of one fused kernel: what is computed, not how. Partition builds it from graph nodes, emitters
/// turn it (with a Genome) into CUDA C++ or C++. Everything here is plain data; no ownership beyond the vectors;
/// thread-safe to read.
namespace planish::codegen {

/// One scalar value of the expression DAG. Nodes are in topological order: args are smaller positions.
struct Node {
  Op op = Op::constant;
  DType dtype = DType::f32;
  std::vector<int> args;
  double value = 0;       ///< constant, or the value outside `where` of a load (floating)
  std::int64_t bits = 0;  ///< the same for integer and boolean nodes
  int input = -1;         ///< load
  ir::IndexExpr index;    ///< load: element offset in the input's storage; index: the value. Over Kernel::space
  std::vector<std::int64_t> strides, limits;  ///< load: of each of its args, i64 nodes that move the offset at run time
  std::vector<ir::Bound> where;               ///< load: the bounds under which the element may be touched
  int reduction = -1;                         ///< reduced
  int scan = -1;                              ///< scanned
  bool exclusive = false;  ///< scanned: without the element at hand; the scan's neutral element at the first one
  bool position = false;   ///< scanned: where the extreme value was, instead of the value
  bool rounds = false;     ///< cast to f16/bf16: the graph asked for the rounding; mul of f32: of a convolution's
                           ///< factors, which PyTorch may round to ten bits
};

/// True for a load whose place is known at run time alone.
inline bool gathers(const Node& node) {
  return node.op == Op::load && !node.args.empty();
}

/// What a load gives where an index is out of range: NaN, or the least integer of the dtype (false for booleans).
struct OutOfRange {
  double value = 0;
  std::int64_t bits = 0;
};
OutOfRange out_of_range(DType dtype);

/// Folds Node `arg` over all inner variables, for each setting of the outer ones. Reductions are in dependency order:
/// the argument may use `reduced` nodes of earlier reductions. max/min propagate NaN. argmax/argmin give the value that
/// Node `at` has where `arg` is extreme; the first NaN counts as the extreme, and of equal values the one with the
/// smallest `at` wins.
struct Reduction {
  ReduceKind kind = ReduceKind::sum;
  int arg = -1;
  DType accumulate = DType::f32;  ///< of the result: f32 for f16/bf16/f32 data, f64 for f64, i64 for integers and
                                  ///< positions
  /// Reductions that can be computed together in one sweep, knowing nothing of each other, share a phase (0, 1, …);
  /// a reduction whose argument needs the result of phase p has a phase > p.
  int phase = 0;
  int at = -1;  ///< argmax/argmin: an i64 node, not negative; its argument then has dtype f32, f64, i32 or i64.
                ///< nth_smallest/nth_largest: any node; the result is its value where the element of that rank is
  /// cross anchor: folds over the last Kernel::across outer variables instead, for each setting of the others and of
  /// the inner ones. Phases of these are counted apart from those along rows.
  bool across = false;
  /// parts anchor: folds over the last Kernel::parts inner variables instead, for each setting of all others. Its phase
  /// is the one in which its argument is known. attention anchor: likewise; and the others fold over the inner
  /// variables before those.
  bool part = false;
  /// nth_smallest/nth_largest: an i64 node over the outer variables, the rank in the row, counted from 0. NaN is the
  /// largest of all, and of equal elements the one that comes first in the row has the lower rank.
  int rank = -1;
};

/// Folds Node `arg` along a row: over all inner variables before the point at hand in the order of the sweep, and the
/// point itself. max/min propagate NaN. Neither `arg` nor a reduction's argument depends on a `scanned` node; `arg` may
/// depend on reductions. What a log_sum_exp holds is log Σ exp(arg).
struct Scan {
  ScanKind kind = ScanKind::sum;
  int arg = -1;                   ///< of dtype `accumulate`
  DType accumulate = DType::f32;  ///< f32, f64, i32 (max, min) or i64; products of floats in f64, for their range
  int at = -1;  ///< max/min: an i64 node that grows along the sweep, whose value at the extreme is known too; of equal
                ///< values, and of NaNs, the last one counts
};

struct Input {
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape, strides;
  std::int64_t storage_elements = 0;  ///< 1 + Σ (shape-1)·stride; 0 if empty
  int value = -1;                     ///< the graph's value id
};

struct Output {
  int node = -1;
  DType dtype = DType::f32;  ///< stored with one rounding from the node's value
  std::vector<std::int64_t> shape, strides;
  ir::IndexExpr index;   ///< element offset written, over Kernel::space; injective over the variables it is written for
  bool per_row = false;  ///< row anchor: written once for each setting of the outer variables
  bool per_column = false;  ///< cross anchor: written once for each setting of what `across` reductions leave
  bool per_part = false;    ///< parts anchor: written once for each setting of what `part` reductions leave
  /// Emitters alone make such: elements are not stored but folded by `fold`, in `dtype`, over pieces of a part.
  bool folded = false;
  ReduceKind fold = ReduceKind::sum;
  /// Schedules alone make such: what is computed where one of these does not hold is dropped.
  std::vector<ir::Bound> where;
  int value = -1;  ///< the graph's value id
  /// scatter anchor: the value that this one is wherever nothing is written; its memory holds that before the launch,
  /// and the kernel reads none of it. -1: there is none such.
  int base = -1;
  bool over_zeros = false;  ///< scatter anchor: likewise of zeros, or of nothing in particular
  /// scatter anchor: i64 nodes that move the place written at run time, by so many elements each; nothing is written
  /// where one of them is not in [0, limit). Where two points have one place, either of them may be the last.
  std::vector<int> args;
  std::vector<std::int64_t> arg_strides, arg_limits;

  /// Outputs of which elements may be left as they are.
  bool writes_places() const { return base >= 0 || over_zeros; }
};

/// space.extents = outer variables first, then `inner` ones (inner = 0 for pointwise). The linear order of the inner
/// variables, last fastest, is the order in which a row is swept (by scans: or the reverse). Adjacent variables are
/// merged wherever every index allows it, and variables are split until indices are affine where possible; emitters
/// must nevertheless handle div and mod.
struct Kernel {
  Anchor anchor = Anchor::pointwise;
  ir::Space space;
  int inner = 0;
  int across = 0;  ///< cross anchor: so many outer variables, those right before the inner ones, are folded across rows
  int parts = 0;   ///< parts and attention anchors: so many inner variables, the last ones, lie within a part of a row
  std::vector<Input> inputs;
  std::vector<Node> nodes;
  std::vector<Reduction> reductions;
  std::vector<Scan> scans;
  bool reversed = false;  ///< scans begin at the last element of a row
  std::vector<Output> outputs;
  std::optional<Recurrence> recurrence;  ///< recurrence anchor: what is computed

  /// True where the inner variables are a row that is swept.
  bool has_rows() const { return anchor != Anchor::pointwise && anchor != Anchor::scatter; }
  /// Points of the space of these variables alone.
  std::int64_t extent_of(const std::vector<int>& variables) const {
    std::int64_t n = 1;
    for (const int v : variables) n *= space.extent(v);
    return n;
  }
  std::int64_t outer_extent() const {
    std::int64_t n = 1;
    for (std::size_t i = 0; i + static_cast<std::size_t>(inner) < space.extents.size(); ++i) n *= space.extents[i];
    return n;
  }
  std::int64_t inner_extent() const {
    std::int64_t n = 1;
    for (std::size_t i = space.extents.size() - static_cast<std::size_t>(inner); i < space.extents.size(); ++i)
      n *= space.extents[i];
    return n;
  }
};

/// Least bytes the kernel must move (each touched input element read once, each output written once), and floating
/// operations.
struct Cost {
  double bytes = 0;
  double flops = 0;
  double products = 0;      ///< of the flops, those that a contraction's factors are multiplied and summed with
  double tensor_flops = 0;  ///< what these are as products of 16-bit numbers, at a precision that may be had
};
/// Operations (Cost::flops) that take as long as moving one byte, roughly, on GPUs and CPUs of today: 30 T/s beside
/// 4 TB/s, 100 G/s beside 20 GB/s.
inline constexpr double flops_per_byte = 6;
Cost cost(const Kernel& kernel);
/// The operand of a difference (0 or 1) that is a product, where the other is the largest or smallest such product of a
/// row; -1: it is no such difference. The product must be rounded as it was for the extreme: one fused with the
/// difference misses the extreme by up to half a unit, which for large numbers is beyond what exp() takes.
int product_beside_extreme(const Kernel& kernel, const Node& node);
/// Readable form for messages and golden tests.
std::string text(const Kernel& kernel);

}  // namespace planish::codegen
