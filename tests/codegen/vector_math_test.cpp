// Accuracy of the emitted vector maths against long double, over millions of points and the special values.
#include "codegen/emit/vector_math.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/compiled.h"

namespace planish::codegen {
namespace {

struct Case {
  const char* name;
  std::function<long double(long double)> exact;
  float lo, hi;  ///< half of the points are uniform here, the other half are random bit patterns
  double ulp;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"exp_", [](long double x) { return expl(x); }, -20, 20, 1.5},
      {"exp2_", [](long double x) { return exp2l(x); }, -20, 20, 1.5},
      {"expm1_", [](long double x) { return expm1l(x); }, -3, 3, 1},
      {"log_", [](long double x) { return logl(x); }, 0, 4, 1.5},
      {"log2_", [](long double x) { return log2l(x); }, 0, 4, 1},
      {"log10_", [](long double x) { return log10l(x); }, 0, 4, 1},
      {"log1p_", [](long double x) { return log1pl(x); }, -1, 3, 1},
      {"sigmoid_", [](long double x) { return 1 / (1 + expl(-x)); }, -20, 20, 2.2},
      {"tanh_", [](long double x) { return tanhl(x); }, -4, 4, 2},
      {"erf_", [](long double x) { return erfl(x); }, -4, 4, 2},
      {"erfc_", [](long double x) { return erfcl(x); }, -5, 10, 1},
      {"sin_", [](long double x) { return sinl(x); }, -20, 20, 1},
      {"cos_", [](long double x) { return cosl(x); }, -20, 20, 1},
      {"tan_", [](long double x) { return tanl(x); }, -20, 20, 1},
      {"sinh_", [](long double x) { return sinhl(x); }, -4, 4, 1},
      {"cosh_", [](long double x) { return coshl(x); }, -4, 4, 1},
      {"asin_", [](long double x) { return asinl(x); }, -1, 1, 1},
      {"acos_", [](long double x) { return acosl(x); }, -1, 1, 1},
      {"atan_", [](long double x) { return atanl(x); }, -4, 4, 1},
      {"asinh_", [](long double x) { return asinhl(x); }, -4, 4, 1},
      {"acosh_", [](long double x) { return acoshl(x); }, 1, 4, 1},
      {"atanh_", [](long double x) { return atanhl(x); }, -1, 1, 1},
      {"sqrt_", [](long double x) { return sqrtl(x); }, 0, 4, 0.51},
      {"floor_", [](long double x) { return floorl(x); }, -5, 5, 0},
      {"ceil_", [](long double x) { return ceill(x); }, -5, 5, 0},
      {"trunc_", [](long double x) { return truncl(x); }, -5, 5, 0},
      {"rint_", [](long double x) { return rintl(x); }, -5, 5, 0},
  };
  return all;
}

/// |got - want| in units of the last place of fp32 at `want`.
double ulps(float got, long double want) {
  const float rounded = static_cast<float>(want);
  if (std::isnan(rounded)) return std::isnan(got) ? 0 : 1e9;
  if (std::isnan(got)) return 1e9;
  if (std::isinf(rounded) || std::isinf(got)) {
    if (rounded == got) return 0;
    // Either side of the overflow threshold counts as one step.
    return std::fabs(want) > 3.4028233e38L && std::fabs(got) > 3.402823e38f &&
                   std::signbit(got) == std::signbit(rounded)
               ? 0.75
               : 1e9;
  }
  if (want == 0) return got == 0 && std::signbit(got) == std::signbit(rounded) ? 0 : 1e9;
  const int e = std::max(ilogbl(want), -126);
  return static_cast<double>(fabsl(got - want) / scalbnl(1, e - 23));
}

constexpr std::string_view flags =
    "-O2 -march=native -std=c++17 -fno-math-errno -fno-trapping-math -Wall -Wno-psabi -Wno-unused-function";
using OfOne = void(const float*, float*, long long);
using OfTwo = void(const float*, const float*, float*, long long);

std::string array_source(int bits, int lanes) {
  std::set<std::string, std::less<>> names = {"load_f32", "store_f32", "pow_", "atan2_", "hypot_", "bf16", "f16"};
  for (const auto& c : cases()) names.insert(c.name);
  std::string s = vector_prelude(bits, lanes, names);
  for (const auto& c : cases()) {
    s += fmt::format(
        "extern \"C\" void v_{0}(const float* x, float* y, i64 n) {{ for (i64 i = 0; i < n; i += W) store_f32(y + i, "
        "{0}(load_f32(x + i))); }}\n"
        "extern \"C\" void s_{0}(const float* x, float* y, i64 n) {{ for (i64 i = 0; i < n; ++i) y[i] = {0}(x[i]); "
        "}}\n",
        c.name);
  }
  for (const char* f : {"pow_", "atan2_", "hypot_"}) {
    s += fmt::format(
        "extern \"C\" void v_{0}(const float* x, const float* z, float* y, i64 n) {{ for (i64 i = 0; i < n; i += W) "
        "store_f32(y + i, {0}(load_f32(x + i), load_f32(z + i))); }}\n",
        f);
  }
  for (const char* f : {"bf16", "f16"}) {
    s += fmt::format(
        "extern \"C\" void v_{0}(const float* x, float* y, i64 n) {{ for (i64 i = 0; i < n; i += W) store_f32(y + i, "
        "round_{0}(load_f32(x + i))); }}\n",
        f);
  }
  return s;
}

