#pragma once

/// What `sm90/decode_attention.cuh` runs on where there is no GPU: the file of instructions once more, as C++. Threads
/// of a block are fibers that take turns where they wait; a copy reads when it is asked for, and arrives when its
/// thread waits for it, not before.
namespace planish::codegen {

/// Behind `printing::prelude(false)`: what the language has on a GPU, and a block after the other.
inline constexpr const char* decode_language = R"(
#include <ucontext.h>
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <vector>
#include <pairs_cpu.h>
using std::max;
using std::min;
#define __device__
#define __forceinline__ inline
#define __global__
#define __shared__
#define __restrict__
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
struct Place { int x; };
static Place blockIdx, threadIdx;
struct uint2 { unsigned x, y; };
struct uint4 { unsigned x, y, z, w; };
struct float2 { float x, y; };
static uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
static float2 make_float2(float x, float y) { return {x, y}; }
struct float4 { float x, y, z, w; };
static float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
template <typename T> T __ldg(const T* p) { return *p; }
template <typename T> T __ldcg(const T* p) { return *p; }
static float __int_as_float(unsigned x) { float y; std::memcpy(&y, &x, 4); return y; }
static unsigned __byte_perm(unsigned a, unsigned b, unsigned pick) { return byte_permute(a, b, pick); }
alignas(16) unsigned char pl_smem[1 << 18];

struct Copy { unsigned to; unsigned char read[16]; };
struct Fiber {
  ucontext_t context;
  std::vector<unsigned char> stack = std::vector<unsigned char>(1 << 17);
  std::vector<Copy> asked;
  std::deque<std::vector<Copy>> groups;
  bool over = false;
  bool waited = false;  // for the launches before
};
static std::vector<Fiber> fibers;
static ucontext_t home;
static std::function<void()> body;
static void next() {
  const int from = threadIdx.x, count = (int)fibers.size();
  for (int i = 1; i <= count; ++i) {
    const int to = (from + i) % count;
    if (fibers[to].over) continue;
    if (to == from) return;
    threadIdx.x = to;
    swapcontext(&fibers[from].context, &fibers[to].context);
    return;
  }
  setcontext(&home);
}
struct Barrier { int arrived = 0, turn = 0; };
static Barrier block_barrier, warp_barriers[32];
static void meet(Barrier& barrier, int size) {
  const int turn = barrier.turn;
  if (++barrier.arrived == size) barrier.arrived = 0, ++barrier.turn;
  while (barrier.turn == turn) next();
}
static void __syncthreads() { meet(block_barrier, (int)fibers.size()); }
static void named_barrier_wait(int, int threads) { meet(block_barrier, threads); }
static void __syncwarp() { meet(warp_barriers[threadIdx.x / 32], 32); }
static unsigned slots[32][32][6];
/// What all lanes of the warp hold, to each of them.
static unsigned (*shared_with_warp(const unsigned* own, int count))[6] {
  const int warp = threadIdx.x / 32;
  __syncwarp();
  std::copy(own, own + count, slots[warp][threadIdx.x % 32]);
  __syncwarp();
  return slots[warp];
}
static unsigned __float_as_uint(float x) { unsigned y; std::memcpy(&y, &x, 4); return y; }
static float __shfl_xor_sync(unsigned, float v, int apart) {
  return __int_as_float(shared_with_warp((const unsigned*)&v, 1)[threadIdx.x % 32 ^ apart][0]);
}
static u64 __shfl_sync(unsigned, u64 v, int lane) {
  const unsigned own[2] = {(unsigned)v, (unsigned)(v >> 32)};
  const auto all = shared_with_warp(own, 2);
  return (u64)all[lane % 32][1] << 32 | all[lane % 32][0];
}
static unsigned __shfl_sync(unsigned, unsigned v, int lane) { return shared_with_warp(&v, 1)[lane % 32][0]; }
static float __shfl_sync(unsigned, float v, int lane) { return __int_as_float(__shfl_sync(0, __float_as_uint(v), lane)); }
static bool __any_sync(unsigned, bool v) {
  const unsigned own = v;
  const auto all = shared_with_warp(&own, 1);
  bool any = false;
  for (int i = 0; i < 32; ++i) any = any || all[i][0] != 0;
  return any;
}
static void begin_fiber() {
  body();
  fibers[threadIdx.x].over = true;
  next();
}
static void run_blocks(int blocks, int threads, std::function<void()> kernel) {
  body = std::move(kernel);
  for (blockIdx.x = 0; blockIdx.x < blocks; ++blockIdx.x) {
    std::memset(pl_smem, 0xff, sizeof pl_smem);
    fibers.clear();
    fibers.resize(threads);
    for (Fiber& fiber : fibers) {
      getcontext(&fiber.context);
      fiber.context.uc_stack.ss_sp = fiber.stack.data();
      fiber.context.uc_stack.ss_size = fiber.stack.size();
      makecontext(&fiber.context, begin_fiber, 0);
    }
    threadIdx.x = 0;
    swapcontext(&home, &fibers[0].context);
  }
}
)";

