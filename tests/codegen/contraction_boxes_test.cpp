// Convolutions that read channels-last images by boxes: the printed copies, run on the CPU as the copy engine does
// them, and the places of a tile's rows.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "codegen/compiled.h"
#include "codegen/contraction/boxes.h"
#include "codegen/contraction/cuda_contraction.h"
#include "codegen/contraction/device_product.h"
#include "codegen/contraction/genome_plan.h"
#include "codegen/contraction/product.h"
#include "codegen/contraction_executor.h"
#include "codegen/contraction_samples.h"
#include "codegen/devices.h"
#include "codegen/direct_plan.h"
#include "codegen/factor_elements.h"

namespace planish::codegen {
namespace {

using namespace contraction;

/// A tensor map, and one copy by it as the PTX manual has it: a box of ceil(box / step) elements of each dim, `step`
/// apart, zeros outside, 16-byte chunks of rows of 128 bytes swizzled.
constexpr const char* machine = R"(#include <cstdint>
#include <cstring>
typedef unsigned int u32;
typedef unsigned long long u64;
#define PL_DEVICE static inline
struct Map { const char* from; long long extent[5], box[5], step[5], stride[5]; int rank; };
static Map the_map;
static unsigned char stage[1 << 18];
static int written;
static void tensor_map_at(u32, const void* from) { the_map.from = (const char*)from; }
template <int dims, int type> static void tensor_map_type(u32) { the_map.rank = dims; }
template <int d> static void tensor_map_dim(u32, int extent, int box, int step) {
  the_map.extent[d] = extent, the_map.box[d] = box, the_map.step[d] = step;
}
template <int d> static void tensor_map_stride(u32, u64 bytes) { the_map.stride[d] = bytes; }
template <typename... Places> static void tensor_load(u32 to, const void*, u32, Places... places) {
  const long long at[5] = {places...};
  long long size[5];
  int all = 1;
  for (int d = 0; d < 5; ++d) {
    size[d] = d < the_map.rank ? (the_map.box[d] + the_map.step[d] - 1) / the_map.step[d] : 1;
    if (d > 0) all *= size[d];
    if (d < the_map.rank && (the_map.box[d] > 256 || the_map.step[d] > 8)) written = -1 << 30;
    if (d > 0 && d < the_map.rank && the_map.stride[d] % 16 != 0) written = -1 << 30;
  }
  if ((int)sizeof...(places) != the_map.rank || size[0] != 64) written = -1 << 30;
  for (int row = 0; row < all; ++row) {
    long long offset = 0;
    bool inside = true;
    int left = row;
    for (int d = 1; d < the_map.rank; ++d) {
      const long long x = at[d] + left % size[d] * the_map.step[d];
      left /= size[d];
      inside = inside && x >= 0 && x < the_map.extent[d];
      offset += x * the_map.stride[d];
    }
    for (int k = 0; k < 64; ++k) {
      const bool there = inside && at[0] + k >= 0 && at[0] + k < the_map.extent[0];
      uint16_t value = 0;
      if (there) memcpy(&value, the_map.from + offset + (at[0] + k) * 2, 2);
      const int line = to / 128 + row;
      memcpy(stage + line * 128 + (k / 8 ^ line % 8) * 16 + k % 8 * 2, &value, 2);
      written += 2;
    }
  }
}
)";

struct Case {
  const Product* product;
  Operand operand;
  TilePlan plan;
};

TilePlan plan_for(const Product& product, int bm, int bn, int bk) {
  TilePlan plan = direct_plan(product, bm, bn, bk);
  plan.maps = 1;
  return plan;
}

/// `runN(memory, product, row, k, out)`: a stage's part, returns bytes written; `placeN(row, d)`: coordinates of a row
/// by variable, and whether there is such a place.
std::string source_of(const Case& one, std::size_t number) {
  const Product& p = *one.product;
  const char name = letter(one.operand);
  const int bytes = tile_rows(one.plan, one.operand) * one.plan.bk * 2;
  std::string text = fmt::format("namespace k{} {{\n", number);
  text += print_box_copies(p.kernel, p.c, p.problem, one.plan, one.operand, *p.boxes(one.operand));
  text += fmt::format(
      "extern \"C\" int run{0}(const char* memory, int product, int row, int k, void* out) {{\n"
      "  written = 0;\n  map_{1}(0, memory);\n  fetch_{1}(0, nullptr, product, row, k, 0);\n"
      "  memcpy(out, stage, {2});\n  return written;\n}}\n",
      number, name, bytes);
  if (p.problem.in_boxes(one.operand)) {
    PlaceWriter writer(p.kernel);
    const std::string there =
        BoxPlaces(p.kernel, *p.boxes(one.operand), p.problem, one.plan, one.operand).print(writer, "row");
    text += fmt::format("extern \"C\" int place{}(int row, long long* d) {{\n{}", number, writer.out);
    for (const int v : one.operand == Operand::a ? p.c.m : p.c.n) text += fmt::format("  d[{0}] = d{0};\n", v);
    text += fmt::format("  return {};\n}}\n", there.empty() ? "1" : there);
  }
  return text + "}\n";
}

using Run = int (*)(const char*, int, int, int, void*);
using Find = int (*)(int, long long*);

/// Elements of all tiles and stages that are not what they should be; `seen` counts how often each place came.
std::int64_t wrong(const Case& one, Run run, Find find, std::vector<int>& seen) {
  const Product& p = *one.product;
  const bool is_a = one.operand == Operand::a;
  const auto& variables = is_a ? p.c.m : p.c.n;
  const int rows = tile_rows(one.plan, one.operand);
  const Extents extents = extents_of(p.problem, one.plan);
  const std::int64_t all = is_a ? extents.rows_a : extents.rows_b, limit = is_a ? p.problem.m : p.problem.n;
  const int factor = is_a ? p.c.first : p.c.second;
  const Node& load = load_of(p.kernel, factor);
  std::vector<std::uint16_t> memory(
      static_cast<std::size_t>(p.kernel.inputs[static_cast<std::size_t>(load.input)].storage_elements));
  for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<std::uint16_t>(i % 65521 + 1);
  std::vector<std::uint16_t> stage(static_cast<std::size_t>(rows) * static_cast<std::size_t>(one.plan.bk));
  std::vector<std::int64_t> values(p.kernel.space.extents.size(), 0);
  const Boxes& boxes = *p.boxes(one.operand);
  std::vector<int> taps = p.c.k;
  taps.pop_back();
  std::int64_t found = 0;
  for (std::int64_t product = 0; product < p.problem.batches; ++product) {
    for (std::int64_t row = 0; row < all; row += rows) {
      for (std::int64_t k = 0; k < extents.depth; k += one.plan.bk) {
        REQUIRE(run(reinterpret_cast<const char*>(memory.data()), static_cast<int>(product), static_cast<int>(row),
                    static_cast<int>(k), stage.data()) == rows * one.plan.bk * 2);
        for (int r = 0; r < rows; ++r) {
          decode(p.kernel, p.c.batch, product, values);
          bool there = row + r < limit;
          if (find != nullptr) {
            std::vector<long long> place(values.size(), 0);
            there = find(static_cast<int>(row) + r, place.data()) != 0;
            std::int64_t linear = 0;
            for (const int v : variables) {
              values[static_cast<std::size_t>(v)] = place[static_cast<std::size_t>(v)];
              linear = linear * p.kernel.space.extent(v) + place[static_cast<std::size_t>(v)];
            }
            if (there && k == 0 && product == 0) ++seen.at(static_cast<std::size_t>(linear));
          } else if (there) {
            decode(p.kernel, variables, row + r, values);
          }
          for (int x = 0; x < one.plan.bk; ++x) {
            const std::int64_t tap = (k + x) / boxes.tap_depth(), channel = (k + x) % boxes.tap_depth();
            std::uint16_t wanted = 0;
            // What a place that is not there multiplies is dropped.
            if (!there) continue;
            if (k + x < p.problem.k && channel < boxes.channels) {
              decode(p.kernel, taps, tap, values);
              values[static_cast<std::size_t>(boxes.channel)] = channel;
              const auto at = element(p.kernel, factor, values);
              if (at) wanted = memory.at(static_cast<std::size_t>(*at));
            }
            const int place = place_in_stage(one.plan, one.operand, r, x);
            found += stage.at(static_cast<std::size_t>(place / 2)) != wanted;
          }
        }
      }
    }
  }
  return found;
}

std::vector<std::shared_ptr<const Product>> boxed_products() {
  std::vector<std::shared_ptr<const Product>> out;
  for (const auto& sample : samples::channels_last_samples(false)) {
    CAPTURE(sample.name);
    auto product = product_of(sample.kernel);
    REQUIRE(product);
    if (product->boxed) out.push_back(product->boxed);
  }
  REQUIRE(out.size() > 14);
  return out;
}

}  // namespace

