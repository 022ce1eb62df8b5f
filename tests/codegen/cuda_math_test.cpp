// Accuracy of the short forms against long double, over every binade and the special values. The machine's
// approximations are taken at their worst: all results off by what is documented, up, down and not at all.
#include "codegen/emit/cuda_math.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "activation_samples.h"
#include "codegen/compiled.h"
#include "codegen/genome.h"

namespace planish::codegen {
namespace {

/// One unit of rcp.approx, two of ex2.approx; denormals are zeros to both.
constexpr const char* machine = R"(#include <cmath>
#include <cstring>
#define PL_FN static inline
static int off;
static float ftz(float x) { return fabsf(x) < 0x1p-126f ? copysignf(0.0f, x) : x; }
static float moved(float x, int by) {
  unsigned b;
  if (!std::isfinite(x) || x == 0.0f) return x;
  std::memcpy(&b, &x, 4);
  b += (unsigned)by;
  std::memcpy(&x, &b, 4);
  return x;
}
PL_FN float pl_max(float a, float b) { return (a > b) | (a != a) ? a : b; }
PL_FN float pl_min(float a, float b) { return (a < b) | (a != a) ? a : b; }
PL_FN float pl_fast_rcp(float x) { return ftz(moved(1.0f / ftz(x), off)); }
PL_FN float pl_fast_exp2(float x) { return moved(ftz((float)exp2((double)ftz(x))), 2 * off); }
)";

struct Form {
  const char* name;
  const char* text;  ///< of x
  std::function<long double(long double)> exact;
  float most;            ///< magnitude up to which the form holds
  double ulp, at_worst;  ///< allowed with an exact machine, and with one at its worst
};

const std::vector<Form>& forms() {
  static const std::vector<Form> all = {
      {"sigmoid", "pl_full_sigmoid(x)", [](long double x) { return 1 / (1 + expl(-x)); }, INFINITY, 2.2, 2.2},
      {"tanh", "pl_short_tanh(x, 1, 1)", [](long double x) { return tanhl(x); }, INFINITY, 5.5, 7.5},
      {"capped", "pl_short_tanh(x, 1.0 / 30, 30)", [](long double x) { return 30 * tanhl(x / 30); }, INFINITY, 5.5,
       7.5},
      {"scaled", "pl_short_tanh(x, 0.7978845608028654, 0.25)",
       [](long double x) { return 0.25L * tanhl(x * 0.7978845608028654L); }, INFINITY, 6, 7},
      {"normal", "pl_narrow_normal(x)", [](long double x) { return erfcl(-x / sqrtl(2)); }, INFINITY, 140, 145},
      {"near", "pl_near_tanh(x, 1, 1)", [](long double x) { return tanhl(x); }, 0.9F, 1.2, 1.2},
      {"near capped", "pl_near_tanh(x, 1.0 / 30, 30)", [](long double x) { return 30 * tanhl(x / 30); }, 27, 1.2, 1.2},
      {"softplus", "pl_short_softplus(x)",
       [](long double x) { return fmaxl(x, 0) + log1pl(expl(-fabsl(x))) + (std::isnan(x) ? x : 0); }, INFINITY, 3, 7},
      {"tanh of softplus", "pl_short_tanh_softplus(x)",
       [](long double x) { return tanhl(fmaxl(x, 0) + log1pl(expl(-fabsl(x))) + (std::isnan(x) ? x : 0)); }, INFINITY,
       5, 10},
  };
  return all;
}

/// |got - want| in units of the last place of fp32 at `want`. What is below the normal numbers may be 0.
double ulps(float got, long double want) {
  if (std::isnan(want) || std::isnan(got)) return std::isnan(want) && std::isnan(got) ? 0 : 1e9;
  if (std::isinf(want) || std::isinf(got)) return got == static_cast<float>(want) ? 0 : 1e9;
  if (fabsl(want) < 0x1p-126L) return fabsl(got - want) < 0x1p-126L ? 0 : 1e9;
  return static_cast<double>(fabsl(got - want) / scalbnl(1, std::ilogb(static_cast<double>(want)) - 23));
}

/// Both signs of every binade and of the denormal numbers, and what is special.
std::vector<float> points() {
  std::mt19937 rng(3);
  std::vector<float> x = {0.0F, -0.0F, INFINITY, -INFINITY, NAN, 3.4028235e38F, -3.4028235e38F};
  for (std::uint32_t exponent = 0; exponent < 255; ++exponent) {
    // Most of what differs lies between 2^-12 and 2^8.
    const int count = exponent > 115 && exponent < 135 ? 8192 : 64;
    for (int i = 0; i < count; ++i) {
      const std::uint32_t bits = (rng() & 0x807fffffU) | exponent << 23;
      float f = 0;
      std::memcpy(&f, &bits, 4);
      x.push_back(f);
    }
  }
  return x;
}

}  // namespace