/// In place of `sm90/ptx.cuh`.
inline constexpr const char* decode_instructions = R"(
#include "types.cuh"
static u32 shared_address(const void* p) { return (u32)((const unsigned char*)p - pl_smem); }
static float exp2_fast(float x) { return std::exp2(x); }
// What a kernel may do before it waits: ask for keys and values, and read what lies behind some of its arguments.
static bool asks_early;
static std::vector<const void*> arguments, settled;
static bool is_settled(const void* from) {
  const void* own = nullptr;
  for (const void* each : arguments)
    if (each <= from && each > own) own = each;
  return std::find(settled.begin(), settled.end(), own) != settled.end();
}
static void cp_async_16(u32 to, const void* from, int bytes) {
  if (!fibers[threadIdx.x].waited && !asks_early) std::abort();
  if (to % 16 != 0 || to + 16 > sizeof pl_smem || (unsigned long long)from % 16 != 0) std::abort();
  Copy copy{to, {}};
  std::memcpy(copy.read, from, bytes);
  fibers[threadIdx.x].asked.push_back(copy);
}
static void cp_async_16_alone(u32 to, const void* from, int bytes) { cp_async_16(to, from, bytes); }
static void cp_async_commit() {
  Fiber& own = fibers[threadIdx.x];
  own.groups.push_back(std::move(own.asked));
  own.asked.clear();
}
template <int n> void cp_async_wait() {
  for (auto& groups = fibers[threadIdx.x].groups; (int)groups.size() > n; groups.pop_front()) {
    for (const Copy& copy : groups.front()) {
      std::memcpy(pl_smem + copy.to, copy.read, 16);
    }
  }
}
static u32 count_in(u32* counter) { return (*counter)++; }
static void dependency_launch() {}
static void dependency_stay() {}
static void dependency_wait() { fibers[threadIdx.x].waited = true; }
static void prefetch_line(const void*) {}
template <typename T> T load_visible(const T* from) {
  if (!fibers[threadIdx.x].waited && !is_settled(from)) std::abort();
  return *from;
}
static uint4 load_visible_16(const void* from) {
  if (!fibers[threadIdx.x].waited || (unsigned long long)from % 16 != 0) std::abort();
  uint4 v;
  std::memcpy(&v, from, 16);
  return v;
}
static void shared_store_16(u32 to, uint4 v) { std::memcpy(pl_smem + to, &v, 16); }
static uint2 shared_load_8(u32 from) {
  if (from % 8 != 0) std::abort();
  uint2 v;
  std::memcpy(&v, pl_smem + from, 8);
  return v;
}
static uint4 shared_load_16(u32 from) { uint4 v; std::memcpy(&v, pl_smem + from, 16); return v; }
static u32 matrix_transpose(u32 pair) {
  const auto all = shared_with_warp(&pair, 1);
  const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  const auto at = [&](int row) { return all[row * 4 + g / 2][0] >> g % 2 * 16 & 0xffff; };
  return at(2 * t) | at(2 * t + 1) << 16;
}
template <bool bf16> void mma_16x8x16(float (&sums)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
  const u32 own[6] = {a0, a1, a2, a3, b0, b1};
  const auto all = shared_with_warp(own, 6);
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const auto part = [](u32 word, int k) { return cpu::value(word, k % 2, bf16); };
  for (int i = 0; i < 4; ++i) {
    const int row = g + i / 2 * 8, column = 2 * t + i % 2;
    for (int k = 0; k < 16; ++k)
      sums[i] += part(all[row % 8 * 4 + k % 8 / 2][row / 8 + k / 8 * 2], k) * part(all[column * 4 + k % 8 / 2][4 + k / 8], k);
  }
}
)";

}  // namespace planish::codegen