TEST_CASE("boxes bring of channels-last images what the tensor core multiplies, and every place is in one") {
  const auto products = boxed_products();
  std::vector<Case> all;
  for (const auto& product : products) {
    for (const auto& [bm, bn, bk] : {std::array{64, 64, 64}, std::array{128, 96, 128}, std::array{64, 256, 64}}) {
      for (const Operand operand : {Operand::a, Operand::b}) {
        const TilePlan plan = plan_for(*product, bm, bn, bk);
        if (product->boxes(operand) && check(product->problem, plan)) all.push_back({product.get(), operand, plan});
      }
    }
  }
  REQUIRE(all.size() > 60);
  std::string source = machine;
  for (std::size_t i = 0; i < all.size(); ++i) source += source_of(all[i], i);
  const Compiled compiled(source, "-O1 -w -std=c++20");
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Case& one = all[i];
    CAPTURE(i);
    CAPTURE(to_text(one.plan));
    const bool places = one.product->problem.in_boxes(one.operand);
    std::vector<int> seen(static_cast<std::size_t>(
        places ? (one.operand == Operand::a ? one.product->problem.m : one.product->problem.n) : 0));
    const Find find =
        places ? compiled.function<int(int, long long*)>(fmt::format("place{}", i)) : static_cast<Find>(nullptr);
    CHECK(wrong(one, compiled.function<int(const char*, int, int, int, void*)>(fmt::format("run{}", i)), find, seen) ==
          0);
    CHECK(std::ranges::all_of(seen, [](int times) { return times == 1; }));
  }
}

