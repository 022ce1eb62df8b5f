#include "ir/graph.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace planish::ir;

namespace {

const std::string good = R"J({
  "schema": "planish.graph/1", "torch": "2.13.0",
  "values": [{"dtype": "f32", "shape": [4, 8], "strides": [8, 1], "device": "cpu"},
             {"dtype": "f32", "shape": [8], "strides": [1], "device": "cpu"},
             {"dtype": "complex64", "shape": [], "strides": [], "device": "cpu"},
             {"dtype": "f32", "shape": [4, 8], "strides": [8, 1], "device": "cpu"}],
  "inputs": [{"value": 1, "kind": "param", "name": "w"}, {"value": 0, "kind": "user", "index": 0, "name": "x"}],
  "nodes": [{"op": "aten.add.Tensor", "args": [{"name": "self", "value": 0}, {"name": "other", "value": 1}, {"name": "alpha", "int": 2}], "outs": [3]},
            {"op": "aten.many.default", "args": [{"name": "a", "values": [3, null]}, {"name": "b", "float": "0x1.8p+1"},
              {"name": "c", "float": "inf"}, {"name": "d", "bool": true}, {"name": "e", "str": "none"}, {"name": "f", "ints": [1, 2]},
              {"name": "g", "dtype": "bf16"}, {"name": "h", "none": true}], "outs": [2, null]}],
  "outputs": [{"value": 3, "kind": "user"}, {"kind": "scalar", "arg": {"int": 3}}, {"value": 3, "kind": "mutate_buffer", "target": "b", "versions": 0, "differentiable": false, "read": true},
              {"value": 3, "kind": "mutate_input", "target": 0}],
  "input_tree": "t", "output_tree": "u", "scalars": [{"index": 2, "arg": {"int": 3}}]
})J";

std::string with(const std::string& from, const std::string& to) {
  std::string text = good;
  const auto at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

void rejected(const std::string& text, const std::string& kind, const std::string& message) {
  const auto result = parse_graph(text);
  REQUIRE_FALSE_MESSAGE(result.has_value(), message);
  CHECK(result.error().kind == kind);
  CHECK_MESSAGE(result.error().message.find(message) != std::string::npos, result.error().message);
}

}  // namespace

TEST_CASE("a graph document becomes plain data") {
  const auto graph = parse_graph(good);
  REQUIRE_MESSAGE(graph.has_value(), graph.error().message);
  CHECK(graph->values[2].dtype == planish::DType::other);
  CHECK(graph->values[2].dtype_name == "complex64");
  CHECK(graph->values[0].elements() == 32);
  CHECK(graph->producers() == std::vector<int>{-1, -1, 1, 0});
  CHECK(graph->consumers()[3] == std::vector<int>{1});
  const GraphNode& many = graph->nodes[1];
  CHECK(std::get<double>(many.arg("b")->data) == 3.0);
  CHECK(std::isinf(std::get<double>(many.arg("c")->data)));
  CHECK(std::get<std::vector<std::int64_t>>(many.arg("f")->data) == std::vector<std::int64_t>{1, 2});
  CHECK(many.arg("zz") == nullptr);
  CHECK(graph->outputs[1].scalar_json == "{\"int\":3}");
  CHECK(graph->outputs[2].target_name == "b");
}

TEST_CASE("bad graphs are named for what is wrong") {
  rejected("[]", "bad_graph", "graph");
  rejected(with("graph/1", "graph/2"), "bad_graph", "schema");
  rejected(with("\"torch\"", "\"extra\": 1, \"torch\""), "bad_graph", "extra");
  rejected(with("[4, 8]", "[{\"expr\": \"s0\"}, 8]"), "dynamic_shape", "dynamic");
  rejected(with("[4, 8]", "[4, 8, 1]"), "bad_graph", "strides");
  rejected(with("[4, 8]", "[4, -8]"), "bad_graph", "negative");
  rejected(with("\"name\": \"self\", \"value\": 0", "\"name\": \"self\", \"value\": 9"), "bad_graph", "below");
  rejected(with("\"name\": \"self\", \"value\": 0", "\"name\": \"self\", \"value\": 3"), "bad_graph",
           "before it is defined");
  rejected(with("\"outs\": [3]", "\"outs\": [0]"), "bad_graph", "defined twice");
  rejected(with("\"float\": \"0x1.8p+1\"", "\"float\": 3.0"), "bad_graph", "hexadecimal");
  rejected(with("\"alpha\", \"int\": 2", "\"alpha\", \"integer\": 2"), "bad_graph", "integer");
  rejected(with("\"kind\": \"param\"", "\"kind\": \"weight\""), "bad_graph", "weight");
  rejected(with("{\"value\": 3, \"kind\": \"user\"}", "{\"value\": 3, \"kind\": \"ghost\"}"), "bad_graph", "ghost");
}
