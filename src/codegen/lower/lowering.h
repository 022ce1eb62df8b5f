#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "codegen/lower/builder.h"
#include "ir/graph.h"

/// Private to codegen/lower: one attempt at turning graph values into scalar expressions over a fixed space.
namespace planish::codegen {

using Coords = std::vector<ir::IndexExpr>;

/// What the attempt found out about the space: it wants to be another one. The caller starts again with it.
struct SpaceChange {
  int split_variable = -1;  ///< this variable becomes (variable // by, variable % by)
  std::int64_t by = 0;
  std::vector<std::int64_t> appended;  ///< or these extents are added at the end (a row to reduce)
  std::vector<int> row;                ///< or these variables are the row, of which parts are reduced as well
};

/// Element count of a shape.
std::int64_t product(std::span<const std::int64_t> shape);
/// A split that removes a div or mod from the expression, if there is one.
std::optional<SpaceChange> find_split(const ir::IndexExpr& e, const ir::Space& space);

/// How the coordinate of a running value moves along a row: it is the sweep's position plus `shift`, which is not
/// positive.
struct Sweep {
  bool reversed = false;  ///< positions count from the end of the inner variables
  std::int64_t shift = 0;
};

class Lowering {
 public:
  /// `inside[n]`: node n belongs to the kernel; values made elsewhere, and those in `given`, are loaded. The graph must
  /// outlive this.
  Lowering(const ir::Graph& graph, const std::vector<bool>& inside, std::span<const int> given, ir::Space space);

  /// The scalar that value `id` holds at the coordinates (one a dim, over the space). Error kind `unsupported`, or
  /// `space` when change() is set.
  Result<int> value(int id, Coords coords);
  /// The same, cast to the compute dtype of `dtype`.
  Result<int> value_as(int id, Coords coords, DType dtype);
  /// The same as a factor of a product: with the bits that it has in memory, which tensor cores then multiply as it is.
  Result<int> factor(int id, Coords coords, DType dtype);
  /// An operand broadcast to the coordinates: a tensor argument or a number.
  Result<int> operand(const ir::Arg* arg, const Coords& coords, DType dtype);
  /// Coordinates of the reduced dims, the row being the inner variables. `kept` are the coordinates of the others.
  /// `reach` says what is folded where it may be something else: after cross() what lies across the rows, outer
  /// variables; after part() a part of the row, some of its variables.
  Result<Coords> row(const Coords& kept, std::span<const std::int64_t> kept_extents,
                     std::span<const std::int64_t> reduced_extents, Reach* reach = nullptr);

  /// The sweep along which a value with coordinates `kept` in the other dims runs: `along` is its coordinate in the dim
  /// that is scanned, and what that depends on becomes the inner variables.
  Result<Sweep> sweep(const ir::IndexExpr& along, const Coords& kept);

  const ir::Value& info(int id) const { return graph_.values[static_cast<std::size_t>(id)]; }
  ir::IndexExpr ravel(const Coords& coords, std::span<const std::int64_t> shape) const;
  Coords unravel(const ir::IndexExpr& linear, std::span<const std::int64_t> shape) const;
  ir::IndexExpr plus(const ir::IndexExpr& e, std::int64_t c) const {
    return ir::add(e, ir::IndexExpr::constant(c), space_);
  }

  /// Runs f with one more condition on what may be loaded. Conditions that always hold are dropped.
  template <typename F>
  Result<int> under(std::vector<ir::Bound> bounds, F&& f) {
    const std::size_t before = bounds_.size();
    for (auto& bound : bounds) {
      if (always(bound)) continue;
      if (moves_at_run_time(bound.e)) return refuse("a condition on a gathered place", before);
      bounds_.push_back(std::move(bound));
    }
    Result<int> result = f();
    bounds_.resize(before);
    return result;
  }
  /// A coordinate that is an integer node's value, for a dim of this extent: a variable of space() behind those of the
  /// kernel. Loads at such a coordinate check it and take it as an argument.
  Result<ir::IndexExpr> at_run_time(int node, std::int64_t extent);
  /// An offset as what is known before the run, and what moves it at run time: integer nodes with their strides, each
  /// good in [0, limit). Error kind `unsupported` where one may be negative and yet right.
  struct RunTimePlace {
    ir::IndexExpr fixed;
    std::vector<int> args;
    std::vector<std::int64_t> strides, limits;
  };
  Result<RunTimePlace> place_of(const ir::IndexExpr& offset);
  /// The integer value of an expression, which may contain coordinates known at run time.
  int index(const ir::IndexExpr& e);

