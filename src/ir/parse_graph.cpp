#include <fmt/format.h>

#include <algorithm>

#include "ir/args_json.h"
#include "ir/graph.h"

namespace planish::ir {
namespace {

constexpr ErrorKind bad = "bad_graph";

/// Dims of a shape or stride list: integers ≥ 0, or an expression, which we name as not supported yet.
Status parse_dims(const Json* json, std::vector<std::int64_t>& out, const std::string& where) {
  if (json == nullptr) return {};
  for (const Json& dim : *json) {
    if (dim.is_object() && dim.contains("expr")) {
      return fail("dynamic_shape", where + " has a dynamic dimension",
                  "export the task with fixed shapes; dynamic ones are not supported yet");
    }
    if (!dim.is_number_integer() || dim.get<std::int64_t>() < 0) {
      return fail(bad, where + " must be a list of integers, none negative");
    }
    out.push_back(dim.get<std::int64_t>());
  }
  return {};
}

Result<Value> parse_value(const Json& json, const std::string& where) {
  ObjectReader in(json, bad, where);
  Value value;
  in.text("dtype", value.dtype_name);
  in.text("device", value.device);
  const Json* shape = in.array("shape");
  const Json* strides = in.array("strides");
  PLANISH_CHECK(in.finish());
  PLANISH_CHECK(parse_dims(shape, value.shape, where + ".shape"));
  PLANISH_CHECK(parse_dims(strides, value.strides, where + ".strides"));
  if (value.shape.size() != value.strides.size()) {
    return fail(bad, fmt::format("{}: {} dims but {} strides", where, value.shape.size(), value.strides.size()));
  }
  std::int64_t extent = 1;
  for (const std::int64_t dim : value.shape) {
    if (__builtin_mul_overflow(extent, std::max<std::int64_t>(dim, 1), &extent) || extent > (std::int64_t{1} << 60)) {
      return fail(bad, where + " has more elements than can be addressed");
    }
  }
  value.dtype = dtype_from_name(value.dtype_name).value_or(DType::other);
  return value;
}

Result<GraphInput> parse_input(const Json& json, int values, const std::string& where) {
  ObjectReader in(json, bad, where);
  GraphInput input;
  in.integer("value", input.value);
  in.text("kind", input.kind);
  in.text("name", input.name, ObjectReader::Need::optional);
  in.integer("index", input.index, ObjectReader::Need::optional);
  in.text("blob", input.blob, ObjectReader::Need::optional);
  PLANISH_CHECK(in.finish());
  if (input.value < 0 || input.value >= values) return fail(bad, where + ": no such value");
  if (input.kind == "user") {
    if (input.index < 0) return fail(bad, where + ": a user input needs `index`");
  } else if (input.kind == "param" || input.kind == "buffer") {
    if (input.name.empty()) return fail(bad, fmt::format("{}: a {} needs `name`", where, input.kind));
  } else if (input.kind == "generator") {
    if (input.index >= 0 || !input.blob.empty()) return fail(bad, where + ": a generator is no leaf, and no constant");
  } else if (input.kind == "const") {
    if (input.blob.size() != 64) return fail(bad, where + ": a const needs `blob`, a SHA-256");
  } else {
    return fail(bad, fmt::format("{}: unknown kind `{}`", where, input.kind));
  }
  return input;
}

Result<GraphOutput> parse_output(const Json& json, int values, const std::string& where) {
  ObjectReader in(json, bad, where);
  GraphOutput output;
  in.text("kind", output.kind);
  in.integer("value", output.value, ObjectReader::Need::optional);
  const Json* target = in.get("target", ObjectReader::Need::optional);
  const Json* arg = in.get("arg", ObjectReader::Need::optional);
  // What eager does to a tensor that it changes, beside its value: for who calls the module, through ship.json.
  int versions = 0;
  bool differentiable = false, read = false;
  in.integer("versions", versions, ObjectReader::Need::optional);
  in.boolean("differentiable", differentiable, ObjectReader::Need::optional);
  in.boolean("read", read, ObjectReader::Need::optional);
  PLANISH_CHECK(in.finish());
  if (versions < 0) return fail(bad, where + ": `versions` is negative");
  if (output.kind == "scalar") {
    if (arg == nullptr) return fail(bad, where + ": a scalar needs `arg`");
    output.scalar_json = dump_json(*arg);
    return output;
  }
  if (output.value < 0 || output.value >= values) return fail(bad, where + ": no such value");
  if (output.kind == "mutate_buffer") {
    if (target == nullptr || !target->is_string()) return fail(bad, where + ": `target` must name a buffer");
    output.target_name = target->get<std::string>();
  } else if (output.kind == "mutate_input") {
    if (target == nullptr || !target->is_number_integer()) return fail(bad, where + ": `target` must be a leaf index");
    output.target_index = target->get<int>();
  } else if (output.kind != "user" && output.kind != "mutate_generator") {
    return fail(bad, fmt::format("{}: unknown kind `{}`", where, output.kind));
  }
  return output;
}

/// Every value is defined once, and before it is read.
Status check_order(const Graph& graph) {
  std::vector<bool> defined(graph.values.size(), false);
  for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
    if (defined[static_cast<std::size_t>(graph.inputs[i].value)]) {
      return fail(bad, fmt::format("inputs[{}]: value {} is defined twice", i, graph.inputs[i].value));
    }
    defined[static_cast<std::size_t>(graph.inputs[i].value)] = true;
  }
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const GraphNode& node = graph.nodes[n];
    for (const int id : reads(node)) {
      if (!defined[static_cast<std::size_t>(id)]) {
        return fail(bad, fmt::format("nodes[{}] ({}) reads value {} before it is defined", n, node.op, id));
      }
    }
    for (const auto& out : node.outs) {
      if (!out) continue;
      if (defined[static_cast<std::size_t>(*out)]) {
        return fail(bad, fmt::format("nodes[{}] ({}): value {} is defined twice", n, node.op, *out));
      }
      defined[static_cast<std::size_t>(*out)] = true;
    }
  }
  for (std::size_t i = 0; i < graph.outputs.size(); ++i) {
    const int id = graph.outputs[i].value;
    if (id >= 0 && !defined[static_cast<std::size_t>(id)]) {
      return fail(bad, fmt::format("outputs[{}]: value {} is never defined", i, id));
    }
  }
  return {};
}

}  // namespace

