// Convolutions whose images come in boxes, on the device file of products: what is emitted runs on a CPU, where the
// copy engine's boxes have strides and zeros outside (sm90_machine.h).
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "codegen/contraction/cuda_contraction.h"
#include "codegen/contraction/device_product.h"
#include "codegen/contraction/genome_plan.h"
#include "codegen/contraction_samples.h"
#include "codegen/devices.h"
#include "codegen/interpreter.h"
#include "codegen/printed_products.h"

namespace planish::codegen {
namespace {

using contraction::DeviceTiling;
using samples::Convolved;

constexpr DType bf16 = DType::bf16, f16 = DType::f16;

std::vector<PrintedCase> convolutions() {
  std::vector<PrintedCase> out;
  const auto add = [&](const Convolved& how, const DeviceTiling& tiling) {
    out.push_back({samples::conv_sample(how), tiling});
  };
  // Weights with channels last, a box of which some places are none.
  add({.x = {1, 64, 5, 6}, .w = {24, 64, 3, 3}, .padding = 1, .dtype = bf16, .last = "all"},
      {.tile_rows = 64, .tile_columns = 32, .consumers = 1});
  // Weights as PyTorch has them, channels that fill no row of 128 bytes, pairs of blocks that share them.
  add({.x = {2, 40, 7, 5}, .w = {20, 40, 3, 3}, .padding = 1, .chain = true, .dtype = bf16, .last = "images"},
      {.tile_rows = 64, .tile_columns = 32, .consumers = 1, .cluster = 2});
  // A stride; consumers in turn.
  add({.x = {3, 64, 9, 10},
       .w = {24, 64, 3, 3},
       .stride = 2,
       .padding = 1,
       .residual = true,
       .dtype = bf16,
       .last = "all"},
      {.tile_rows = 64, .tile_columns = 32, .stages = 3, .ping_pong = true});
  // Dilation; parts of k, of places outside too.
  add({.x = {1, 64, 9, 8}, .w = {16, 64, 5, 3}, .padding = 2, .dilation = 2, .dtype = f16, .last = "all"},
      {.tile_rows = 128, .tile_columns = 16, .stages = 3, .splits = 3});
  // Groups; pairs of blocks that share halves of boxes.
  add({.x = {1, 128, 6, 5},
       .w = {64, 64, 3, 3},
       .padding = 1,
       .groups = 2,
       .chain = true,
       .dtype = bf16,
       .last = "all"},
      {.tile_rows = 64, .tile_columns = 16, .consumers = 1, .cluster = 2, .share_b = false});
  add({.x = {1, 128, 4, 5}, .w = {32, 64, 3, 3}, .padding = 1, .groups = 2, .dtype = f16, .last = "images"},
      {.tile_rows = 64, .tile_columns = 16, .consumers = 1});
  // One tap, with a stride: rows of several dims.
  add({.x = {2, 64, 9, 9}, .w = {40, 64, 1, 1}, .stride = 2, .dtype = bf16, .last = "all"},
      {.tile_rows = 64, .tile_columns = 48, .consumers = 1, .stages = 2});
  // Several steps of a tap, in parts that begin within one.
  add({.x = {1, 128, 9, 9}, .w = {16, 128, 3, 3}, .padding = 1, .dtype = bf16, .last = "images"},
      {.tile_rows = 64, .tile_columns = 16, .stages = 3, .ping_pong = true, .cluster = 2, .splits = 4});
  // One dim, and three: five of the tensor.
  add({.x = {2, 64, 40}, .w = {24, 64, 7}, .padding = 9, .dilation = 3, .dtype = bf16, .last = "all"},
      {.tile_rows = 64, .tile_columns = 32, .consumers = 1});
  add({.x = {1, 64, 3, 4, 5}, .w = {16, 64, 3, 3, 3}, .padding = 1, .dtype = f16, .last = "all"},
      {.tile_rows = 64, .tile_columns = 16, .consumers = 1});
  // Few channels of results, which are no words; three consumers.
  add({.x = {1, 64, 14, 14}, .w = {3, 64, 3, 3}, .dtype = bf16, .last = "images"},
      {.tile_rows = 192, .tile_columns = 16, .consumers = 3, .stages = 3});
  // A gain along places, in halves of a tile of two consumers.
  add({.x = {1, 64, 12, 11}, .w = {40, 64, 3, 1}, .chain = true, .along = true, .dtype = f16, .last = "all"},
      {.tile_rows = 128, .tile_columns = 24, .stages = 3, .cluster = 2, .share_b = false, .fast = true});
  return out;
}

}  // namespace

TEST_CASE("convolutions printed for the device file of products compute what the kernel says") {
  const PrintedProducts cases(convolutions());
  for (std::size_t i = 0; i < cases.size(); ++i) {
    CAPTURE(i);
    CAPTURE(cases.kernel(i).inputs.size());
    REQUIRE(cases.product(i).problem.boxed);
    const auto wanted = Interpreter(cases.kernel(i), cases.inputs(i)).run().front();
    const auto got = cases.run(i).elements;
    REQUIRE(got.size() == wanted.size());
    std::size_t wrong = 0;
    for (std::size_t at = 0; at < wanted.size(); ++at)
      wrong += !(std::abs(got[at] - wanted[at]) <= 0x1p-6 * (1 + std::abs(wanted[at])));
    // What the graph rounds in between, and the result.
    CHECK(wrong == 0);
  }
}

TEST_CASE("the device file of products takes images in boxes, and says of each genome why it does not") {
  const auto sample = samples::conv_sample(
      {.x = {2, 320, 64, 64}, .w = {320, 320, 3, 3}, .padding = 1, .dtype = bf16, .last = "images"});
  const auto guesses = seeds(sample.kernel, h200());
  REQUIRE(!guesses.empty());
  const Genome& best = guesses.front();
  CHECK(best.at("direct") == contraction::by_file);
  CHECK(320 % best.at("tile_n") == 0);
  const auto refused = [&](std::initializer_list<std::pair<const char*, std::int64_t>> changes) {
    Genome other = best;
    for (const auto& [gene, value] : changes) other[gene] = value;
    return illegal(sample.kernel, h200(), other);
  };
  CHECK(refused({{"tile_k", 128}}) == "steps of the device file have 64 k");
  CHECK(refused({{"direct", contraction::by_maps}, {"multicast", 1}}) == "the device file alone does that");
  CHECK(refused({{"tile_m", 192}, {"tile_n", 64}, {"stages", 4}, {"pingpong", 0}, {"multicast", 2}, {"split", 1}}) ==
        "");
  // The packing goes before, and names all scratch: maps, weights.
  const auto emitted = emit(sample.kernel, h200(), best);
  REQUIRE(emitted);
  CHECK(emitted->packs);
  CHECK(emitted->derives);
  REQUIRE(emitted->after.size() == 1);
  CHECK(emitted->scratch_bytes.size() == (best.at("split") > 1 ? 4 : 2));
  CHECK(emitted->scratch_bytes[1] == 320 * 9 * 320 * 2);
  CHECK(emitted->shared == 0);
  CHECK(emitted->after.front().scratch_bytes.empty());
}

TEST_CASE("what is packed has k between taps on the device file alone") {
  const auto sample =
      samples::conv_sample({.x = {2, 48, 12, 12}, .w = {64, 48, 3, 3}, .padding = 1, .dtype = bf16, .last = "images"});
  const auto product = contraction::product_of(sample.kernel);
  REQUIRE(product);
  REQUIRE(product->boxed);
  CHECK(product->boxed->gaps);
  Genome genome = seeds(sample.kernel, h200()).front();
  CHECK(genome.at("direct") == contraction::by_file);
  genome["direct"] = contraction::by_maps;
  genome["multicast"] = 0;
  CHECK(illegal(sample.kernel, h200(), genome) == "gene direct cannot be 2");
  for (const Genome& guess : seeds(sample.kernel, h200())) CHECK(guess.at("direct") != contraction::by_maps);
}

TEST_CASE("results along places, and more taps than a block packs, stay with the printed loop") {
  const auto lacks = [](const Convolved& how) {
    const auto product = contraction::product_of(samples::conv_sample(how).kernel);
    REQUIRE(product);
    REQUIRE(product->boxed);
    return contraction::warpgroup_product_lacks(*product->boxed);
  };
  CHECK(lacks({.x = {2, 64, 12, 16}, .w = {64, 64, 3, 3}, .padding = 1, .dtype = bf16, .last = "input"}) ==
        "places along columns");
  CHECK(lacks({.x = {1, 64, 40, 40}, .w = {64, 64, 31, 31}, .padding = 15, .dtype = bf16, .last = "images"}) ==
        "more taps than are packed at once");
  CHECK(lacks({.x = {1, 64, 40, 40}, .w = {64, 64, 31, 31}, .padding = 15, .dtype = bf16, .last = "all"}) == "");
}

}  // namespace planish::codegen
