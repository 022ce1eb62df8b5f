#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "codegen/contraction/cuda_contraction.h"
#include "codegen/contraction/eight_bits.h"
#include "codegen/contraction/genome_plan.h"
#include "codegen/contraction_samples.h"
#include "codegen/devices.h"
#include "codegen/interpreter.h"
#include "codegen/printed_products.h"

namespace planish::codegen {
namespace {

using samples::ContractionSample;
using samples::eight_bit_sample;
using samples::Scales;
constexpr DType e4m3 = DType::f8_e4m3, e5m2 = DType::f8_e5m2;

std::vector<PrintedCase> printed_cases() {
  std::vector<PrintedCase> out;
  out.push_back({eight_bit_sample(150, 88, 272, Scales::rows, e4m3, e4m3), {.tile_columns = 64, .stages = 3}});
  out.push_back({eight_bit_sample(70, 40, 144, Scales::tensor, e5m2, e4m3),
                 {.tile_rows = 64, .tile_columns = 32, .consumers = 1, .stages = 2}});
  out.push_back({eight_bit_sample(200, 64, 640, Scales::rows, e4m3, e5m2),
                 {.tile_columns = 32, .stages = 3, .cluster = 2, .splits = 3}});
  out.push_back({eight_bit_sample(70, 256, 384, Scales::blocks, e4m3, e4m3),
                 {.tile_rows = 64, .tile_columns = 64, .consumers = 1, .stages = 3, .cluster = 2, .share_b = false}});
  out.push_back({eight_bit_sample(140, 384, 256, Scales::blocks, e4m3, e4m3), {.tile_columns = 128, .stages = 3}});
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
  const auto sample = eight_bit_sample(2048, 4096, 4096, Scales::rows, e4m3, e4m3);
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
  const auto sample = eight_bit_sample(512, 1024, 512, Scales::blocks, e4m3, e4m3);
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
  CHECK(taken(eight_bit_sample(64, 64, 128, Scales::tensor, e4m3, e4m3)));
  // A row of k that is no whole chunks of 16 bytes; a type without such instructions; fp32 results.
  CHECK_FALSE(taken(eight_bit_sample(64, 64, 120, Scales::tensor, e4m3, e4m3)));
  CHECK_FALSE(taken(eight_bit_sample(64, 64, 128, Scales::tensor, DType::f8_e4m3_fnuz, e4m3)));
  auto wide = eight_bit_sample(64, 64, 128, Scales::tensor, e4m3, e4m3);
  wide.kernel.outputs.front().dtype = DType::f32;
  CHECK_FALSE(taken(wide));
  CHECK_FALSE(taken(samples::linear_sample(64, 64, 128, DType::bf16)));
}

}  // namespace
}  // namespace planish::codegen
