#pragma once

/// What `sm90/attention.cuh`, `sm90/split_attention.cuh` and `sm90/product.cuh` run on where there is no GPU: the two
/// files of instructions once more, as C++. Threads of a cluster's blocks are fibers that take turns where they wait,
/// so that a wait that never ends is found; copies and products are done late, when somebody waits, so that a place
/// that is handed back too early holds something else by then.
namespace planish::codegen {

/// Behind `printing::prelude(false)`: what the language has on a GPU.
inline constexpr const char* sm90_language = R"(#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <ucontext.h>
#include <vector>
using std::max;
using std::min;
#define __device__
#define __forceinline__ inline
#define __global__
#define __shared__
#define __restrict__
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __ldg(p) (*(p))
struct Place { int x; };
static Place gridDim;
struct float4 { float x, y, z, w; };
static float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
struct uint4 { unsigned x, y, z, w; };
static uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
constexpr int most_blocks = 2, shared_size = 1 << 18;  // of a cluster; of a block
alignas(1024) unsigned char pl_smem[most_blocks * shared_size];
struct float2 { float x, y; };
static float2 make_float2(float x, float y) { return {x, y}; }
struct int2 { int x, y; };
static float __int_as_float(int x) { float y; std::memcpy(&y, &x, 4); return y; }
static int __float_as_int(float x) { int y; std::memcpy(&y, &x, 4); return y; }
static unsigned __float_as_uint(float x) { unsigned y; std::memcpy(&y, &x, 4); return y; }

constexpr int most_threads = 512 * most_blocks;  // of a cluster
struct Fiber { ucontext_t context; bool over; std::vector<unsigned char> stack; };
static Fiber fibers[most_threads];
static ucontext_t home;
static int own, threads, blocks_of_cluster, first_block, idle;
static bool stuck;
static std::deque<std::function<void()>> late;  // copies under way
#define threadIdx (Place{::own % ::threads})
#define blockIdx (Place{::first_block + ::own / ::threads})
static int fibers_at_work() { return threads * blocks_of_cluster; }
static unsigned char* shared_memory() { return pl_smem + own / threads * shared_size; }

static bool skewed;  // a warp runs on for as long as it can, before others do
static void next() {
  const int from = own;
  for (int i = 1; skewed && idle < 64 && i < 32; ++i) {
    const int to = from / 32 * 32 + (from + i) % 32;
    if (fibers[to].over) continue;
    own = to;
    swapcontext(&fibers[from].context, &fibers[to].context);
    return;
  }
  for (int i = 1; i <= fibers_at_work(); ++i) {
    const int to = (from + i) % fibers_at_work();
    if (fibers[to].over) continue;
    if (to == from) return;
    own = to;
    swapcontext(&fibers[from].context, &fibers[to].context);
    return;
  }
  setcontext(&home);
}
template <typename Done> void wait_until(Done done) {
  while (!done()) {
    if (!late.empty()) {
      auto copy = std::move(late.front());
      late.pop_front();
      copy();
      idle = 0;
      continue;
    }
    if (++idle > 8 * fibers_at_work()) {
      stuck = true;
      setcontext(&home);
    }
    next();
  }
  idle = 0;
}
static std::function<void()> body;
static void begin_fiber() {
  body();
  fibers[own].over = true;
  idle = 0;
  next();
}

// What lanes of a warp ask each other.
struct Warp { long asked[32], count; unsigned char held[2][32][16]; };
static Warp warps[most_threads / 32];
template <typename T> int ask(T v) {
  Warp& warp = warps[own / 32];
  const int lane = own % 32;
  const long round = ++warp.asked[lane];
  std::memcpy(warp.held[round % 2][lane], &v, sizeof v);
  ++warp.count;
  wait_until([&] { return warp.count >= 32 * round; });
  return (int)(round % 2);
}
template <typename T> T told(int slot, int lane) {
  T v;
  std::memcpy(&v, warps[own / 32].held[slot][lane], sizeof v);
  return v;
}
template <typename T> T __shfl_sync(unsigned, T v, int lane) { return told<T>(ask(v), lane); }
template <typename T> T __shfl_up_sync(unsigned, T v, int by) { return told<T>(ask(v), max(own % 32 - by, 0)); }
template <typename T> T __shfl_xor_sync(unsigned, T v, int by) { return told<T>(ask(v), own % 32 ^ by); }
static bool __any_sync(unsigned, bool v) {
  const int slot = ask((int)v);
  for (int i = 0; i < 32; ++i) if (told<int>(slot, i)) return true;
  return false;
}
static unsigned __ballot_sync(unsigned, bool v) {
  const int slot = ask((int)v);
  unsigned all = 0;
  for (int i = 0; i < 32; ++i) all |= (unsigned)told<int>(slot, i) << i;
  return all;
}
static void __syncwarp() { ask(0); }
struct Meeting { long arrived; };
static Meeting meetings[most_blocks + 1][16];
static void meet(int number, int count, bool waits, int block = own / threads) {
  Meeting& m = meetings[block][number];
  const long phase = m.arrived / count;
  ++m.arrived;
  idle = 0;
  if (waits) wait_until([&] { return m.arrived >= (phase + 1) * count; });
}
static void __syncthreads() { meet(0, threads, true); }

template <typename T> T __ldcg(const T* p) { return *p; }
static void __threadfence() {}
static unsigned atomicAdd(unsigned* p, unsigned n) { const unsigned old = *p; *p += n; return old; }

/// Runs a kernel of so many threads a block; false where a block waits for what never comes.
template <typename Kernel> bool run_blocks(int blocks, int count, Kernel kernel, int cluster = 1) {
  gridDim.x = blocks;
  threads = count;
  blocks_of_cluster = cluster;
  for (first_block = 0; first_block < blocks; first_block += cluster) {
    std::memset(warps, 0, sizeof warps);
    std::memset(meetings, 0, sizeof meetings);
    std::memset(pl_smem, 0x7f, sizeof pl_smem);
    late.clear();
    stuck = false;
    idle = 0;
    body = kernel;
    for (int i = 0; i < fibers_at_work(); ++i) {
      Fiber& fiber = fibers[i];
      fiber.stack.resize(1 << 16);
      getcontext(&fiber.context);
      fiber.context.uc_stack.ss_sp = fiber.stack.data();
      fiber.context.uc_stack.ss_size = fiber.stack.size();
      fiber.context.uc_link = nullptr;
      makecontext(&fiber.context, begin_fiber, 0);
      fiber.over = false;
    }
    own = 0;
    swapcontext(&home, &fibers[0].context);
    if (stuck) return false;
  }
  return true;
}
)";

