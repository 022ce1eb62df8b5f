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
#include "codegen/sm80_machine.h"
#include "codegen/sm90_machine.h"

namespace planish::codegen {
namespace {

/// A product by mma.sync and how it is cut.
struct MmaCase {
  int rows = 1, columns = 1, depth = 1;
  int units = 1;
  std::vector<int> ends = {};  ///< of groups of rows
  int parts = 1;
  int tile_rows = 64, tile_columns = 32, tile_depth = 64, warps_rows = 2, warps_columns = 1, stages = 3;
  int splits = 1, raster = 2;
  bool a_across = false, b_across = false, f16 = false;
  int result_bytes = 2;
  int blocks = 2;
};

/// The case as a policy, functors that add a bias of columns and multiply the parts, and a function that runs it.
std::string mma_text(const MmaCase& c, int number) {
  const int groups = static_cast<int>(c.ends.size());
  const auto strides = [](std::string_view name, bool across, int others, int depth) {
    return fmt::format("  static constexpr long long {0}_row = {1}, {0}_depth = {2};\n", name,
                       across ? 1 : in_eights(depth), across ? in_eights(others) : 1);
  };
  const auto size = [&](bool across, int others) {
    return across ? c.depth * in_eights(others) : others * in_eights(c.depth);
  };
  std::string out = fmt::format(
      "namespace case{} {{\nstruct Policy {{\n  static constexpr int rows = {}, columns = {}, depth = {}, units = {}, "
      "groups = {}, parts = {}, tile_rows = {}, tile_columns = {}, tile_depth = {}, warps_rows = {}, warps_columns = "
      "{}, stages = {}, splits = {}, raster = {}, result_bytes = {}, resident = 1;\n  static constexpr bool a_across = "
      "{}, b_across = {}, bf16 = {}, words = columns % 8 == 0;\n",
      number, c.rows, c.columns, c.depth, c.units, groups, c.parts, c.tile_rows, c.tile_columns, c.tile_depth,
      c.warps_rows, c.warps_columns, c.stages, c.splits, c.raster, c.result_bytes, c.a_across, c.b_across, !c.f16);
  out += strides("a", c.a_across, c.rows, c.depth) + strides("b", c.b_across, c.columns, c.depth) + "};\n";
  out += fmt::format(
      "struct Functors {{\n  const u16 *in_a, *b0, *b1; const float* bias; char* out; const int* ends;\n  int "
      "group_end(int i) const {{ return ends[i]; }}\n  const u16* a(int unit) const {{ return in_a + unit * {}; }}\n  "
      "const u16* b(int part, int unit) const {{ return (part != 0 ? b1 : b0) + unit * {}; }}\n",
      size(c.a_across, c.rows), size(c.b_across, c.columns));
  out += product_results_text(c.parts, groups, c.f16 ? "f16" : "bf16");
  out += fmt::format(
      "extern \"C\" long run{0}(const u16* a, const u16* b0, const u16* b1, const float* bias, char* out, const int* "
      "ends, float* partial, u32* arrived, bool late) {{\n  using L = MmaProductLayout<case{0}::Policy>;\n  "
      "case{0}::Functors f{{a, b0, b1, bias, out, ends}};\n  begin_copies(late);\n  conflicts = 0;\n  const bool ended "
      "= run_blocks({1}, L::threads, [&] {{ product_by_mma<case{0}::Policy>(f, shared_memory(), partial, arrived); "
      "}});\n  return ended ? conflicts : -1;\n}}\n",
      number, c.blocks);
  return out;
}

using RunMma = long(const std::uint16_t*, const std::uint16_t*, const std::uint16_t*, const float*, char*, const int*,
                    float*, unsigned*, bool);

std::vector<MmaCase> mma_cases() {
  std::vector<MmaCase> out;
  out.push_back({.rows = 130, .columns = 72, .depth = 200, .tile_rows = 128, .warps_columns = 2});
  out.push_back({.rows = 70, .columns = 51, .depth = 88, .tile_depth = 32, .stages = 2, .result_bytes = 4});
  out.push_back({.rows = 200,
                 .columns = 200,
                 .depth = 80,
                 .tile_columns = 128,
                 .tile_depth = 32,
                 .warps_rows = 1,
                 .warps_columns = 4,
                 .stages = 4,
                 .b_across = true});
  out.push_back({.rows = 136, .columns = 40, .depth = 101, .units = 3, .tile_rows = 128, .a_across = true});
  out.back().b_across = true;
  out.push_back({.rows = 104,
                 .columns = 152,
                 .depth = 130,
                 .tile_columns = 64,
                 .tile_depth = 32,
                 .warps_columns = 2,
                 .a_across = true,
                 .b_across = true,
                 .f16 = true});
  out.push_back({.rows = 100, .columns = 60, .depth = 504, .splits = 3, .blocks = 5});
  out.push_back({.rows = 80, .columns = 40, .depth = 90 - 2, .parts = 2, .tile_columns = 16});
  out.push_back({.rows = 100, .columns = 100, .depth = 72, .tile_rows = 96, .tile_columns = 96, .tile_depth = 32});
  out.back().warps_columns = 2;
  out.push_back({.rows = 300, .columns = 50, .depth = 72, .ends = {0, 70, 70, 75, 203, 290}});
  out.push_back({.rows = 300, .columns = 72, .depth = 72, .ends = {65, 65, 300}, .parts = 2, .b_across = true});
  out.push_back({.rows = 100, .columns = 40, .depth = 72, .ends = {0, 0, 0}});
  out.push_back({.rows = 20, .columns = 24, .depth = 16, .tile_rows = 32, .stages = 4, .blocks = 3});
  out.push_back({.rows = 40, .columns = 300, .depth = 64, .tile_rows = 32, .tile_columns = 256, .warps_columns = 4});
  out.back().b_across = true;
  out.back().blocks = 1;
  out.push_back({.rows = 200, .columns = 260, .depth = 64, .tile_rows = 128, .tile_columns = 128, .warps_rows = 1});
  out.back().a_across = out.back().b_across = true;
  out.back().columns = 264;
  return out;
}

/// All cases in one library: it is the compiler that takes the time.
TEST_CASE("the mma.sync device file of products computes the definition on a CPU, however it is cut") {
  const std::vector<MmaCase> cases = mma_cases();
  static constexpr std::array<std::string_view, 1> files{"sm80/product.cuh"};
  const std::array<DeviceFile, 1> instead{{{"sm80/ptx.cuh", sm80_ptx}}};
  std::string source = std::string(sm90_language) + std::string(printing::prelude(false)) + device_text(files, instead);
  for (std::size_t i = 0; i < cases.size(); ++i) source += mma_text(cases[i], static_cast<int>(i));
  const Compiled library(source, "-std=c++20 -O1 -w");
  for (std::size_t i = 0; i < cases.size(); ++i) {
    CAPTURE(i);
    const ProductData subject(cases[i], cases[i].f16 ? DType::f16 : DType::bf16);
    auto* const kernel = library.function<RunMma>(fmt::format("run{}", i));
    // No load meets a bank twice.
    const auto with = [&](bool late) {
      return subject.run([&](auto... given) { return kernel(given..., late) == 0; }, 1);
    };
    const auto first = with(true);
    subject.compare(first);
    CHECK(with(false) == first);
  }
}

}  // namespace
}  // namespace planish::codegen
