// Factors that main loops read where they lie: the producer's text, run on the CPU thread by thread, and what the
// tensor core then finds through its descriptors.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "codegen/compiled.h"
#include "codegen/contraction/direct.h"
#include "codegen/contraction/main_loop.h"
#include "codegen/contraction/product.h"
#include "codegen/contraction_executor.h"
#include "codegen/contraction_samples.h"
#include "codegen/direct_plan.h"
#include "codegen/emit/expression.h"
#include "codegen/factor_elements.h"

namespace planish::codegen {
namespace {

using namespace contraction;

constexpr const char* machine = R"(#include <cstdint>
#include <cstring>
typedef unsigned int u32;
#define PL_DEVICE static inline
static unsigned char stage[1 << 18];
static int times[1 << 14];
static void cp_async_if(u32 to, const char* from, bool there) {
  if (there) memcpy(stage + to, from, 16); else memset(stage + to, 0, 16);
  ++times[to / 16];
}
)";

/// One factor of a product under one plan.
struct Brought {
  const Product* product = nullptr;
  Operand operand = Operand::a;
  TilePlan plan;
};

/// A namespace, left open, with what a producer calls.
std::string functions_of(const Brought& one, std::size_t number) {
  const Product& p = *one.product;
  return fmt::format("namespace k{} {{\n", number) + print_places(p.kernel, p.c, one.operand, *p.direct(one.operand)) +
         print_bringing(p.problem, one.plan, one.operand);
}

/// `runN(memory, product, row, k, out)`: a stage's part, brought by 128 threads; returns how often each 16 bytes were
/// written, all the same, or -1.
std::string source_of(const Brought& one, std::size_t number) {
  const char name = letter(one.operand);
  const int bytes = tile_rows(one.plan, one.operand) * one.plan.bk * 2;
  std::string text = functions_of(one, number);
  text += fmt::format(
      "extern \"C\" int run{0}(const char* memory, int product, int row, int k, void* out) {{\n"
      "  memset(times, 0, sizeof times);\n"
      "  for (int thread = 0; thread < 128; ++thread) {{\n"
      "    int at[{1}];\n    find_{2}(at, product, row, thread);\n    bring_{2}(0, memory, at, k, thread);\n  "
      "}}\n"
      "  for (int i = 0; i < {3}; ++i) if (times[i] != times[0]) return -1;\n"
      "  memcpy(out, stage, {4});\n  return times[0];\n}}\n}}\n",
      number, bringing_places(one.plan, one.operand), name, bytes / 16, bytes);
  return text;
}

/// Elements of all of a product's tiles and stages that are not what they should be.
std::int64_t wrong(const Brought& one, int (*run)(const char*, int, int, int, void*)) {
  const Product& p = *one.product;
  const bool is_a = one.operand == Operand::a;
  const int rows = tile_rows(one.plan, one.operand), offset = part_offset(p.problem, one.plan, one.operand, 0);
  const std::int64_t limit = is_a ? p.problem.m : p.problem.n;
  const Node& load = load_of(p.kernel, is_a ? p.c.first : p.c.second);
  const auto elements = p.kernel.inputs[static_cast<std::size_t>(load.input)].storage_elements;

  std::vector<std::uint16_t> memory(static_cast<std::size_t>(elements)),
      stage(static_cast<std::size_t>(rows) * static_cast<std::size_t>(one.plan.bk));
  for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<std::uint16_t>(i % 65521 + 1);
  std::vector<std::int64_t> values(p.kernel.space.extents.size(), 0);
  std::int64_t found = 0;
  const auto compare = [&](std::int64_t product, std::int64_t row, std::int64_t k, std::uint16_t seen) {
    std::uint16_t wanted = 0;
    if (row < limit && k < p.problem.k) {
      decode(p.kernel, p.c.batch, product, values);
      decode(p.kernel, is_a ? p.c.m : p.c.n, row, values);
      decode(p.kernel, p.c.k, k, values);
      wanted = memory[static_cast<std::size_t>(load.index.evaluate(values))];
    }
    found += seen != wanted;
  };
  for (std::int64_t product = 0; product < p.problem.batches; ++product) {
    for (std::int64_t row = 0; row < limit; row += rows) {
      for (std::int64_t k = 0; k < p.problem.k; k += one.plan.bk) {
        REQUIRE(run(reinterpret_cast<const char*>(memory.data()), static_cast<int>(product), static_cast<int>(row),
                    static_cast<int>(k), stage.data()) == 1);
        for (int first = 0; first < rows; first += is_a ? 64 : rows) {
          for (int step = 0; step < one.plan.bk; step += 16) {
            const Descriptor d = descriptor_of(p.problem, one.plan, one.operand, 0, first, step);
            CHECK((encode(d) >> 62) == 1);
            for (int r = 0; r < (is_a ? 64 : rows); ++r) {
              for (int x = 0; x < 16; ++x) {
                const bool across = load_mode(one.plan, one.operand) == LoadMode::along_rows;
                const int place = swizzled_address(encode(d), d.start - offset, across, r, x);
                CHECK(place == place_in_stage(one.plan, one.operand, first + r, step + x));
                compare(product, row + first + r, k + step + x, stage.at(static_cast<std::size_t>(place / 2)));
              }
            }
          }
        }
      }
    }
  }
  return found;
}

std::vector<Product> narrow_products() {
  std::vector<Product> out;
  for (const auto& sample : samples::contraction_samples(false)) {
    if (sample.kernel.inputs[0].dtype == DType::f32) continue;
    auto product = product_of(sample.kernel);
    REQUIRE(product);
    out.push_back(std::move(*product));
  }
  return out;
}

}  // namespace

