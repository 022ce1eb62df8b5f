#pragma once

/// What printed epilogues call, for a compiler of C++: text to stand before them.
namespace planish::codegen {

inline constexpr const char* epilogue_machine = R"(#include <algorithm>
#include <cmath>
#include <cstdint>
using std::max;
using std::min;
#define TC_FN static inline
#define __device__
#define __restrict__
#define __ldg(p) (*(p))
#define __stcs(p, v) (*(p) = (v))
struct float2 { float x, y; };
struct float4 { float x, y, z, w; };
static inline float2 make_float2(float x, float y) { return {x, y}; }
static inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
static inline int tc_zero() { return 0; }
#define PL_FN static inline
PL_FN float pl_fast_rcp(float x) { return 1.0f / x; }
PL_FN float pl_fast_exp2(float x) { return exp2f(x); }
PL_FN float pl_fast_exp(float x) { return expf(x); }
PL_FN float pl_fast_sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }
PL_FN float pl_fast_sqrt(float x) { return sqrtf(x); }
PL_FN float pl_fast_tanh(float x) { return tanhf(x); }
PL_FN float pl_fast_div(float a, float b) { return a / b; }
)";

/// Behind it: what the lanes of one warp ask each other, where each is a thread of its own that has set `own`.
inline constexpr const char* epilogue_warp = R"(#include <barrier>
#include <cstring>
#include <thread>
#include <vector>
static inline float __fmul_rn(float a, float b) { return a * b; }
static std::barrier<> meet(32);
static unsigned char held[32][8];
static thread_local int own;
template <typename T> T __shfl_sync(unsigned, T v, int from) {
  std::memcpy(held[own], &v, sizeof v);
  meet.arrive_and_wait();
  std::memcpy(&v, held[from], sizeof v);
  meet.arrive_and_wait();
  return v;
}
template <typename T> T __shfl_xor_sync(unsigned mask, T v, int other) { return __shfl_sync(mask, v, own ^ other); }
static inline unsigned __ballot_sync(unsigned, bool bit) {
  held[own][0] = bit;
  meet.arrive_and_wait();
  unsigned all = 0;
  for (int lane = 0; lane < 32; ++lane) all |= (unsigned)held[lane][0] << lane;
  meet.arrive_and_wait();
  return all;
}
)";

}  // namespace planish::codegen
