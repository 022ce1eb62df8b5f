#include "codegen/contraction/contraction.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "codegen/contraction/product.h"
#include "codegen/partition/fusion_plans.h"
#include "codegen/partition/partition.h"
#include "codegen/passes.h"
#include "codegen/run_kernel.h"

namespace planish::codegen {
namespace {

using Vector = std::vector<double>;

LowerLimits with_products() {
  LowerLimits limits;
  limits.contractions = true;
  return limits;
}

Result<Kernel> product(const GraphBuilder& g, const std::vector<int>& outputs) {
  return lower(g.graph, std::vector<bool>(g.graph.nodes.size(), true), outputs, with_products());
}

double at(int value, std::int64_t place) {
  return element(static_cast<std::size_t>(value), static_cast<std::size_t>(place));
}

void close(const Vector& found, const Vector& wanted) {
  REQUIRE(found.size() == wanted.size());
  for (std::size_t i = 0; i < found.size(); ++i) CHECK(found[i] == doctest::Approx(wanted[i]).epsilon(1e-9));
}

TEST_CASE("a matrix product is lowered only where that is allowed") {
  GraphBuilder g;
  const int a = g.input({3, 5}), b = g.input({5, 4});
  const int c = g.node("mm.default", {V("self", a), V("mat2", b)}, {3, 4});
  CHECK_FALSE(all_of(g, {c}));
  const auto kernel = product(g, {c});
  REQUIRE(kernel);
  CHECK(kernel->anchor == Anchor::contraction);
  const auto parts = contraction_of(*kernel);
  REQUIRE(parts);
  CHECK(parts->rows == 3);
  CHECK(parts->columns == 4);
  CHECK(parts->depth == 5);
  CHECK(parts->batches == 1);
  Vector wanted;
  for (int m = 0; m < 3; ++m) {
    for (int n = 0; n < 4; ++n) {
      double sum = 0;
      for (int k = 0; k < 5; ++k) sum += at(a, m * 5 + k) * at(b, k * 4 + n);
      wanted.push_back(sum);
    }
  }
  close(run(*kernel)[0], wanted);
}

TEST_CASE("what is computed of a 16-bit factor is rounded as memory would hold it, and then multiplied as it is") {
  const auto lowered = [](DType dtype) {
    GraphBuilder g;
    const int a = g.input({16, 32}, dtype), b = g.input({32, 8}, dtype);
    const int silu = g.node("silu.default", {V("self", a)}, {16, 32}, dtype);
    const int c = g.node("mm.default", {V("self", silu), V("mat2", b)}, {16, 8}, dtype);
    const auto kernel = product(g, {c});
    REQUIRE(kernel);
    const auto parts = contraction_of(*kernel);
    REQUIRE(parts);
    return std::pair(contraction::narrow_type(*kernel, *parts), contraction_passes(*kernel));
  };
  CHECK((lowered(DType::bf16) == std::pair(std::optional(DType::bf16), 1)));
  CHECK((lowered(DType::f16) == std::pair(std::optional(DType::f16), 1)));
  CHECK((lowered(DType::f32) == std::pair(std::optional<DType>(), 3)));
}

TEST_CASE("a linear layer takes what follows it, and what its operand is made of") {
  GraphBuilder g;
  const int x = g.input({2, 3, 6}), w = g.input({4, 6}), bias = g.input({4});
  const int before = g.node("relu.default", {V("self", x)}, {2, 3, 6});
  const int y = g.node("linear.default", {V("input", before), V("weight", w), V("bias", bias)}, {2, 3, 4});
  const int out = g.node("tanh.default", {V("self", y)}, {2, 3, 4});
  const auto kernel = product(g, {out});
  REQUIRE(kernel);
  CHECK(kernel->anchor == Anchor::contraction);
  const auto parts = contraction_of(*kernel);
  REQUIRE(parts);
  CHECK(parts->rows == 6);  // both dims of the batch in one variable
  CHECK(parts->m.size() == 1);
  CHECK(parts->columns == 4);
  Vector wanted;
  for (int m = 0; m < 6; ++m) {
    for (int n = 0; n < 4; ++n) {
      double sum = at(bias, n);
      for (int k = 0; k < 6; ++k) sum += std::max(0.0, at(x, m * 6 + k)) * at(w, n * 6 + k);
      wanted.push_back(std::tanh(sum));
    }
  }
  close(run(*kernel)[0], wanted);
}

TEST_CASE("addmm scales both; with beta 0 what is added is not read") {
  for (const double beta : {0.0, 0.5}) {
    GraphBuilder g;
    const int c = g.input({4}), a = g.input({3, 5}), b = g.input({5, 4});
    const int out =
        g.node("addmm.default", {V("self", c), V("mat1", a), V("mat2", b), F("beta", beta), F("alpha", 3)}, {3, 4});
    const auto kernel = product(g, {out});
    REQUIRE(kernel);
    CHECK(kernel->inputs.size() == (beta == 0 ? 2 : 3));
    Vector wanted;
    for (int m = 0; m < 3; ++m) {
      for (int n = 0; n < 4; ++n) {
        double sum = 0;
        for (int k = 0; k < 5; ++k) sum += at(a, m * 5 + k) * at(b, k * 4 + n);
        wanted.push_back(3 * sum + beta * at(c, n));
      }
    }
    close(run(*kernel)[0], wanted);
  }
}

TEST_CASE("a batched product: what both factors move with is the batch") {
  GraphBuilder g;
  const int a = g.input({2, 3, 5}), b = g.input({2, 4, 5});
  const int t = g.node("permute.default", {V("self", b), L("dims", {0, 2, 1})}, {2, 5, 4}, DType::f32, {20, 1, 5});
  const int out = g.node("bmm.default", {V("self", a), V("mat2", t)}, {2, 3, 4});
  const auto kernel = product(g, {out});
  REQUIRE(kernel);
  const auto parts = contraction_of(*kernel);
  REQUIRE(parts);
  CHECK(parts->batches == 2);
  Vector wanted;
  for (int i = 0; i < 2; ++i) {
    for (int m = 0; m < 3; ++m) {
      for (int n = 0; n < 4; ++n) {
        double sum = 0;
        for (int k = 0; k < 5; ++k) sum += at(a, (i * 3 + m) * 5 + k) * at(b, (i * 4 + n) * 5 + k);
        wanted.push_back(sum);
      }
    }
  }
  close(run(*kernel)[0], wanted);
}

TEST_CASE("operands of matmul are broadcast over the batch") {
  GraphBuilder g;
  const int a = g.input({2, 1, 3, 5}), b = g.input({4, 5, 6});
  const int out = g.node("matmul.default", {V("self", a), V("other", b)}, {2, 4, 3, 6});
  const auto kernel = product(g, {out});
  REQUIRE(kernel);
  Vector wanted;
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 4; ++j) {
      for (int m = 0; m < 3; ++m) {
        for (int n = 0; n < 6; ++n) {
          double sum = 0;
          for (int k = 0; k < 5; ++k) sum += at(a, (i * 3 + m) * 5 + k) * at(b, (j * 5 + k) * 6 + n);
          wanted.push_back(sum);
        }
      }
    }
  }
  close(run(*kernel)[0], wanted);
}