TEST_CASE("what a producer brings of factors that are not packed is what the tensor core looks for") {
  const std::vector<Product> products = narrow_products();
  std::vector<Brought> all;
  for (const Product& product : products) {
    for (const auto& [bm, bn, bk] : {std::array{64, 64, 64}, std::array{128, 128, 128}, std::array{64, 256, 64}}) {
      for (const Operand operand : {Operand::a, Operand::b}) {
        if (product.direct(operand)) all.push_back({&product, operand, direct_plan(product, bm, bn, bk)});
      }
    }
    if (product.direct_b && product.direct_b->load_mode == LoadMode::along_k)
      all.push_back({&product, Operand::b, direct_plan(product, 64, 48, 64)});
  }
  REQUIRE(all.size() > 40);
  std::string source = machine;
  for (std::size_t i = 0; i < all.size(); ++i) source += source_of(all[i], i);
  const Compiled compiled(source, "-O1 -w -std=c++20");
  for (std::size_t i = 0; i < all.size(); ++i) {
    CAPTURE(i);
    CAPTURE(to_text(all[i].plan));
    CHECK(check(all[i].product->problem, all[i].plan));
    CHECK(wrong(all[i], compiled.function<int(const char*, int, int, int, void*)>(fmt::format("run{}", i))) == 0);
  }
}

TEST_CASE("factors are read where they lie only where that is all, in whole aligned chunks") {
  const auto load_modes = [](const samples::ContractionSample& sample) {
    const auto product = product_of(sample.kernel);
    REQUIRE(product);
    const auto name = [&](Operand operand) {
      const auto& found = product->direct(operand);
      return !found ? "packed" : found->load_mode == LoadMode::along_k ? "k" : "rows";
    };
    return fmt::format("{} {}", name(Operand::a), name(Operand::b));
  };
  constexpr DType half = DType::bf16;
  CHECK(load_modes(samples::linear_sample(64, 64, 64, half)) == "k k");
  CHECK(load_modes(samples::mm_sample(64, 64, 64, half)) == "k rows");
  CHECK(load_modes(samples::transposed_sample(64, 64, 64, half)) == "rows k");
  CHECK(load_modes(samples::heads_sample(2, 3, 72, 24, half)) == "k k");
  CHECK(load_modes(samples::bmm_sample(2, 64, 64, 64, half)) == "k rows");
  // Rows that begin anywhere, or end within a chunk.
  CHECK(load_modes(samples::mm_sample(64, 60, 64, half)) == "k packed");
  CHECK(load_modes(samples::mm_sample(64, 64, 60, half)) == "packed rows");
  CHECK(load_modes(samples::linear_sample(64, 64, 60, half)) == "packed packed");
  // Of fp32 both are read so or neither, in chunks of 32 bytes.
  CHECK(load_modes(samples::mm_sample(64, 64, 64)) == "k rows");
  CHECK(load_modes(samples::linear_sample(64, 64, 64)) == "k k");
  CHECK(load_modes(samples::mm_sample(64, 60, 64)) == "k packed");  // the first may be split in registers
  CHECK(load_modes(samples::linear_sample(64, 64, 60)) == "packed packed");
  // What is computed first.
  const auto computed = samples::contraction_sample("relu_mm", "", 1, [&](GraphBuilder& g) {
    const int a = g.input({64, 64}, half), b = g.input({64, 64}, half);
    const int relu = g.node("relu.default", {V("self", a)}, {64, 64}, half);
    return g.node("mm.default", {V("self", relu), V("mat2", b)}, {64, 64}, half);
  });
  CHECK(load_modes(computed) == "packed rows");
}