  /// Runs f with these conditions in place of all that hold now: for what is needed also where the result at hand is
  /// not.
  template <typename F>
  Result<int> instead(const std::vector<ir::Bound>& bounds, F&& f) {
    std::vector<ir::Bound> outside;
    outside.swap(bounds_);
    Result<int> result = under(bounds, std::forward<F>(f));
    bounds_.swap(outside);
    return result;
  }
  bool always(const ir::Bound& bound) const;
  bool never(const ir::Bound& bound) const;
  bool guarded() const { return !bounds_.empty(); }
  /// lo ≤ e < hi as a boolean node.
  int condition(const ir::Bound& bound);

  /// Allows reductions across the rows, of all outer variables but perhaps some.
  void cross() { crossing_ = true; }
  bool crossing() const { return crossing_; }
  /// The outer variables that such reductions fold, once one has fixed them.
  const std::optional<std::vector<int>>& across() const { return across_; }

  /// Allows reductions of parts of rows, all of the same variables. `row`: those of a whole row, if they are known.
  void part(std::optional<std::vector<int>> row) {
    parting_ = true;
    inner_ = std::move(row);
  }
  /// The variables within a part, once a reduction has fixed them.
  const std::optional<std::vector<int>>& parts() const { return parts_; }

  /// Allows a product along rows whose elements are made of another product's, whose variables are parts() then:
  /// contract() is said besides. `own`: by variable, whether results move with it.
  void attend(std::vector<bool> own) {
    attending_ = true;
    own_ = std::move(own);
  }
  bool attending() const { return attending_; }

  /// Allows that results of a product are folded in the kernel that makes them, by windows or over whole dims of
  /// theirs: contract() is said besides. `own`: as attend() has it.
  void pool(std::vector<bool> own) {
    pooling_ = true;
    own_ = std::move(own);
  }
  bool pooling() const { return pooling_; }
  /// Coordinates within the kernel's windows, of these extents: variables of their own, which one fold may ask for.
  Result<Coords> window(std::span<const std::int64_t> extents);
  /// The variables of windows, once a fold has asked for them.
  const std::optional<std::vector<int>>& windows() const { return windows_; }

  /// Allows that results of a product are folded in the kernel that makes them and stores others beside: over all of
  /// the outer variables but those that the fold's results have. contract() is said besides.
  void spread() { spreading_ = true; }

  /// Allows products of rows that belong to groups, each with a matrix of its own.
  void group() { grouping_ = true; }

  /// Allows products of matrices: rows of k products are folded.
  void contract() { contracting_ = true; }
  bool contracting() const { return contracting_; }
  /// Said by what lowers elements of rows by their rank: what such a row is made of, a softmax's sum, is the same for
  /// all ranks.
  void ranked() { ranked_ = true; }

  /// Said by what lowers attention over packed sequences.
  void packed() { packed_ = true; }
  bool has_packed() const { return packed_; }

  /// Said by what lowers one.
  void contracted() { contracted_ = true; }
  bool has_contracted() const { return contracted_; }

  Builder& builder() { return builder_; }
  const ir::Space& space() const { return space_; }
  const ir::Graph& graph() const { return graph_; }
  /// Whether anything is.
  bool is_given() const { return any_given_; }
  bool is_given(int id) const { return given_[static_cast<std::size_t>(id)]; }
  const std::optional<SpaceChange>& change() const { return change_; }
  const std::vector<int>& input_values() const { return inputs_; }
  /// Says that the space must have this variable split, by the extent of the second part.
  void want_split(int variable, std::int64_t by) {
    change_ = SpaceChange{.split_variable = variable, .by = by, .appended = {}, .row = {}};
  }
  /// The reduced or scanned variables, once a reduction or a scan has fixed them.
  const std::optional<std::vector<int>>& inner() const { return inner_; }
  /// True where scans run from the end.
  bool reversed() const { return reversed_.value_or(false); }

