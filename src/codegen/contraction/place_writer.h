#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/contraction/contraction.h"
#include "codegen/emit/expression.h"

/// Prints nodes of a contraction kernel at one place of its space, whose coordinates `d3` are declared by decode().
namespace planish::codegen::contraction {

/// What its text needs before it, on a GPU.
std::string place_prelude();

class PlaceWriter : public printing::Speller {
 public:
  explicit PlaceWriter(const Kernel& kernel);

  std::string out;                                    ///< the text so far
  std::string fold;                                   ///< what `reduced` nodes read
  std::function<std::string(int reduction)> of_fold;  ///< the same where there are several
  /// How the value of a load is spelled; not set, or empty: it is read where it is needed.
  std::function<std::string(int id)> at_hand;
  bool fast = false;       ///< the machine's approximations and short forms of functions (see cuda_math.h)
  bool narrow = false;     ///< whose results are rounded to 16 bits
  bool streaming = false;  ///< results need not stay in the cache
  std::vector<int>
      rounded;  ///< f32 products that are never fused with a sum: what is computed again has to be the same

  void line(std::string_view text);
  void open(std::string_view text);
  void close();
  /// The same of a struct, or of another declaration that a semicolon ends.
  void close_declaration();
  /// Coordinates of `variables` from the linear position `linear`, an expression of type int, not negative.
  void decode(std::string_view linear, std::span<const int> variables);
  /// Definitions of all that `roots` need.
  void nodes(std::span<const int> roots);
  /// The same of these alone, in this order.
  void these(std::span<const int> order);
  /// "const float* __restrict__ in0, " for each input that the nodes below `roots` read; the same as arguments.
  std::string parameters(std::span<const int> roots) const;
  std::string arguments(std::span<const int> roots) const;
  /// "float* __restrict__ out0, " for each output of the kernel.
  std::string output_parameters() const;
  /// The kernel `planish_kernel` of these inputs and all outputs, with more parameters behind them: `call` finds both
  /// as the members of `Functors f`, `more_members` of those parameters behind them, and dynamic shared memory as
  /// `pl_smem`.
  void entry(std::span<const int> inputs, int threads, int blocks, std::string_view more_parameters,
             std::string_view call, std::string_view more_members = {});
  /// Stores each output, whose node is defined, at its place.
  void stores();
  /// Inputs that they read, ascending.
  std::vector<int> inputs(std::span<const int> roots) const;
  /// Whether a value below `root` has a place: a load, or a coordinate.
  bool has_place(int root) const;
  /// The element that a load reads, as an index.
  std::string place_of(const ir::IndexExpr& index) const;
  std::string condition(std::span<const ir::Bound> where) const;
  /// The type of coordinates.
  std::string_view coordinate() const { return wide_ ? "long long" : "int"; }

  std::string load(const Kernel& kernel, int id) override;
  std::string reduced(const Kernel& kernel, int id) override;
  std::string scanned(const Kernel& kernel, int id) override;
  std::string index(const Kernel& kernel, const ir::IndexExpr& e) override;
  std::string function(Op op, bool wide) const override;
  std::string quotient(const Kernel& kernel, int id, std::string_view a, std::string_view b) const override;
  std::string whole_form(const Kernel& kernel, int id) const override;

 private:
  const Kernel& kernel_;
  bool wide_;
  std::vector<std::string> names_;
  int depth_ = 0;
};

}  // namespace planish::codegen::contraction
