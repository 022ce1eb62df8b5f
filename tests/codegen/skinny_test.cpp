// Products of a few rows: what is one, what kernels a decode step is cut into, which genomes are legal, what is
// printed, and which launches may begin before the one before them has ended. What the kernel computes:
// skinny_kernel_test.cpp.
#include "codegen/skinny/skinny.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "backend/architecture.h"
#include "codegen/compose/compose.h"
#include "codegen/devices.h"
#include "codegen/emit/cuda_limits.h"
#include "codegen/graph_builder.h"
#include "codegen/lower/lower.h"
#include "codegen/partition/partition.h"
#include "codegen/skinny/cuda_skinny.h"
#include "codegen/templates/template.h"

using namespace planish;
using namespace planish::codegen;

namespace {

constexpr DType half = DType::bf16;

/// Layers of a network in 16 bits whose hidden states are [1, rows, width].
struct Net : GraphBuilder {
  std::int64_t rows, width;
  Net(std::int64_t row_count, std::int64_t features) : rows(row_count), width(features) {}

  int weights(std::int64_t n, std::int64_t k) { return input({n, k}, half); }
  int linear(int x, int w) {
    const std::int64_t n = graph.values[static_cast<std::size_t>(w)].shape[0];
    return node("linear", {V("input", x), V("weight", w)}, {1, rows, n}, half);
  }
  /// An RMS norm, spelled out as networks do.
  int norm(int x) {
    const int gain = input({width}, half);
    const int wide = node("_to_copy", {V("self", x), S("dtype", "float32")}, {1, rows, width});
    const int squares = node("pow.Tensor_Scalar", {V("self", wide), I("exponent", 2)}, {1, rows, width});
    const int mean = node("mean.dim", {V("self", squares), L("dim", {-1}), B("keepdim", true)}, {1, rows, 1});
    const int moved = node("add.Scalar", {V("self", mean), F("other", 1e-5)}, {1, rows, 1});
    const int factor = node("rsqrt", {V("self", moved)}, {1, rows, 1});
    const int scaled = node("mul.Tensor", {V("self", wide), V("other", factor)}, {1, rows, width});
    const int narrow = node("_to_copy", {V("self", scaled)}, {1, rows, width}, half);
    return node("mul.Tensor", {V("self", gain), V("other", narrow)}, {1, rows, width}, half);
  }
  int added(int a, int b) { return node("add.Tensor", {V("self", a), V("other", b)}, {1, rows, width}, half); }
};

PartitionOptions with_products() {
  PartitionOptions options;
  options.limits.contractions = true;
  return options;
}

Result<Kernel> lowered(const Net& net, const std::vector<int>& outputs) {
  LowerLimits limits;
  limits.contractions = true;
  return lower(net.graph, std::vector<bool>(net.graph.nodes.size(), true), outputs, limits);
}

}  // namespace

TEST_CASE("a linear layer of few rows is skinny, whatever its anchor; one of many, or of few weights, is not") {
  for (const std::int64_t rows : {1, 2, 16}) {
    Net net(rows, 1024);
    const int y = net.linear(net.input({1, rows, 1024}, half), net.weights(640, 1024));
    const auto kernel = lowered(net, {y});
    REQUIRE(kernel.has_value());
    const auto skinny = skinny_of(*kernel);
    REQUIRE_MESSAGE(skinny.has_value(), skinny.error().message);
    CHECK(skinny->count == rows);
    CHECK(skinny->rows == 640);
    CHECK(skinny->depth == 1024);
    CHECK(skinny->statistics.empty());
    CHECK(template_of(*kernel).name() == "skinny");
    // Tensor cores multiply: sixteen rows are no more work than one.
    Device device = h200();
    device.tensor_rate = 30;
    CHECK(bytes_worth(cost(*kernel), device) == cost(*kernel).bytes);
  }
  Net many(17, 1024);
  CHECK_FALSE(skinny_of(*lowered(many, {many.linear(many.input({1, 17, 1024}, half), many.weights(640, 1024))})));
  Net small(1, 256);
  CHECK_FALSE(skinny_of(*lowered(small, {small.linear(small.input({1, 1, 256}, half), small.weights(64, 256))})));
}

TEST_CASE("weights must be 16 bits in rows along k; x must be rounded to the same") {
  Net net(1, 1024);
  // k does not run along memory.
  const int x = net.input({1, 1024}, half), w = net.weights(1024, 640);
  const int y = net.node("mm", {V("self", x), V("mat2", w)}, {1, 640}, half);
  const auto across = lowered(net, {y});
  REQUIRE(across.has_value());
  CHECK(skinny_of(*across).error().message.find("memory does not run") != std::string::npos);
  Net wide(1, 1024);
  const int z =
      wide.node("linear", {V("input", wide.input({1, 1024})), V("weight", wide.input({640, 1024}))}, {1, 640});
  const auto fp32 = lowered(wide, {z});
  REQUIRE(fp32.has_value());
  CHECK_FALSE(skinny_of(*fp32).has_value());
}