TEST_CASE("a product with a vector is rows to fold") {
  GraphBuilder g;
  const int a = g.input({7, 5}), v = g.input({5});
  const int out = g.node("mv.default", {V("self", a), V("vec", v)}, {7});
  const auto kernel = product(g, {out});
  REQUIRE(kernel);
  CHECK(kernel->anchor == Anchor::row);
}

TEST_CASE("the factor that moves with the fastest variable of the output is the second") {
  GraphBuilder g;
  const int a = g.input({8, 5}), b = g.input({5, 6});
  const int c = g.node("mm.default", {V("self", a), V("mat2", b)}, {8, 6});
  const int t = g.node("permute.default", {V("self", c), L("dims", {1, 0})}, {6, 8}, DType::f32, {1, 6});
  const int out = g.node("clone.default", {V("self", t)}, {6, 8});
  const auto kernel = product(g, {out});
  REQUIRE(kernel);
  const auto parts = contraction_of(*kernel);
  REQUIRE(parts);
  CHECK(parts->rows == 6);
  CHECK(parts->columns == 8);
}

TEST_CASE("what is no product of two factors is no contraction") {
  GraphBuilder g;
  const int a = g.input({8, 5}), b = g.input({5, 6}), c = g.input({6, 3});
  const int ab = g.node("mm.default", {V("self", a), V("mat2", b)}, {8, 6});
  SUBCASE("two products are two kernels") {
    const int abc = g.node("mm.default", {V("self", ab), V("mat2", c)}, {8, 3});
    CHECK_FALSE(product(g, {abc}));
  }
  SUBCASE("a product and a fold of its rows are one that folds across") {
    const int sum = g.node("sum.dim_IntList", {V("self", ab), L("dim", {1})}, {8});
    const auto kernel = product(g, {sum});
    REQUIRE(kernel);
    CHECK(kernel->across == 1);
  }
  SUBCASE("rows that are folded are none") {
    const int square = g.node("mul.Tensor", {V("self", a), V("other", a)}, {8, 5});
    const int sum = g.node("sum.dim_IntList", {V("self", square), L("dim", {1})}, {8});
    const auto kernel = product(g, {sum});
    REQUIRE(kernel);
    CHECK(kernel->anchor == Anchor::row);
    CHECK_FALSE(contraction_of(*kernel));
  }
}

