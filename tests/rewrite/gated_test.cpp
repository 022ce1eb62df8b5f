#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "codegen/graph_builder.h"
#include "field.h"
#include "proof.h"
#include "rewrite/rewrite.h"

using namespace planish;
using namespace planish::codegen;
using rewrite::check_equal;
using rewrite::has;
using rewrite::Rewritten;
using rewrite::unchanged;

namespace {

/// A linear layer whose columns are split, and what becomes of the halves.
struct Gated {
  std::int64_t rows = 512, depth = 2;
  std::vector<std::int64_t> parts{512, 512};
  std::string function = "relu", meet = "mul.Tensor";  ///< of the second half; where it meets the first
  bool bias = true, again = false;                     ///< something else reads the first half, too
  std::int64_t dim = -1;
  DType dtype = DType::f16;

  ir::Graph graph() const {
    GraphBuilder g;
    const std::int64_t columns = parts[0] + parts[1];
    const int x = g.input({rows, depth}, dtype), w = g.input({columns, depth}, dtype);
    std::vector<ir::Arg> args{V("input", x), V("weight", w), N("bias")};
    if (bias) args[2] = V("bias", g.input({columns}, dtype));
    const int whole = g.node("linear.default", std::move(args), {rows, columns}, dtype);
    const bool across = dim == 0;
    const Shape first = across ? Shape{rows / 2, columns} : Shape{rows, parts[0]};
    const Shape second = across ? Shape{rows / 2, columns} : Shape{rows, parts[1]};
    const int a = g.value(first, dtype), b = g.value(second, dtype);
    const std::vector<std::int64_t> sizes = across ? std::vector<std::int64_t>{rows / 2, rows / 2} : parts;
    g.graph.nodes.push_back(
        {"aten.split_with_sizes.default", {V("self", whole), L("split_sizes", sizes), I("dim", dim)}, {a, b}});
    const int gate = g.node(function + ".default", {V("self", b)}, second, dtype);
    std::vector<ir::Arg> both{V("self", a), V("other", gate)};
    if (meet != "mul.Tensor") both.push_back(I("alpha", 1));
    g.output(g.node(meet, std::move(both), first, dtype));
    if (again) g.output(g.node("relu.default", {V("self", a)}, first, dtype));
    return std::move(g.graph);
  }
};

constexpr rewrite::Options own{.library_products = false};

}  // namespace

TEST_CASE("a linear layer of which one half gates the other is two layers") {
  Gated p;
  SUBCASE("with a bias") {}
  SUBCASE("without") {
    p.bias = false;
  }
  SUBCASE("of halves that differ") {
    p.parts = {576, 576};
  }
  SUBCASE("by its dim's number") {
    p.dim = 1;
  }
  const ir::Graph graph = p.graph();
  const Rewritten found = rewrite::rewrite(graph, own);
  REQUIRE(found.applied.size() == 1);
  CHECK(found.applied[0].rule == "gated_product");
  CHECK_FALSE(has(found.graph, "split_with_sizes.default"));
  CHECK(std::ranges::count(found.graph.nodes, "aten.linear.default", &ir::GraphNode::op) == 2);
  check_equal(graph, found.graph, 1);
}

TEST_CASE("a linear layer stays whole where a condition is missing") {
  Gated p;
  rewrite::Options options = own;
  SUBCASE("libraries compute products") {
    options.library_products = true;
  }
  SUBCASE("few rows") {
    p.rows = 510;
  }
  SUBCASE("few columns of a half") {
    p.parts = {256, 256};
  }
  SUBCASE("halves of other places") {
    p.parts = {520, 520};
  }
  SUBCASE("another reads a half") {
    p.again = true;
  }
  SUBCASE("the halves are added") {
    p.meet = "add.Tensor";
  }
  SUBCASE("one is exponentials") {
    p.function = "exp";
  }
  SUBCASE("rows are split") {
    p.dim = 0;
  }
  SUBCASE("numbers of 32 bits") {
    p.dtype = DType::f32;
  }
  unchanged(p.graph(), options);
}
