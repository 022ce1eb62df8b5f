// Floats of 8 bits in the text of kernels: all 256 codes of each type, and roundings of numbers near all ties, of the
// C++ vectors and of the CUDA functions' arithmetic, which is compiled as C++ here.
#include "codegen/emit/float8.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "codegen/compiled.h"
#include "codegen/emit/vector_math.h"

namespace planish::codegen {
namespace {

/// By the definition of the OCP's formats and of their `fnuz` kin.
struct Float8 {
  DType dtype;
  int mantissa, bias;
  bool fnuz, infinite;

  double value(unsigned code) const {
    const unsigned magnitude = code & 127U, exponent = magnitude >> mantissa,
                   fraction = magnitude & ((1U << mantissa) - 1);
    constexpr double nan = std::numeric_limits<double>::quiet_NaN();
    if (fnuz && code == 0x80) return nan;
    if (!fnuz && infinite && exponent == 31) return fraction != 0 ? nan : code >= 128 ? -INFINITY : INFINITY;
    if (!fnuz && !infinite && magnitude == 127) return nan;
    const double size = exponent == 0
                            ? std::ldexp(fraction, 1 - bias - mantissa)
                            : std::ldexp((1U << mantissa) + fraction, static_cast<int>(exponent) - bias - mantissa);
    return code >= 128 ? -size : size;
  }

