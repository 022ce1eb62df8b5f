#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "codegen/contraction/cuda_contraction.h"
#include "codegen/contraction/eight_bits.h"
#include "codegen/contraction/genome_plan.h"
#include "codegen/devices.h"
#include "codegen/eight_bit_samples.h"
#include "codegen/interpreter.h"
#include "codegen/partition/partition.h"
#include "codegen/printed_products.h"

namespace planish::codegen {
namespace {

using samples::ContractionSample;
using samples::eight_bit_sample;
using samples::Scales;
constexpr DType e5m2 = DType::f8_e5m2;

std::vector<PrintedCase> printed_cases() {
  std::vector<PrintedCase> out;
  out.push_back({eight_bit_sample({.m = 150, .n = 96, .k = 272}), {.tile_columns = 64, .stages = 3}});
  out.push_back({eight_bit_sample({.m = 70, .n = 40, .k = 144, .scales = Scales::tensor, .a = e5m2}),
                 {.tile_rows = 64, .tile_columns = 32, .consumers = 1, .stages = 2}});
  out.push_back({eight_bit_sample({.m = 200, .n = 64, .k = 640, .b = e5m2}),
                 {.tile_columns = 32, .stages = 3, .cluster = 2, .splits = 3}});
  out.push_back({eight_bit_sample({.m = 70, .n = 256, .k = 384, .scales = Scales::blocks}),
                 {.tile_rows = 64, .tile_columns = 64, .consumers = 1, .stages = 3, .cluster = 2, .share_b = false}});
  out.push_back(
      {eight_bit_sample({.m = 140, .n = 384, .k = 256, .scales = Scales::blocks}), {.tile_columns = 128, .stages = 3}});
  return out;
}

TEST_CASE("8-bit products on the device file compute what the kernel says") {
  const PrintedProducts cases(printed_cases());
  for (std::size_t i = 0; i < cases.size(); ++i) {
    CAPTURE(i);
    REQUIRE(cases.product(i).bits);
    const auto wanted = Interpreter(cases.kernel(i), cases.inputs(i)).run().front();
    const auto got = cases.run(i).elements;
    REQUIRE(got.size() == wanted.size());
    double worst = 0, size = 0;
    for (std::size_t at = 0; at < wanted.size(); ++at) {
      worst = std::max(worst, std::abs(got[at] - wanted[at]) / (1 + std::abs(wanted[at])));
      size = std::max(size, std::abs(wanted[at]));
    }
    CHECK(size > 1);
    CHECK(worst < 0x1p-7);  // the results' rounding
  }
}

const contraction::Product* way_of(const Result<contraction::Product>& product) {
  REQUIRE(product);
  return contraction::warpgroup_way(*product);
}

TEST_CASE("a product of two float8 tensors has guesses for 8 bits alone, first") {
  const auto sample = eight_bit_sample({.m = 2048, .n = 4096, .k = 4096});
  const auto guesses = seeds(sample.kernel, h200());
  REQUIRE_FALSE(guesses.empty());
  CHECK(guesses.front().at("direct") == contraction::by_file);
  CHECK(guesses.front().at("tile_k") == contraction::eight_bit_step);
  const auto emitted = emit(sample.kernel, h200(), guesses.front());
  REQUIRE(emitted);
  CHECK(emitted->after.empty());
  const auto refused = [&](const char* gene, std::int64_t value) {
    Genome other = guesses.front();
    other[gene] = value;
    return illegal(sample.kernel, h200(), other);
  };
  CHECK(refused("tile_k", 64) == "steps of the device file have 128 k");
  CHECK(refused("pingpong", 1) == "what each step gives is added by two consumers of one tile");
  CHECK(refused("tile_n", 256) == "a consumer's sums, twice, are more than its registers");
}

TEST_CASE("scales of blocks of 128 k are applied to what a step gives") {
  const auto sample = eight_bit_sample({.m = 512, .n = 1024, .k = 512, .scales = Scales::blocks});
  const auto product = contraction::product_of(sample.kernel);
  const auto* const way = way_of(product);
  REQUIRE((way != nullptr && way->bits));
  CHECK(way->bits->scale_a);
  REQUIRE(way->bits->scale_b);
  CHECK(way->bits->scale_b->rows == 128);
  const auto guesses = seeds(sample.kernel, h200());
  CHECK(guesses.front().at("direct") == contraction::by_file);
  Genome across = guesses.front();
  across["tile_n"] = 96;
  CHECK(illegal(sample.kernel, h200(), across) ==
        "blocks of columns that are no whole part of a tile, or the other way round");
}

TEST_CASE("what 8-bit tensor cores do not compute well enough, or reach, is not theirs") {
  const auto taken = [](const ContractionSample& sample) {
    const auto product = contraction::product_of(sample.kernel);
    const auto* const way = way_of(product);
    return way != nullptr && way->bits.has_value();
  };
  CHECK(taken(eight_bit_sample({.m = 64, .n = 64, .k = 128, .scales = Scales::tensor})));
  // A row of k that is no whole chunks of 16 bytes; a type without such instructions; fp32 results.
  CHECK_FALSE(taken(eight_bit_sample({.m = 64, .n = 64, .k = 120, .scales = Scales::tensor})));
  CHECK_FALSE(
      taken(eight_bit_sample({.m = 64, .n = 64, .k = 128, .scales = Scales::tensor, .a = DType::f8_e4m3_fnuz})));
  auto wide = eight_bit_sample({.m = 64, .n = 64, .k = 128, .scales = Scales::tensor});
  wide.kernel.outputs.front().dtype = DType::f32;
  CHECK_FALSE(taken(wide));
  CHECK_FALSE(taken(samples::linear_sample(64, 64, 128, DType::bf16)));
}

/// Kernels of the graph's first guess, as their anchors.
std::vector<Anchor> anchors_of(const GraphBuilder& g) {
  PartitionOptions options;
  options.limits.contractions = true;
  const auto parts = partition(g.graph, options);
  REQUIRE(parts);
  std::vector<Anchor> anchors;
  for (const Region& region : parts->regions) anchors.push_back(region.kernel.anchor);
  return anchors;
}

TEST_CASE("each launch of a product that packs float8 tensors can widen them") {
  const auto sample = eight_bit_sample({.m = 150, .n = 96, .k = 272});
  std::mt19937_64 rng(11);
  int packing = 0;
  for (int i = 0; i < 200 && packing < 6; ++i) {
    const auto emitted = emit(sample.kernel, h200(), random_genome(sample.kernel, h200(), rng));
    REQUIRE(emitted);
    packing += emitted->after.empty() ? 0 : 1;
    std::vector<const Emitted*> launches{&*emitted};
    for (const Emitted& next : emitted->after) launches.push_back(&next);
    for (const Emitted* launch : launches) {
      if (launch->source.contains("pl_from_float8_e4m3fn("))
        CHECK(launch->source.contains("float pl_from_float8_e4m3fn("));
    }
  }
  CHECK(packing == 6);
}

TEST_CASE("what widens and scales float8 tensors is part of their product") {
  for (const Scales scales : {Scales::tensor, Scales::rows, Scales::blocks}) {
    GraphBuilder g;
    g.output(samples::eight_bit_product(g, {.m = 256, .n = 512, .k = 512, .scales = scales}));
    CHECK(anchors_of(g) == std::vector{Anchor::contraction});
  }
}

TEST_CASE("products of one float8 tensor share what widens it, unless another reads that") {
  for (const bool read : {false, true}) {
    GraphBuilder g;
    const int x = samples::detail::widened(g, g.input({256, 512}, DType::f8_e4m3), {256, 512});
    for (const std::int64_t n : {512, 1024}) g.output(samples::eight_bit_product(g, {.m = 256, .n = n, .k = 512}, x));
    if (read) g.output(g.node("sin.default", {V("self", x)}, {256, 512}, DType::f32));
    const auto anchors = anchors_of(g);
    if (read)
      CHECK(anchors.size() > 3);
    else
      CHECK(anchors == std::vector{Anchor::contraction, Anchor::contraction});
  }
}

}  // namespace
}  // namespace planish::codegen