TEST_CASE("a partition gives each product a region, and fusion_plans join it with its neighbours") {
  GraphBuilder g;
  const int x = g.input({256, 512}), w = g.input({128, 512}), bias = g.input({128});
  const int y = g.node("linear.default", {V("input", x), V("weight", w), V("bias", bias)}, {256, 128});
  const int z = g.node("sigmoid.default", {V("self", y)}, {256, 128});
  const int out = g.node("mul.Tensor", {V("self", y), V("other", z)}, {256, 128});
  g.output(out);
  PartitionOptions options;
  const auto without = partition(g.graph, options);
  REQUIRE(without);
  CHECK(without->regions.size() == 1);
  options.limits = with_products();
  const auto with = partition(g.graph, options);
  REQUIRE(with);
  REQUIRE(with->regions.size() == 2);
  CHECK(with->regions[0].kernel.anchor == Anchor::contraction);
  CHECK(with->regions[1].kernel.anchor == Anchor::pointwise);
  FusionOptions fusion_options;
  fusion_options.limits = with_products();
  const auto ways = fusion_plans(g.graph, *with, Device{}, fusion_options);
  const bool joined = std::ranges::any_of(ways, [](const FusionPlan& way) {
    return way.replaces.size() == 2 && way.by.size() == 1 && way.by[0].kernel.anchor == Anchor::contraction;
  });
  CHECK(joined);
}

TEST_CASE("a contraction can be emitted as rows") {
  GraphBuilder g;
  const int a = g.input({64, 32}), b = g.input({32, 48});
  const int c = g.node("mm.default", {V("self", a), V("mat2", b)}, {64, 48});
  const auto kernel = product(g, {c});
  REQUIRE(kernel);
  Device cpu;
  cpu.arch = "x86-64-v3";
  const auto known = seeds(*kernel, cpu);
  REQUIRE_FALSE(known.empty());
  const auto emitted = emit(*kernel, cpu, known.front());
  REQUIRE(emitted);
  CHECK(emitted->language == "cpp");
}

}  // namespace
}  // namespace planish::codegen
