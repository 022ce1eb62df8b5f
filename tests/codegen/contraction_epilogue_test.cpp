// What a warp stores of a tile, run on the CPU: as the main loop calls it, and result by result as joining calls it.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "codegen/attention/attention.h"
#include "codegen/attention_samples.h"
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

constexpr int widths[] = {32, 96, 192, 256};  ///< columns of a call
constexpr int last_way = std::size(widths);   ///< one result at a time
constexpr std::int64_t nothing = -6148914691236517206;

/// The results of one kernel that tiles are of.
struct Tiled {
  std::string name;
  Kernel kernel;
  Contraction c;
  std::optional<contraction::ImplicitOperand> implicit;
  std::int64_t m = 0, n = 0, batches = 1;
  contraction::StoreForm form = {};
  std::shared_ptr<const contraction::BoxPlaces> boxes = {};  ///< form.boxes
  const contraction::ImplicitOperand* is_implicit() const { return implicit ? &*implicit : nullptr; }
};

Tiled tiled(const samples::ContractionSample& sample) {
  if (sample.kernel.anchor == Anchor::attention) {
    const auto attention = attention_of(sample.kernel);
    REQUIRE(attention);
    const Contraction& c = attention->values;
    return {sample.name, sample.kernel, c, {}, c.rows, c.columns, c.batches};
  }
  auto product = contraction::product_of(sample.kernel);
  REQUIRE(product);
  const auto problem = product->problem;
  return {sample.name,    std::move(product->kernel), product->c, product->implicit, problem.m, problem.n,
          problem.batches};
}

/// The same with its operands swapped; nothing where there is no such way.
std::optional<Tiled> swapped(const samples::ContractionSample& sample) {
  if (sample.kernel.anchor == Anchor::attention) return std::nullopt;
  const auto product = contraction::product_of(sample.kernel);
  REQUIRE(product);
  if (product->swapped == nullptr) return std::nullopt;
  const auto& problem = product->swapped->problem;
  return Tiled{sample.name, product->swapped->kernel, product->swapped->c, {}, problem.m, problem.n, problem.batches};
}

/// The same with tiles of 64 or 32 places that are boxes; nothing where it has none.
std::optional<Tiled> boxed(const samples::ContractionSample& sample) {
  if (sample.kernel.anchor == Anchor::attention) return std::nullopt;
  const auto product = contraction::product_of(sample.kernel);
  REQUIRE(product);
  if (product->boxed == nullptr) return std::nullopt;
  const contraction::Product& way = *product->boxed;
  contraction::TilePlan plan;
  plan.bm = 64;
  plan.bn = 32;
  const auto extents = contraction::extents_of(way.problem, plan);
  const contraction::Operand operand = way.problem.boxed->operand;
  const bool is_a = operand == contraction::Operand::a;
  Tiled out{sample.name,
            way.kernel,
            way.c,
            {},
            is_a ? extents.rows_a : way.problem.m,
            is_a ? way.problem.n : extents.rows_b,
            way.problem.batches};
  out.boxes = std::make_shared<contraction::BoxPlaces>(out.kernel, *way.boxes(operand), way.problem, plan, operand);
  out.form.boxes = out.boxes.get();
  return out;
}