TEST_CASE("a decode step is as many kernels as products follow from each other") {
  constexpr std::int64_t width = 1024, inner = 3072;
  for (const std::int64_t rows : {1, 4}) {
    CAPTURE(rows);
    Net net(rows, width);
    const int h = net.input({1, rows, width}, half);
    const int x = net.norm(h);
    const int q = net.linear(x, net.weights(width, width));
    const int k = net.linear(x, net.weights(256, width)), v = net.linear(x, net.weights(256, width));
    for (const int each : {q, k, v}) net.output(each);
    const int mixed = net.added(h, net.linear(net.input({1, rows, width}, half), net.weights(width, width)));
    const int y = net.norm(mixed);
    const int gate = net.linear(y, net.weights(inner, width)), up = net.linear(y, net.weights(inner, width));
    const int silu = net.node("silu", {V("self", gate)}, {1, rows, inner}, half);
    const int gated = net.node("mul.Tensor", {V("self", silu), V("other", up)}, {1, rows, inner}, half);
    net.output(net.added(mixed, net.linear(gated, net.weights(width, inner))));
    const auto cut = partition(net.graph, with_products());
    REQUIRE_MESSAGE(cut.has_value(), cut.error().message);
    struct Shape {
      std::int64_t rows;
      std::size_t parts, statistics;
      bool operator==(const Shape&) const = default;
    };
    std::vector<Shape> found;
    std::vector<Choice> choices;
    for (const Item& item : cut->order) {
      REQUIRE(item.is_region);
      const Kernel& kernel = cut->regions[static_cast<std::size_t>(item.index)].kernel;
      const auto skinny = skinny_of(kernel);
      REQUIRE_MESSAGE(skinny.has_value(), skinny.error().message);
      found.push_back({skinny->rows, skinny->parts.size(), skinny->statistics.size()});
    }
    // Keys and values are one kernel; every norm is part of the products that read it.
    REQUIRE(found.size() == 5);
    for (const Shape& shape :
         {Shape{width, 1, 1}, Shape{256, 2, 1}, Shape{width, 1, 0}, Shape{inner, 2, 1}, Shape{width, 1, 0}}) {
      CHECK(std::ranges::find(found, shape) != found.end());
    }
    for (const Region& region : cut->regions) {
      const auto guesses = seeds(region.kernel, h200());
      REQUIRE_FALSE(guesses.empty());
      for (const Genome& guess : guesses) CHECK(illegal(region.kernel, h200(), guess).empty());
      auto emitted = emit(region.kernel, h200(), guesses.front());
      REQUIRE(emitted.has_value());
      choices.emplace_back(std::move(*emitted));
    }
    // All weights are the caller's: every launch is programmatic, but one that leaves room for two behind one that
    // fills a multiprocessor (compose/even_launches.h).
    const auto whole = compose(net.graph, *cut, choices, h200());
    REQUIRE(whole.has_value());
    const std::int64_t half = printing::half_shared(h200());
    std::int64_t before = half;
    for (const auto& step : whole->steps) {
      const auto& launch = std::get<program::Launch>(step);
      CHECK(launch.programmatic == (launch.shared > half || before == half));
      CHECK((rows > 1 || launch.shared == half));
      before = launch.shared;
    }
    // Queries beside keys and values are one launch, which has as many blocks as either: shares as their weights are.
    REQUIRE(whole->steps.size() == 4);
    CHECK(whole->kernels.size() == 4);
    const auto joint = std::ranges::find_if(whole->kernels, [](const program::KernelSource& kernel) {
      return kernel.source.find("namespace product1") != std::string::npos;
    });
    REQUIRE(joint != whole->kernels.end());
    const std::int64_t share = std::lround(132.0 * width / (width + 512.0));
    const bool queries_first = joint->source.find(fmt::format("blockIdx.x < {})", share)) != std::string::npos;
    CHECK((queries_first || joint->source.find(fmt::format("blockIdx.x < {})", 132 - share)) != std::string::npos));
    for (const auto& step : whole->steps) CHECK(std::get<program::Launch>(step).grid[0] == 132);
  }
}

