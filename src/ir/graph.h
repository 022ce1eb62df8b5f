#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/dtype.h"
#include "base/result.h"

/// The graph document (docs/formats/graph.md) as plain data. Value ids and node indices are those of the document.
namespace planish::ir {

struct Value {
  DType dtype = DType::f32;
  std::string dtype_name;  ///< as in the document; differs from name(dtype) only for DType::other
  std::vector<std::int64_t> shape, strides;
  std::string device;
  std::int64_t elements() const;
};

struct None {
  friend bool operator==(None, None) { return true; }
};
struct ValueRef {
  int id = -1;
};
struct ValueList {
  std::vector<std::optional<int>> ids;
};
struct DTypeArg {
  std::string name;
};
struct EnumArg {
  std::string name;
};

using ArgData = std::variant<None, ValueRef, ValueList, std::int64_t, double, bool, std::string,
                             std::vector<std::int64_t>, std::vector<double>, std::vector<bool>, DTypeArg, EnumArg>;

struct Arg {
  std::string name;
  ArgData data;
};

struct GraphNode {
  std::string op;  ///< "aten.add.Tensor"
  std::vector<Arg> args;
  std::vector<std::optional<int>> outs;
  std::string file{};  ///< of the user's source that asked for it; empty: not known
  int line = 0;
  /// The argument of that name, or null.
  const Arg* arg(std::string_view name) const;
};

/// Value ids that a node reads, in argument order; repeated if read twice.
std::vector<int> reads(const GraphNode& node);

struct GraphInput {
  int value = -1;
  std::string kind;  ///< user | param | buffer | const | generator
  std::string name;
  int index = -1;    ///< user leaf
  std::string blob;  ///< const
};

struct GraphOutput {
  std::string kind;  ///< user | mutate_buffer | mutate_input | mutate_generator | scalar
  int value = -1;    ///< -1 for scalar
  std::string target_name;
  int target_index = -1;
  std::string scalar_json;  ///< the `arg` object of a scalar leaf, verbatim
};

struct Graph {
  std::string torch;
  std::vector<Value> values;
  std::vector<GraphInput> inputs;
  std::vector<GraphNode> nodes;
  std::vector<GraphOutput> outputs;
  std::string input_tree, output_tree;

  /// Why the task has no operators, where its one node is the module itself; else empty.
  std::string refusal() const;
  /// Node index that defines a value, or -1 for inputs.
  std::vector<int> producers() const;
  /// For each value, the node indices that read it (each once, ascending).
  std::vector<std::vector<int>> consumers() const;
};

/// Strict: unknown fields, dangling ids, wrong types and out-of-order uses are errors of kind `bad_graph`; dynamic dims
/// are `dynamic_shape`.
Result<Graph> parse_graph(std::string_view json);

}  // namespace planish::ir