namespace {

constexpr const char* splitting_machine = R"(#include <algorithm>
#include <cstdint>
#include <cstring>
using std::max;
typedef unsigned int u32;
#define PL_DEVICE static inline
struct Eight { float v[8]; };
static unsigned char stage[1 << 18];
static int times[1 << 14], fallbacks;
static Eight take_eight(const char* from, bool there) {
  Eight e = {};
  if (there) memcpy(&e, from, 32);
  return e;
}
// Both parts' places hold the bits' halves, so that what is found there is the element.
static void keep_eight(u32 high, u32 low, const Eight& e) {
  for (int j = 0; j < 8; ++j) {
    u32 bits;
    memcpy(&bits, e.v + j, 4);
    const uint16_t hi = bits >> 16, lo = bits;
    memcpy(stage + high + 2 * j, &hi, 2);
    memcpy(stage + low + 2 * j, &lo, 2);
  }
  ++times[high / 16];
  ++times[low / 16];
}
static unsigned magnitude_bits(float x) { u32 bits; memcpy(&bits, &x, 4); return bits & 0x7fffffffu; }
static bool fits_unscaled(unsigned top) { return top < 0x47000000u; }
#define __shfl_xor_sync(mask, value, apart) (value)
)";

/// `run(memory, product, row, k, out, top)`: both parts of a stage's operand, split by 128 threads; returns how often
/// each 16 bytes were written, all the same, or -1. `top`: of each thread, whether flag_fallback() said so.
std::string splitting_source(const Brought& one, std::size_t number) {
  const char name = letter(one.operand);
  const int bytes = tile_rows(one.plan, one.operand) * one.plan.bk * 4;
  std::string text = functions_of(one, number);
  text += fmt::format(
      "extern \"C\" int run{0}(const char* memory, int product, int row, int k, void* out, int* odd) {{\n"
      "  memset(times, 0, sizeof times);\n"
      "  for (int thread = 0; thread < 128; ++thread) {{\n"
      "    int at[{1}], fallback = 0;\n    unsigned top[{5}] = {{}};\n    Eight v[{6}];\n"
      "    find_{2}(at, product, row, thread);\n    load_{2}(v, memory, at, k, thread);\n"
      "    put_{2}(0, v, top, thread);\n    flag_{2}(top, &fallback);\n    odd[thread] = fallback;\n  }}\n"
      "  for (int i = 0; i < {3}; ++i) if (times[i] != times[0]) return -1;\n"
      "  memcpy(out, stage, {4});\n  return times[0];\n}}\n}}\n",
      number, bringing_places(one.plan, one.operand), name, bytes / 16, bytes, splitting_tops(one.plan, one.operand),
      chunks_converted(one.plan, one.operand));
  return text;
}

