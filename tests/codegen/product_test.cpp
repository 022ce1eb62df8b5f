#include <doctest/doctest.h>
#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "codegen/compiled.h"
#include "codegen/device/device_files.h"
#include "codegen/emit/expression.h"
#include "codegen/product_data.h"
#include "codegen/sm90_machine.h"

namespace planish::codegen {
namespace {

/// A product and how it is cut.
struct ProductCase {
  int rows = 1, columns = 1, depth = 1;
  int units = 1;
  std::vector<int> ends = {};  ///< of groups of rows
  int parts = 1;
  int tile_rows = 64, tile_columns = 32, consumers = 1, stages = 2;
  bool ping_pong = false;
  int cluster = 1;
  bool share_b = true;
  int splits = 1, raster = 2;
  bool a_across = false, b_across = false;
  int result_bytes = 2;
  int blocks = 2;
};

/// The case as a policy, functors that add a bias of columns and multiply the parts, and a function that runs it.
std::string text_of(const ProductCase& c, int number) {
  const int groups = static_cast<int>(c.ends.size());
  std::string out = fmt::format(
      "namespace case{} {{\nstruct Policy {{\n  static constexpr int rows = {}, columns = {}, depth = {}, units = {}, "
      "groups = {}, parts = {}, tile_rows = {}, tile_columns = {}, consumers = {}, stages = {}, cluster = {}, splits = "
      "{}, raster = {}, result_bytes = {};\n  static constexpr bool ping_pong = {}, share_b = {}, a_across "
      "= {}, "
      "b_across = {}, boxed = false, words = columns % 8 == 0, scales_a = false;\n  static constexpr int factor_bytes "
      "= 2, "
      "scales_b = 0;\n  static constexpr bool integer_sums = false;\n}};\n",
      number, c.rows, c.columns, c.depth, c.units, groups, c.parts, c.tile_rows, c.tile_columns, c.consumers, c.stages,
      c.cluster, c.splits, c.raster, c.result_bytes, c.ping_pong, c.share_b, c.a_across, c.b_across);
  const auto map = [&](std::string_view name, std::string_view head, bool across, int line, int others,
                       std::string_view from, int units) {
    return fmt::format(
        "  void {0}(u32 map, {1}int rows) const {{\n    tensor_map_begin<3, true>(map, {2});\n    "
        "tensor_map_dim<0>(map, {3}, 64);\n    tensor_map_dim<1>(map, {4}, rows);\n    tensor_map_dim<2>(map, {7}, "
        "1);\n    tensor_map_stride<1>(map, {5});\n    tensor_map_stride<2>(map, {6});\n  }}\n",
        name, head, from, across ? others : line, across ? line : others, in_eights(across ? others : line) * 2,
        in_eights(across ? others : line) * 2 * (across ? line : others), units);
  };
  const int bs = groups > 0 ? groups : c.units;
  out += fmt::format(
      "PL_WGMMA_BOTH(step, {}, \"bf16\", {:d}, {:d})\nstruct Functors {{\n  const u16 *a, *b0, *b1; const float* bias; "
      "char* out; const int* ends;\n  void multiply(float (&d)[{} / 2], u64 a, u64 b, int keep) const {{ step(d, a, b, "
      "keep); }}\n  int group_end(int i) const {{ return ends[i]; }}\n",
      c.parts * c.tile_columns, c.a_across, c.b_across, c.parts * c.tile_columns);
  out += map("map_a", "", c.a_across, c.depth, c.rows, "a", c.units);
  out += map("map_b", "int part, ", c.b_across, c.depth, c.columns, "part != 0 ? b1 : b0", bs);
  for (const char* name : {"load_a", "load_b"})
    out += fmt::format(
        "  template <int mask> void {}(u32 to, const void* map, u32 barrier, int unit, int x, int y) const {{\n    if "
        "(mask != 0) tensor_share(to, map, barrier, mask, x, y, unit); else tensor_load(to, map, barrier, x, y, "
        "unit);\n  }}\n",
        name);
  out += product_results_text(c.parts, groups, "bf16");
  out += fmt::format(
      "extern \"C\" bool run{0}(const u16* a, const u16* b0, const u16* b1, const float* bias, char* out, const int* "
      "ends, float* partial, u32* arrived) {{\n  using L = ProductLayout<case{0}::Policy>;\n  std::vector<char> "
      "maps({1} * L::maps_bytes);\n  case{0}::Functors f{{a, b0, b1, bias, out, ends}};\n  return run_blocks({1}, "
      "L::threads, [&] {{ product<case{0}::Policy>(f, shared_memory(), maps.data(), partial, arrived); }}, {2});\n}}\n",
      number, c.blocks, c.cluster);
  return out;
}

using Run = bool(const std::uint16_t*, const std::uint16_t*, const std::uint16_t*, const float*, char*, const int*,
                 float*, unsigned*);

/// All cases in one library: it is the compiler that takes the time.
TEST_CASE("the device file of products computes the definition on a CPU, however it is cut") {
  const std::vector<ProductCase> cases{
      {.rows = 130, .columns = 72, .depth = 200, .tile_rows = 128, .consumers = 2, .stages = 3},
      {.rows = 70, .columns = 51, .depth = 81, .result_bytes = 4},
      {.rows = 150, .columns = 51, .depth = 136, .consumers = 2, .ping_pong = true},
      {.rows = 200,
       .columns = 200,
       .depth = 80,
       .tile_rows = 128,
       .tile_columns = 96,
       .consumers = 1,
       .b_across = true},
      {.rows = 136, .columns = 40, .depth = 100, .units = 3, .tile_rows = 128, .consumers = 2, .a_across = true},
      {.rows = 100, .columns = 150, .depth = 130, .tile_columns = 128, .a_across = true, .b_across = true},
      {.rows = 150, .columns = 80, .depth = 150, .cluster = 2, .blocks = 4},
      {.rows = 130, .columns = 100, .depth = 150, .stages = 3, .cluster = 2, .share_b = false, .blocks = 2},
      {.rows = 200,
       .columns = 130,
       .depth = 70,
       .tile_rows = 128,
       .tile_columns = 128,
       .consumers = 2,
       .ping_pong = true,
       .cluster = 2,
       .b_across = true},
      {.rows = 140,
       .columns = 70,
       .depth = 70,
       .tile_rows = 128,
       .consumers = 2,
       .cluster = 2,
       .share_b = false,
       .a_across = true},
      {.rows = 100, .columns = 60, .depth = 500, .tile_rows = 128, .consumers = 2, .splits = 3, .blocks = 5},
      {.rows = 130,
       .columns = 60,
       .depth = 300,
       .consumers = 2,
       .ping_pong = true,
       .cluster = 2,
       .splits = 2,
       .blocks = 4},
      {.rows = 80, .columns = 40, .depth = 90, .parts = 2, .tile_columns = 16},
      {.rows = 260,
       .columns = 90,
       .depth = 64,
       .units = 3,
       .consumers = 2,
       .ping_pong = true,
       .cluster = 2,
       .blocks = 4},
      {.rows = 150, .columns = 90, .depth = 330, .parts = 2, .cluster = 2, .blocks = 4},
      {.rows = 150, .columns = 300, .depth = 90, .tile_columns = 256, .cluster = 2, .a_across = true, .b_across = true},
      {.rows = 300, .columns = 50, .depth = 72, .ends = {0, 70, 70, 75, 203, 290}},
      {.rows = 300, .columns = 72, .depth = 72, .ends = {65, 65, 300}, .parts = 2, .cluster = 2, .share_b = false},
      {.rows = 200,
       .columns = 40,
       .depth = 72,
       .ends = std::vector<int>(40, 200),
       .tile_rows = 128,
       .consumers = 2,
       .cluster = 2},
      {.rows = 100, .columns = 40, .depth = 72, .ends = {0, 0, 0}},
  };
  static constexpr std::array<std::string_view, 1> files{"sm90/product.cuh"};
  const std::array<DeviceFile, 2> instead{{{"sm90/ptx.cuh", sm90_ptx}, {"sm90/wgmma.cuh", sm90_wgmma}}};
  std::string source = std::string(sm90_language) + std::string(printing::prelude(false)) + device_text(files, instead);
  for (std::size_t i = 0; i < cases.size(); ++i) source += text_of(cases[i], static_cast<int>(i));
  const Compiled library(source, "-std=c++20 -O1 -w");
  for (std::size_t i = 0; i < cases.size(); ++i) {
    CAPTURE(i);
    const ProductData subject(cases[i], DType::bf16);
    auto* const kernel = library.function<Run>(fmt::format("run{}", i));
    const auto first = subject.run(kernel, cases[i].consumers);
    subject.compare(first);
    CHECK(subject.run(kernel, cases[i].consumers) == first);
  }
}

}  // namespace
}  // namespace planish::codegen