/// In place of `sm90/ptx.cuh`.
inline constexpr const char* sm90_ptx = R"(#pragma once
#include "types.cuh"
static u32 shared_address(const void* p) { return (u32)((const unsigned char*)p - pl_smem); }

struct Barrier { int arrivals, left; long bytes; u32 phase; };
static Barrier barriers_[most_blocks << 15];
static Barrier& barrier_at(u32 address) { return barriers_[address / 8]; }
static void barrier_check(Barrier& b) {
  if (b.left != 0 || b.bytes != 0) return;
  b.left = b.arrivals;
  ++b.phase;
  idle = 0;
}
static void barrier_init(u32 at, int arrivals) { barrier_at(at) = {arrivals, arrivals, 0, 0}; }
static void barrier_init_fence() {}
static void fence_shared_copies() {}
static void barrier_arrive(u32 at) { --barrier_at(at).left; barrier_check(barrier_at(at)); }
static void barrier_expect(u32 at, int bytes) { barrier_at(at).bytes += bytes; barrier_arrive(at); }
static u32 in_block(u32 at, int rank) { return at % shared_size + rank * shared_size; }
static void barrier_arrive(u32 at, int rank) { barrier_arrive(in_block(at, rank)); }
static void cluster_sync() { meet(0, fibers_at_work(), true, most_blocks); }
static void barrier_wait(u32 at, u32 parity) {
  wait_until([&] { return (barrier_at(at).phase & 1) != parity; });
}
template <int n> void registers_decrease() {}
template <int n> void registers_increase() {}
static void named_barrier_wait(int number, int count) { meet(number, count, true); }
static void named_barrier_arrive(int number, int count) { meet(number, count, false); }
static float exp2_fast(float x) { return exp2f(x); }
static float exp2_full(float x) { return exp2f(x); }
static void unpack_f16(float& low, float& high, u32 both) {
  low = pl_from_f16((u16)both), high = pl_from_f16((u16)(both >> 16));
}
static void bulk_load(u32 to, const void* from, int bytes, u32 barrier) {
  if (bytes % 16 != 0 || to % 16 != 0 || (u64)from % 16 != 0) std::abort();
  late.push_back([=, at = own / threads * shared_size] {
    std::memcpy(pl_smem + at + to, from, bytes);
    barrier_at(barrier).bytes -= bytes;
    barrier_check(barrier_at(barrier));
  });
}
static u32 pack_f16(float low, float high) { return pl_to_f16(low) | (u32)pl_to_f16(high) << 16; }
static u32 pack_bf16(float low, float high) { return pl_to_bf16(low) | (u32)pl_to_bf16(high) << 16; }

