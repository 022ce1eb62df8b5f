#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/fold.h"
#include "codegen/kernel.h"

/// How the nodes of a kernel become text over vectors of W lanes (internal to the C++ emitter).
namespace planish::codegen::cpp {

/// What a value is computed in. Booleans are masks, 0 or -1 a lane; small integers and 64-bit ones of known small range
/// are I.
enum class Form : std::uint8_t { f, d, i, l, b };

/// The kernel seen along one vector variable. References the kernel; valid while it lives.
struct View {
  const Kernel& kernel;
  int v = 0;                        ///< the vector variable
  bool column = false;              ///< row anchor with v among the outer variables: lanes are rows
  std::vector<Form> form;           ///< of each node
  std::vector<std::uint64_t> vars;  ///< variables each node depends on
  std::vector<int> phase;           ///< 0, or 1 + the latest phase needed
  std::vector<bool> buffered;       ///< kept in a row buffer after the phase that first computes it
  bool wide = false;                ///< some vector holds 64-bit elements

  View(const Kernel& k, int vector_variable);
  bool vec(int node) const { return (vars[static_cast<std::size_t>(node)] >> v) & 1; }
  /// Varies within the sweep over the inner variables.
  bool inner(int node) const { return (vars[static_cast<std::size_t>(node)] & inner_mask()) != 0; }
  std::uint64_t inner_mask() const;
  /// Of the variables that reductions across the rows fold.
  std::uint64_t across_mask() const;
  /// Of the variables within a part of a row.
  std::uint64_t part_mask() const;
  int variables() const { return static_cast<int>(kernel.space.extents.size()); }
};

/// One place in the text: names of the space's variables there, and how vector nodes are called.
struct Spot {
  std::vector<std::string> names;  ///< of the variables; the vector variable's is the first lane's position
  std::string suffix;              ///< of vector nodes' names, so that unrolled copies live side by side
  std::string count;               ///< number of valid lanes; empty: all
  std::string position;            ///< linear position in the row, for buffers
};

/// Prints nodes. Collects the prelude functions that the text calls.
class Printer {
 public:
  explicit Printer(const View& view) : view_(view) {}
  std::set<std::string, std::less<>>& used() { return used_; }
  const std::set<std::string, std::less<>>& used() const { return used_; }
  /// `const vf n3_0 = …;`
  std::string define(int node, const Spot& spot);
  /// The node's value as `form`; as a vector if `as_vector`, else a scalar.
  std::string value(int node, Form form, bool as_vector, const Spot& spot);
  /// Stores output `o` (vector or scalar, as its node and index are).
  std::string store(int o, const Spot& spot, bool stream);
  std::string index(const ir::IndexExpr& e, const Spot& spot) const;
  std::string convert(std::string text, Form from, Form to, bool vector) const;
  std::string literal(Form form, double value, std::int64_t bits) const;
  /// Loads replaced by a text (tiles already transposed).
  std::function<std::string(int node)> replaced;

 private:
  std::string load(int node, const Spot& spot);
  /// The store of an output that has its places at run time.
  std::string scatter(int o, const Spot& spot);
  /// An argument of a place as a 64-bit scalar; that of lane `l`, where lanes differ.
  std::string argument(int node, const Spot& spot);
  /// What arguments add to a place: " + a * 64LL". And the condition under which each is in its range.
  std::string moved(const std::vector<int>& args, const std::vector<std::int64_t>& strides, const Spot& spot);
  std::string in_range(const std::vector<int>& args, const std::vector<std::int64_t>& limits, const Spot& spot);
  const View& view_;
  std::set<std::string, std::less<>> used_;
};

std::string_view type_name(Form form, bool vector);
/// A scalar of that form which a fold of nothing is.
std::string identity_text(Identity of, Form form);
std::string_view storage_name(DType dtype);
/// True where index e moves by exactly one element when variable v moves by one.
bool unit_stride(const ir::IndexExpr& e, int v);
/// True where v occurs under a div or mod.
bool folded(const ir::IndexExpr& e, int v);

}  // namespace planish::codegen::cpp
