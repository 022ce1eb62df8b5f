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

int in_eights(int n) {
  return (n + 7) / 8 * 8;
}

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
  out += fmt::format(
      "  template <int words> void result(u32 (&out)[words], int unit, int row, int column, const float "
      "(&sums)[{0}][2]) const {{\n    float v[2];\n    for (int e = 0; e < 2; ++e) {{\n      v[e] = sums[0][e];\n      "
      "for (int p = 1; p < {0}; ++p) v[e] *= sums[p][e];\n      v[e] += bias[min(column + e, Policy::columns - 1)];\n  "
      "  }}\n    if (words == 1) out[0] = pack_{2}(v[0], v[1]); else memcpy(out, v, 8);\n  }}\n  char* place(int unit, "
      "int row, int column) const {{ return out + (((long long)({1} ? 0 : unit) * Policy::rows + row) * "
      "Policy::columns + column) * Policy::result_bytes; }}\n}};\n}}\n",
      c.parts, groups, c.f16 ? "f16" : "bf16");
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

class MmaSubject {
 public:
  explicit MmaSubject(const MmaCase& c)
      : c_(c),
        dtype_(c.f16 ? DType::f16 : DType::bf16),
        bs_(c.ends.empty() ? c.units : static_cast<int>(c.ends.size())) {
    a_ = numbers(c.units * size(c.a_across, c.rows), 1);
    b_[0] = numbers(bs_ * size(c.b_across, c.columns), 2);
    b_[1] = numbers(bs_ * size(c.b_across, c.columns), 3);
    for (int i = 0; i < c.columns; ++i) bias_.push_back(static_cast<float>(i % 5));
  }

  /// The results' bytes; the counters are as they were, and no load meets a bank twice.
  std::vector<char> run(RunMma* kernel, bool late) const {
    const int groups = static_cast<int>(c_.ends.size());
    std::vector<char> out(static_cast<std::size_t>(c_.units * c_.rows * c_.columns * c_.result_bytes), '\x7f');
    const int tiles = (c_.rows / c_.tile_rows + 2) * (c_.columns / c_.tile_columns + 2) * c_.units * (groups + 1);
    std::vector<float> partial(static_cast<std::size_t>(tiles * c_.splits * c_.tile_rows * c_.tile_columns * c_.parts),
                               NAN);
    std::vector<unsigned> arrived(static_cast<std::size_t>(tiles), 0);
    REQUIRE(kernel(a_.data(), b_[0].data(), b_[1].data(), bias_.data(), out.data(), c_.ends.data(), partial.data(),
                   arrived.data(), late) == 0);
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
          const double expected = definition(unit, group, row, column), got = result(out, place);
          worst = std::max(worst, std::abs(got - expected) / (1 + std::abs(expected)));
        }
    CHECK(worst < (c_.result_bytes == 4 ? 1e-4 : 0x1p-7));
  }

 private:
  double definition(int unit, int group, int row, int column) const {
    double product = 1;
    for (int part = 0; part < c_.parts; ++part) {
      double sum = 0;
      for (int k = 0; k < c_.depth; ++k)
        sum += of_bits(a_[at(c_.a_across, unit, c_.rows, row, k)], dtype_) *
               static_cast<double>(of_bits(b_[part][at(c_.b_across, group, c_.columns, column, k)], dtype_));
      product *= sum;
    }
    return product + column % 5;
  }
  float result(const std::vector<char>& out, int place) const {
    if (c_.result_bytes == 4) {
      float got;
      std::memcpy(&got, &out[static_cast<std::size_t>(place * 4)], 4);
      return got;
    }
    std::uint16_t bits;
    std::memcpy(&bits, &out[static_cast<std::size_t>(place * 2)], 2);
    return of_bits(bits, dtype_);
  }
  std::vector<std::uint16_t> numbers(int count, int seed) const {
    std::vector<std::uint16_t> out;
    for (int i = 0; i < count; ++i) out.push_back(to_bits(std::sin(0.37 * i * (7 + seed) + seed), dtype_));
    return out;
  }
  int size(bool across, int others) const {
    return across ? c_.depth * in_eights(others) : others * in_eights(c_.depth);
  }
  std::size_t at(bool across, int unit, int others, int row, int k) const {
    const int within = across ? k * in_eights(others) + row : row * in_eights(c_.depth) + k;
    return static_cast<std::size_t>(unit * size(across, others) + within);
  }

  const MmaCase& c_;
  const DType dtype_;
  const int bs_;
  std::vector<std::uint16_t> a_, b_[2];
  std::vector<float> bias_;
};

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
    const MmaSubject subject(cases[i]);
    auto* const kernel = library.function<RunMma>(fmt::format("run{}", i));
    const auto first = subject.run(kernel, true);
    subject.compare(first);
    CHECK(subject.run(kernel, false) == first);
  }
}

}  // namespace
}  // namespace planish::codegen
