// Products of warpgroups' device file that fold rows of their results beside storing them, run on a CPU.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "codegen/compiled.h"
#include "codegen/contraction/cross_tile.h"
#include "codegen/contraction/cross_tile_text.h"
#include "codegen/contraction/cuda_contraction.h"
#include "codegen/contraction_samples.h"
#include "codegen/devices.h"
#include "codegen/interpreter.h"
#include "codegen/printed_products.h"

namespace planish::codegen {
namespace {

using contraction::DeviceTiling;
using samples::ContractionSample;

/// A linear layer of f16 with the mean of its rows, and what their standard deviation is divided by.
ContractionSample moments_sample(std::int64_t m, std::int64_t n, std::int64_t k) {
  return samples::contraction_sample("linear_moments", "", 0, [=](GraphBuilder& g) {
    const int a = g.input({m, k}, DType::f16), b = g.input({n, k}, DType::f16), bias = g.input({n}, DType::f16);
    const int y = g.node("linear.default", {V("input", a), V("weight", b), V("bias", bias)}, {m, n}, DType::f16);
    return samples::with_sums(g, y, {m, n}, "rows");
  });
}

/// One of the kernel's folds of one setting of rows and runs: its pieces, joined.
struct Joined {
  double sum = 0, squares = 0, count = 0;
};

Joined joined(const PrintedProducts& cases, std::size_t i, const std::vector<float>& pieces, std::int64_t row,
              std::int64_t run) {
  const contraction::Product& product = cases.product(i);
  const contraction::CrossTileReduction& cross_tile = *product.cross_tile;
  const auto layout = contraction::pieces_of(cross_tile, product.problem, contraction::pieces_plan(cases.tiling(i)));
  const std::int64_t tile = cases.tiling(i).tile_columns, begin = run * cross_tile.run;
  const std::int64_t end = std::min(begin + cross_tile.run, product.problem.n);
  std::vector<const float*> parts;
  for (std::int64_t piece = begin / tile; piece * tile < end; ++piece) {
    const std::int64_t slot = run - piece * tile / cross_tile.run;
    REQUIRE(slot >= 0);
    REQUIRE(slot < layout.slots);
    parts.push_back(
        &pieces[static_cast<std::size_t>(((row * layout.count + piece) * layout.slots + slot) * cross_tile.states())]);
  }
  Joined out;
  if (cross_tile.states() == 1) {
    for (const float* part : parts) out.sum += part[0];
    return out;
  }
  for (const float* part : parts) out.sum += static_cast<double>(part[0]) * part[2], out.count += part[2];
  const double mean = out.sum / out.count;
  for (const float* part : parts) out.squares += part[1] + part[2] * (part[0] - mean) * (part[0] - mean);
  return out;
}

TEST_CASE("what a product folds of its rows leaves beside its results") {
  std::vector<PrintedCase> all;
  // Heads that are half of a tile, a whole one, and a part of one beside nothing.
  all.push_back({samples::squares_sample(70, 128, 72, 32), {.tile_rows = 64, .tile_columns = 64, .consumers = 1}});
  all.push_back({samples::squares_sample(150, 96, 72, 32), {.tile_columns = 32, .stages = 3, .cluster = 2}});
  all.push_back({samples::squares_sample(70, 96, 72, 32), {.tile_rows = 64, .tile_columns = 64, .ping_pong = true}});
  // Of tiles' parts, and whole rows, the last of whose tiles has few columns.
  all.push_back({samples::squares_sample(70, 128, 136, 64), {.tile_rows = 64, .tile_columns = 32, .consumers = 1}});
  all.push_back(
      {samples::squares_sample(70, 72, 136, 72), {.tile_rows = 64, .tile_columns = 32, .consumers = 1, .splits = 2}});
  all.push_back({moments_sample(70, 88, 72), {.tile_rows = 64, .tile_columns = 64, .consumers = 1}});
  all.push_back({moments_sample(150, 136, 72), {.tile_columns = 48, .cluster = 2, .share_b = false}});
  const PrintedProducts cases(std::move(all));
  for (std::size_t i = 0; i < cases.size(); ++i) {
    CAPTURE(i);
    const auto wanted = Interpreter(cases.kernel(i), cases.inputs(i)).run();
    const auto got = cases.run(i);
    const contraction::CrossTileReduction& cross_tile = *cases.product(i).cross_tile;
    REQUIRE(got.elements.size() == wanted[0].size());
    double worst = 0, worst_sum = 0, worst_squares = 0;
    for (std::size_t at = 0; at < wanted[0].size(); ++at)
      worst = std::max(worst, std::abs(got.elements[at] - wanted[0][at]) / (1 + std::abs(wanted[0][at])));
    CHECK(worst < 0x1p-7);
    const std::int64_t runs = cases.product(i).problem.n / cross_tile.run;
    for (std::size_t at = 0; at < wanted[1].size(); ++at) {
      const auto place = static_cast<std::int64_t>(at);
      const Joined fold = joined(cases, i, got.pieces, place / runs, place % runs);
      const double mean = fold.sum / static_cast<double>(cross_tile.run);
      worst_sum = std::max(worst_sum, std::abs(mean - wanted[1][at]) / (1 + std::abs(wanted[1][at])));
      if (cross_tile.states() == 1) continue;
      CHECK(fold.count == static_cast<double>(cross_tile.run));
      const double rstd = 1 / std::sqrt(fold.squares / fold.count + 1e-5);
      worst_squares = std::max(worst_squares, std::abs(rstd / wanted[2][at] - 1));
    }
    CHECK(worst_sum < 1e-5);
    CHECK(worst_squares < 1e-5);
  }
}

TEST_CASE("squared distances from a mean keep their digits far from zero, and where the first element is far away") {
  const std::array<DeviceFile, 2> instead{{{"sm90/ptx.cuh", sm90_ptx}, {"sm90/wgmma.cuh", sm90_wgmma}}};
  static constexpr std::array<std::string_view, 1> files{"sm90/product.cuh"};
  // A warp's 8 rows, of 256 columns each, and of the rows 8 further the same.
  const std::string source = std::string(sm90_language) + std::string(printing::prelude(false)) +
                             device_text(files, instead) + machine_math() + R"(
extern "C" bool fold(const float* x, float* pieces) {
  return run_blocks(1, 32, [&] {
    ProductFolds<1, 256, 1> folds;
    for (int column = 0; column < 256; column += 8) {
      const float* const own = x + (int)threadIdx.x / 4 * 256 + column + (int)threadIdx.x % 4 * 2;
      const float more[1][2] = {{own[0], own[1]}};
      folds.take(0, more), folds.take(1, more);
    }
    for (int h = 0; h < 2; ++h)
      folds.leave(h, h == 0 || (int)threadIdx.x / 4 < 5, [&] { return pieces + 3 * ((int)threadIdx.x / 4 + 8 * h); });
  });
}
)";
  const Compiled library(source, "-std=c++20 -O1 -w");
  std::vector<float> x(8 * 256), pieces(16 * 3, -1.0f);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t row = i / 256;
    x[i] = static_cast<float>(std::sin(static_cast<double>(i) * 0.7) + (row % 2 == 0 ? 3000.0 : 0.0));
    if (row >= 4 && i % 256 < 2) x[i] = 40000.0f;
    if (row == 7 && i % 256 == 99) x[i] = NAN;
  }
  REQUIRE(library.function<bool(const float*, float*)>("fold")(x.data(), pieces.data()));
  for (std::size_t row = 0; row < 16; ++row) {
    const float* const piece = &pieces[row * 3];
    if (row >= 13) {
      CHECK(piece[0] == -1.0f);  // no such row
      continue;
    }
    if (row % 8 == 7) {
      CHECK(std::isnan(piece[0]));
      CHECK(std::isnan(piece[1]));
      continue;
    }
    double mean = 0, squares = 0;
    const float* const own = &x[row % 8 * 256];
    for (int i = 0; i < 256; ++i) mean += own[i] / 256.0;
    for (int i = 0; i < 256; ++i) squares += (own[i] - mean) * (own[i] - mean);
    CHECK(std::abs(piece[0] - mean) < 1e-6 * (std::abs(mean) + std::sqrt(squares / 256)));
    CHECK(piece[1] == doctest::Approx(squares).epsilon(1e-5));
    CHECK(piece[2] == 256);
  }
}

