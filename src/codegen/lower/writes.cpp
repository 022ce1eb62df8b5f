#include "codegen/lower/writes.h"

#include <algorithm>
#include <array>

#include "codegen/lower/indexed.h"
#include "codegen/lower/space.h"

namespace planish::codegen {
namespace {

using ir::IndexExpr;

bool overwrites_part(std::string_view name) {
  return name == "slice_scatter" || name == "select_scatter";
}

/// What was there before all of these writes is the caller's, who finds it changed after the call: a cache.
bool changes_a_state(const ir::Graph& graph, const std::vector<int>& producers, int value) {
  for (int node = producers[static_cast<std::size_t>(value)]; node >= 0;
       node = producers[static_cast<std::size_t>(value)]) {
    const auto& n = graph.nodes[static_cast<std::size_t>(node)];
    const auto name = base_name(n.op);
    if (!overwrites(name) && !overwrites_part(name)) return false;
    value = Args(n).value("self");
    if (value < 0) return false;
  }
  const auto input = std::ranges::find(graph.inputs, value, &ir::GraphInput::value);
  return input != graph.inputs.end() && std::ranges::any_of(graph.outputs, [&](const ir::GraphOutput& o) {
           return input->kind == "buffer" ? o.kind == "mutate_buffer" && o.target_name == input->name
                                          : o.kind == "mutate_input" && o.target_index == input->index;
         });
}

bool lie_alike(const ir::Value& a, const ir::Value& b) {
  if (a.dtype != b.dtype || a.shape != b.shape) return false;
  for (std::size_t d = 0; d < a.shape.size(); ++d) {
    if (a.shape[d] > 1 && a.strides[d] != b.strides[d]) return false;
  }
  return true;
}

/// Zeros, or what has no value yet.
bool makes_zeros(const ir::GraphNode& node) {
  constexpr std::array<std::string_view, 7> names{"zeros",      "zeros_like", "new_zeros",     "empty",
                                                  "empty_like", "new_empty",  "empty_permuted"};
  const auto name = base_name(node.op);
  if (name == "full" || name == "full_like" || name == "new_full") return Args(node).number("fill_value") == 0;
  return std::ranges::find(names, name) != names.end();
}

const std::vector<std::int64_t>* shape_of(const ir::Graph& graph, int value) {
  return value < 0 ? nullptr : &graph.values[static_cast<std::size_t>(value)].shape;
}

/// Of x[i, :, j] = …
std::optional<std::vector<std::int64_t>> indexed_shape(const ir::Graph& graph, const ir::GraphNode& node, int base) {
  const auto& whole = *shape_of(graph, base);
  const auto list = index_list(graph, node, whole.size());
  if (!list) return std::nullopt;
  std::vector<std::int64_t> shape, index(list->rank, 1);
  for (std::size_t d = 0; d < whole.size(); ++d) {
    if (!list->ids[d]) {
      shape.push_back(whole[d]);
      continue;
    }
    const auto& one = *shape_of(graph, *list->ids[d]);
    for (std::size_t i = 0; i < one.size(); ++i) {
      auto& extent = index[list->rank - one.size() + i];
      extent = std::max(extent, one[i]);
    }
  }
  shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(list->front), index.begin(), index.end());
  return shape;
}

std::optional<std::vector<std::int64_t>> written_shape(const ir::Graph& graph, const ir::GraphNode& node, int base) {
  const Args args(node);
  const auto name = base_name(node.op);
  if (name == "index_put") return args.flag("accumulate") ? std::nullopt : indexed_shape(graph, node, base);
  if (name == "scatter" && node.arg("reduce") != nullptr) return std::nullopt;
  const auto* shape = shape_of(graph, args.value(name == "index_copy" ? "source"
                                                 : name == "scatter"  ? "index"
                                                                      : "src"));
  const std::size_t fewer = name == "select_scatter" ? 1 : 0;
  if (shape == nullptr || shape->size() + fewer != shape_of(graph, base)->size()) return std::nullopt;
  return *shape;
}

/// Where an element of what is written lies in the whole.
Result<Coords> target_of(Lowering& low, const Write& write, const Coords& at) {
  const ir::GraphNode& node = low.graph().nodes[static_cast<std::size_t>(write.node)];
  const Args args(node);
  const auto name = base_name(node.op);
  const auto& whole = low.info(Args(node).value("self")).shape;
  if (name == "index_put") {
    PLANISH_TRY(const IndexList list, index_list(low.graph(), node, whole.size()));
    return list.coords(low, whole, at);
  }
  Coords to = at;
  if (whole.empty()) return unsupported("a scatter into a scalar");
  const auto dim = static_cast<std::size_t>(args.dim("dim", whole.size()));
  if (name == "index_copy") {
    const int index = args.value("index");
    const Coords place = low.info(index).shape.empty() ? Coords{} : Coords{at[dim]};
    PLANISH_TRY(to[dim], indexed_place(low, index, place, whole[dim], false));
  } else if (name == "scatter") {
    PLANISH_TRY(to[dim], indexed_place(low, args.value("index"), at, whole[dim], false));
  } else if (name == "select_scatter") {
    const std::int64_t index = args.integer("index").value_or(0);
    to.insert(to.begin() + static_cast<std::ptrdiff_t>(dim),
              IndexExpr::constant(index < 0 ? index + whole[dim] : index));
  } else {
    std::int64_t start = args.integer("start").value_or(0);
    if (start < 0) start += whole[dim];
    start = std::clamp<std::int64_t>(start, 0, whole[dim]);
    to[dim] = low.plus(ir::scale(at[dim], args.integer("step").value_or(1)), start);
  }
  return to;
}

/// What is stored there.
Result<int> stored_value(Lowering& low, const Write& write, const Coords& at, DType dtype) {
  const ir::GraphNode& node = low.graph().nodes[static_cast<std::size_t>(write.node)];
  const auto name = base_name(node.op);
  if (name == "index_put") return low.operand(node.arg("values"), at, dtype);
  const ir::Arg* source = node.arg(name == "index_copy" ? "source" : "src");
  if (source == nullptr) source = node.arg("value");
  const int value = Args(node).value(name == "index_copy" ? "source" : "src");
  // A scatter's source may be larger than its index.
  return value >= 0 ? low.value_as(value, at, dtype) : low.operand(source, at, dtype);
}

}  // namespace