// A map, of 128 bytes or less.
struct Map { const unsigned char* from; int dims, size, nan, extent[5], box[5], step[5]; u64 stride[5]; };
static_assert(sizeof(Map) <= 128);
static void shared_clear(u32 to) { std::memset(pl_smem + to, 0, 16); }
static Map* map_at(u32 at) { return (Map*)(pl_smem + at); }
template <int dims, bool bf16> void tensor_map_begin(u32 map, const void* from) {
  map_at(map)->from = (const unsigned char*)from;
  map_at(map)->dims = dims;
  map_at(map)->size = 2;
}
static void tensor_map_outside_nan(u32 map) { map_at(map)->nan = 1; }
template <int dims> void tensor_map_begin_bytes(u32 map, const void* from) {
  tensor_map_begin<dims, false>(map, from);
  map_at(map)->size = 1;
}
template <int dim> void tensor_map_dim(u32 map, int extent, int box, int step = 1) {
  if (box < 1 || box > 256 || step < 1 || step > 8) std::abort();
  map_at(map)->extent[dim] = extent;
  map_at(map)->box[dim] = box;
  map_at(map)->step[dim] = step;
}
template <int dim> void tensor_map_stride(u32 map, u64 bytes) {
  if (bytes % 16 != 0) std::abort();
  map_at(map)->stride[dim] = bytes;
}
static void tensor_map_publish(void* to, u32 map) { __syncwarp(); std::memcpy(to, pl_smem + map, 128); __syncwarp(); }
static void tensor_map_acquire(const void*) {}
template <typename... Places> void tensor_share(u32, const void*, u32, u16, Places...);
template <typename... Places> void tensor_load(u32 to, const void* map, u32 barrier, Places... places) {
  tensor_share(to, map, barrier, 1 << own / threads, places...);
}
template <typename... Places> void tensor_share(u32 place_at, const void* map, u32 signal, u16 blocks, Places... places) {
  Map m;
  std::memcpy(&m, map, sizeof m);
  const int at[] = {places...};
  if (m.dims != (int)sizeof...(places) || (u64)m.from % 16 != 0) std::abort();
  std::vector<int> begin(at, at + m.dims), size;
  int rows = 1;
  for (int d = 0; d < m.dims; ++d) {
    size.push_back((m.box[d] + m.step[d] - 1) / m.step[d]);
    if (d > 0) rows *= size[d];
  }
  for (int rank = 0; rank < most_blocks; ++rank) if (blocks >> rank & 1) late.push_back([=, to = in_block(place_at, rank), barrier = in_block(signal, rank)] {
    for (int row = 0; row < rows; ++row) {
      bool inside = true;
      long long place = 0;
      for (int d = 1, left = row; d < m.dims; ++d) {
        const int x = begin[d] + left % size[d] * m.step[d];
        left /= size[d];
        inside = inside && x >= 0 && x < m.extent[d];
        place += x * (long long)m.stride[d];
      }
      for (int x = 0; x < 128; ++x) {
        const int element = begin[0] + x / m.size;
        const bool there = inside && element >= 0 && element < m.extent[0];
        const u32 line = to + row * 128;
        pl_smem[line + ((x / 16) ^ (line / 128 % 8)) * 16 + x % 16] = there ? m.from[place + (long long)begin[0] * m.size + x]
                                                                              : m.nan != 0 ? 0xff : 0;
      }
    }
    barrier_at(barrier).bytes -= rows * 128l;
    barrier_check(barrier_at(barrier));
  });
}
)";

