#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <span>

#include "codegen/lower/lower.h"
#include "codegen/lower/row_fold.h"

// Which values of the graph are what a norm or a softmax folds.
namespace planish::codegen {
namespace {

enum class Family : std::uint8_t { none, layer, group, rms, batch };

/// What statistics depend on besides the data.
struct Norm {
  Family family = Family::none;
  int input = -1;
  std::vector<std::int64_t> rows;  ///< the normalised shape, or the number of groups
  double eps = 0;
  /// Of the same data they are the same.
  bool statistics_as(const Norm& other) const {
    return family == other.family && rows == other.rows && eps == other.eps;
  }
  std::size_t count() const { return family == Family::none ? 0 : family == Family::rms ? 1 : 2; }
};

Norm norm_of(const ir::GraphNode& node) {
  const auto name = base_name(node.op);
  const Args args(node);
  Norm norm;
  if (name == "native_layer_norm") norm.family = Family::layer;
  if (name == "native_group_norm") norm.family = Family::group;
  if (name == "_fused_rms_norm") norm.family = Family::rms;
  const bool batch =
      name == "batch_norm" || name == "native_batch_norm" || name.starts_with("_native_batch_norm_legit");
  if (batch && (args.flag("training") || args.flag("train"))) norm.family = Family::batch;
  if (node.outs.size() <= norm.count()) norm.family = Family::none;
  if (norm.family == Family::none) return norm;
  norm.input = args.value("input");
  if (norm.family == Family::group) {
    norm.rows = {args.integer("group").value_or(0)};
  } else if (norm.family != Family::batch) {
    norm.rows = args.integers("normalized_shape").value_or(std::vector<std::int64_t>{});
  }
  // Where it is missing, each dtype has its own: equal to none.
  norm.eps = args.number("eps").value_or(std::numeric_limits<double>::quiet_NaN());
  return norm;
}

/// The further outputs of this node, where the graph names them and they have this dtype.
std::vector<int> named(const ir::Graph& graph, const ir::GraphNode& node, std::size_t count, DType dtype) {
  std::vector<int> result;
  for (std::size_t i = 1; i <= count; ++i) {
    if (!node.outs[i] || graph.values[static_cast<std::size_t>(*node.outs[i])].dtype != dtype) return {};
    result.push_back(*node.outs[i]);
  }
  return result;
}

bool converts(const ir::GraphNode& node, int from) {
  return base_name(node.op) == "_to_copy" && Args(node).value("self") == from;
}

/// Nodes behind one, which capture writes there.
std::span<const ir::GraphNode> behind(const ir::Graph& graph, const ir::GraphNode& node) {
  return std::span(graph.nodes).subspan(static_cast<std::size_t>(&node - graph.nodes.data()) + 1);
}

/// The maximum and the sum of exponentials of a softmax's rows: exp(data - maximum) summed over the same dim.
std::vector<int> softmax_statistics(const ir::Graph& graph, const ir::GraphNode& node) {
  const int input = Args(node).value("self");
  if (input < 0 || !node.outs[0]) return {};
  const auto value = [&](int id) -> const ir::Value& { return graph.values[static_cast<std::size_t>(id)]; };
  const DType data = wide(value(*node.outs[0]).dtype);
  const std::size_t rank = value(input).shape.size();
  const std::vector<int> row{Args(node).dim("dim", rank)};
  std::map<int, int> maximum_in, maxima;  // by what is shifted, and its exponentials: the maximum
  std::set<int> found;
  if (value(input).dtype != data) return {};
  for (const ir::GraphNode& other : behind(graph, node)) {
    if (other.outs.size() != 1 || !other.outs[0] || value(*other.outs[0]).dtype != data) continue;
    const auto name = base_name(other.op);
    const Args args(other);
    const int self = args.value("self"), out = *other.outs[0];
    const bool folds_row = args.flag("keepdim") && self >= 0 && value(self).shape.size() == rank;
    if (name == "amax" && folds_row && self == input && args.dims("dim", rank) == row) found.insert(out);
    if (name == "sub" && self == input && found.contains(args.value("other")) && args.number("alpha").value_or(1) == 1)
      maximum_in[out] = args.value("other");
    if (name == "exp" && maximum_in.contains(self)) maxima[out] = maximum_in[self];
    if (name == "sum" && folds_row && maxima.contains(self) && args.dims("dim", rank) == row)
      return {maxima[self], out};
  }
  return {};
}

}  // namespace

std::vector<int> statistics_of(const ir::Graph& graph, const ir::GraphNode& node) {
  if (const auto name = base_name(node.op); name == "_softmax" || name == "_log_softmax")
    return softmax_statistics(graph, node);
  const Norm norm = norm_of(node);
  if (norm.family == Family::none || norm.input < 0) return {};
  const DType data = graph.values[static_cast<std::size_t>(norm.input)].dtype;
  auto own = named(graph, node, norm.count(), wide(data));
  if (!own.empty() || data == wide(data)) return own;
  // Its own are narrow. Capture writes the same norm of the converted data behind it (and behind another such norm of
  // the same data another one, so that no two kernels store the same value).
  std::vector<int> converted;
  for (const ir::GraphNode& other : behind(graph, node)) {
    if (converts(other, norm.input) && other.outs[0]) converted.push_back(*other.outs[0]);
    const Norm twin = converted.empty() ? Norm() : norm_of(other);
    if (!norm.statistics_as(twin) || std::ranges::find(converted, twin.input) == converted.end()) continue;
    if (auto found = named(graph, other, twin.count(), wide(data)); !found.empty()) return found;
  }
  return {};
}

std::vector<int> given_statistics(const Site& s) {
  if (s.out_position != 0 || !s.low.is_given()) return {};
  std::vector<int> values = statistics_of(s.low.graph(), s.node);
  if (!std::ranges::all_of(values, [&](int v) { return s.low.is_given(v); })) values.clear();
  return values;
}

}  // namespace planish::codegen
