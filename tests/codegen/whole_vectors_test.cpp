// Kernels whose last variable is shorter than a vector, as pairs of neighbours are: lanes that read each other's
// elements.
#include "codegen/emit/whole_vectors.h"

#include <doctest/doctest.h>

#include <string>
#include <string_view>

#include "codegen/devices.h"
#include "codegen/emit/cuda_access.h"
#include "codegen/emit/cuda_emit.h"
#include "codegen/genome.h"
#include "codegen/graph_builder.h"
#include "codegen/lower/lower.h"
#include "sample_kernels.h"

using namespace planish;
using namespace planish::codegen;
using namespace planish::codegen::printing;

namespace {

std::size_t times(const std::string& text, std::string_view what) {
  std::size_t count = 0;
  for (auto at = text.find(what); at != text.npos; at = text.find(what, at + 1)) ++count;
  return count;
}

std::string printed(const Kernel& kernel) {
  const auto emitted = emit(kernel, h200(), seeds(kernel, h200()).front());
  REQUIRE(emitted);
  return emitted->source.substr(emitted->source.find("---- kernel ----"));
}

constexpr int even = 4, lanes = 8;

/// A space of 16 rows of 32 elements, and lanes of 8 of these.
const ir::Space space{{16, 32}};
const Lanes along{Lanes::Mode::along, lanes, 1, {}, {}};

ir::IndexExpr column() {
  return ir::IndexExpr::variable(1);
}
/// Column c's neighbour of its pair: the second, or the first.
ir::IndexExpr of_pair(std::int64_t which) {
  const auto pair = ir::scale(ir::floor_div(column(), 2, space), 2);
  return ir::add(ir::add(pair, ir::IndexExpr::constant(which), space), ir::scale(ir::IndexExpr::variable(0), 32),
                 space);
}

}  // namespace

TEST_CASE("lanes that read elements of one vector are told which") {
  const std::vector<ir::Bound> evens{{ir::mod(column(), 2, space), 0, 1}};
  const Access second = classify_load(of_pair(1), evens, DType::bf16, 512, space, along);
  REQUIRE(second.kind == Access::Kind::within);
  CHECK(second.unit == lanes);
  CHECK(second.before == 1);
  for (int pair = 0; pair < even; ++pair) CHECK(second.lane_at(2 * pair) == 2 * pair + 1);
  // All lanes, without bounds: the first of each pair, twice.
  const Access first = classify_load(of_pair(0), {}, DType::bf16, 512, space, along);
  REQUIRE(first.kind == Access::Kind::within);
  CHECK(first.before == 0);
  for (int lane = 0; lane < lanes; ++lane) CHECK(first.lane_at(lane) == lane / 2 * 2);
  CHECK(vector_begin(of_pair(1), second, space, along) == vector_begin(of_pair(0), first, space, along));
  // fp32 comes in two accesses, each of which a lane reads of.
  CHECK(classify_load(of_pair(1), evens, DType::f32, 512, space, along).unit == 4);
}

TEST_CASE("no lane reads a vector of which a part might lie outside of memory") {
  const std::vector<ir::Bound> evens{{ir::mod(column(), 2, space), 0, 1}};
  CHECK(classify_load(of_pair(1), evens, DType::bf16, 511, space, along).kind == Access::Kind::elements);
  // Lanes 0 to 3 alone: of fp32's second access nobody reads anything.
  const std::vector<ir::Bound> few{{ir::mod(column(), 8, space), 0, 4}};
  CHECK(classify_load(of_pair(0), few, DType::f32, 512, space, along).kind == Access::Kind::elements);
  CHECK(classify_load(of_pair(0), few, DType::bf16, 512, space, along).kind == Access::Kind::within);
  // Which lanes read differs from vector to vector.
  const std::vector<ir::Bound> some{{column(), 0, 13}};
  CHECK(classify_load(of_pair(0), some, DType::bf16, 512, space, along).kind == Access::Kind::elements);
  // Elements of two vectors.
  const auto next = ir::add(of_pair(0), ir::IndexExpr::constant(7), space);
  CHECK(classify_load(next, {}, DType::bf16, 1024, space, along).kind == Access::Kind::elements);
}

TEST_CASE("what bounds part the lanes of, and is the same for all, is loaded once") {
  const std::vector<ir::Bound> evens{{ir::mod(column(), 2, space), 0, 1}};
  CHECK(classify_load(ir::IndexExpr::variable(0), evens, DType::f32, 16, space, along).kind == Access::Kind::invariant);
}

TEST_CASE("pairs that are turned come as vectors, each once, and leave as vectors") {
  for (const DType dtype : {DType::bf16, DType::f32}) {
    const auto sample = samples::interleaved(6, 2, 3, 16, dtype);
    REQUIRE(with_whole_vectors(sample.kernel));
    const std::string text = printed(sample.kernel);
    CAPTURE(text);
    CHECK(times(text, "pl_load<") == 4);  // both tensors, cosines and sines
    CHECK(times(text, "pl_ldg(") == 0);
    CHECK(times(text, "pl_store<") == 1);
  }
}

TEST_CASE("pairs that fill no vectors, and results that lie otherwise, stay as they are") {
  CHECK_FALSE(with_whole_vectors(samples::interleaved(4, 1, 3, 3, DType::f16).kernel));
  auto apart = samples::interleaved(6, 2, 3, 16);
  Output& output = apart.kernel.outputs.front();
  output.index = ir::add(ir::scale(ir::IndexExpr::variable(3), 4096), ir::IndexExpr::variable(2), apart.kernel.space);
  CHECK_FALSE(with_whole_vectors(apart.kernel));
  CHECK_FALSE(with_whole_vectors(samples::relu(4096).kernel));
  CHECK_FALSE(with_whole_vectors(samples::softmax(5, 8).kernel));
}

TEST_CASE("first guesses read pieces of memory that are shorter than a vector whole") {
  // A norm of groups whose channels lie beside each other: 10, 20 and 40 of each place.
  const auto vector_of = [](std::int64_t channels) {
    GraphBuilder g;
    const std::int64_t all = 32 * channels;
    const std::vector<std::int64_t> shape{2, all, 16, 16}, strides{all * 256, 1, all * 16, all};
    const int x = g.input(shape, DType::f16, strides);
    const int y = g.value(shape, DType::f16, strides), mean = g.value({2, 32}), rstd = g.value({2, 32});
    g.graph.nodes.push_back(
        {"aten.native_group_norm.default",
         {V("input", x), N("weight"), N("bias"), I("N", 2), I("C", all), I("HxW", 256), I("group", 32), F("eps", 1e-5)},
         {y, mean, rstd}});
    const auto kernel = lower(g.graph, {true}, std::vector<int>{y}, {});
    REQUIRE(kernel);
    const auto guesses = seeds(*kernel, h200());
    REQUIRE_FALSE(guesses.empty());
    const auto emitted = emit(*kernel, h200(), guesses.front());
    REQUIRE(emitted);
    const std::string text = emitted->source.substr(emitted->source.find("---- kernel ----"));
    CHECK(times(text, "pl_ldg(") == 0);
    return guesses.front().at("vector");
  };
  CHECK(vector_of(10) == 4);
  CHECK(vector_of(20) == 8);
  CHECK(vector_of(40) == 16);
}