std::vector<float> points(float lo, float hi, std::size_t n) {
  std::mt19937_64 rng(7);
  std::uniform_real_distribution<float> uniform(lo, hi);
  std::vector<float> x = {0.0f,          -0.0f,          INFINITY,    -INFINITY, NAN,        1.0f,
                          -1.0f,         0.5f,           -0.5f,       1e-45f,    -1e-45f,    1.17549435e-38f,
                          3.4028235e38f, -3.4028235e38f, 88.72283f,   88.72284f, -87.33655f, -103.97f,
                          -103.98f,      -104.1f,        128.0f,      -149.0f,   -150.1f,    0.99999994f,
                          1.0000001f,    8388607.5f,     -8388607.5f, 2.5f,      3.5f};
  while (x.size() < n / 2) x.push_back(uniform(rng));
  while (x.size() < n) {
    const auto raw = static_cast<std::uint32_t>(rng());
    float f;
    std::memcpy(&f, &raw, 4);
    x.push_back(f);
  }
  return x;
}

void check(int bits, int lanes, std::size_t n) {
  const Compiled b(array_source(bits, lanes), flags);
  for (const auto& c : cases()) {
    const auto x = points(c.lo, c.hi, n);
    std::vector<float> y(n);
    for (const char* form : {"v_", "s_"}) {
      auto* f = b.function<OfOne>(std::string(form) + c.name);
      const std::size_t count = form[0] == 'v' ? n : n / 8;
      f(x.data(), y.data(), static_cast<long long>(count));
      double worst = 0;
      float at = 0, got = 0;
      for (std::size_t i = 0; i < count; ++i) {
        const double u = ulps(y[i], c.exact(x[i]));
        if (u > worst) worst = u, at = x[i], got = y[i];
      }
      INFO(std::string(form), std::string(c.name), " bits ", bits, " worst ", worst, " ulp at ", at, " got ", got,
           " want ", static_cast<double>(c.exact(at)));
      CHECK(worst <= c.ulp);
    }
  }
  const auto x = points(-10, 10, n);
  auto z = x;
  std::shuffle(z.begin(), z.end(), std::mt19937_64(3));
  // Specials against each other.
  for (std::size_t i = 0; i < 29 * 29 && i < n; ++i) z[i] = x[i % 29];
  auto w = x;
  for (std::size_t i = 0; i < 29 * 29 && i < n; ++i) w[i] = x[i / 29];
  for (std::size_t i = n / 4; i < n / 3; ++i) z[i] = std::round(z[i]);
  for (std::size_t i = n / 5; i < n / 4; ++i) w[i] = std::fabs(w[i]);
  std::vector<float> y(n);
  const std::vector<std::pair<std::string, long double (*)(long double, long double)>> two = {
      {"pow_", powl}, {"atan2_", atan2l}, {"hypot_", hypotl}};
  for (const auto& [name, exact] : two) {
    auto* f = b.function<OfTwo>("v_" + name);
    f(w.data(), z.data(), y.data(), static_cast<long long>(n));
    double worst = 0;
    float a = 0, c = 0, got = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const double u = ulps(y[i], exact(w[i], z[i]));
      if (u > worst) worst = u, a = w[i], c = z[i], got = y[i];
    }
    INFO(name, " worst ", worst, " ulp at ", a, ", ", c, " got ", got, " want ", static_cast<double>(exact(a, c)));
    CHECK(worst <= 1);
  }
  auto* half = b.function<OfOne>("v_f16");
  half(x.data(), y.data(), static_cast<long long>(n));
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const auto want = static_cast<float>(static_cast<_Float16>(x[i]));
    wrong += std::memcmp(&want, &y[i], 4) != 0 && !(std::isnan(want) && std::isnan(y[i]));
  }
  CHECK(wrong == 0);
  auto* brain = b.function<OfOne>("v_bf16");
  brain(x.data(), y.data(), static_cast<long long>(n));
  for (std::size_t i = 0; i < n; ++i) {
    if (std::isnan(x[i])) {
      wrong += !std::isnan(y[i]);
      continue;
    }
    // Nearest multiple of 2^(e-7), ties to even: what rint does after scaling.
    const int e = x[i] == 0 || std::isinf(x[i]) ? 0 : std::max(std::ilogb(x[i]), -126);
    const auto want = static_cast<float>(scalbnl(rintl(scalbnl(x[i], 7 - e)), e - 7));
    wrong += want != y[i];
  }
  CHECK(wrong == 0);
}

TEST_CASE("vector maths holds its stated accuracy at every width") {
  check(512, 16, 1 << 19);
  check(512, 8, 1 << 14);
  check(256, 8, 1 << 17);
  check(128, 4, 1 << 14);
}

TEST_CASE("only the needed sections are emitted") {
  const auto s = vector_prelude(512, 16, {"exp_"});
  CHECK(s.find("exp_(V x)") != std::string::npos);
  CHECK(s.find("scale_f(V p") != std::string::npos);
  CHECK(s.find("erf_") == std::string::npos);
}

}  // namespace
}  // namespace planish::codegen