TEST_CASE("a product with a norm behind it has guesses for the device file, whose tiles hold whole runs") {
  for (const auto& sample :
       {samples::squares_sample(4096, 3072, 3072, 128), samples::squares_sample(4096, 4096, 4096, 4096),
        samples::squares_sample(2048, 1920, 1024, 96), moments_sample(4096, 1024, 4096)}) {
    const auto guesses = seeds(sample.kernel, h200());
    REQUIRE_FALSE(guesses.empty());
    const auto product = contraction::product_of(sample.kernel);
    REQUIRE(product);
    CHECK(guesses.front().at("direct") == contraction::by_file);
    for (const Genome& guess : guesses) {
      if (guess.at("direct") != contraction::by_file) continue;
      const std::int64_t run = product->cross_tile->run, tile = guess.at("tile_n");
      CHECK((run >= product->problem.n || tile % run == 0 || run % tile == 0));
    }
    const auto emitted = emit(sample.kernel, h200(), guesses.front());
    REQUIRE(emitted);
    REQUIRE(emitted->after.size() == 1);
    CHECK(emitted->after[0].source.contains("const float* __restrict__ pieces"));
    CHECK(emitted->after[0].args.front() == emitted->args.back());
    CHECK(emitted->scratch_bytes.size() == 2);
    Genome changed = guesses.front();
    changed["tile_n"] = 224, changed["stages"] = 2;
    if (product->cross_tile->run < product->problem.n)
      CHECK(illegal(sample.kernel, h200(), changed) == "tiles that end within what is folded");
  }
}

TEST_CASE("what the device file folds no rows of keeps its kernels") {
  const auto lacks = [](const ContractionSample& sample) {
    return contraction::warpgroup_product_lacks(*contraction::product_of(sample.kernel));
  };
  CHECK(lacks(samples::summed_layer(64, 64, 64, "rows")) == "factors of another type than 16 bits");
  CHECK(lacks(samples::summed_layer(64, 64, 64, "batch")) != "");
  CHECK(lacks(samples::squares_sample(64, 72, 64, 36)) == "folds of columns that are not whole eights");
  CHECK(lacks(samples::conv_sample({.x = {3, 16, 22, 26}, .w = {24, 16, 3, 3}, .sums = "batch"})) ==
        "folds of something else than the rows of one output");
}

}  // namespace
}  // namespace planish::codegen