 private:
  bool moves_at_run_time(const ir::IndexExpr& e) const;
  Result<int> refuse(std::string message, std::size_t bounds);
  Result<Coords> crossed(const std::vector<bool>& used, std::span<const std::int64_t> kept_extents,
                         std::span<const std::int64_t> reduced_extents);
  /// Coordinates in the variables that are not `used`, which are folded for each of so many settings of the others.
  Result<Coords> across(const std::vector<bool>& used, std::int64_t kept,
                        std::span<const std::int64_t> reduced_extents);
  /// After part(): the coordinates of the reduced dims where they are part of a row; nothing where they are the row. A
  /// row that turns out to be part of a larger one is a change of the space.
  Result<std::optional<Coords>> parted(const std::vector<bool>& used, std::span<const std::int64_t> kept_extents,
                                       std::span<const std::int64_t> reduced_extents);
  /// After attend(): the same for a row of either product.
  Result<Coords> attended(const std::vector<bool>& used, std::span<const std::int64_t> reduced_extents, Reach* reach);
  /// After spread(): coordinates in the outer variables that are folded.
  Result<Coords> spread_over(const std::vector<bool>& used, std::span<const std::int64_t> kept_extents,
                             std::span<const std::int64_t> reduced_extents);
  /// A fold over whole dims of a product's results: the coordinates in these.
  Result<Coords> folded(const std::vector<bool>& used, std::span<const std::int64_t> reduced_extents);
  Result<int> load(int input, DType dtype, const ir::IndexExpr& offset);

  const ir::Graph& graph_;
  const std::vector<bool>& inside_;
  std::vector<bool> given_;  ///< by value
  bool any_given_ = false;
  ir::Space space_;            ///< the kernel's variables, then those known at run time
  std::size_t variables_ = 0;  ///< of the kernel
  std::vector<int> run_time_;  ///< node of each variable behind
  std::vector<int> producers_;
  Builder builder_;
  std::vector<ir::Bound> bounds_;
  std::vector<int> inputs_;
  std::unordered_map<std::string, int> memo_;
  std::optional<SpaceChange> change_;
  std::optional<std::vector<int>> inner_;
  std::optional<std::vector<int>> across_;
  std::optional<std::vector<int>> parts_;
  std::optional<std::vector<int>> windows_;
  bool crossing_ = false, parting_ = false, contracting_ = false, contracted_ = false, ranked_ = false,
       attending_ = false, pooling_ = false, spreading_ = false, grouping_ = false, packed_ = false;
  std::vector<bool> own_;
  std::optional<bool> reversed_;
  int depth_ = 0;
};

/// Arguments of a node by name, with the conversions that schemas allow.
class Args {
 public:
  explicit Args(const ir::GraphNode& node) : node_(node) {}
  const ir::Arg* get(std::string_view name) const { return node_.arg(name); }
  /// Value id, or -1 where absent or None.
  int value(std::string_view name) const;
  std::optional<std::int64_t> integer(std::string_view name) const;
  std::optional<double> number(std::string_view name) const;
  bool flag(std::string_view name) const;
  std::string text(std::string_view name) const;
  /// An int or a list of them; null where absent or None.
  std::optional<std::vector<std::int64_t>> integers(std::string_view name) const;
  /// The dims of an argument, normalised to [0, rank) and sorted; all of them where None or empty.
  std::vector<int> dims(std::string_view name, std::size_t rank) const;
  int dim(std::string_view name, std::size_t rank, std::int64_t otherwise = 0) const;

 private:
  const ir::GraphNode& node_;
};

/// One occurrence of an operator: which output is wanted, and where.
struct Site {
  Lowering& low;
  const ir::GraphNode& node;
  int out_position;
  int out_id;
  const Coords& coords;
  DType out_dtype;
  Args args;
  Builder& b;
};
using Handler = Result<int> (*)(const Site&);
using HandlerTable = std::map<std::string, Handler, std::less<>>;

/// By operator name without `aten.` and overload. Each file of codegen/lower contributes one table.
const HandlerTable& view_handlers();
const HandlerTable& creation_handlers();
const HandlerTable& movement_handlers();
const HandlerTable& gather_handlers();
const HandlerTable& pointwise_handlers();
const HandlerTable& row_handlers();
const HandlerTable& norm_handlers();
const HandlerTable& scan_handlers();
const HandlerTable& order_handlers();
const HandlerTable& window_handlers();
/// Only after Lowering::contract().
const HandlerTable& contraction_handlers();
/// Only after Lowering::group().
const HandlerTable& grouped_handlers();
/// Only after Lowering::attend().
const HandlerTable& attention_handlers();
/// "add" of "aten.add.Tensor".
std::string_view base_name(std::string_view op);

std::unexpected<Error> unsupported(std::string message);
/// True for the types that compare as PyTorch sorts them.
bool is_number_in_order(DType dtype);
/// An input of a kernel for a value of the graph.
Input input_of(const ir::Value& value, int id);

}  // namespace planish::codegen
