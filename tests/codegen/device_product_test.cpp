#include "codegen/contraction/device_product.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "codegen/contraction/cuda_contraction.h"
#include "codegen/contraction/genome_plan.h"
#include "codegen/contraction_samples.h"
#include "codegen/devices.h"
#include "codegen/interpreter.h"
#include "codegen/printed_products.h"

namespace planish::codegen {
namespace {

using contraction::DeviceTiling;
using samples::ContractionSample;

/// x[0] · x[1] in a batch, with a bias of rows, and a residual of fp32, which the result is too.
ContractionSample residual_sample() {
  return samples::contraction_sample("bmm_residual", "", 1, [](GraphBuilder& g) {
    const DType half = DType::f16;
    const std::vector<std::int64_t> shape{2, 70, 54};
    const int a = g.input({2, 70, 72}, half), b = g.input({2, 54, 72}, half);
    const int t = g.node("permute.default", {V("self", b), L("dims", {0, 2, 1})}, {2, 72, 54}, half, {54 * 72, 1, 72});
    const int y = g.node("bmm.default", {V("self", a), V("mat2", t)}, shape, half);
    const int wide = g.node("mul.Tensor", {V("self", y), V("other", g.input({70, 1}, DType::f32))}, shape, DType::f32);
    return g.node("add.Tensor", {V("self", wide), V("other", g.input(shape, DType::f32))}, shape, DType::f32);
  });
}

std::vector<PrintedCase> printed_cases() {
  const DType bf16 = DType::bf16;
  std::vector<PrintedCase> out;
  out.push_back({samples::linear_sample(150, 88, 136, bf16), {.tile_columns = 64, .stages = 3, .cluster = 2}});
  out.push_back({samples::mm_sample(70, 40, 72, DType::f16), {.tile_rows = 64, .tile_columns = 64, .consumers = 1}});
  out.push_back({samples::transposed_sample(72, 50, 200, bf16),
                 {.tile_rows = 64, .tile_columns = 32, .ping_pong = true, .splits = 3}});
  out.push_back({samples::heads_sample(2, 3, 70, 24, bf16), {.tile_columns = 48, .cluster = 2, .share_b = false}});
  out.push_back({residual_sample(), {.tile_rows = 64, .tile_columns = 32, .consumers = 1, .fast = true}});
  out.push_back({samples::linear_sample(64, 51, 80, bf16), {.tile_rows = 64, .tile_columns = 16, .consumers = 1}});
  return out;
}

TEST_CASE("kernels printed for the device file of products compute what the kernel says") {
  const PrintedProducts cases(printed_cases());
  for (std::size_t i = 0; i < cases.size(); ++i) {
    CAPTURE(i);
    const auto wanted = Interpreter(cases.kernel(i), cases.inputs(i)).run().front();
    const auto got = cases.run(i).elements;
    REQUIRE(got.size() == wanted.size());
    double worst = 0;
    for (std::size_t at = 0; at < wanted.size(); ++at)
      worst = std::max(worst, std::abs(got[at] - wanted[at]) / (1 + std::abs(wanted[at])));
    // What the graph rounds in between, and the result.
    CHECK(worst < 0x1p-6);
  }
}

TEST_CASE("a product of two 16-bit tensors has guesses for the device file, first") {
  const auto sample = samples::linear_sample(2048, 4096, 1024, DType::bf16);
  const auto guesses = seeds(sample.kernel, h200());
  REQUIRE_FALSE(guesses.empty());
  CHECK(guesses.front().at("direct") == contraction::by_file);
  const auto emitted = emit(sample.kernel, h200(), guesses.front());
  REQUIRE(emitted);
  CHECK(emitted->after.empty());
  CHECK(emitted->cluster[0] == (guesses.front().at("multicast") == 0 ? 1 : 2));
  Genome changed = guesses.front();
  const auto refused = [&](const char* gene, std::int64_t value) {
    Genome other = guesses.front();
    other[gene] = value;
    return illegal(sample.kernel, h200(), other);
  };
  CHECK(refused("min_blocks", 2) == "a multiprocessor has one block of the device file");
  CHECK(refused("tile_k", 128) == "steps of the device file have 64 k");
  CHECK(refused("swap_operands", 1) == "results of the device file lie along columns");
  CHECK(refused("stages", 8) == "more shared memory than a block can have");
  changed["direct"] = contraction::by_maps;
  changed["multicast"] = 1;
  CHECK(illegal(sample.kernel, h200(), changed) == "the device file alone does that");
}

TEST_CASE("what the device file of products does not take keeps its kernels") {
  const auto lacks = [](const ContractionSample& sample) {
    return contraction::device_product_lacks(*contraction::product_of(sample.kernel));
  };
  CHECK(lacks(samples::mm_sample(64, 64, 64)) == "factors of another type than 16 bits");
  CHECK(lacks(samples::mm_sample(64, 63, 64, DType::bf16)) == "a factor that tensor maps do not reach");
  const auto odd = samples::mm_sample(64, 64, 60, DType::bf16);
  CHECK(lacks(odd) == "a factor that tensor maps do not reach");
  for (const Genome& guess : seeds(odd.kernel, h200())) CHECK(guess.at("direct") != contraction::by_file);
}

}  // namespace
}  // namespace planish::codegen
