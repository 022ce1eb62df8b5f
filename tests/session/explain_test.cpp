#include "session/explain.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "codegen/compose/compose.h"
#include "codegen/graph_builder.h"
#include "report/settings_words.h"
#include "session/node_names.h"

using namespace planish;
using namespace planish::session;
using namespace planish::codegen;

namespace {

/// y = relu(x * w) summed along rows, then a matrix product that stays PyTorch's.
ir::Graph sample() {
  GraphBuilder b;
  const int x = b.input({64, 256}), w = b.input({256}), m = b.input({256, 8});
  const int product = b.node("mul.Tensor", {V("self", x), V("other", w)}, {64, 256});
  const int positive = b.node("relu.default", {V("self", product)}, {64, 256});
  const int out = b.node("mm.default", {V("self", positive), V("mat2", m)}, {64, 8});
  b.output(out);
  for (std::size_t i = 0; i < b.graph.nodes.size(); ++i) {
    b.graph.nodes[i].file = "model.py";
    b.graph.nodes[i].line = 10 + static_cast<int>(i);
  }
  return b.graph;
}

}  // namespace

TEST_CASE("operators and lines as people know them") {
  const ir::Graph graph = sample();
  CHECK(operators_text(graph, {0, 1}) == "mul, relu");
  CHECK(operators_text(graph, {0, 0, 1}) == "mul ×2, relu");
  CHECK(operators_text(graph, {0, 1, 2}, 1) == "mul and 2 more");
  CHECK(places_text(graph, {0, 1}) == "model.py:10-11");
  CHECK(operator_name("aten.native_layer_norm.default") == "layer_norm");
  CHECK(operator_name("aten._softmax.default") == "softmax");
  CHECK(operator_name("aten._to_copy.default") == "cast");
  ir::Graph apart = graph;
  apart.nodes[1].line = 40;
  apart.nodes[2].file = "other.py";
  CHECK(places_text(apart, {0, 1, 2}) == "model.py:10,40, other.py:12");
  apart.nodes[0].file.clear();
  CHECK(places_text(apart, {0}).empty());
}

TEST_CASE("what runs in place of what, in launches and bytes") {
  const ir::Graph graph = sample();
  const auto partition = codegen::partition(graph);
  REQUIRE(partition);
  REQUIRE(partition->regions.size() == 1);
  Device device;
  device.target = &backend::cpu();
  device.arch = "x86-64-v3";
  const auto aten = aten_program(graph, device);
  REQUIRE_MESSAGE(aten, aten.error().message);
  const double data = 64 * 256 * 4, weight = 256 * 4, product = 256 * 8 * 4 + 64 * 8 * 4;
  const auto why = explain(graph, *partition, {{"r0", true, 2 * data + weight}}, program::to_json(*aten));
  REQUIRE(why);
  CHECK(why->before.launches == 3);
  CHECK(why->before.bytes == doctest::Approx(2 * data + weight + 2 * data + data + product));
  CHECK(why->after.bytes == doctest::Approx(2 * data + weight + data + product));
  REQUIRE(why->fused.size() == 1);
  CHECK(why->fused[0].operators == "mul, relu");
  CHECK(why->fused[0].where == "model.py:10-11");
  CHECK(why->fused[0].before.launches == 2);
  // The program that was given is PyTorch's own: it says so, whatever the regions claim.
  CHECK(why->after.launches == 3);
  CHECK(std::ranges::find(why->left, "mm", &std::pair<std::string, int>::first) != why->left.end());
  const auto lines = sentences(*why);
  CHECK(lines.front().find("PyTorch runs 3 operators") == 0);
  CHECK(lines[1].find("r0: mul, relu (model.py:10-11), 2 operators in one kernel") == 0);
  CHECK(explain(graph, *partition, {{"r0", true, 1}}, "no program").error().kind.name() == "bad_program");
}

TEST_CASE("settings as words") {
  const auto words = report::settings_words(
      R"({"accuracy":"eager","budget_seconds":60.0,"cold":false,"evaluations":0,"baselines":["eager","compile"],"x":1})");
  const auto value = [&](const std::string& name) {
    const auto found = std::ranges::find(words, name, &std::pair<std::string, std::string>::first);
    return found == words.end() ? std::string("nothing") : found->second;
  };
  CHECK(value("time to search") == "60 s");
  CHECK(value("most candidates") == "no limit");
  CHECK(value("began") == "with what earlier runs on this device measured");
  CHECK(value("baselines") == "PyTorch eager, torch.compile");
  CHECK(value("x") == "1");
  CHECK(report::settings_words("broken").front().second == "broken");
  CHECK(report::settings_words("").empty());
}
