// Products of int8 tensors on the device file of warpgroups: printed kernels on the emulated machine, what is refused,
// and what a graph's first guess makes of them.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "codegen/contraction/device_product.h"
#include "codegen/contraction/eight_bits.h"
#include "codegen/devices.h"
#include "codegen/integer_samples.h"
#include "codegen/interpreter.h"
#include "codegen/partition/partition.h"
#include "codegen/printed_products.h"

namespace planish::codegen {
namespace {

using samples::ContractionSample;
using samples::integer_sample;
using samples::OfSums;

std::vector<PrintedCase> printed_cases() {
  std::vector<PrintedCase> out;
  out.push_back({integer_sample({.m = 150, .n = 96, .k = 272}), {.tile_columns = 64, .stages = 3}});
  out.push_back({integer_sample({.m = 70, .n = 40, .k = 144, .of = OfSums::sums}),
                 {.tile_rows = 64, .tile_columns = 32, .consumers = 1, .stages = 2}});
  out.push_back(
      {integer_sample({.m = 200, .n = 64, .k = 640}), {.tile_columns = 32, .stages = 3, .cluster = 2, .splits = 3}});
  out.push_back({integer_sample({.m = 9, .n = 77, .k = 1024, .of = OfSums::sums}),
                 {.tile_rows = 64, .tile_columns = 64, .consumers = 1, .stages = 3, .splits = 4}});
  // Two consumers take turns.
  out.push_back({integer_sample({.m = 140, .n = 160, .k = 256, .out = DType::f32}),
                 {.tile_rows = 64, .tile_columns = 96, .consumers = 2, .stages = 3, .ping_pong = true}});
  out.push_back({integer_sample({.m = 100, .n = 256, .k = 384, .of = OfSums::sums}),
                 {.tile_rows = 64, .tile_columns = 64, .consumers = 1, .stages = 3, .cluster = 2, .share_b = false}});
  out.push_back({integer_sample({.m = 90, .n = 48, .k = 208, .of = OfSums::widened, .out = DType::f32, .a = DType::u8}),
                 {.tile_columns = 48, .stages = 2}});
  return out;
}

TEST_CASE("products of int8 on the device file compute what the kernel says, sums exactly") {
  const PrintedProducts cases(printed_cases());
  for (std::size_t i = 0; i < cases.size(); ++i) {
    CAPTURE(i);
    REQUIRE(cases.product(i).bits);
    CHECK(cases.product(i).bits->integers());
    const auto wanted = Interpreter(cases.kernel(i), cases.inputs(i)).run().front();
    const auto got = cases.run(i).elements;
    REQUIRE(got.size() == wanted.size());
    double worst = 0, size = 0;
    for (std::size_t at = 0; at < wanted.size(); ++at) {
      worst = std::max(worst, std::abs(got[at] - wanted[at]) / (1 + std::abs(wanted[at])));
      size = std::max(size, std::abs(wanted[at]));
    }
    CHECK(size > 1000);
    const DType stored = cases.kernel(i).outputs.front().dtype;
    const bool sums = stored == DType::i32 || i + 1 == cases.size();
    CHECK(worst <= (sums ? 0 : stored == DType::f32 ? 0x1p-21 : 0x1p-7));
  }
}

bool is_of_eight_bits(const ContractionSample& sample) {
  const auto product = contraction::product_of(sample.kernel);
  const auto* const way = product ? contraction::warpgroup_way(*product) : nullptr;
  return way != nullptr && way->bits.has_value();
}

TEST_CASE("a product of int8 has guesses for the device file alone, and tiles as wide as those of 16 bits") {
  const auto sample = integer_sample({.m = 2048, .n = 4096, .k = 4096});
  REQUIRE(is_of_eight_bits(sample));
  const auto guesses = seeds(sample.kernel, h200());
  REQUIRE_FALSE(guesses.empty());
  for (const Genome& genome : guesses) CHECK(illegal(sample.kernel, h200(), genome) == "");
  CHECK(guesses.front().at("tile_m") * guesses.front().at("tile_n") == 128 * 256);
  const auto emitted = emit(sample.kernel, h200(), guesses.front());
  REQUIRE(emitted);
  CHECK(emitted->after.empty());
  CHECK(emitted->source.contains("PL_WGMMA_INTEGER(pl_multiply"));
  const auto refused = [&](std::vector<std::pair<const char*, std::int64_t>> changes) {
    Genome other = guesses.front();
    for (const auto& [gene, value] : changes) other[gene] = value;
    return illegal(sample.kernel, h200(), other);
  };
  CHECK(refused({{"tile_m", 64}, {"tile_n", 256}, {"pingpong", 1}, {"multicast", 0}, {"stages", 4}}) == "");
  CHECK(refused({{"tile_m", 256}, {"tile_n", 256}}) == "a consumer's sums are more than its registers");
  const auto narrow = contraction::device_tiling_lacks(*contraction::product_of(sample.kernel),
                                                       {.tile_columns = 40, .stages = 3}, h200());
  CHECK(narrow == "columns of integers that are no whole sixteens");
  const auto parts = contraction::device_tiling_lacks(
      *contraction::product_of(sample.kernel),
      {.tile_rows = 64, .tile_columns = 256, .consumers = 1, .stages = 3, .splits = 2}, h200());
  CHECK(parts == "one consumer's sums, beside the parts that it adds, are more than its registers");
}

TEST_CASE("what integer tensor cores do not reach, or would not sum as the kernel does, is not theirs") {
  CHECK(is_of_eight_bits(integer_sample({.m = 64, .n = 64, .k = 128})));
  // A row of k that is no whole chunks of 16 bytes.
  const auto uneven = integer_sample({.m = 64, .n = 64, .k = 120, .of = OfSums::sums});
  const auto odd = contraction::product_of(uneven.kernel);
  REQUIRE_FALSE(odd);
  CHECK(uneven.kernel.anchor == Anchor::row);
  CHECK_FALSE(seeds(uneven.kernel, h200()).empty());
  CHECK(odd.error().message == "sums of integers that are not two tensors of 8 bits in rows of whole 16 bytes");
  // Results of 8 bits; sums in f32 of more than i32 has.
  auto bytes = integer_sample({.m = 64, .n = 64, .k = 128, .out = DType::f32});
  bytes.kernel.outputs.front().dtype = DType::i8;
  CHECK_FALSE(is_of_eight_bits(bytes));
  CHECK(is_of_eight_bits(integer_sample({.m = 64, .n = 64, .k = 65536, .of = OfSums::widened})));
  CHECK_FALSE(is_of_eight_bits(integer_sample({.m = 64, .n = 64, .k = 131072, .of = OfSums::widened})));
}

TEST_CASE("elsewhere a product of int8 stays a kernel of rows") {
  const auto sample = integer_sample({.m = 64, .n = 128, .k = 256});
  Device processor;
  processor.arch = "x86-64-v3";
  for (const Device& device : {older("sm_80"), older("sm_100a"), processor}) {
    CAPTURE(device.arch);
    const auto guesses = seeds(sample.kernel, device);
    REQUIRE_FALSE(guesses.empty());
    const auto emitted = emit(sample.kernel, device, guesses.front());
    REQUIRE(emitted);
    CHECK_FALSE(emitted->source.contains("wgmma"));
  }
}

/// Kernels of the graph's first guess.
std::vector<Kernel> kernels_of(const GraphBuilder& g) {
  PartitionOptions options;
  options.limits.contractions = true;
  const auto parts = partition(g.graph, options);
  REQUIRE(parts);
  std::vector<Kernel> kernels;
  for (const Region& region : parts->regions) kernels.push_back(region.kernel);
  return kernels;
}

TEST_CASE("what scales a product of int8 and is added to it is part of it") {
  for (const OfSums of : {OfSums::sums, OfSums::rows}) {
    GraphBuilder g;
    g.output(samples::integer_product(g, {.m = 256, .n = 512, .k = 512, .of = of}));
    const auto kernels = kernels_of(g);
    REQUIRE(kernels.size() == 1);
    CHECK(kernels.front().anchor == Anchor::contraction);
    CHECK(kernels.front().reductions.front().accumulate == DType::i32);
  }
}

TEST_CASE("a product of int8 takes in scales behind a rounding to 16 bits, and leaves what is as large") {
  // As torchao has it: sums times scales of rows in bf16, then of columns; a residual behind.
  GraphBuilder g;
  const std::vector<std::int64_t> results{256, 512};
  const DType bf16 = DType::bf16;
  int y = samples::integer_product(g, {.m = 256, .n = 512, .k = 512, .of = OfSums::sums});
  y = g.node("mul.Tensor", {V("self", y), V("other", g.input({256, 1}, bf16))}, results, bf16);
  y = g.node("mul.Tensor", {V("self", y), V("other", g.input({512}, bf16))}, results, bf16);
  y = g.node("add.Tensor", {V("self", y), V("other", g.input(results, bf16))}, results, bf16);
  g.output(y);
  const auto kernels = kernels_of(g);
  REQUIRE(kernels.size() == 2);
  const auto product = std::ranges::find(kernels, Anchor::contraction, &Kernel::anchor);
  REQUIRE(product != kernels.end());
  CHECK(product->outputs.front().dtype == bf16);
  CHECK(product->inputs.size() == 4);
}

TEST_CASE("sums of int8 that two read are stored, and a quantised factor is made before its product") {
  GraphBuilder g;
  const std::vector<std::int64_t> results{256, 512}, rows{256, 512};
  const int x = g.node("round.default", {V("self", g.input(rows))}, rows);
  const int codes = g.node("_to_copy.default", {V("self", x), {"dtype", ir::DTypeArg{"i8"}}}, rows, DType::i8);
  const int w = g.input({512, 512}, DType::i8);
  const int t = g.node("permute.default", {V("self", w), L("dims", {1, 0})}, {512, 512}, DType::i8, {1, 512});
  const int y = g.node("_int_mm.default", {V("self", codes), V("mat2", t)}, results, DType::i32);
  g.output(g.node("relu.default", {V("self", y)}, results, DType::i32));
  g.output(g.node("neg.default", {V("self", y)}, results, DType::i32));
  const auto kernels = kernels_of(g);
  const auto product = std::ranges::find(kernels, Anchor::contraction, &Kernel::anchor);
  REQUIRE(product != kernels.end());
  CHECK(product->outputs.front().dtype == DType::i32);
  CHECK(std::ranges::all_of(product->inputs, [](const Input& input) { return input.dtype == DType::i8; }));
}

}  // namespace
}  // namespace planish::codegen