/// In place of `sm90/wgmma.cuh`.
inline constexpr const char* sm90_wgmma = R"(#pragma once
#include "types.cuh"
static std::deque<std::deque<std::function<void()>>> groups[most_threads];  // of products, by thread
static std::deque<std::function<void()>> issued[most_threads];
static void wgmma_fence() {}
static void wgmma_commit() { groups[own].push_back(std::move(issued[own])); issued[own].clear(); }
template <int left> void wgmma_wait() {
  while ((int)groups[own].size() > left) {
    for (auto& each : groups[own].front()) each();
    groups[own].pop_front();
  }
}
template <int n> void wgmma_hold(float (&)[n]) {}
template <int n> void wgmma_hold(int (&)[n]) {}
constexpr u64 wgmma_swizzled(int leading, int stride) {
  return (u64)(leading / 16) << 16 | (u64)(stride / 16) << 32 | (u64)1 << 62;
}
constexpr u64 wgmma_unswizzled(int leading, int stride) { return (u64)(leading / 16) << 16 | (u64)(stride / 16) << 32; }
static int warpgroup_number() { return own % threads / 128; }
static u64 wgmma_address(u32 shared) { return shared % shared_size >> 4; }

template <bool bf16> float number(u16 x) { return bf16 ? pl_from_bf16(x) : pl_from_f16(x); }
// Element (row, k) of what a descriptor says.
template <bool bf16> float element(u64 descriptor, bool across, int row, int k) {
  const u32 start = (u32)(descriptor & 0x3fff) * 16, leading = (u32)(descriptor >> 16 & 0x3fff) * 16,
            stride = (u32)(descriptor >> 32 & 0x3fff) * 16;
  if (descriptor >> 62 == 0)
    return number<bf16>(*(u16*)(shared_memory() + start + row / 8 * stride + k / 8 * leading + row % 8 * 16 + k % 8 * 2));
  const u32 plain = across ? start + row / 64 * leading + row % 64 * 2 + k / 8 * stride + k % 8 * 128
                           : start + row / 8 * stride + row % 8 * 128 + k * 2;
  return number<bf16>(*(u16*)(shared_memory() + (plain ^ plain / 128 % 8 * 16)));
}
// The thread's sums of 64 rows and n columns.
template <int n, bool bf16, typename First>
void multiply(float* d, First first, u64 b, bool across, bool keep, int thread) {
  const int lane = thread % 32, warp = thread % 128 / 32;
  for (int i = 0; i < n / 2; ++i) {
    const int row = warp * 16 + lane / 4 + i % 4 / 2 * 8, column = i / 4 * 8 + lane % 4 * 2 + i % 2;
    float sum = keep ? d[i] : 0.0f;
    for (int k = 0; k < 16; ++k) sum += first(row, k) * element<bf16>(b, across, column, k);
    d[i] = sum;
  }
}
// 8-bit floats, along k alone.
static float of_code(unsigned char x, bool e4m3) {
  const int fraction_bits = e4m3 ? 3 : 2, bias = e4m3 ? 7 : 15;
  const int exponent = (x & 127) >> fraction_bits, fraction = x & ((1 << fraction_bits) - 1);
  const float size = exponent == 0 ? std::ldexp((float)fraction, 1 - bias - fraction_bits)
                                   : std::ldexp((float)(fraction + (1 << fraction_bits)), exponent - bias - fraction_bits);
  return x & 128 ? -size : size;
}
static unsigned char byte_at(u64 descriptor, int row, int k) {
  if (descriptor >> 62 != 1) std::abort();
  const u32 start = (u32)(descriptor & 0x3fff) * 16, stride = (u32)(descriptor >> 32 & 0x3fff) * 16;
  const u32 plain = start + row / 8 * stride + row % 8 * 128 + k;
  return shared_memory()[plain ^ plain / 128 % 8 * 16];
}
static float code_at(u64 descriptor, bool e4m3, int row, int k) { return of_code(byte_at(descriptor, row, k), e4m3); }
static unsigned integer_at(u64 descriptor, const char* type, int row, int k) {
  const unsigned char byte = byte_at(descriptor, row, k);
  return type[0] == 's' ? (unsigned)(signed char)byte : byte;
}
constexpr bool is_e4m3(const char* type) { return type[1] == '4'; }
#define PL_WGMMA_EIGHT(name, n, a_type, b_type) \
  static void name(float (&d)[n / 2], u64 a, u64 b, int keep) { \
    issued[own].push_back([to = &d[0], a, b, keep, thread = own] { \
      const int lane = thread % 32, warp = thread % 128 / 32; \
      for (int i = 0; i < n / 2; ++i) { \
        const int row = warp * 16 + lane / 4 + i % 4 / 2 * 8, column = i / 4 * 8 + lane % 4 * 2 + i % 2; \
        float sum = keep ? to[i] : 0.0f; \
        for (int k = 0; k < 32; ++k) sum += code_at(a, is_e4m3(a_type), row, k) * code_at(b, is_e4m3(b_type), column, k); \
        to[i] = sum; \
      } \
    }); \
  }
