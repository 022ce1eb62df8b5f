#include "codegen/emit/cuda_math.h"

#include <fmt/format.h>

#include <cmath>
#include <numbers>
#include <optional>

namespace planish::codegen::printing {
namespace {

/// Up to where pl_near_tanh holds.
constexpr double near_tanh = 0.9;

const Node& math_node(const Kernel& kernel, int id) {
  return kernel.nodes[static_cast<std::size_t>(id)];
}

const Node* operand(const Kernel& kernel, const Node& node, std::size_t which, Op op) {
  const Node& arg = math_node(kernel, node.args[which]);
  return arg.op == op && arg.dtype == DType::f32 ? &arg : nullptr;
}

/// tanh(x · in) · out.
struct ScaledTanh {
  int x = 0;
  double in = 1, out = 1;
};

/// Constants whose powers stay among the normal numbers when they become part of the coefficients.
std::optional<double> moderate(const Kernel& kernel, int id) {
  constexpr double most = 256;
  const Node& node = math_node(kernel, id);
  if (node.op != Op::constant || !(node.value >= 1 / most && node.value <= most)) return std::nullopt;
  return node.value;
}

ScaledTanh inside_tanh(const Kernel& kernel, const Node& tanh) {
  ScaledTanh out{tanh.args[0]};
  const Node& arg = math_node(kernel, out.x);
  if (arg.dtype != DType::f32) return out;
  if (arg.op == Op::div) {
    if (const auto c = moderate(kernel, arg.args[1])) out = {arg.args[0], 1 / *c, 1};
  } else if (arg.op == Op::mul) {
    for (const std::size_t i : {0U, 1U}) {
      if (const auto c = moderate(kernel, arg.args[i])) return {arg.args[1 - i], *c, 1};
    }
  }
  return out;
}

/// The node as a tanh, or as a multiple of one.
std::optional<ScaledTanh> scaled_tanh(const Kernel& kernel, const Node& node) {
  if (node.dtype != DType::f32) return std::nullopt;
  if (node.op == Op::tanh) return inside_tanh(kernel, node);
  if (node.op != Op::mul) return std::nullopt;
  for (const std::size_t i : {0U, 1U}) {
    const Node* const tanh = operand(kernel, node, i, Op::tanh);
    const auto c = moderate(kernel, node.args[1 - i]);
    if (tanh == nullptr || !c) continue;
    ScaledTanh out = inside_tanh(kernel, *tanh);
    out.out = *c;
    return out;
  }
  return std::nullopt;
}

/// x of log(1 + exp(x)).
std::optional<int> inside_softplus(const Kernel& kernel, const Node& node) {
  if (node.op != Op::log1p || node.dtype != DType::f32) return std::nullopt;
  const Node* const exp = operand(kernel, node, 0, Op::exp);
  return exp == nullptr ? std::nullopt : std::optional(exp->args[0]);
}

/// The same where x itself stands for large x.
std::optional<int> inside_guarded_softplus(const Kernel& kernel, const Node& node) {
  constexpr double large = 15;
  if (node.op != Op::select) return inside_softplus(kernel, node);
  const Node& test = math_node(kernel, node.args[0]);
  const auto x = inside_softplus(kernel, math_node(kernel, node.args[2]));
  if (!x || node.args[1] != *x || test.op != Op::gt || test.args[0] != *x) return std::nullopt;
  const Node& limit = math_node(kernel, test.args[1]);
  return limit.op == Op::constant && limit.value >= large ? x : std::nullopt;
}

bool near_to(const Node& node, double value) {
  return node.op == Op::constant && std::abs(node.value - value) <= 1e-6 * value;
}

/// x of erf(x / √2).
std::optional<int> inside_normal(const Kernel& kernel, const Node& erf) {
  const Node& arg = math_node(kernel, erf.args[0]);
  if (arg.dtype != DType::f32) return std::nullopt;
  if (arg.op == Op::div && near_to(math_node(kernel, arg.args[1]), std::numbers::sqrt2)) return arg.args[0];
  if (arg.op != Op::mul) return std::nullopt;
  for (const std::size_t i : {0U, 1U}) {
    if (near_to(math_node(kernel, arg.args[i]), 1 / std::numbers::sqrt2)) return arg.args[1 - i];
  }
  return std::nullopt;
}

/// Of 1 + erf(x / √2).
std::string normal_form(const Kernel& kernel, int id, const Speller& speller) {
  const Node& node = math_node(kernel, id);
  if (node.op != Op::add || node.dtype != DType::f32) return {};
  for (const std::size_t i : {0U, 1U}) {
    const Node* const erf = operand(kernel, node, i, Op::erf);
    if (erf == nullptr || !near_to(math_node(kernel, node.args[1 - i]), 1)) continue;
    if (const auto x = inside_normal(kernel, *erf)) return fmt::format("pl_narrow_normal({})", speller.name(*x));
  }
  return {};
}

}  // namespace

std::string short_form(const Kernel& kernel, int id, const Speller& speller, const FormFacts& facts) {
  if (facts.narrow) {
    if (std::string form = normal_form(kernel, id, speller); !form.empty()) return form;
  }
  if (!facts.fast) return {};
  const Node& node = math_node(kernel, id);
  if (node.op == Op::tanh && node.dtype == DType::f32) {
    if (const auto x = inside_guarded_softplus(kernel, math_node(kernel, node.args[0])))
      return fmt::format("pl_short_tanh_softplus({})", speller.name(*x));
  }
  if (const auto x = inside_softplus(kernel, node)) return fmt::format("pl_short_softplus({})", speller.name(*x));
  if (facts.narrow) return {};
  if (const auto t = scaled_tanh(kernel, node)) {
    return fmt::format("{}({}, {:a}, {:a})", facts.near ? "pl_near_tanh" : "pl_short_tanh", speller.name(t->x), t->in,
                       t->out);
  }
  return {};
}

std::vector<NearArgument> near_arguments(const Kernel& kernel, std::span<const int> nodes) {
  std::vector<NearArgument> out;
  for (const int id : nodes) {
    const Node& node = math_node(kernel, id);
    if (node.op != Op::tanh || node.dtype != DType::f32) continue;
    if (inside_guarded_softplus(kernel, math_node(kernel, node.args[0]))) continue;
    const ScaledTanh t = inside_tanh(kernel, node);
    out.push_back({t.x, near_tanh / t.in});
  }
  return out;
}

std::string_view cuda_function(Op op, bool fast, bool narrow) {
  if (op == Op::sigmoid) return fast ? "pl_fast_sigmoid" : "pl_full_sigmoid";
  if (!fast) return {};
  switch (op) {
    case Op::exp:
      return "pl_fast_exp";
    case Op::exp2:
      return "pl_fast_exp2";
    case Op::sqrt:
      return "pl_fast_sqrt";
    case Op::tanh:
      return narrow ? "pl_fast_tanh" : "";
    default:
      return {};
  }
}

std::string_view math_prelude() {
  return R"(// 1 / (1 + exp(-x)), as exact as a division: of a divisor from 1 to infinity, which needs no branches. A quarter of it
// has an inverse among the normal numbers.
PL_FN float pl_full_sigmoid(float x) {
  const float d = 1.0f + expf(-x), q = 0.25f * d, r = pl_fast_rcp(q);
  return d > 0x1.fffffep+127f ? 0.0f : 0.25f * fmaf(r, fmaf(-q, r, 1.0f), r);
}
// tanh(x * in) * out; in and out are positive constants, which the compiler multiplies into the coefficients. One
// rational function of x * x, fitted to be a little above 1 where tanh rounds to 1, and cut there.
PL_FN float pl_short_tanh(float x, double in, double out) {
  const double s = in * in, first = out * in;
  const float a = pl_min(fabsf(x), (float)(9.0 / in)), u = a * a;
  float p = fmaf(u, (float)(0x1.dc8f46p-27 * first * s * s * s * s), (float)(0x1.5fcba2p-16 * first * s * s * s));
  p = fmaf(u, p, (float)(0x1.cd0046p-9 * first * s * s));
  p = fmaf(u, p, (float)(0x1.126a1cp-3 * first * s));
  p = fmaf(a * u, p, a * (float)first);
  float q = fmaf(u, (float)(0x1.ac98e2p-21 * s * s * s * s), (float)(0x1.5c3d54p-12 * s * s * s));
  q = fmaf(u, q, (float)(0x1.a94f76p-6 * s * s));
  q = fmaf(u, q, (float)(0x1.de8a5ep-2 * s));
  q = fmaf(u, q, 1.0f);
  return copysignf(pl_min(p * pl_fast_rcp(q), (float)out), x);
}
// The same for |x * in| <= 0.9.
PL_FN float pl_near_tanh(float x, double in, double out) {
  const double s = in * in, first = out * in;
  const float u = x * x;
  float p = fmaf(u, (float)(0x1.55d3845f761d5p-10 * first * s * s * s * s * s * s), (float)(-0x1.c194d2db6cb5ap-8 * first * s * s * s * s * s));
  p = fmaf(u, p, (float)(0x1.567e4fa0a67dfp-6 * first * s * s * s * s));
  p = fmaf(u, p, (float)(-0x1.b81624975fa62p-5 * first * s * s * s));
  p = fmaf(u, p, (float)(0x1.11017a7be524fp-3 * first * s * s));
  p = fmaf(u, p, (float)(-0x1.5555040969f7bp-2 * first * s));
  return fmaf(x * u, p, x * (float)first);
}
// exp(x) for |x| < 128: what x * log2(e) loses in its rounding is made good after. Results that are no normal numbers are 0.
PL_FN float pl_close_exp(float x) {
  const float t = x * 0x1.715476p+0f, lost = fmaf(x, 0x1.4ae0cp-26f, fmaf(x, 0x1.715476p+0f, -t)), e = pl_fast_exp2(t);
  return fmaf(e, lost * 0x1.62e43p-1f, e);
}
// log(1 + exp(x)) = max(x, 0) + log(1 + t), t = exp(-|x|) from 0 to 1.
PL_FN float pl_short_softplus(float x) {
  const float t = pl_close_exp(pl_max(-fabsf(x), -104.0f));
  float p = fmaf(t, -0x1.b2f2e553a558fp-9f, 0x1.4b06ba860e256p-6f);
  p = fmaf(t, p, -0x1.d861c0cca1808p-5f);
  p = fmaf(t, p, 0x1.b5790f5739a7dp-4f);
  p = fmaf(t, p, -0x1.3a7a4cd213250p-3f);
  p = fmaf(t, p, 0x1.935c8d8a09bd9p-3f);
  p = fmaf(t, p, -0x1.ff26dd9e2368fp-3f);
  p = fmaf(t, p, 0x1.554def5af64c6p-2f);
  p = fmaf(t, p, -0x1.ffffd2df8e6c1p-2f);
  p = fmaf(t, p, 1.0f);
  return fmaf(t, p, pl_max(x, 0.0f));
}
// 1 + erf(x / sqrt(2)) to 2^-17, for results of 16 bits: exp(-x * x / 2) times a polynomial in 1 / (1 + 0.3 |x|), fitted to
// erfc(|x| / sqrt(2)) * exp(x * x / 2), on the side where that is small.
PL_FN float pl_narrow_normal(float x) {
  const float t = pl_fast_rcp(fmaf(fabsf(x), 0x1.333334p-2f, 1.0f));
  float p = fmaf(t, -0x1.5a7e42p-3f, 0x1.ecb12ap-2f);
  p = fmaf(t, p, -0x1.8e7d78p-4f);
  p = fmaf(t, p, 0x1.516fdap-2f);
  p = fmaf(t, p, 0x1.b50feep-3f);
  p = fmaf(t, p, 0x1.f0bdbap-3f);
  p = fmaf(t, p, -0x1.4ea82p-13f);
  const float far = p * pl_fast_exp2(x * x * -0x1.715476p-1f);
  return x < 0.0f ? far : 2.0f - far;
}
// tanh(log(1 + e)) = (e * e + 2 e) / (e * e + 2 e + 2), e = exp(x); 1 from x = 20 on.
PL_FN float pl_short_tanh_softplus(float x) {
  const float e = pl_close_exp(pl_max(pl_min(x, 20.0f), -104.0f)), n = e * (e + 2.0f);
  return n * pl_fast_rcp(n + 2.0f);
}
)";
}

}  // namespace planish::codegen::printing
