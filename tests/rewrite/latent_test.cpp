#include <doctest/doctest.h>

#include <algorithm>

#include "codegen/graph_builder.h"
#include "field.h"
#include "proof.h"
#include "rewrite/rewrite.h"

// Attention over a cache of latents.

using namespace planish;
using namespace planish::codegen;
using rewrite::check_equal;
using rewrite::has;
using rewrite::Rewritten;
using rewrite::unchanged;

namespace {

/// Keys are 6 features of a product and 2 that all heads share, values 8 of the same product.
struct Model {
  std::int64_t batch = 1, heads = 2, places = 64, features = 8, queries = 1;
  bool cat = true, slices = false, mask = false, shared_first = false, biased = false, read_again = false;
  bool own_value = false, for_heads = false, causal = false, computed_weights = false;
  DType dtype = DType::f32;

  int parameter(GraphBuilder& g, const Shape& shape) const {
    const int id = g.value(shape, dtype);
    g.graph.inputs.push_back({id, "param", "w" + std::to_string(id), -1, ""});
    return id;
  }

  ir::Graph graph() const {
    GraphBuilder g;
    const std::int64_t key = 6, other = 2, value = 8, block = key + value;
    const auto node = [&](const char* op, std::vector<ir::Arg> args, Shape shape) {
      return g.node(op, std::move(args), std::move(shape), dtype);
    };
    const int q = g.input({batch, heads, queries, key + other}, dtype),
              c = g.input({batch, 1, places, features}, dtype);
    const int r = g.input({batch, for_heads ? heads : 1, places, other}, dtype);
    int w = parameter(g, {heads * block, features});
    if (computed_weights) w = node("neg.default", {V("self", w)}, {heads * block, features});
    std::vector<ir::Arg> linear{V("input", c), V("weight", w)};
    if (biased) linear.push_back(V("bias", parameter(g, {heads * block})));
    const int product = node("linear.default", linear, {batch, 1, places, heads * block});
    if (read_again) g.output(node("neg.default", {V("self", product)}, {batch, 1, places, heads * block}));
    const int blocks = node("view.default", {V("self", product), L("size", {batch, places, heads, block})},
                            {batch, places, heads, block});
    const int by_head = g.node("permute.default", {V("self", blocks), L("dims", {0, 2, 1, 3})},
                               {batch, heads, places, block}, dtype, {places * heads * block, block, heads * block, 1});
    const auto part = [&](std::int64_t from, std::int64_t to) {
      return node("slice.Tensor", {V("self", by_head), I("dim", 3), I("start", from), I("end", to), I("step", 1)},
                  {batch, heads, places, to - from});
    };
    int k = -1, v = -1;
    if (slices) {
      k = part(0, key), v = part(key, block);
    } else {
      k = node("split_with_sizes.default", {V("self", by_head), L("split_sizes", {key, value}), I("dim", -1)},
               {batch, heads, places, key});
      v = g.value({batch, heads, places, value}, dtype);
      g.graph.nodes.back().outs.emplace_back(v);
    }
    if (own_value) v = g.input({batch, heads, places, value}, dtype);
    const int expanded = for_heads ? r
                                   : node("expand.default", {V("self", r), L("size", {-1, heads, -1, -1})},
                                          {batch, heads, places, other});
    const Shape whole{batch, heads, places, key + other};
    int keys = -1;
    if (cat) {
      ir::ValueList list{{k, expanded}};
      if (shared_first) std::swap(list.ids[0], list.ids[1]);
      keys = node("cat.default", {{"tensors", list}, I("dim", -1)}, whole);
    } else {  // as PyTorch's in-place copies are captured
      keys = node("empty.memory_format", {L("size", whole)}, whole);
      const auto copied = [&](int value_, std::int64_t from, std::int64_t to, std::int64_t end) {
        const Shape own{batch, heads, places, to - from};
        const int place =
            node("slice.Tensor", {V("self", keys), I("dim", 3), I("start", from), I("end", end), I("step", 1)}, own);
        const int src = node("copy.default", {V("self", place), V("src", value_)}, own);
        keys =
            node("slice_scatter.default",
                 {V("self", keys), V("src", src), I("dim", 3), I("start", from), I("end", end), I("step", 1)}, whole);
      };
      copied(k, 0, key, key);
      copied(expanded, key, key + other, 9223372036854775807);
    }
    const int m = mask ? g.input({batch, 1, 1, places}, DType::boolean) : -1;
    g.output(node("scaled_dot_product_attention.default",
                  {V("query", q), V("key", keys), V("value", v), mask ? V("attn_mask", m) : N("attn_mask"),
                   F("dropout_p", 0), B("is_causal", causal), F("scale", 0.25), B("enable_gqa", false)},
                  {batch, heads, queries, value}));
    return g.graph;
  }
};

}  // namespace

