// Tiles that overlap so that results leave in whole sectors: what each of them stores, run on the CPU.
#include "codegen/contraction/sectors.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstring>
#include <string>
#include <vector>

#include "codegen/compiled.h"
#include "codegen/contraction/epilogue.h"
#include "codegen/contraction/product.h"
#include "codegen/contraction_samples.h"
#include "codegen/emit/cuda_math.h"
#include "codegen/emit/expression.h"
#include "codegen/epilogue_inputs.h"
#include "codegen/epilogue_machine.h"

namespace planish::codegen {
namespace {

using contraction::StoreForm;

constexpr int widths[] = {32, 96, 256};  ///< columns of a tile
constexpr std::size_t sector = 32;       ///< bytes

struct Tiled {
  std::string name;
  contraction::Product product;
  StoreForm form;
  int columns = 0;
};

/// All tiles of one product: `run(batch, y, x, in, out)` is the one whose first row and column these are, of eight
/// rows.
std::string source_of(const Tiled& p, std::size_t number) {
  const auto& [kernel, c] = std::tie(p.product.kernel, p.product.c);
  const auto epilogue = contraction::print_epilogue(kernel, c, &*p.product.implicit, p.form);
  return fmt::format(
      "namespace k{0} {{\n{1}extern \"C\" void run{0}(int batch, int y, int x, void** in, void** out) {{\n"
      "  const int end = x + {2} < {3} ? x + {2} : {3};\n"
      "  for (int lane = 0; lane < 32; ++lane)\n    store_sums<8, {4}, false>({5}batch, y, x, end, lane, "
      "[=](int r, int c) {{ return sum_at(batch, y + r, x + c); }}{6});\n}}\n}}\n",
      number, epilogue.text, p.form.step, p.product.problem.n, p.columns, arguments_of(epilogue, kernel),
      epilogue.begins ? ", x" : "");
}

std::vector<Tiled> products() {
  std::vector<samples::ContractionSample> all = samples::convolution_samples(false);
  for (const auto& more : samples::transposed_samples(false)) all.push_back(more);
  for (const samples::Convolved& how :
       std::vector<samples::Convolved>{{.x = {2, 8, 6, 25}, .w = {16, 8, 3, 3}, .chain = true},
                                       {.x = {2, 8, 9, 14}, .w = {9, 8, 3, 3}, .padding = 1},
                                       {.x = {2, 8, 5, 4, 13}, .w = {9, 8, 3, 3, 3}, .padding = 1, .chain = true},
                                       {.x = {3, 8, 45}, .w = {9, 8, 4}, .chain = true},
                                       {.x = {2, 8, 6, 22}, .w = {12, 8, 3, 3}, .chain = true, .dtype = DType::f16},
                                       {.x = {2, 8, 4, 50}, .w = {24, 8, 3, 3}, .padding = 1, .dtype = DType::bf16},
                                       // Lines that no tap moves between, beside each other.
                                       {.x = {2, 16, 6, 45}, .w = {64, 16, 1, 5}},
                                       {.x = {2, 16, 5, 4, 25}, .w = {64, 16, 1, 1, 3}, .chain = true}})
    all.push_back(samples::conv_sample(how));
  for (const samples::Transposed& how : std::vector<samples::Transposed>{
           {.x = {2, 8, 5, 17}, .w = {8, 9, 4, 4}, .stride = {2}, .padding = {1}, .chain = true},
           {.x = {2, 8, 4, 19}, .w = {8, 9, 3, 3}, .stride = {2}, .padding = {1}, .more = {1}},
           {.x = {2, 8, 6, 147}, .w = {8, 18, 1, 8}, .stride = {1, 2}, .padding = {0, 1}},
           {.x = {2, 8, 3, 4, 11}, .w = {8, 9, 3, 3, 3}, .stride = {2}, .padding = {1}, .chain = true}})
    all.push_back(samples::transposed_sample(how));
  std::vector<Tiled> out;
  for (const auto& sample : all) {
    auto product = contraction::product_of(sample.kernel);
    REQUIRE(product);
    for (const bool interleave : {false, true}) {
      const int overlap = product->overlap.at(interleave ? 1 : 0);
      if (overlap == 0 || (interleave && product->overlap[0] > 0)) continue;
      for (const int columns : widths) {
        for (const bool overlaps : {false, true}) {
          const int shared = overlaps ? overlap : 0;
          out.push_back({sample.name,
                         *product,
                         {.interleave = interleave, .overlap = shared, .step = columns - shared},
                         columns});
        }
      }
    }
  }
  return out;
}

/// What became of the results of one way to cut them into tiles.
struct Stored {
  std::vector<unsigned char> out;
  int twice = 0, never = 0;  ///< elements of the first output that several tiles stored, or none did
  int split = 0;             ///< sectors within which a tile ends and the next one begins
};

Stored run(const Tiled& p, const Compiled& compiled, std::size_t number) {
  const Kernel& kernel = p.product.kernel;
  auto* const tile = compiled.function<void(int, int, int, void**, void**)>(fmt::format("run{}", number));
  std::vector<std::vector<unsigned char>> in;
  std::vector<void*> inputs;
  for (const Input& input : kernel.inputs) {
    auto& one = in.emplace_back(static_cast<std::size_t>(input.storage_elements * size_of(input.dtype)));
    fill(input, one.data());
    inputs.push_back(one.data());
  }
  Stored stored;
  REQUIRE(kernel.outputs.size() == 1);
  const Output& output = kernel.outputs.front();
  const auto reach = static_cast<std::size_t>(reach_of(output));
  const auto bytes = static_cast<std::size_t>(size_of(output.dtype));
  constexpr unsigned char nothing = 0xaa;
  stored.out.assign(reach * bytes, nothing);
  const std::vector<unsigned char> blank(64 * bytes, nothing);
  std::vector<int> owner(reach, -1);
  const auto& problem = p.product.problem;
  for (int batch = 0; batch < problem.batches; ++batch) {
    for (int y = 0; y < problem.m; y += 8) {
      for (int x = 0, number_of_tile = 0; x < problem.n; x += p.form.step, ++number_of_tile) {
        std::vector<unsigned char> one(stored.out.size(), nothing);
        void* to = one.data();
        tile(batch, y, x, inputs.data(), &to);
        for (std::size_t e = 0; e < owner.size(); ++e) {
          // Most of all elements are other tiles': they are passed by the block, and one by one where one is not.
          const std::size_t left = std::min(blank.size() / bytes, owner.size() - e);
          if (std::memcmp(one.data() + e * bytes, blank.data(), left * bytes) == 0) {
            e += left - 1;
            continue;
          }
          if (std::memcmp(one.data() + e * bytes, blank.data(), bytes) == 0) continue;
          if (owner[e] >= 0) ++stored.twice;
          owner[e] = number_of_tile;
          std::memcpy(stored.out.data() + e * bytes, one.data() + e * bytes, bytes);
        }
      }
    }
  }
  for (const int one : owner) stored.never += one < 0 ? 1 : 0;
  // A row's last result and the next row's first may lie in one sector, and are of tiles that are no neighbours.
  for (std::size_t e = 1; e < owner.size(); ++e)
    stored.split += owner[e] == owner[e - 1] + 1 && e * bytes % sector != 0 ? 1 : 0;
  return stored;
}

}  // namespace

TEST_CASE("tiles that overlap store each result once, the same ones, and few sectors in parts") {
  const auto all = products();
  CHECK(all.size() > 60);
  std::string source = epilogue_machine + std::string(sums) + std::string(printing::prelude(false)) +
                       std::string(printing::math_prelude());
  for (std::size_t i = 0; i < all.size(); ++i) source += source_of(all[i], i);
  const Compiled compiled(source, "-O0 -ffp-contract=off -w -std=c++20");
  int split = 0, left = 0;
  for (std::size_t i = 0; i + 1 < all.size(); i += 2) {
    CAPTURE(all[i].name);
    CAPTURE(i);
    CAPTURE(all[i].columns);
    CAPTURE(all[i + 1].form.overlap);
    const Stored apart = run(all[i], compiled, i), overlapping = run(all[i + 1], compiled, i + 1);
    CHECK(apart.twice == 0);
    CHECK(overlapping.twice == 0);
    CHECK(apart.never == 0);
    CHECK(overlapping.never == 0);
    CHECK(overlapping.split <= apart.split);
    CHECK((apart.out == overlapping.out));
    split += apart.split;
    left += overlapping.split;
  }
  MESSAGE("sectors in parts: ", split, " -> ", left);
  CHECK(left * 4 < split);
}

}  // namespace planish::codegen