TEST_CASE("short forms hold their stated accuracy on a machine at its worst") {
  std::string source = machine;
  source += "PL_FN float pl_fast_exp(float x) { return pl_fast_exp2(x * 1.44269504f); }\n";
  source += printing::math_prelude();
  for (std::size_t i = 0; i < forms().size(); ++i) {
    source += fmt::format(
        "extern \"C\" void f{}(const float* in, float* out, long n, int by) {{ off = by; for (long i = 0; i < n; ++i) "
        "{{ const float x = in[i]; out[i] = {}; }} }}\n",
        i, forms()[i].text);
  }
  const Compiled lib(source, "-O2 -march=native -ffp-contract=off -w -std=c++17");
  const auto all = points();
  for (std::size_t i = 0; i < forms().size(); ++i) {
    const Form& form = forms()[i];
    auto* f = lib.function<void(const float*, float*, long, int)>(fmt::format("f{}", i));
    std::vector<float> x;
    std::ranges::copy_if(all, std::back_inserter(x),
                         [&](float v) { return std::isnan(v) || std::fabs(v) <= form.most; });
    std::vector<float> y(x.size());
    for (const int by : {0, -1, 1}) {
      f(x.data(), y.data(), static_cast<long>(x.size()), by);
      double worst = 0;
      float at = 0;
      float got = 0;
      for (std::size_t k = 0; k < x.size(); ++k) {
        const double u = ulps(y[k], form.exact(x[k]));
        if (u > worst) worst = u, at = x[k], got = y[k];
      }
      INFO(std::string(form.name), " machine off by ", by, ": ", worst, " ulp at ", at, " got ", got, " want ",
           static_cast<double>(form.exact(at)));
      CHECK(worst <= (by == 0 ? form.ulp : form.at_worst));
    }
    // Functions that end at a limit do not pass it.
    if (std::string_view(form.name) == "tanh")
      CHECK(std::ranges::none_of(y, [](float v) { return std::fabs(v) > 1.0F; }));
  }
}

TEST_CASE("a capped value is one function, and one of small arguments where all of a chunk's are small") {
  Device device;
  device.target = &backend::cuda();
  device.arch = "sm_90a";
  const auto sample = samples::soft_cap(64, 8192, 30);
  Genome genome;
  for (const auto& one : genes(sample.kernel, device)) genome[one.name] = one.choices.front();
  genome["online"] = 1;
  const auto body = [&](std::int64_t fast) {
    genome["fast"] = fast;
    const auto emitted = emit(sample.kernel, device, genome);
    REQUIRE(emitted.has_value());
    return emitted->source.substr(emitted->source.find("// ---- kernel ----"));
  };
  const auto has = [](const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; };
  CHECK(has(body(0), "tanhf("));
  CHECK(has(body(1), "pl_short_tanh(v0, 0x1.1111111111111p-5, 0x1.ep+4)"));
  CHECK_FALSE(has(body(1), "pl_near_tanh"));
  CHECK(has(body(2), "pl_near_tanh(v0, 0x1.1111111111111p-5, 0x1.ep+4)"));
  CHECK(has(body(2), "if (far0 <= 0x1.bp+4f) {"));
}

TEST_CASE("a tanh of softplus is one function, and 16-bit results have the machine's tanh") {
  Device device;
  device.target = &backend::cuda();
  device.arch = "sm_90a";
  const auto body = [&](std::int64_t kind, DType dtype) {
    const auto sample = samples::activation(4096, kind, dtype);
    Genome genome;
    for (const auto& one : genes(sample.kernel, device)) genome[one.name] = one.choices.back();
    genome["fast"] = 1;
    genome["unroll"] = 1;
    genome["threads"] = 64;
    genome["persistent"] = 0;
    const auto emitted = emit(sample.kernel, device, genome);
    REQUIRE(emitted.has_value());
    return emitted->source.substr(emitted->source.find("// ---- kernel ----"));
  };
  const auto has = [](const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; };
  CHECK(has(body(1, DType::bf16), "pl_short_tanh_softplus(v0)"));
  CHECK(has(body(2, DType::f32), "pl_short_softplus(v0)"));
  CHECK(has(body(3, DType::f32), "pl_short_tanh("));
  CHECK(has(body(3, DType::bf16), "pl_fast_tanh("));
  CHECK_FALSE(has(body(3, DType::bf16), "pl_short_tanh("));
}

}  // namespace planish::codegen