Result<Graph> parse_graph(std::string_view json) {
  PLANISH_TRY(const Json document, parse_json(json, bad, "graph"));
  ObjectReader in(document, bad, "graph");
  Graph graph;
  std::string schema;
  in.text("schema", schema);
  in.text("torch", graph.torch);
  in.text("input_tree", graph.input_tree, ObjectReader::Need::optional);
  in.text("output_tree", graph.output_tree, ObjectReader::Need::optional);
  const Json* values = in.array("values");
  const Json* inputs = in.array("inputs");
  const Json* nodes = in.array("nodes");
  const Json* outputs = in.array("outputs");
  in.array("scalars", ObjectReader::Need::optional);
  PLANISH_CHECK(in.finish());
  if (schema != "planish.graph/1") return fail(bad, fmt::format("graph has schema `{}`, not planish.graph/1", schema));

  for (std::size_t i = 0; i < values->size(); ++i) {
    PLANISH_TRY(Value value, parse_value((*values)[i], fmt::format("values[{}]", i)));
    graph.values.push_back(std::move(value));
  }
  const int limit = static_cast<int>(graph.values.size());
  for (std::size_t i = 0; i < inputs->size(); ++i) {
    PLANISH_TRY(GraphInput input, parse_input((*inputs)[i], limit, fmt::format("inputs[{}]", i)));
    graph.inputs.push_back(std::move(input));
  }
  for (std::size_t i = 0; i < nodes->size(); ++i) {
    const std::string where = fmt::format("nodes[{}]", i);
    ObjectReader reader((*nodes)[i], bad, where);
    GraphNode node;
    reader.text("op", node.op);
    const Json* args = reader.array("args");
    const Json* outs = reader.array("outs");
    const Json* source = reader.object("source", ObjectReader::Need::optional);
    PLANISH_CHECK(reader.finish());
    if (source != nullptr) {
      ObjectReader place(*source, bad, where + ".source");
      place.text("file", node.file);
      place.integer("line", node.line);
      PLANISH_CHECK(place.finish());
    }
    PLANISH_TRY(node.args, parse_args(*args, graph_refs, limit, bad, where));
    PLANISH_TRY(node.outs, parse_outs(*outs, limit, bad, where));
    graph.nodes.push_back(std::move(node));
  }
  for (std::size_t i = 0; i < outputs->size(); ++i) {
    PLANISH_TRY(GraphOutput output, parse_output((*outputs)[i], limit, fmt::format("outputs[{}]", i)));
    graph.outputs.push_back(std::move(output));
  }
  PLANISH_CHECK(check_order(graph));
  return graph;
}

}  // namespace planish::ir
