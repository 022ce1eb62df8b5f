// Convolutions with few channels of results: neighbouring places as rows of a tile.
#include "codegen/contraction/blocked.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "codegen/contraction/product.h"
#include "codegen/contraction_samples.h"
#include "codegen/run_kernel.h"

namespace planish::codegen {
namespace {

using contraction::Operand;
using contraction::Product;
using samples::conv_sample;
using samples::Convolved;
using Vector = std::vector<double>;

Product product_of(const Kernel& kernel) {
  auto product = contraction::product_of(kernel);
  REQUIRE(product);
  return *product;
}

bool cuts(const Kernel& kernel) {
  const auto c = contraction::oriented(kernel);
  REQUIRE(c);
  return contraction::blocked(kernel, *c, {}, contraction::oriented).has_value();
}

void close(const Vector& found, const Vector& wanted) {
  REQUIRE(found.size() == wanted.size());
  double worst = 0;
  for (std::size_t i = 0; i < found.size(); ++i) worst = std::max(worst, std::abs(found[i] - wanted[i]));
  CHECK(worst < 1e-9);
}

std::vector<Vector> storage_of(const Kernel& kernel) {
  std::vector<Vector> data;
  for (const Input& input : kernel.inputs) {
    Vector storage;
    for (std::int64_t i = 0; i < input.storage_elements; ++i)
      storage.push_back(element(static_cast<std::size_t>(input.value), static_cast<std::size_t>(i)));
    data.push_back(std::move(storage));
  }
  return data;
}

}  // namespace

TEST_CASE("blocks of places fill the rows that few channels leave, in a sum that is little longer") {
  struct Case {
    Convolved how;
    std::int64_t rows, depth;  // of the tensor cores' product, channels filled up
  };
  for (const auto& [how, rows, depth] : std::vector<Case>{
           // 3 channels and the 6 rows that 4 places read are 18 of 24; 3 taps of each of the other dims.
           {{.x = {1, 3, 18, 34, 16}, .w = {16, 3, 3, 3, 3}}, 64, 24 * 9},
           {{.x = {2, 3, 34, 16}, .w = {16, 3, 3, 3}}, 64, 24 * 3},
           {{.x = {1, 8, 18, 34, 16}, .w = {16, 8, 3, 3, 3}}, 64, 8 * 9 * 6},
           {{.x = {2, 8, 34, 16}, .w = {32, 8, 3, 3}}, 64, 8 * 3 * 4},
           {{.x = {2, 8, 34, 16}, .w = {8, 8, 3, 3}}, 64, 8 * 3 * 10},
           {{.x = {2, 16, 34, 16}, .w = {16, 4, 3, 3}, .groups = 4}, 32, 40 * 3},
           {{.x = {2, 8, 200}, .w = {16, 8, 5}}, 64, 8 * 8},
       }) {
    const auto sample = conv_sample(how);
    CAPTURE(sample.python);
    const Product product = product_of(sample.kernel);
    REQUIRE(product.implicit);
    CHECK((product.implicit->operand == Operand::b ? product.c.rows : product.c.columns) == rows);
    CHECK(product.problem.k == depth);
    REQUIRE(product.taps.size() == 1);
    CHECK(contraction::wasted(product) == product.implicit->operand);
  }
}

TEST_CASE("over blocks a convolution is what it was") {
  for (const Convolved& how : std::vector<Convolved>{
           {.x = {1, 3, 5, 11, 9}, .w = {16, 3, 3, 3, 3}},
           {.x = {2, 3, 19, 9}, .w = {16, 3, 3, 3}, .padding = 1, .chain = true},
           {.x = {2, 3, 34, 21}, .w = {12, 3, 5, 5}, .stride = 2, .padding = 2, .chain = true},
           {.x = {2, 8, 21, 10}, .w = {8, 8, 3, 3}, .padding = 1},
           {.x = {2, 16, 18, 10}, .w = {16, 4, 3, 3}, .padding = 1, .groups = 4, .chain = true},
           {.x = {2, 8, 67}, .w = {16, 8, 5}, .padding = 2, .chain = true},
           {.x = {2, 8, 267}, .w = {16, 8, 5}, .stride = 3, .padding = 2},
           {.x = {2, 8, 20, 12}, .w = {16, 8, 4, 1}, .padding = 1},
       }) {
    const auto sample = conv_sample(how);
    CAPTURE(sample.python);
    CHECK(cuts(sample.kernel));
    // The interpreter throws where an element is outside of its input, also where it is multiplied with zero.
    close(run(product_of(sample.kernel).kernel)[0], run(sample.kernel)[0]);
  }
}

TEST_CASE("there is nothing to multiply just where no tap is read, also of phases in blocks") {
  auto all = samples::convolution_samples(false);
  std::ranges::move(samples::transposed_samples(false), std::back_inserter(all));
  std::size_t both = 0;
  for (const auto& sample : all) {
    CAPTURE(sample.python);
    const Product product = product_of(sample.kernel);
    both += product.taps.size() > 1;
    const auto idle = contraction::wasted(product);
    if (!idle) continue;
    const Node* taps =
        &product.kernel.nodes[static_cast<std::size_t>(*idle == Operand::a ? product.c.second : product.c.first)];
    while (taps->op == Op::cast) taps = &product.kernel.nodes[static_cast<std::size_t>(taps->args[0])];
    REQUIRE(taps->op == Op::load);
    const auto& extents = product.kernel.space.extents;
    std::vector<std::int64_t> at(extents.size(), 0);
    const auto hold = [&](const std::vector<ir::Bound>& bounds) {
      return std::ranges::all_of(bounds, [&](const ir::Bound& bound) {
        const std::int64_t e = bound.e.evaluate(at);
        return bound.lo <= e && e < bound.hi;
      });
    };
    std::size_t wrong = 0;
    for (std::size_t i = 1; i > 0;) {
      wrong += hold(product.taps) != hold(taps->where);
      for (i = extents.size(); i > 0 && ++at[i - 1] == extents[i - 1]; --i) at[i - 1] = 0;
    }
    CHECK(wrong == 0);
  }
  CHECK(both > 0);
}

TEST_CASE("rows are not filled up where that spares little, or where zeros could not be told from elements") {
  const auto of = [](Convolved how) { return conv_sample(how).kernel; };
  CHECK(cuts(of({.x = {2, 8, 34, 16}, .w = {16, 8, 3, 3}})));
  CHECK_FALSE(cuts(of({.x = {2, 8, 34, 16}, .w = {64, 8, 3, 3}})));                 // rows enough
  CHECK_FALSE(cuts(of({.x = {2, 8, 34, 16}, .w = {56, 8, 3, 3}})));                 // nearly
  CHECK_FALSE(cuts(of({.x = {2, 8, 34, 18}, .w = {16, 8, 3, 3}, .dilation = 2})));  // taps that are apart
  CHECK_FALSE(cuts(of({.x = {2, 8, 34, 16}, .w = {16, 8, 1, 1}})));                 // nothing slides
  CHECK_FALSE(cuts(of({.x = {2, 8, 5, 5}, .w = {16, 8, 3, 3}})));                   // no two blocks
  const auto narrow = samples::contraction_sample("conv2d", "", 0, [](GraphBuilder& g) {
    const int x = g.input({2, 8, 34, 16}, DType::f16), w = g.input({16, 8, 3, 3}, DType::f16);
    return g.node("conv2d.default", {V("input", x), V("weight", w), L("padding", {0, 0})}, {2, 16, 32, 14}, DType::f16);
  });
  if (narrow.kernel.anchor == Anchor::contraction) {
    const auto product = contraction::product_of(narrow.kernel);
    CHECK((!product || product->taps.empty()));
  }
  // Taps that something is computed of: what stands for no tap would not be 0.
  const auto computed = samples::contraction_sample("conv2d", "", 0, [](GraphBuilder& g) {
    const int x = g.input({2, 8, 34, 16}), w = g.input({16, 8, 3, 3});
    const int e = g.node("exp.default", {V("self", w)}, {16, 8, 3, 3});
    return g.node("conv2d.default", {V("input", x), V("weight", e)}, {2, 16, 32, 14});
  });
  if (computed.kernel.anchor == Anchor::contraction) CHECK_FALSE(cuts(computed.kernel));
}

TEST_CASE("an element that is not finite reaches more places of its block than it should, all of which are noted") {
  const auto sample = conv_sample({.x = {2, 3, 34, 16}, .w = {16, 3, 3, 3}});
  const Product product = product_of(sample.kernel);
  REQUIRE(product.taps.size() == 1);
  auto data = storage_of(sample.kernel);
  const auto x = static_cast<std::size_t>(sample.kernel.inputs[0].shape[1] == 3 ? 0 : 1);
  data[x][16 * 9 + 5] = std::numeric_limits<double>::infinity();
  const auto right = Interpreter(sample.kernel, data).run()[0], blocks = Interpreter(product.kernel, data).run()[0];
  std::size_t spoiled = 0, beyond = 0;
  for (std::size_t i = 0; i < right.size(); ++i) {
    if (std::isfinite(right[i])) beyond += !std::isfinite(blocks[i]);
    spoiled += !std::isfinite(right[i]);
    if (!std::isfinite(right[i])) CHECK(!std::isfinite(blocks[i]));
  }
  CHECK(spoiled == 16 * 3 * 3);
  CHECK(beyond > 0);  // which is what a last launch mends
  CHECK(beyond < 16 * 8 * 3);
}

}  // namespace planish::codegen