/// `out` through `in` by all ways: `run(way, in, out)`.
std::string source_of(const Tiled& p, std::size_t number) {
  const auto epilogue = contraction::print_epilogue(p.kernel, p.c, p.is_implicit(), p.form);
  const std::string arguments = arguments_of(epilogue, p.kernel);
  std::string text = fmt::format("namespace k{} {{\n{}", number, epilogue.text);
  text += "template <int columns> void tiles(void** in, void** out) {\n";
  text += fmt::format("  for (int batch = 0; batch < {}; ++batch) for (int y = 0; y < {}; y += 8)\n", p.batches, p.m);
  text += fmt::format(
      "    for (int x = 0; x < {0}; x += columns) for (int lane = 0; lane < 32; ++lane)\n"
      "      store_sums<8, columns, false>({1}batch, y, x, {0}, lane, [=](int r, int c) {{ return sum_at(batch, y + r, "
      "x + c); }});\n}}\n",
      p.n, arguments);
  text += fmt::format("extern \"C\" void run{}(int way, void** in, void** out) {{\n", number);
  for (int way = 0; way < last_way; ++way)
    text += fmt::format("  if (way == {}) tiles<{}>(in, out);\n", way, widths[way]);
  text += fmt::format(
      "  if (way == {0}) for (int batch = 0; batch < {1}; ++batch) for (int y = 0; y < {2}; ++y) for (int x = 0; x < "
      "{3}; ++x)\n    store_sums<1, 1, true>({4}batch, y, x, {3}, 0, [=](int, int) {{ return sum_at(batch, y, x); "
      "}});\n}}\n}}\n",
      last_way, p.batches, p.m, p.n, arguments);
  return text;
}

/// Words that hold a tensor.
std::size_t words(DType dtype, std::int64_t elements) {
  return static_cast<std::size_t>((elements * size_of(dtype) + 7) / 8);
}

std::vector<void*> pointers(std::vector<std::vector<std::int64_t>>& all) {
  std::vector<void*> out;
  for (auto& one : all) out.push_back(one.data());
  return out;
}

}  // namespace

TEST_CASE("what warps store of tiles of any width is what is stored result by result, and all of it") {
  std::vector<samples::ContractionSample> all = samples::contraction_samples(false);
  for (const auto& more : {samples::convolution_samples(false), samples::transposed_samples(false),
                           samples::attention_samples(false), samples::channels_last_samples(false)})
    all.insert(all.end(), more.begin(), more.end());
  std::vector<Tiled> products;
  int interleaved = 0;
  std::string source = epilogue_machine + std::string(sums) + std::string(printing::prelude(false)) +
                       std::string(printing::math_prelude());
  for (const auto& sample : all) {
    CAPTURE(sample.name);
    Tiled one = tiled(sample);
    one.form = {.fast = products.size() % 2 == 1, .streaming = products.size() % 3 == 1};
    const bool interleaves = contraction::can_interleave(one.kernel, one.c, one.is_implicit());
    products.push_back(one);
    if (auto other = swapped(sample)) products.push_back(std::move(*other));
    if (auto other = boxed(sample)) products.push_back(std::move(*other));
    if (!interleaves) continue;
    ++interleaved;
    one.form.interleave = true;
    products.push_back(std::move(one));
  }
  CHECK(interleaved > 2);
  for (std::size_t i = 0; i < products.size(); ++i) source += source_of(products[i], i);
  const Compiled compiled(source, "-O0 -ffp-contract=off -w -std=c++20");
  for (std::size_t i = 0; i < products.size(); ++i) {
    const Kernel& kernel = products[i].kernel;
    CAPTURE(products[i].name);
    CAPTURE(products[i].form.interleave);
    CAPTURE(i);
    auto* run = compiled.function<void(int, void**, void**)>(fmt::format("run{}", i));
    std::vector<std::vector<std::int64_t>> in;
    for (const Input& input : kernel.inputs) {
      fill(input, in.emplace_back(words(input.dtype, input.storage_elements)).data());
    }
    const auto stored = [&](int way) {
      std::vector<std::vector<std::int64_t>> out;
      for (const Output& output : kernel.outputs) out.emplace_back(words(output.dtype, reach_of(output)), nothing);
      run(way, pointers(in).data(), pointers(out).data());
      return out;
    };
    const auto one_by_one = stored(last_way);
    for (std::size_t o = 0; o < one_by_one.size(); ++o) {
      // All but the last word, which may be half a word.
      for (std::size_t w = 0; w + 1 < one_by_one[o].size(); ++w) REQUIRE(one_by_one[o][w] != nothing);
    }
    for (int way = 0; way < last_way; ++way) {
      CAPTURE(widths[way]);
      CHECK((stored(way) == one_by_one));
    }
  }
}

}  // namespace planish::codegen