TEST_CASE("boxes have no places outside where there are such boxes, and read few elements twice") {
  const auto sizes = [](std::vector<Boxed::Dim> dims, int rows) {
    Problem problem{.m = 1, .n = 64, .k = 64};
    problem.boxed = Boxed{Operand::a, std::move(dims)};
    TilePlan plan;
    plan.bm = rows;
    return box_of(problem, plan);
  };
  // 3 × 3 taps of 64 images.
  const auto images = [](std::int64_t side) { return std::vector<Boxed::Dim>{{side, 1, 3}, {side, 1, 3}, {64, 1, 1}}; };
  CHECK(sizes(images(56), 128) == std::vector{8, 8, 2});
  CHECK(sizes(images(28), 128) == std::vector{4, 4, 8});
  CHECK(sizes(images(14), 128) == std::vector{2, 2, 32});
  CHECK(sizes(images(32), 128) == std::vector{16, 8, 1});
  CHECK(sizes({{1000, 4, 7}}, 64) == std::vector{64});
  CHECK(sizes({{1000, 8, 7}}, 64).empty());  // 512 coordinates
}

TEST_CASE("boxes are read of whole channels that lie beside each other, and packed of anything else") {
  const auto boxed = [](samples::Convolved how) {
    const auto product = product_of(samples::conv_sample(how).kernel);
    REQUIRE(product);
    return product->boxed != nullptr;
  };
  constexpr DType half = DType::bf16;
  const samples::Convolved plain{.x = {2, 64, 12, 12}, .w = {64, 64, 3, 3}, .padding = 1, .dtype = half, .last = "all"};
  CHECK(boxed(plain));
  auto changed = plain;
  changed.last = "";
  CHECK_FALSE(boxed(changed));
  changed = plain;
  changed.dtype = DType::f32;
  CHECK_FALSE(boxed(changed));
  changed = plain;
  changed.x[1] = changed.w[1] = 24;  // more zeros than channels
  CHECK_FALSE(boxed(changed));
  changed.x[1] = changed.w[1] = 60;  // not in chunks of 16 bytes
  CHECK_FALSE(boxed(changed));
  changed.x[1] = changed.w[1] = 48;
  CHECK(boxed(changed));
  changed.last = "images";  // weights that are packed by taps alone have zeros between them
  CHECK(boxed(changed));
}

TEST_CASE("what is computed of an image is packed") {
  const auto sample = samples::contraction_sample("relu_conv", "", 1, [](GraphBuilder& g) {
    const Shape x{2, 64, 12, 12}, w{64, 64, 3, 3};
    const Shape last = samples::channels_last(x);
    const int image = g.input(x, DType::bf16, last), weights = g.input(w, DType::bf16, samples::channels_last(w));
    const int relu = g.node("relu.default", {V("self", image)}, x, DType::bf16, last);
    return g.node("conv2d.default",
                  {V("input", relu), V("weight", weights), L("stride", {1, 1}), L("padding", {1, 1}),
                   L("dilation", {1, 1}), I("groups", 1)},
                  x, DType::bf16, last);
  });
  const auto product = product_of(sample.kernel);
  REQUIRE(product);
  CHECK(product->boxed == nullptr);
}

TEST_CASE("every first guess of a channels-last convolution is legal and emitted, boxes first") {
  const Device device = h200();
  for (const auto& sample : samples::channels_last_samples(false)) {
    CAPTURE(sample.name);
    const auto product = product_of(sample.kernel);
    REQUIRE(product);
    const auto seeds = contraction_seeds(*product, device);
    REQUIRE(seeds.size() > 4);
    // One of a single tap may be a product of two matrices.
    CHECK((seeds.front().at("direct") == by_maps || seeds.front().at("direct") == by_file));
    for (const Genome& genome : seeds) {
      CAPTURE(text(genome));
      CHECK(contraction_illegal(*product, device, genome).empty());
      CHECK(emit_contraction(*product, device, genome));
    }
  }
}

}  // namespace planish::codegen