bool overwrites(std::string_view name) {
  constexpr std::array<std::string_view, 3> names{"index_copy", "index_put", "scatter"};
  return std::ranges::find(names, name) != names.end();
}

std::optional<Write> write_inside(const ir::Graph& graph, const std::vector<bool>& inside, std::span<const int> given,
                                  int value) {
  if (std::ranges::find(given, value) != given.end()) return std::nullopt;
  const std::vector<int> producers = graph.producers();
  const int n = producers[static_cast<std::size_t>(value)];
  if (n < 0 || !inside[static_cast<std::size_t>(n)]) return std::nullopt;
  const auto& node = graph.nodes[static_cast<std::size_t>(n)];
  const auto name = base_name(node.op);
  if (!overwrites(name) && !overwrites_part(name)) return std::nullopt;
  const int base = Args(node).value("self");
  const auto info = [&](int v) -> const ir::Value& { return graph.values[static_cast<std::size_t>(v)]; };
  if (base < 0 || !lie_alike(info(base), info(value))) return std::nullopt;
  // What these nodes make, and views and creations that they repeat, has no memory to begin with.
  bool zeros = false;
  if (const int made = producers[static_cast<std::size_t>(base)]; made >= 0 && inside[static_cast<std::size_t>(made)]) {
    zeros = makes_zeros(graph.nodes[static_cast<std::size_t>(made)]);
    if (!zeros) return std::nullopt;
  }
  if (overwrites_part(name) && !changes_a_state(graph, producers, value)) return std::nullopt;
  auto shape = written_shape(graph, node, base);
  if (!shape || std::ranges::find(*shape, 0) != shape->end()) return std::nullopt;
  return Write{n, zeros ? -1 : base, std::move(*shape)};
}

Result<Output> lower_write(Lowering& low, const Write& write, int value, const Coords& at) {
  const ir::Value& whole = low.info(value);
  PLANISH_TRY(const int stored, stored_value(low, write, at, whole.dtype));
  PLANISH_TRY(const Coords to, target_of(low, write, at));
  IndexExpr offset;
  for (std::size_t d = 0; d < to.size(); ++d) {
    if (whole.shape[d] != 1 || !to[d].is_constant())
      offset = ir::add(offset, ir::scale(to[d], whole.strides[d]), low.space());
  }
  PLANISH_TRY(auto place, low.place_of(offset));
  Output output;
  output.node = stored;
  output.dtype = whole.dtype;
  output.shape = whole.shape;
  output.strides = whole.strides;
  output.index = std::move(place.fixed);
  output.value = value;
  output.base = write.base;
  output.over_zeros = write.base < 0;
  output.args = std::move(place.args);
  output.arg_strides = std::move(place.strides);
  output.arg_limits = std::move(place.limits);
  return output;
}

bool writes_places(const Kernel& kernel) {
  return std::ranges::any_of(kernel.outputs, &Output::writes_places);
}

Status become_scatter(Kernel& kernel, const ir::Graph& graph) {
  if (kernel.anchor != Anchor::pointwise) return unsupported("places written beside folds");
  const auto reads = [&](int value) {
    return std::ranges::find(kernel.inputs, value, &Input::value) != kernel.inputs.end();
  };
  const std::vector<int> producers = graph.producers();
  merge_variables(kernel);
  for (const Output& output : kernel.outputs) {
    const bool in_place = output.base >= 0 && changes_a_state(graph, producers, output.value);
    if (output.writes_places() && ((in_place && reads(output.base)) || reads(output.value)))
      return unsupported("places written in what is read");
    if (!output.writes_places() && product(output.shape) != product(kernel.space.extents))
      return unsupported("an output that would be written several times");
  }
  kernel.anchor = Anchor::scatter;
  return {};
}

}  // namespace planish::codegen
