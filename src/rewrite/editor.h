#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/graph.h"

/// Private to rewrite.
namespace planish::rewrite {

/// A graph under change: what rules ask of it, and new nodes in place of an old one.
class Editor {
 public:
  explicit Editor(ir::Graph graph);

  const ir::Graph& graph() const { return graph_; }
  const ir::Value& value(int id) const { return graph_.values[static_cast<std::size_t>(id)]; }
  const ir::GraphNode& node(int index) const { return graph_.nodes[static_cast<std::size_t>(index)]; }
  /// The node that makes a value and nothing else; null for inputs, and nodes of several results.
  const ir::GraphNode* maker(int id) const;
  /// Whether one node alone reads a value, and no output is it: then nothing misses it when that node goes.
  bool read_once(int id) const;

  /// New nodes, which stand before node `index` once replace() was called. Each gives its value, contiguous.
  int add(std::string op, std::vector<ir::Arg> args, std::vector<std::int64_t> shape, int like);
  int add_boolean(std::string op, std::vector<ir::Arg> args, std::vector<std::int64_t> shape, int like);
  /// The last of the new nodes makes what node `index` did, which goes, as does what nothing reads any more.
  void replace(int index);

 private:
  int put(std::string op, std::vector<ir::Arg> args, ir::Value value);
  void look();
  void drop(int id);
  bool is_output(int id) const;

  ir::Graph graph_;
  std::vector<ir::GraphNode> fresh_;
  std::vector<int> makers_;
  std::vector<std::vector<int>> readers_;
};

/// A tensor argument's value id, or -1.
int tensor(const ir::GraphNode& node, std::string_view name);
/// A number given as a Python int or float; nothing for anything else.
std::optional<double> number(const ir::GraphNode& node, std::string_view name);
/// Arguments of new nodes.
ir::Arg of(std::string name, int value);
ir::Arg dims(std::vector<std::int64_t> list);
ir::Arg flag(std::string name, bool value);

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