// Of integers, which wrap around.
#define PL_WGMMA_INTEGER(name, n, a_type, b_type) \
  static_assert(n <= 32 || n % 16 == 0); \
  static void name(int (&d)[n / 2], u64 a, u64 b, int keep) { \
    issued[own].push_back([to = &d[0], a, b, keep, thread = own] { \
      const int lane = thread % 32, warp = thread % 128 / 32; \
      for (int i = 0; i < n / 2; ++i) { \
        const int row = warp * 16 + lane / 4 + i % 4 / 2 * 8, column = i / 4 * 8 + lane % 4 * 2 + i % 2; \
        unsigned sum = keep ? (unsigned)to[i] : 0u; \
        for (int k = 0; k < 32; ++k) sum += integer_at(a, a_type, row, k) * integer_at(b, b_type, column, k); \
        to[i] = (int)sum; \
      } \
    }); \
  }
struct Four { u32 x[4]; };
template <bool bf16> std::vector<float> rows_of(Four mine) {
  const int slot = ask(mine);
  std::vector<float> all(16 * 16);
  for (int lane = 0; lane < 32; ++lane) {
    const Four theirs = told<Four>(slot, lane);
    for (int i = 0; i < 8; ++i)
      all[(lane / 4 + i / 2 % 2 * 8) * 16 + lane % 4 * 2 + i % 2 + i / 4 * 8] = number<bf16>((u16)(theirs.x[i / 2] >> i % 2 * 16));
  }
  return all;
}
constexpr bool is_bf16(const char* type) { return type[0] == 'b'; }
#define PL_WGMMA_SHARED(name, n, type, across) PL_WGMMA_BOTH(name, n, type, 0, across)
#define PL_WGMMA_BOTH(name, n, type, a_across, across) \
  static void name(float (&d)[n / 2], u64 a, u64 b, int keep) { \
    issued[own].push_back([to = &d[0], a, b, keep, thread = own] { \
      multiply<n, is_bf16(type)>(to, [a](int row, int k) { return element<is_bf16(type)>(a, a_across, row, k); }, b, across, \
                                 keep != 0, thread); \
    }); \
  }
#define PL_WGMMA_REGISTERS(name, n, type, across) \
  static void name(float (&d)[n / 2], u32 a0, u32 a1, u32 a2, u32 a3, u64 b, int keep) { \
    issued[own].push_back([to = &d[0], rows = rows_of<is_bf16(type)>({{a0, a1, a2, a3}}), b, keep, thread = own] { \
      multiply<n, is_bf16(type)>(to, [&rows](int row, int k) { return rows[row % 16 * 16 + k]; }, b, across, keep != 0, \
                                 thread); \
    }); \
  }
)";

}  // namespace planish::codegen
