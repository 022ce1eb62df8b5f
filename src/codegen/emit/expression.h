#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/kernel.h"

/// Prints the expression DAG of a Kernel as C-like text, one `const float v12 = …;` a node, and says which nodes belong
/// where. Shared by the CUDA and the C++ emitters, which differ only in what their Speller answers. Pure functions;
/// thread-safe.
namespace planish::codegen::printing {

/// What differs between languages and schedules. The default answers are those of plain C++ with the prelude below.
class Speller {
 public:
  virtual ~Speller() = default;
  /// The value of Node `id`, a load (its `where` included), as an expression of computing_type(node.dtype).
  virtual std::string load(const Kernel& kernel, int id) = 0;
  /// The value of Node `id`, a `reduced`.
  virtual std::string reduced(const Kernel& kernel, int id) = 0;
  /// The value of Node `id`, a `scanned`.
  virtual std::string scanned(const Kernel& kernel, int id) = 0;
  /// An integer expression over the space's variables (for `index` nodes).
  virtual std::string index(const Kernel& kernel, const ir::IndexExpr& e) = 0;
  /// How other nodes refer to Node `id`. Default "v12".
  virtual std::string name(int id) const;
  /// Declared type of a node's variable. Default computing_type().
  virtual std::string type(DType dtype) const;
  /// Name of the function that computes a unary or binary floating operation, in f32 or f64 (`wide`).
  /// Default: libm's name (`expf`, `exp`), or the prelude's (`pl_sigmoid`).
  virtual std::string function(Op op, bool wide) const;
  /// a / b of Node `id`, a floating division (or a reciprocal) whose divisor is the node's last argument.
  virtual std::string quotient(const Kernel& kernel, int id, std::string_view a, std::string_view b) const;
  /// a - b, of which one is a product that must not be fused with it (product_beside_extreme). Default: plain C++,
  /// which its compiler may fuse.
  virtual std::string unfused_difference(bool wide, std::string_view a, std::string_view b) const;
  /// What is printed for Node `id` in place of its operation, made of any nodes before it; empty: the operation.
  virtual std::string whole_form(const Kernel& kernel, int id) const;

  /// `value` of Node `id`, a load, where its look-ups are in range and `where`, a condition or empty, holds.
  std::string guarded(const Kernel& kernel, int id, std::string value, std::string_view where) const;
  /// " + v3 * 128LL" for each of `args` that moves a place: what Node::args and Output::args do.
  std::string moved(std::span<const int> args, std::span<const std::int64_t> strides) const;
  /// Whether each of `args` is at least 0 and below its limit.
  std::string in_range(std::span<const int> args, std::span<const std::int64_t> limits) const;
};

/// C type a value of this dtype is computed in: f16, bf16 and f32 → float, f64 → double, i64 → long long, boolean →
/// bool, …
std::string_view computing_type(DType dtype);
/// C type as stored in memory: f16 and bf16 → unsigned short, boolean → unsigned char, others as computing_type.
std::string_view storage_type(DType dtype);
/// A literal of computing_type(dtype); NaN and infinities as the prelude's PL_INF_F32 and the like.
std::string literal(DType dtype, double value, std::int64_t bits);
/// Literal of the neutral element of a reduction in its accumulation type (sum 0, product 1, max -inf or lowest, …).
std::string neutral(ReduceKind kind, DType accumulate);
/// `a` and `b` (expressions of type accumulate) combined into one, e.g. "(a + b)" or "pl_max(a, b)".
std::string combine(ReduceKind kind, DType accumulate, std::string_view a, std::string_view b);
/// `name[0]` … `name[width - 1]` combined in pairs, and pairs of pairs. `width`: a power of two.
std::string combined_lanes(ReduceKind kind, DType accumulate, const std::string& name, int width);

/// Right-hand side of node `id`.
std::string operation(const Kernel& kernel, int id, Speller& speller);
/// Appends a definition for each node of `order` (ascending positions; their arguments defined before or in it).
void print_nodes(std::string& out, const Kernel& kernel, std::span<const int> order, Speller& speller,
                 std::string_view indent);

/// Converts an expression of computing_type(from) to computing_type(to) with torch's rules, without any rounding to 16
/// bits.
std::string convert(std::string_view expression, DType from, DType to);
/// The stored form (storage_type(to)) of a value of computing_type(from): one rounding.
std::string store_form(std::string_view expression, DType from, DType to);
/// The value (computing_type) of a stored element of this dtype.
std::string load_form(std::string_view expression, DType stored);

/// Text of an index over variables called `variables[i]`. With `wide` the literals are long long; the caller declares
/// its variables accordingly. Divisions of provably non-negative values are plain `/` and `%`.
std::string index_text(const ir::IndexExpr& e, const ir::Space& space, std::span<const std::string> variables,
                       bool wide);
/// Condition under which all bounds hold; sides that always hold are dropped; empty text where nothing is left to test.
std::string where_text(std::span<const ir::Bound> where, const ir::Space& space, std::span<const std::string> variables,
                       bool wide);
/// True where every partial sum of the index surely fits into 31 bits.
bool fits_int32(const ir::IndexExpr& e, const ir::Space& space);
/// True where all indices and bounds of the kernel do, and the space itself has fewer than 2³¹ points.
bool fits_int32(const Kernel& kernel);

/// Where a node's value is fixed.
struct Place {
  bool inner = false;  ///< varies with an inner variable (for pointwise kernels: always false, see variables)
  std::uint64_t variables =
      0;          ///< bit i: depends on variable i, itself or through an argument (63 stands for all above)
  int phase = 0;  ///< 0: needs no reduction; p + 1: needs one of phase p and none later
};
/// One Place for each node.
std::vector<Place> place(const Kernel& kernel);
/// Nodes needed to compute the roots, ascending, without those `known` (whose arguments are then not followed).
std::vector<int> closure(const Kernel& kernel, std::span<const int> roots, const std::function<bool(int)>& known);
/// Number of phases: 1 + the largest phase of a reduction; 0 without reductions.
int phases(const Kernel& kernel);

/// Helper functions that the printed text calls, as source. `cuda`: __device__ functions that need no header; otherwise
/// C++ that needs <cmath>, <cstdint>. Constant text.
std::string_view prelude(bool cuda);

}  // namespace planish::codegen::printing