/// Elements of all tiles and stages that tensor cores would not find, and tiles whose large element nobody noticed.
std::int64_t wrongly_split(const Brought& one, int (*run)(const char*, int, int, int, void*, int*)) {
  const Product& p = *one.product;
  const bool is_a = one.operand == Operand::a;
  const int rows = tile_rows(one.plan, one.operand);
  const int offset = part_offset(p.problem, one.plan, one.operand, 0);
  const std::int64_t limit = is_a ? p.problem.m : p.problem.n;
  const Node& load = load_of(p.kernel, is_a ? p.c.first : p.c.second);
  std::vector<float> memory(
      static_cast<std::size_t>(p.kernel.inputs[static_cast<std::size_t>(load.input)].storage_elements));
  for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<float>(i % 65521 + 1) / 7;
  std::vector<std::uint16_t> stage(2 * static_cast<std::size_t>(rows) * static_cast<std::size_t>(one.plan.bk));
  std::vector<std::int64_t> values(p.kernel.space.extents.size(), 0);
  std::int64_t found = 0;
  int odd[128];
  const auto split = [&](std::int64_t product, std::int64_t row, std::int64_t k) {
    REQUIRE(run(reinterpret_cast<const char*>(memory.data()), static_cast<int>(product), static_cast<int>(row),
                static_cast<int>(k), stage.data(), odd) == 1);
    return std::ranges::count(odd, 1);
  };
  for (std::int64_t product = 0; product < p.problem.batches; ++product) {
    for (std::int64_t row = 0; row < limit; row += rows) {
      for (std::int64_t k = 0; k < extents_of(p.problem, one.plan).depth; k += one.plan.bk) {
        found += split(product, row, k);
        for (int r = 0; r < rows; ++r) {
          for (int x = 0; x < one.plan.bk; ++x) {
            std::uint32_t bits = 0, wanted = 0;
            for (int part = 0; part < 2; ++part) {
              const int first = is_a ? r / 64 * 64 : 0;
              const Descriptor d = descriptor_of(p.problem, one.plan, one.operand, part, first, x / 16 * 16);
              const bool across = load_mode(one.plan, one.operand) == LoadMode::along_rows;
              const int place = swizzled_address(encode(d), d.start - offset, across, r - first, x % 16);
              bits = bits << 16 | stage.at(static_cast<std::size_t>(place / 2));
            }
            if (row + r < limit && k + x < p.problem.k) {
              decode(p.kernel, p.c.batch, product, values);
              decode(p.kernel, is_a ? p.c.m : p.c.n, row + r, values);
              decode(p.kernel, p.c.k, k + x, values);
              float& element = memory[static_cast<std::size_t>(load.index.evaluate(values))];
              std::memcpy(&wanted, &element, 4);
              if (r % 13 == 5 && x % 29 == 3) {  // a large one: some thread says so
                const float before = std::exchange(element, -1e30f);
                const auto stored = stage;
                found += split(product, row, k) == 0;
                element = before;
                stage = stored;
              }
            }
            found += bits != wanted;
          }
        }
      }
    }
  }
  return found;
}

}  // namespace

TEST_CASE(
    "fp32 that is split on its way lies where the tensor core looks for both parts, and large elements are noticed") {
  std::vector<Product> products;
  for (const auto& sample :
       {samples::linear_sample(70, 96, 72), samples::linear_sample(64, 64, 192), samples::mm_sample(72, 136, 200),
        samples::transposed_sample(136, 72, 40), samples::bmm_sample(2, 72, 40, 136)}) {
    auto product = product_of(sample.kernel);
    REQUIRE(product);
    REQUIRE(product->direct_a);
    products.push_back(std::move(*product));
  }
  std::vector<Brought> all;
  for (const Product& product : products) {
    for (const auto& [bm, bn, promote] :
         {std::array{64, 64, 64}, std::array{128, 64, 64}, std::array{64, 128, 64}, std::array{64, 64, 256}}) {
      TilePlan plan = direct_plan(product, bm, bn, 64);
      plan.scheme = Scheme::split;
      plan.promote_k = promote;  // whose stages may be more than there is of k
      for (const Operand operand : {Operand::a, Operand::b}) all.push_back({&product, operand, plan});
    }
  }
  std::string source = splitting_machine;
  for (std::size_t i = 0; i < all.size(); ++i) source += splitting_source(all[i], i);
  const Compiled compiled(source, "-O1 -w -std=c++20");
  for (std::size_t i = 0; i < all.size(); ++i) {
    CAPTURE(to_text(all[i].plan));
    CHECK(converts(all[i].plan));
    CHECK_FALSE(scales(all[i].plan));
    CHECK(check(all[i].product->problem, all[i].plan));
    auto* run = compiled.function<int(const char*, int, int, int, void*, int*)>(fmt::format("run{}", i));
    CHECK(wrongly_split(all[i], run) == 0);
  }
}

