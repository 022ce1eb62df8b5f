#include <doctest/doctest.h>
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "codegen/compiled.h"
#include "codegen/device/device_files.h"
#include "codegen/emit/expression.h"
#include "codegen/half_numbers.h"
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

int padded(int n) {
  return (n + 7) / 8 * 8;
}

/// The case as a policy, functors that add a bias of columns and multiply the parts, and a function that runs it.
std::string text_of(const ProductCase& c, int number) {
  const int groups = static_cast<int>(c.ends.size());
  std::string out = fmt::format(
      "namespace case{} {{\nstruct Policy {{\n  static constexpr int rows = {}, columns = {}, depth = {}, units = {}, "
      "groups = {}, parts = {}, tile_rows = {}, tile_columns = {}, consumers = {}, stages = {}, cluster = {}, splits = "
      "{}, raster = {}, result_bytes = {};\n  static constexpr bool ping_pong = {}, share_b = {}, a_across "
      "= {}, "
      "b_across = {}, words = columns % 8 == 0;\n}};\n",
      number, c.rows, c.columns, c.depth, c.units, groups, c.parts, c.tile_rows, c.tile_columns, c.consumers, c.stages,
      c.cluster, c.splits, c.raster, c.result_bytes, c.ping_pong, c.share_b, c.a_across, c.b_across);
  const auto map = [&](std::string_view name, std::string_view head, bool across, int line, int others,
                       std::string_view from, int units) {
    return fmt::format(
        "  void {0}(u32 map, {1}int rows) const {{\n    tensor_map_begin<3, true>(map, {2});\n    "
        "tensor_map_dim<0>(map, {3}, 64);\n    tensor_map_dim<1>(map, {4}, rows);\n    tensor_map_dim<2>(map, {7}, "
        "1);\n    tensor_map_stride<1>(map, {5});\n    tensor_map_stride<2>(map, {6});\n  }}\n",
        name, head, from, across ? others : line, across ? line : others, padded(across ? others : line) * 2,
        padded(across ? others : line) * 2 * (across ? line : others), units);
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
  out += fmt::format(
      "  template <int words> void result(u32 (&out)[words], int unit, int row, int column, const float "
      "(&sums)[{0}][2]) const {{\n    float v[2];\n    for (int e = 0; e < 2; ++e) {{\n      v[e] = sums[0][e];\n      "
      "for (int p = 1; p < {0}; ++p) v[e] *= sums[p][e];\n      v[e] += bias[min(column + e, Policy::columns - 1)];\n  "
      "  }}\n    if (words == 1) out[0] = pack_bf16(v[0], v[1]); else memcpy(out, v, 8);\n  }}\n  char* place(int "
      "unit, "
      "int row, int column) const {{ return out + (((long long)({1} ? 0 : unit) * Policy::rows + row) * "
      "Policy::columns + column) * Policy::result_bytes; }}\n}};\n}}\n",
      c.parts, groups);
  out += fmt::format(
      "extern \"C\" bool run{0}(const u16* a, const u16* b0, const u16* b1, const float* bias, char* out, const int* "
      "ends, float* partial, u32* arrived) {{\n  using L = ProductLayout<case{0}::Policy>;\n  std::vector<char> "
      "maps({1} * L::maps_bytes);\n  case{0}::Functors f{{a, b0, b1, bias, out, ends}};\n  return run_blocks({1}, "
      "L::threads, [&] {{ product<case{0}::Policy>(f, shared_memory(), maps.data(), partial, arrived); }}, {2});\n}}\n",
      number, c.blocks, c.cluster);
  return out;
}

std::vector<std::uint16_t> numbers(int count, int seed) {
  std::vector<std::uint16_t> out;
  for (int i = 0; i < count; ++i) out.push_back(to_bits(std::sin(0.37 * i * (7 + seed) + seed), DType::bf16));
  return out;
}

using Run = bool(const std::uint16_t*, const std::uint16_t*, const std::uint16_t*, const float*, char*, const int*,
                 float*, unsigned*);

class Subject {
 public:
  explicit Subject(const ProductCase& c) : c_(c), bs_(c.ends.empty() ? c.units : static_cast<int>(c.ends.size())) {
    a_ = numbers(c.units * size(c.a_across, c.rows), 1);
    b_[0] = numbers(bs_ * size(c.b_across, c.columns), 2);
    b_[1] = numbers(bs_ * size(c.b_across, c.columns), 3);
    for (int i = 0; i < c.columns; ++i) bias_.push_back(static_cast<float>(i % 5));
  }

  /// The results' bytes; the counters are as they were.
  std::vector<char> run(Run* kernel) const {
    const int groups = static_cast<int>(c_.ends.size());
    std::vector<char> out(static_cast<std::size_t>(c_.units * c_.rows * c_.columns * c_.result_bytes), '\x7f');
    const int tiles = (c_.rows / c_.tile_rows + 2) * (c_.columns / c_.tile_columns + 2) * c_.units * (groups + 1);
    std::vector<float> partial(static_cast<std::size_t>(tiles * c_.splits * c_.tile_rows * c_.tile_columns * c_.parts),
                               NAN);
    std::vector<unsigned> arrived(static_cast<std::size_t>(tiles * c_.consumers), 0);
    REQUIRE(kernel(a_.data(), b_[0].data(), b_[1].data(), bias_.data(), out.data(), c_.ends.data(), partial.data(),
                   arrived.data()));
    for (const unsigned each : arrived) REQUIRE(each == 0);
    return out;
  }

  void compare(const std::vector<char>& out) const {
    double worst = 0;
    for (int unit = 0; unit < c_.units; ++unit)
      for (int row = 0; row < c_.rows; ++row)
        for (int column = 0; column < c_.columns; ++column) {
          const int place = (unit * c_.rows + row) * c_.columns + column;
          int group = unit;
          if (!c_.ends.empty()) {
            group = 0;
            while (group < bs_ && row >= c_.ends[static_cast<std::size_t>(group)]) ++group;
          }
          if (group == bs_) {  // of no group: nobody writes it
            REQUIRE(out[static_cast<std::size_t>(place * c_.result_bytes)] == '\x7f');
            continue;
          }
          double product = 1;
          for (int part = 0; part < c_.parts; ++part) {
            double sum = 0;
            for (int k = 0; k < c_.depth; ++k)
              sum += of_bits(a_[at(c_.a_across, unit, c_.rows, row, k)], DType::bf16) *
                     static_cast<double>(of_bits(b_[part][at(c_.b_across, group, c_.columns, column, k)], DType::bf16));
            product *= sum;
          }
          const double expected = product + column % 5;
          float got;
          if (c_.result_bytes == 4) {
            std::memcpy(&got, &out[static_cast<std::size_t>(place * 4)], 4);
          } else {
            std::uint16_t bits;
            std::memcpy(&bits, &out[static_cast<std::size_t>(place * 2)], 2);
            got = of_bits(bits, DType::bf16);
          }
          worst = std::max(worst, std::abs(got - expected) / (1 + std::abs(expected)));
        }
    CHECK(worst < (c_.result_bytes == 4 ? 1e-4 : 0x1p-7));
  }

 private:
  int size(bool across, int others) const { return across ? c_.depth * padded(others) : others * padded(c_.depth); }
  std::size_t at(bool across, int unit, int others, int row, int k) const {
    const int within = across ? k * padded(others) + row : row * padded(c_.depth) + k;
    return static_cast<std::size_t>(unit * size(across, others) + within);
  }

  const ProductCase& c_;
  const int bs_;
  std::vector<std::uint16_t> a_, b_[2];
  std::vector<float> bias_;
};

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
    const Subject subject(cases[i]);
    auto* const kernel = library.function<Run>(fmt::format("run{}", i));
    const auto first = subject.run(kernel);
    subject.compare(first);
    CHECK(subject.run(kernel) == first);
  }
}

}  // namespace
}  // namespace planish::codegen