TEST_CASE("attention over products of a latent is attention of one head over the latent") {
  Model m;
  SUBCASE("keys put together by cat") {}
  SUBCASE("several sequences") {
    m.batch = 3;
  }
  SUBCASE("by copies, with a mask") {
    m.cat = false;
    m.mask = true;
  }
  SUBCASE("parts that are slices, the shared features first") {
    m.slices = m.shared_first = true;
  }
  SUBCASE("in 16 bits") {
    m.dtype = DType::bf16;
  }
  const ir::Graph graph = m.graph();
  const Rewritten found = rewrite::rewrite(graph);
  REQUIRE(found.applied.size() == 1);
  CHECK(found.applied[0].rule == "latent_attention");
  CHECK_FALSE(has(found.graph, "linear.default"));
  CHECK(has(found.graph, "_to_copy.default") == (m.dtype == DType::bf16));  // a library multiplies in f32
  const auto attention =
      std::ranges::find(found.graph.nodes, "aten.scaled_dot_product_attention.default", &ir::GraphNode::op);
  REQUIRE(attention != found.graph.nodes.end());
  CHECK(found.graph.values[static_cast<std::size_t>(*attention->outs[0])].shape ==
        std::vector<std::int64_t>{m.batch, 1, 2, 8});
  check_equal(graph, found.graph);
}

TEST_CASE("kernels of ours multiply 16 bits, and leave the weighted sum of latents in f32") {
  Model m;
  SUBCASE("f32") {}
  SUBCASE("bf16, several sequences, a mask") {
    m.dtype = DType::bf16;
    m.batch = 3;
    m.mask = true;
  }
  const ir::Graph graph = m.graph();
  const Rewritten found = rewrite::rewrite(graph, {.library_products = false});
  REQUIRE(found.applied.size() == 1);
  CHECK_FALSE(has(found.graph, "scaled_dot_product_attention.default"));
  const bool narrow = m.dtype == DType::bf16;
  // Of scores, and of weights with values; in 16 bits that is one more, of what the first factor is rounded by.
  CHECK(std::ranges::count(found.graph.nodes, "aten.bmm.dtype", &ir::GraphNode::op) == (narrow ? 4 : 0));
  check_equal(graph, found.graph);
}

TEST_CASE("attention over products of a latent stays where that saves little, or where its product is wanted") {
  Model m;
  SUBCASE("few places") {
    m.places = 4;
  }
  SUBCASE("several queries") {
    m.queries = 2;
  }
  SUBCASE("a bias") {
    m.biased = true;
  }
  SUBCASE("another reader") {
    m.read_again = true;
  }
  SUBCASE("values of another tensor") {
    m.own_value = true;
  }
  SUBCASE("features that are a head's own") {
    m.for_heads = true;
  }
  SUBCASE("causal") {
    m.causal = true;
  }
  SUBCASE("weights that are computed") {
    m.computed_weights = true;
  }
  unchanged(m.graph());
}
