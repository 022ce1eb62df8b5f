#pragma once

/// What printed epilogues call, for a compiler of C++: text to stand before them.
namespace planish::codegen {

inline constexpr const char* epilogue_machine = R"(#include <algorithm>
#include <cmath>
#include <cstdint>
using std::max;
using std::min;
#define PL_DEVICE static inline
#define __device__
#define __restrict__
#define __ldg(p) (*(p))
#define __stcs(p, v) (*(p) = (v))
struct float2 { float x, y; };
struct float4 { float x, y, z, w; };
static inline float2 make_float2(float x, float y) { return {x, y}; }
static inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
static inline int opaque_zero() { return 0; }
#define PL_FN static inline
PL_FN float pl_fast_rcp(float x) { return 1.0f / x; }
PL_FN float pl_fast_exp2(float x) { return exp2f(x); }
PL_FN float pl_fast_exp(float x) { return expf(x); }
PL_FN float pl_fast_sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }
PL_FN float pl_fast_sqrt(float x) { return sqrtf(x); }
PL_FN float pl_fast_tanh(float x) { return tanhf(x); }
PL_FN float pl_fast_div(float a, float b) { return a / b; }
)";

/// Behind it: what the lanes of one warp ask each other, and `warp(f)`, which calls f(lane) for each of them. Lanes
/// take turns on one thread, from one question to the next: threads that meet at each would cost a thousand times as
/// much. `own` is the lane that has its turn.
inline constexpr const char* epilogue_warp = R"(#include <cstring>
#include <ucontext.h>
static inline float __fmul_rn(float a, float b) { return a * b; }
static ucontext_t lanes[32], home;
static unsigned char held[2][32][8], stacks[32][1 << 17];
static volatile int own;
static int asked[32];
static bool over[32];
static void (*lane_body)(void*, int);
static void* lane_data;
static void next_lane() {
  const int from = own;
  for (int i = 1; i <= 32; ++i) {
    const int to = (from + i) % 32;
    if (over[to]) continue;
    if (to == from) return;
    own = to;
    swapcontext(&lanes[from], &lanes[to]);
    return;
  }
  setcontext(&home);
}
static void begin_lane() {
  lane_body(lane_data, own);
  over[own] = true;
  next_lane();
}
template <typename F> void warp(F f) {
  lane_data = &f;
  lane_body = [](void* data, int lane) { (*(F*)data)(lane); };
  for (int i = 0; i < 32; ++i) {
    getcontext(&lanes[i]);
    lanes[i].uc_stack.ss_sp = stacks[i];
    lanes[i].uc_stack.ss_size = sizeof stacks[i];
    lanes[i].uc_link = nullptr;
    makecontext(&lanes[i], begin_lane, 0);
    over[i] = false;
    asked[i] = 0;
  }
  own = 0;
  swapcontext(&home, &lanes[0]);
}
// Of two, so that who comes back from a question may ask the next before others have read the answer.
template <typename T> int say(T v) {
  const int round = asked[own]++ % 2;
  std::memcpy(held[round][own], &v, sizeof v);
  next_lane();
  return round;
}
template <typename T> T __shfl_sync(unsigned, T v, int from) {
  const int round = say(v);
  std::memcpy(&v, held[round][from], sizeof v);
  return v;
}
template <typename T> T __shfl_xor_sync(unsigned mask, T v, int other) { return __shfl_sync(mask, v, own ^ other); }
static inline unsigned __ballot_sync(unsigned, bool bit) {
  const int round = say((unsigned char)bit);
  unsigned all = 0;
  for (int lane = 0; lane < 32; ++lane) all |= (unsigned)held[round][lane][0] << lane;
  return all;
}
)";

}  // namespace planish::codegen
