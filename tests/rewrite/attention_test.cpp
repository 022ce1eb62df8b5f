#include <doctest/doctest.h>

#include <algorithm>

#include "codegen/graph_builder.h"
#include "field.h"
#include "proof.h"
#include "rewrite/rewrite.h"

// Attention with heads that no kernel of ours has room for.

using namespace planish;
using namespace planish::codegen;
using rewrite::check_equal;
using rewrite::has;
using rewrite::Rewritten;
using rewrite::unchanged;

namespace {

/// Heads of 12 features count as wide.
constexpr rewrite::Options own{.library_products = false, .most_features = 8};

struct Heads {
  Shape query{2, 3, 5, 12}, key{2, 3, 7, 12}, value{2, 3, 7, 6}, mask;
  DType dtype = DType::f32, mask_dtype = DType::boolean;
  bool causal = false, grouped = false;
  double dropout = 0;
  std::optional<double> scale;

  ir::Graph graph() const {
    GraphBuilder g;
    const int q = g.input(query, dtype), k = g.input(key, dtype), v = g.input(value, dtype);
    const int m = mask.empty() ? -1 : g.input(mask, mask_dtype);
    Shape out = query;
    out.back() = value.back();
    g.output(g.node(
        "scaled_dot_product_attention.default",
        {V("query", q), V("key", k), V("value", v), m < 0 ? N("attn_mask") : V("attn_mask", m), F("dropout_p", dropout),
         B("is_causal", causal), scale ? F("scale", *scale) : N("scale"), B("enable_gqa", grouped)},
        out, dtype));
    return g.graph;
  }
};

}  // namespace

TEST_CASE("attention with wide heads is two products and a softmax") {
  Heads h;
  bool guarded = false;  // for queries without keys
  SUBCASE("plain") {}
  SUBCASE("with a scale of its own") {
    h.scale = 0.375;
  }
  SUBCASE("of single heads") {
    h.query = {5, 12};
    h.key = {7, 12};
    h.value = {7, 6};
  }
  SUBCASE("causal, with fewer queries than keys") {
    h.causal = true;
  }
  SUBCASE("causal, with more queries than keys") {
    h.causal = true;
    h.query = {2, 3, 9, 12};
  }
  SUBCASE("a mask of booleans") {
    h.mask = {5, 7};
    guarded = true;
  }
  SUBCASE("a mask that is added, the same for all heads") {
    h.mask = {2, 1, 5, 7};
    h.mask_dtype = DType::f32;
    guarded = true;
  }
  const ir::Graph graph = h.graph();
  const Rewritten found = rewrite::rewrite(graph, own);
  REQUIRE(found.applied.size() == 1);
  CHECK(found.applied[0].rule == "wide_attention");
  CHECK(found.applied[0].numeric == rewrite::Numeric::reassociation);
  CHECK_FALSE(has(found.graph, "scaled_dot_product_attention.default"));
  CHECK(std::ranges::count(found.graph.nodes, "aten.matmul.default", &ir::GraphNode::op) == 2);
  CHECK(has(found.graph, "amax.default") == guarded);
  // The keys are read as they lie.
  const auto turned = std::ranges::find(found.graph.nodes, "aten.permute.default", &ir::GraphNode::op);
  REQUIRE(turned != found.graph.nodes.end());
  const ir::Value& keys = found.graph.values[static_cast<std::size_t>(*turned->outs[0])];
  CHECK(keys.shape.back() == 7);
  CHECK(keys.strides.back() == 12);
  CHECK(keys.strides[keys.strides.size() - 2] == 1);
  check_equal(graph, found.graph);
}

TEST_CASE("attention of 16 bits with wide heads has scores in single precision, in parts that memory may hold") {
  Heads h;
  h.query = {2, 3, 72, 12};
  rewrite::Options options = own;
  std::ptrdiff_t parts = 1;
  SUBCASE("f16") {
    h.dtype = DType::f16;
  }
  SUBCASE("bf16, causal") {
    h.dtype = DType::bf16;
    h.causal = true;
  }
  SUBCASE("in parts") {
    h.dtype = DType::f16;
    h.causal = true;
    options.scores_at_once = 2 * 3 * 7 * 20;
    parts = 4;
  }
  SUBCASE("in parts, with a mask for each query") {
    h.dtype = DType::bf16;
    h.mask = {72, 7};
    h.mask_dtype = DType::bf16;
    options.scores_at_once = 2 * 3 * 7 * 36;
    parts = 2;
  }
  const ir::Graph graph = h.graph();
  const Rewritten found = rewrite::rewrite(graph, options);
  REQUIRE(found.applied.size() == 1);
  CHECK_FALSE(has(found.graph, "scaled_dot_product_attention.default"));
  CHECK(std::ranges::count(found.graph.nodes, "aten.bmm.dtype", &ir::GraphNode::op) == 2 * parts);
  CHECK(has(found.graph, "cat.default") == (parts > 1));
  for (const ir::GraphNode& node : found.graph.nodes) {
    const auto& out = found.graph.values[static_cast<std::size_t>(*node.outs[0])];
    if (node.op == "aten.bmm.dtype" || node.op == "aten.exp.default") CHECK(out.dtype == DType::f32);
    if (node.op == "aten.exp.default") CHECK(out.shape[2] == 72 / parts);
  }
  check_equal(graph, found.graph);
}

TEST_CASE("the proof tells attention without its scale") {
  const ir::Graph graph = Heads().graph();
  Rewritten found = rewrite::rewrite(graph, own);
  REQUIRE(found.applied.size() == 1);
  for (ir::GraphNode& node : found.graph.nodes) {
    for (ir::Arg& arg : node.args) {
      if (node.op == "aten.mul.Tensor" && arg.name == "other") arg.data = 1.0;
    }
  }
  rewrite::check_different(graph, found.graph);
}

TEST_CASE("batches that one operand lacks are broadcast by the products") {
  Heads h;
  h.key[1] = h.value[1] = 1;
  CHECK(rewrite::rewrite(h.graph(), own).applied.size() == 1);
}

TEST_CASE("attention stays one operator where a condition is missing") {
  Heads h;
  rewrite::Options options = own;
  SUBCASE("PyTorch computes products") {
    options.library_products = true;
  }
  SUBCASE("a kernel has room for the heads") {
    options.most_features = 12;
  }
  SUBCASE("something is dropped") {
    h.dropout = 0.1;
  }
  SUBCASE("few queries of 16 bits") {
    h.dtype = DType::bf16;
  }
  SUBCASE("16 bits in more parts than there are equal ones") {
    h.dtype = DType::bf16;
    h.query[2] = 71;
    options.scores_at_once = 1000;
  }
  SUBCASE("64 bits") {
    h.dtype = DType::f64;
  }
  SUBCASE("a mask of other numbers") {
    h.mask = {5, 7};
    h.mask_dtype = DType::bf16;
  }
  SUBCASE("heads that share keys in groups") {
    h.query = {2, 6, 5, 12};
    h.grouped = true;
  }
  SUBCASE("more scores than memory should hold") {
    h.query[2] = 8000;
    h.key[2] = h.value[2] = 6000;
  }
  SUBCASE("fewer dims of the keys") {
    h.key = {3, 7, 12};
  }
  unchanged(h.graph(), options);
}