TEST_CASE("a kernel that runs only in case is told so in front of all else") {
  const std::string guarded =
      only_if_any("int f() { return 1; }\n__global__ void planish_kernel(const float* a, int n) {\n  body();\n}\n",
                  "fallbacks", 12);
  CHECK(guarded.find(
            "planish_kernel(const int* __restrict__ fallbacks, const float* a, int n) {\n  {\n    int any = 0;") !=
        std::string::npos);
  CHECK(guarded.find("i < 12;") < guarded.find("body();"));
}

TEST_CASE("tensor maps bring factors whose rows and k are a variable each, in boxes of 128 bytes") {
  const auto product = product_of(samples::heads_sample(2, 3, 72, 24, DType::f16).kernel);
  REQUIRE(product);
  REQUIRE(is_box(product->c, Operand::a, *product->direct_a));
  TilePlan plan = direct_plan(*product, 64, 128, 128);
  plan.maps = 1;
  CHECK(check(product->problem, plan));
  const std::string text = print_boxes(product->kernel, product->c, plan, Operand::b, *product->direct_b);
  // Four dims: k, rows of keys, heads, batch. A tile's 128 rows of 128 columns come in two boxes.
  for (const char* const line : {"tensor_map_type<4, 6>(map);", "tensor_map_dim<0>(map, 24, 64, 1);",
                                 "tensor_map_dim<1>(map, 72, 128, 1);", "tensor_map_stride<1>(map, 144ull);",
                                 "for (int i = 0; i < 2; ++i) tensor_load(to + i * 16384, map, barrier, k + i * 64"})
    CHECK_MESSAGE(text.find(line) != std::string::npos, line);
  CHECK(copied_bytes(product->problem, plan) == (64 + 128) * 128 * 2);
  // Rows of a batch that share weights are rows of one product.
  const auto shared = samples::contraction_sample("shared", "", 1, [&](GraphBuilder& g) {
    const int a = g.input({4, 64, 64}, DType::f16), b = g.input({64, 64}, DType::f16);
    const int c = g.node("matmul.default", {V("self", a), V("other", b)}, {4, 64, 64}, DType::f16);
    return c;
  });
  const auto flat = product_of(shared.kernel);
  REQUIRE(flat);
  const std::string weights =
      print_boxes(flat->kernel, flat->c, direct_plan(*flat, 64, 64, 64), Operand::b, *flat->direct_b);
  CHECK(weights.find("tensor_map_type<2, 6>") != std::string::npos);
  // Rows of two variables that do not follow each other in memory are no box.
  const auto apart = samples::contraction_sample("apart", "", 1, [&](GraphBuilder& g) {
    const int a = g.input({2, 8, 64}, DType::f16), w = g.input({64, 64}, DType::f16);
    const int turned =
        g.node("permute.default", {V("self", a), L("dims", {1, 0, 2})}, {8, 2, 64}, DType::f16, {64, 512, 1});
    return g.node("linear.default", {V("input", turned), V("weight", w)}, {8, 2, 64}, DType::f16);
  });
  const auto rows = product_of(apart.kernel);
  REQUIRE(rows);
  REQUIRE(rows->direct_a);
  const bool both = is_box(rows->c, Operand::a, *rows->direct_a) && is_box(rows->c, Operand::b, *rows->direct_b);
  CHECK_FALSE(both);
}

TEST_CASE("plans that cannot bring a factor so are refused by name") {
  const auto product = product_of(samples::mm_sample(256, 256, 256, DType::f16).kernel);
  REQUIRE(product);
  const auto refusal = [&](const auto& change) {
    TilePlan plan = direct_plan(*product, 128, 128, 64);
    change(plan);
    const Status status = check(product->problem, plan);
    return status ? std::string() : status.error().message;
  };
  CHECK(refusal([](TilePlan&) {}).empty());
  CHECK(refusal([](TilePlan& plan) { plan.bk = 32; }).find("bk") != std::string::npos);
  CHECK(refusal([](TilePlan& plan) { plan.bn = 96; }).find("along its rows") != std::string::npos);
  CHECK(refusal([](TilePlan& plan) { plan.scheme = Scheme::single; }).find("as they are") != std::string::npos);
  CHECK(refusal([](TilePlan& plan) { plan.blocks = 3; }).find("producers") != std::string::npos);
}

}  // namespace planish::codegen
