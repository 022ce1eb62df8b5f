#include "codegen/contraction/pack_text.h"

#include <fmt/format.h>

namespace planish::codegen::contraction {

std::string_view packing_text() {
  return R"(template <typename T> TC_FN T pl_ldg(const T* p) { return __ldg(p); }
template <int UNIT, typename T> TC_FN void tc_read(T (&d)[8], const T* p) {
#pragma unroll
  for (int i = 0; i < 8; i += UNIT) {
    if (UNIT * sizeof(T) == 16) *(uint4*)&d[i] = __ldg((const uint4*)(p + i));
    else if (UNIT * sizeof(T) == 8) *(uint2*)&d[i] = __ldg((const uint2*)(p + i));
    else if (UNIT * sizeof(T) == 4) *(unsigned*)&d[i] = __ldg((const unsigned*)(p + i));
    else for (int j = 0; j < UNIT; ++j) d[i + j] = __ldg(p + i + j);
  }
}
TC_FN float tc_most(float v, int apart) { return fmaxf(v, __shfl_xor_sync(~0u, v, apart)); }
TC_FN void tc_come() { asm volatile("barrier.cluster.arrive;" ::: "memory"); }
TC_FN void tc_await() { asm volatile("barrier.cluster.wait;" ::: "memory"); }
TC_FN float tc_remote(const float* p, int block) {
  float v;
  asm volatile("{.reg .b32 a; mapa.shared::cluster.u32 a, %1, %2; ld.shared::cluster.f32 %0, [a];}"
               : "=f"(v) : "r"(tc_shared(p)), "r"(block) : "memory");
  return v;
}
TC_FN float tc_power(int e) { return __int_as_float((127 + e) << 23); }
struct __align__(16) TcChunk { unsigned short x[8]; };
TC_FN void tc_put(unsigned char* p, const TcChunk& c) { *(uint4*)p = *(const uint4*)&c; }
// The pairs of a chunk, each into a chunk of its own.
TC_FN void tc_put_pairs(unsigned char* p, const TcChunk& c) {
#pragma unroll
  for (int i = 0; i < 4; ++i) *(unsigned*)(p + i * 128) = ((const unsigned*)&c)[i];
}
)";
}

std::string_view scaling_text() {
  return R"(// The exponent that brings `top` into [2^13, 2^14).
TC_FN int tc_exponent(float top) {
  const int e = (int)(__float_as_uint(top) >> 23);
  return top == 0.0f ? 0 : (e == 0 ? 1 : e) - 140;
}
// The power of two that most rows may be multiplied by, and whether one whose largest magnitude this is may: it stays
// below what fp16 holds, and what is lost below fp16's least value is 2^-20 of it, or 2^-31 where operands are split.
TC_FN float tc_usual() { return 64.0f; }
TC_FN int tc_usual_exponent() { return -6; }
TC_FN bool tc_is_usual(float top) { return top == 0.0f || (top >= 0x1p-11f && top < 512.0f); }
// Where the parts are summed together the low one has no scale of its own: 2^-33 of the largest magnitude is lost.
TC_FN float tc_usual_joint() { return 2048.0f; }
TC_FN int tc_usual_exponent_joint() { return -11; }
TC_FN bool tc_is_usual_joint(float top) { return top == 0.0f || (top >= 0.125f && top < 16.0f); }
TC_FN unsigned short tc_high(float x, float s) {
  const unsigned short hi = pl_to_f16(s);
  return x != 0.0f && (hi & 0x7fff) == 0 ? (unsigned short)(hi | 1) : hi;
}
TC_FN unsigned short tc_low(float s, unsigned short hi) {
  return tc_finite(s) ? pl_to_f16((s - pl_from_f16(hi)) * 2048.0f) : (unsigned short)0;
}
TC_FN unsigned short tc_low_joint(float s, unsigned short hi) {
  return tc_finite(s) ? pl_to_f16(s - pl_from_f16(hi)) : (unsigned short)0;
}
)";
}

void print_rounding(PlaceWriter& writer, const TilePlan& plan, std::string_view v, std::string_view factor) {
  writer.line("#pragma unroll");
  if (!scales(plan)) {
    writer.line(fmt::format("for (int j = 0; j < 8; ++j) hi.x[j] = {}({}[j]);",
                            plan.element == Element::f16 ? "pl_to_f16" : "pl_to_bf16", v));
    return;
  }
  writer.open("for (int j = 0; j < 8; ++j) {");
  writer.line(fmt::format("const float s = {}[j] * {};", v, factor));
  writer.line(fmt::format("hi.x[j] = tc_high({}[j], s);", v));
  if (parts(plan) == 2)
    writer.line(fmt::format("lo.x[j] = tc_low{}(s, hi.x[j]);", plan.scheme == Scheme::joint ? "_joint" : ""));
  writer.close();
}

}  // namespace planish::codegen::contraction
