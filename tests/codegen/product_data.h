#pragma once

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/half_numbers.h"

/// Factors of products in 16 bits whose kernels run on a CPU, and the definition in double: what the tests of both
/// device files of products share. Results are the parts multiplied with each other, and a bias of columns.
namespace planish::codegen {

inline int in_eights(int n) {
  return (n + 7) / 8 * 8;
}

/// Of Functors: results and where they go.
inline std::string product_results_text(int parts, int groups, std::string_view type) {
  return fmt::format(
      "  template <int words> void result(u32 (&out)[words], int unit, int row, int column, const float "
      "(&sums)[{0}][2]) const {{\n    float v[2];\n    for (int e = 0; e < 2; ++e) {{\n      v[e] = sums[0][e];\n      "
      "for (int p = 1; p < {0}; ++p) v[e] *= sums[p][e];\n      v[e] += bias[min(column + e, Policy::columns - 1)];\n  "
      "  }}\n    if (words == 1) out[0] = pack_{2}(v[0], v[1]); else memcpy(out, v, 8);\n  }}\n  char* place(int unit, "
      "int row, int column) const {{ return out + (((long long)({1} ? 0 : unit) * Policy::rows + row) * "
      "Policy::columns + column) * Policy::result_bytes; }}\n}};\n}}\n",
      parts, groups, type);
}

/// Case: rows, columns, depth, units, ends, parts, tile_rows, tile_columns, splits, a_across, b_across, result_bytes.
template <typename Case>
class ProductData {
 public:
  ProductData(const Case& c, DType dtype)
      : c_(c), dtype_(dtype), bs_(c.ends.empty() ? c.units : static_cast<int>(c.ends.size())) {
    a_ = numbers(c.units * size(c.a_across, c.rows), 1);
    b_[0] = numbers(bs_ * size(c.b_across, c.columns), 2);
    b_[1] = numbers(bs_ * size(c.b_across, c.columns), 3);
    for (int i = 0; i < c.columns; ++i) bias_.push_back(static_cast<float>(i % 5));
  }

  /// The results' bytes; the counters, so many for each tile, are as they were. `kernel` takes the factors, bias,
  /// results, ends of groups, memory for parts and counters, and says whether it ended well.
  template <typename Kernel>
  std::vector<char> run(const Kernel& kernel, int counters) const {
    const int groups = static_cast<int>(c_.ends.size());
    std::vector<char> out(static_cast<std::size_t>(c_.units * c_.rows * c_.columns * c_.result_bytes), '\x7f');
    const int tiles = (c_.rows / c_.tile_rows + 2) * (c_.columns / c_.tile_columns + 2) * c_.units * (groups + 1);
    std::vector<float> partial(static_cast<std::size_t>(tiles * c_.splits * c_.tile_rows * c_.tile_columns * c_.parts),
                               NAN);
    std::vector<unsigned> arrived(static_cast<std::size_t>(tiles * counters), 0);
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

  const Case& c_;
  const DType dtype_;
  const int bs_;
  std::vector<std::uint16_t> a_, b_[2];
  std::vector<float> bias_;
};

}  // namespace planish::codegen
