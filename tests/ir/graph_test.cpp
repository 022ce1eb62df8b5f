#include "ir/graph.h"

#include <doctest/doctest.h>

#include <cmath>

#include "ir/graph_sample.h"

using namespace planish::ir;

namespace {

const std::string& good = planish::samples::graph_document;

std::string with(const std::string& from, const std::string& to) {
  std::string text = good;
  const auto at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

void rejected(const std::string& text, const std::string& kind, const std::string& message) {
  const auto result = parse_graph(text);
  REQUIRE_FALSE_MESSAGE(result.has_value(), message);
  CHECK(result.error().kind.name() == kind);
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

TEST_CASE("the state of a generator is an input and a result") {
  const std::string given = "{\"value\": 1, \"kind\": \"generator\", \"name\": \"generator\"}";
  const std::string behind = "{\"value\": 3, \"kind\": \"mutate_generator\"}";
  std::string text = with("{\"value\": 3, \"kind\": \"user\"}", behind);
  const std::string parameter = "{\"value\": 1, \"kind\": \"param\", \"name\": \"w\"}";
  text.replace(text.find(parameter), parameter.size(), given);
  const auto graph = parse_graph(text);
  REQUIRE_MESSAGE(graph.has_value(), graph.error().message);
  CHECK(graph->inputs[0].kind == "generator");
  CHECK(graph->outputs[0].kind == "mutate_generator");
  std::string leaf = text;
  leaf.insert(leaf.find("\"kind\": \"generator\""), "\"index\": 0, ");
  rejected(leaf, "bad_graph", "a generator is no leaf");
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