TEST_CASE("products that follow from each other stay launches of their own; those of other threads take one's") {
  Net net(1, 1024);
  const int x = net.input({1, 1, 1024}, half);
  const int first = net.linear(x, net.weights(1024, 1024));
  net.output(first);
  net.output(net.linear(first, net.weights(640, 1024)));
  const auto cut = partition(net.graph, with_products());
  REQUIRE(cut.has_value());
  REQUIRE(cut->regions.size() == 2);
  std::vector<Choice> choices;
  for (const Region& region : cut->regions)
    choices.emplace_back(*emit(region.kernel, h200(), seeds(region.kernel, h200()).front()));
  CHECK(compose(net.graph, *cut, choices, h200())->steps.size() == 2);

  Net apart(1, 1024);
  const int y = apart.input({1, 1, 1024}, half);
  apart.output(apart.linear(y, apart.weights(1024, 1024)));
  apart.output(apart.linear(y, apart.weights(640, 1024)));
  const auto pair = partition(apart.graph, with_products());
  REQUIRE(pair.has_value());
  REQUIRE(pair->regions.size() == 2);
  for (const int threads : {512, 256}) {
    choices.clear();
    for (const Region& region : pair->regions) {
      Genome genome = seeds(region.kernel, h200()).front();
      genome["threads"] = choices.empty() ? 512 : threads;
      choices.emplace_back(*emit(region.kernel, h200(), genome));
    }
    const auto whole = compose(apart.graph, *pair, choices, h200());
    REQUIRE(whole);
    REQUIRE(whole->steps.size() == 1);
    const auto& launch = std::get<program::Launch>(whole->steps[0]);
    CHECK(launch.block[0] == 512);
    const std::string& source = whole->kernels[static_cast<std::size_t>(launch.kernel)].source;
    CHECK(source.find("warps = 8") == std::string::npos);
    CHECK(source.find("warps = 16") != source.rfind("warps = 16"));
  }
}

TEST_CASE("launches in a row have a block a multiprocessor, of which two have room and three have not") {
  Net net(1, 1024);
  const auto kernel = lowered(net, {net.linear(net.input({1, 1, 1024}, half), net.weights(1024, 1024))});
  REQUIRE(kernel.has_value());
  const auto& architecture = backend::architecture(h200().arch);
  for (const Genome& guess : seeds(*kernel, h200())) {
    const auto emitted = emit(*kernel, h200(), guess);
    REQUIRE(emitted.has_value());
    CHECK(emitted->grid[0] == h200().sms);
    const std::int64_t block = emitted->shared + architecture.reserved_shared;
    CHECK(2 * block <= architecture.shared_bytes);
    CHECK(3 * block > architecture.shared_bytes);
  }
  Genome alone = seeds(*kernel, h200()).front();
  alone["min_blocks"] = 1;
  CHECK(illegal(*kernel, h200(), alone) == "no room for the launch after it");
}

TEST_CASE("what a kernel reads before it waits must be the caller's, else its launch waits in full") {
  // The second product's weights are computed by the first kernel.
  Net net(1, 1024);
  const int made = net.node("relu", {V("self", net.weights(640, 1024))}, {640, 1024}, half);
  net.output(made);
  net.output(net.linear(net.input({1, 1, 1024}, half), made));
  const auto cut = partition(net.graph, with_products());
  REQUIRE(cut.has_value());
  std::vector<Choice> choices;
  bool any = false;
  for (const Region& region : cut->regions) {
    auto emitted = emit(region.kernel, h200(), seeds(region.kernel, h200()).front());
    REQUIRE(emitted.has_value());
    any = any || emitted->early.has_value();
    choices.emplace_back(std::move(*emitted));
  }
  REQUIRE(any);
  const auto whole = compose(net.graph, *cut, choices, h200());
  REQUIRE(whole.has_value());
  for (const auto& step : whole->steps) CHECK_FALSE(std::get<program::Launch>(step).programmatic);
}

TEST_CASE("a printed kernel waits if and only if it says what it reads before") {
  Net net(2, 1024);
  const int y = net.linear(net.norm(net.input({1, 2, 1024}, half)), net.weights(640, 1024));
  const auto kernel = lowered(net, {y});
  REQUIRE(kernel.has_value());
  REQUIRE(skinny_of(*kernel).has_value());
  for (const Genome& guess : seeds(*kernel, h200())) {
    const auto emitted = emit(*kernel, h200(), guess);
    REQUIRE(emitted.has_value());
    REQUIRE(emitted->early.has_value());
    CHECK(emitted->early->size() == 1);
    CHECK(emitted->source.find("chained = true") != std::string::npos);
    CHECK(emitted->source.find("dependency_wait();") != std::string::npos);
    // Nothing but weights comes by a path that may show what was there before the wait.
    const auto policy = emitted->source.substr(emitted->source.find("struct Policy {"));
    CHECK(policy.find("pl_ldg") == std::string::npos);
    CHECK(policy.find("__restrict__") == std::string::npos);
  }
}

TEST_CASE("genomes that do not fit are refused by name") {
  Net net(8, 4096);
  const int y = net.linear(net.input({1, 8, 4096}, half), net.weights(4096, 4096));
  const auto kernel = lowered(net, {y});
  REQUIRE(kernel.has_value());
  Genome genome = seeds(*kernel, h200()).front();
  const auto why = [&](const char* name, std::int64_t value) {
    Genome changed = genome;
    changed[name] = value;
    return illegal(*kernel, h200(), changed);
  };
  CHECK(why("stages", 16).find("shared memory") != std::string::npos);
  CHECK(why("rows", 64).find("more rows") != std::string::npos);
  genome["operand_residency"] = 0;
  genome["residency"] = 1;
  CHECK(why("stages", 3).find("do not divide") != std::string::npos);
}