  /// To the nearest, ties to even; beyond the largest number as if there were one more, which is infinity or none.
  unsigned code(double x) const {
    const unsigned sign = std::signbit(x) ? 128 : 0, most = fnuz ? 127 : infinite ? 123 : 126;
    const unsigned none = fnuz ? 128 : 127;
    if (std::isnan(x)) return none;
    const double size = std::fabs(x);
    unsigned best = 0;
    for (unsigned c = 0; c <= most; ++c) {
      const double now = std::fabs(value(c) - size), before = std::fabs(value(best) - size);
      if (now < before || (now == before && c % 2 == 0)) best = c;
    }
    const double step = value(most) - value(most - 1), tie = value(most) + step / 2;
    if (size > tie || (size == tie && most % 2 == 1)) return fnuz ? 128 : infinite ? sign | 124 : none;
    return fnuz && best == 0 ? 0 : sign | best;
  }
};
constexpr std::array<Float8, 4> types{{{DType::f8_e4m3, 3, 7, false, false},
                                       {DType::f8_e5m2, 2, 15, false, true},
                                       {DType::f8_e4m3_fnuz, 3, 8, true, false},
                                       {DType::f8_e5m2_fnuz, 2, 16, true, false}}};

/// Ties of all neighbours, and what lies one float beside them; both signs; what is far out, and what is no number.
std::vector<float> samples(const Float8& type) {
  std::vector<float> out{0.0F, INFINITY, NAN, 1e30F, 3e38F, 1e-30F, 1e-40F, 465.0F, 479.0F, 481.0F, 65536.0F};
  for (unsigned c = 0; c < 127; ++c) {
    const double a = type.value(c), b = type.value(c + 1);
    if (!std::isfinite(a)) continue;
    const double step = std::isfinite(b) ? b - a : type.value(c) - type.value(c - 1);
    const auto tie = static_cast<float>(a + step / 2);
    for (const float x : {static_cast<float>(a), tie, std::nextafterf(tie, 0.0F), std::nextafterf(tie, INFINITY),
                          static_cast<float>(a + step / 3)})
      out.push_back(x);
  }
  for (std::uint32_t bits = 0; bits < 0x7f800000U; bits += 77777) out.push_back(std::bit_cast<float>(bits));
  const std::size_t count = out.size();
  for (std::size_t i = 0; i < count; ++i) out.push_back(-out[i]);
  while (out.size() % 16 != 0) out.push_back(1);
  return out;
}

void check(const Float8& type, const std::vector<float>& values, const std::vector<unsigned char>& codes,
           const std::array<float, 256>& decoded) {
  for (unsigned c = 0; c < 256; ++c) {
    const double exact = type.value(c);
    CAPTURE(c);
    CHECK((std::isnan(exact) ? std::isnan(decoded[c]) : decoded[c] == exact));
    if (exact == 0) CHECK(std::signbit(decoded[c]) == std::signbit(exact));
  }
  int wrong = 0;
  float first = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const unsigned exact = type.code(values[i]);
    const bool both_none = std::isnan(type.value(exact)) && std::isnan(type.value(codes[i]));
    if (codes[i] != exact && !both_none && wrong++ == 0) first = values[i];
  }
  CAPTURE(first);
  CHECK(wrong == 0);
}

TEST_CASE("floats of 8 bits: every code and every tie, in C++ vectors and one by one") {
  for (const auto& type : types) {
    const std::string to(name(type.dtype));
    CAPTURE(to);
    const auto values = samples(type);
    for (const int lanes : {4, 8, 16}) {
      CAPTURE(lanes);
      std::string source = "#include <cmath>\n#include <cstdint>\n" +
                           vector_prelude(lanes * 32, lanes, {"load_" + to, "store_" + to, "load_f32"});
      source += fmt::format(R"(
extern "C" void encode(const float* x, unsigned char* y, int n) {{
  for (int i = 0; i < n; i += W) store_{0}(y + i, load_f32(x + i));
}}
extern "C" void encode_each(const float* x, unsigned char* y, int n) {{ for (int i = 0; i < n; ++i) put_{0}(y + i, x[i]); }}
extern "C" void decode(const unsigned char* x, float* y) {{
  for (int i = 0; i < 256; i += W) {{ const vf v = load_{0}(x + i); for (int l = 0; l < W; ++l) y[i + l] = v[l]; }}
}}
extern "C" void decode_each(const unsigned char* x, float* y) {{ for (int i = 0; i < 256; ++i) y[i] = one_{0}(x + i); }}
)",
                            to);
      const Compiled compiled(source,
                              lanes == 4 ? "-std=c++20 -O2 -w -Wno-psabi" : "-std=c++20 -O2 -w -Wno-psabi -mavx2");
      std::array<unsigned char, 256> all{};
      for (unsigned c = 0; c < 256; ++c) all[c] = static_cast<unsigned char>(c);
      for (const std::string suffix : {"", "_each"}) {
        CAPTURE(suffix);
        std::vector<unsigned char> codes(values.size());
        std::array<float, 256> decoded{};
        compiled.function<void(const float*, unsigned char*, int)>("encode" + suffix)(values.data(), codes.data(),
                                                                                      static_cast<int>(values.size()));
        compiled.function<void(const unsigned char*, float*)>("decode" + suffix)(all.data(), decoded.data());
        check(type, values, codes, decoded);
      }
    }
  }
}

TEST_CASE("floats of 8 bits: the same of what GPUs without such instructions compute") {
  std::string source =
      "#include <bit>\n#include <cmath>\n#define __device__\n#define __forceinline__ inline\n"
      "inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }\n"
      "inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }\n";
  source += printing::float8_prelude();
  for (const auto& type : types)
    source += fmt::format(
        "extern \"C\" unsigned char to_{0}(float x) {{ return pl_to_{0}(x); }}\n"
        "extern \"C\" float from_{0}(unsigned char x) {{ return pl_from_{0}(x); }}\n",
        name(type.dtype));
  const Compiled compiled(source, "-std=c++20 -O1 -w");
  for (const auto& type : types) {
    const std::string of(name(type.dtype));
    CAPTURE(of);
    const auto values = samples(type);
    const auto to = compiled.function<unsigned char(float)>("to_" + of);
    const auto from = compiled.function<float(unsigned char)>("from_" + of);
    std::vector<unsigned char> codes;
    for (const float x : values) codes.push_back(to(x));
    std::array<float, 256> decoded{};
    for (unsigned c = 0; c < 256; ++c) decoded[c] = from(static_cast<unsigned char>(c));
    check(type, values, codes, decoded);
  }
}

}  // namespace
}  // namespace planish::codegen
