#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/graph.h"
#include "rewrite/rewrite.h"

/// Private to rewrite.
namespace planish::rewrite {

/// A graph under change: what rules ask of it, and new nodes in place of an old one.
class Editor {
 public:
  explicit Editor(ir::Graph graph, const Options& options = {});

  const Options& options() const { return options_; }
  const ir::Graph& graph() const { return graph_; }
  const ir::Value& value(int id) const { return graph_.values[static_cast<std::size_t>(id)]; }
  const ir::GraphNode& node(int index) const { return graph_.nodes[static_cast<std::size_t>(index)]; }
  /// The node that makes a value and nothing else; null for inputs, and nodes of several results.
  const ir::GraphNode* maker(int id) const;
  /// The node whose first result this is, where nothing reads its others; null for inputs.
  const ir::GraphNode* first_of(int id) const;
  /// Indices of the nodes that read a value.
  const std::vector<int>& readers(int id) const { return readers_[static_cast<std::size_t>(id)]; }
  bool is_output(int id) const;
  /// Whether the value is the model's own: a parameter, buffer or constant, and no data that a caller passes. Such
  /// values are finite.
  bool is_parameter(int id) const;
  /// Whether one node alone reads a value, and no output is it: then nothing misses it when that node goes.
  bool read_once(int id) const;

  /// New nodes, which stand before node `index` once replace() was called. Each gives its value, contiguous.
  int add(std::string op, std::vector<ir::Arg> args, std::vector<std::int64_t> shape, int like);
  /// One more result of the newest node.
  int add_result(std::vector<std::int64_t> shape, int like);
  int add_as(DType dtype, std::string op, std::vector<ir::Arg> args, std::vector<std::int64_t> shape, int like);
  int add_boolean(std::string op, std::vector<ir::Arg> args, std::vector<std::int64_t> shape, int like);
  /// A new node too, which gives elements of `self` where they lie: those from `begin` to before `end` along a dim
  /// (`self` itself where that is all of them), a matrix or a batch of them with its last two dims the other way round,
  /// dims in another order, without one of them, and with one more of extent 1; and `self` as another type, which lies
  /// as it does.
  int slice(int self, std::size_t dim, std::int64_t begin, std::int64_t end);
  int turned(int self);
  int permuted(int self, const std::vector<std::int64_t>& order);
  int selected(int self, std::size_t dim, std::int64_t index);
  int unsqueezed(int self, std::size_t dim);
  int converted(int self, DType dtype);
  /// The last of the new nodes makes what node `index` did (its first result: first_of()), which goes, as does what
  /// nothing reads any more.
  void replace(int index);
  /// The new nodes make values in place of those that did, given as pairs of such a value and one that a new node gives
  /// and nothing but new nodes reads: results of node `index`, which goes and has no others that are wanted, and of
  /// nodes that read these.
  void replace(int index, const std::vector<std::pair<int, int>>& made);
  /// Instead of replace(): the new nodes are dropped, and their values never were.
  void forget();

 private:
  int put_value(ir::Value value);
  int put(std::string op, std::vector<ir::Arg> args, ir::Value value);
  int put_contiguous(std::string op, std::vector<ir::Arg> args, ir::Value value);
  void look();
  void drop(int id);

  ir::Graph graph_;
  Options options_;
  std::vector<ir::GraphNode> fresh_;
  std::vector<int> makers_;
  std::vector<std::vector<int>> readers_;
};

/// A tensor argument's value id, or -1.
int tensor(const ir::GraphNode& node, std::string_view name);
/// A number given as a Python int or float; nothing for anything else.
std::optional<double> number(const ir::GraphNode& node, std::string_view name);
/// A Python int, however large; nothing for anything else.
std::optional<std::int64_t> integer(const ir::GraphNode& node, std::string_view name);
/// Whether the argument is given, and true.
bool is_set(const ir::GraphNode& node, std::string_view name);
/// The argument of that name, where the node has it, becomes this value.
void redirect(ir::GraphNode& node, std::string_view name, int value);
/// Arguments of new nodes.
ir::Arg of(std::string name, int value);
ir::Arg dims(std::vector<std::int64_t> list);
ir::Arg flag(std::string name, bool value);
/// Those of `aten._to_copy`, of a value to another type.
std::vector<ir::Arg> conversion(int self, DType dtype);

/// A sum or mean: of what, over which dims (ascending, not negative), whether they stay with extent 1, and the factor
/// beside the sum.
struct Fold {
  int of = -1;
  std::vector<std::int64_t> dims;
  bool kept = false;
  std::int64_t count = 1;  ///< elements that are folded into one
  bool mean = false;
};
/// Nothing for other nodes, and where the result has another dtype than the data.
std::optional<Fold> linear_fold(const Editor& editor, const ir::GraphNode& node);

}  // namespace planish::rewrite
