// Runs `sm90/recurrence.cuh` on a CPU, in place of the files of instructions: every thread is a fiber, warps take turns
// at random, some of them slowly, and what is sent or fetched lands late. Barriers that are left too early, arrive too
// often or wait for nothing end the process or the run. The text that includes it defines THREADS and CLUSTER before,
// and after it the kernel and who calls emu::run().
#pragma once

#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <random>
#include <vector>

#define __global__
#define __restrict__
#define __launch_bounds__(threads, blocks)
#define __shared__
#define __align__(n) __attribute__((aligned(n)))
#define PL_DEVICE inline
typedef unsigned int u32;
typedef unsigned long long u64;
struct alignas(16) float4 {
  float x, y, z, w;
};
inline float4 make_float4(float x, float y, float z, float w) {
  return {x, y, z, w};
}

alignas(128) unsigned char pl_smem[1];  // named by kernels; blocks have memory of their own

namespace emu {

struct Barrier {
  int count = 0, pending = 0, bytes = 0, parity = 0;
  void look() {
    if (pending == 0 && bytes == 0) {
      parity ^= 1;
      pending = count;
    }
    if (pending < 0) fail("an arrival too many");
  }
  [[noreturn]] static void fail(const char* what) {
    std::printf("%s\n", what);
    std::abort();
  }
};
struct Meeting {
  int arrived = 0, times = 0;
};
struct Block {
  std::vector<char> memory;
  std::map<u32, Barrier> barriers;
  Meeting summing, all;
};
struct Warp {
  int arrived[2] = {0, 0};
  u32 words[2][32];
};
struct Thread {
  ucontext_t context;
  int id = 0, block = 0, meetings = 0;
  bool ended = false;
};
struct Place {
  int x = 0;
};

constexpr int warps = THREADS / 32;
constexpr u32 base = 1024;  // of a block's shared memory; the rank of another block in the bits from 24 on
inline std::vector<Block> blocks;
inline std::vector<Warp> all_warps;
inline std::vector<Meeting> clusters;
inline std::vector<Thread> threads;
inline std::vector<std::function<void()>> on_the_way;
inline Thread* now = nullptr;
inline ucontext_t scheduler;
inline std::mt19937 random(1);

inline void yield() {
  swapcontext(&now->context, &scheduler);
}
inline Block& block() {
  return blocks[now->block];
}
inline Warp& warp() {
  return all_warps[now->block * warps + now->id / 32];
}
inline Block& block_at(u32 address) {
  return blocks[now->block / CLUSTER * CLUSTER + (address >> 24)];
}
inline char* at(Block& b, u32 address, u32 bytes, u32 aligned) {
  address &= 0xffffff;
  if (address < base || address - base + bytes > b.memory.size() || address % aligned != 0)
    Barrier::fail("a bad address");
  return &b.memory[address - base];
}
inline Barrier& barrier_at(Block& b, u32 address) {
  const auto found = b.barriers.find(address & 0xffffff);
  if (found == b.barriers.end()) Barrier::fail("no barrier there");
  return found->second;
}
inline void land(Block& b, u32 bar, u32 bytes) {
  Barrier& found = barrier_at(b, bar);
  found.bytes -= static_cast<int>(bytes);
  found.look();
}
inline void meet(Meeting& m, int count) {
  const int mine = m.times;
  if (++m.arrived == count) {
    m.arrived = 0;
    ++m.times;
  } else {
    while (m.times == mine) yield();
  }
}
/// What all threads of the warp bring, two meetings back and forth.
inline const u32* exchange(u32 word) {
  Warp& w = warp();
  const int side = now->meetings & 1;
  w.words[side][now->id & 31] = word;
  ++w.arrived[side];
  while (w.arrived[side] < 32 * (now->meetings / 2 + 1)) yield();
  ++now->meetings;
  return w.words[side];
}
inline u32 bits(float v) {
  u32 out;
  std::memcpy(&out, &v, 4);
  return out;
}
inline Place thread_place() {
  return {now->id};
}
inline Place block_place() {
  return {now->block};
}

}  // namespace emu

#define threadIdx emu::thread_place()
#define blockIdx emu::block_place()

PL_DEVICE u32 shared_address(const void*) {
  return emu::base;
}
PL_DEVICE float4 shared_load_4(u32 a) {
  float4 v;
  std::memcpy(&v, emu::at(emu::block(), a, 16, 16), 16);
  return v;
}
PL_DEVICE float shared_load(u32 a) {
  float v;
  std::memcpy(&v, emu::at(emu::block(), a, 4, 4), 4);
  return v;
}
PL_DEVICE void shared_store(u32 a, float v) {
  std::memcpy(emu::at(emu::block(), a, 4, 4), &v, 4);
}
PL_DEVICE void shared_store_4(u32 a, float4 v) {
  std::memcpy(emu::at(emu::block(), a, 16, 16), &v, 16);
}
inline float __shfl_xor_sync(unsigned, float v, int mask) {
  const u32 got = emu::exchange(emu::bits(v))[(emu::now->id & 31) ^ mask];
  std::memcpy(&v, &got, 4);
  return v;
}
inline u32 __shfl_sync(unsigned, u32 v, int lane) {
  return emu::exchange(v)[lane];
}
inline bool __all_sync(unsigned, bool p) {
  const u32* all = emu::exchange(p);
  return std::all_of(all, all + 32, [](u32 one) { return one != 0; });
}
inline void __syncwarp() {
  emu::exchange(0);
}
inline void __syncthreads() {
  emu::meet(emu::block().all, THREADS);
}
PL_DEVICE void named_barrier_wait(int number, int count) {
  assert(number == 1);
  emu::meet(emu::block().summing, count);
}
PL_DEVICE void cluster_barrier() {
  emu::meet(emu::clusters[emu::now->block / CLUSTER], CLUSTER * THREADS);
}
PL_DEVICE int cluster_rank() {
  return emu::now->block % CLUSTER;
}
PL_DEVICE void barrier_init(u32 a, int n) {
  emu::at(emu::block(), a, 8, 8);
  emu::block().barriers[a] = {n, n};
}
PL_DEVICE void barrier_init_fence() {}
PL_DEVICE void barrier_expect(u32 a, int n) {
  emu::Barrier& b = emu::barrier_at(emu::block(), a);
  b.bytes += n;
  --b.pending;
  b.look();
}
PL_DEVICE void barrier_wait(u32 a, u32 parity) {
  emu::Barrier& b = emu::barrier_at(emu::block(), a);
  while (b.parity == static_cast<int>(parity)) emu::yield();
}
PL_DEVICE void barrier_wait_acquire(u32 a, u32 parity) {
  barrier_wait(a, parity);
}
PL_DEVICE u32 cluster_address(u32 a, int rank) {
  assert(rank < CLUSTER);
  return a | static_cast<u32>(rank) << 24;
}
PL_DEVICE void cluster_send_16(u32 a, float4 v, u32 bar) {
  emu::Block* there = &emu::block_at(a);
  assert(a >> 24 == bar >> 24);
  emu::on_the_way.push_back([=] {
    std::memcpy(emu::at(*there, a, 16, 16), &v, 16);
    emu::land(*there, bar, 16);
  });
}
PL_DEVICE void cluster_copy(u32 to, u32 from, int n, u32 bar) {
  emu::Block *there = &emu::block_at(to), *here = &emu::block();
  assert(to >> 24 == bar >> 24 && n % 16 == 0);
  emu::on_the_way.push_back([=] {
    std::memmove(emu::at(*there, to, n, 16), emu::at(*here, from, n, 16), n);
    emu::land(*there, bar, n);
  });
}
PL_DEVICE void bulk_load(u32 to, const void* from, int n, u32 bar) {
  emu::Block* here = &emu::block();
  assert(n % 16 == 0 && reinterpret_cast<std::size_t>(from) % 16 == 0);
  emu::on_the_way.push_back([=] {
    std::memcpy(emu::at(*here, to, n, 16), from, n);
    emu::land(*here, bar, n);
  });
}
PL_DEVICE void cluster_store_16(u32 a, float4 v) {
  std::memcpy(emu::at(emu::block_at(a), a, 16, 16), &v, 16);
  if (emu::random() % 8 == 0) emu::yield();
}
PL_DEVICE void cluster_arrive_release(u32 bar) {
  emu::Barrier& b = emu::barrier_at(emu::block_at(bar), bar);
  --b.pending;
  b.look();
}
PL_DEVICE void fence_copies() {}
PL_DEVICE void fence_shared_copies() {}
PL_DEVICE void fence_global_copies() {}
PL_DEVICE void shared_count(u32 a) {
  u32 v;
  char* at = emu::at(emu::block(), a, 4, 4);
  std::memcpy(&v, at, 4);
  ++v;
  std::memcpy(at, &v, 4);
}
PL_DEVICE u32 shared_counted(u32 a) {
  u32 v;
  std::memcpy(&v, emu::at(emu::block(), a, 4, 4), 4);
  return v;
}
PL_DEVICE u32 flag_load(const u32* p) {
  return *static_cast<const volatile u32*>(p);
}
PL_DEVICE void flag_store(u32* p, u32 v) {
  *static_cast<volatile u32*>(p) = v;
}
PL_DEVICE void pause() {
  emu::yield();
}
template <int n>
PL_DEVICE void registers_increase() {}
template <int n>
PL_DEVICE void registers_decrease() {}
PL_DEVICE float reciprocal_fast(float x) {
  return 1.0f / x;
}

namespace emu {

/// 0, or what went wrong: 1 nothing moves any more, 2 something was on the way at the end.
inline int run(void (*entry)(), int grid, int shared_bytes, unsigned seed) {
  random.seed(seed);
  blocks.assign(grid, {});
  all_warps.assign(grid * warps, {});
  clusters.assign(grid / CLUSTER, {});
  threads.assign(static_cast<std::size_t>(grid) * THREADS, {});
  on_the_way.clear();
  constexpr std::size_t stack = 65536;
  const std::size_t all = stack * threads.size();
  char* const stacks = static_cast<char*>(
      mmap(nullptr, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  for (Block& b : blocks) b.memory.assign(shared_bytes, static_cast<char>(0xff));  // a NaN each
  std::vector<int> order(grid * warps);
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
  for (std::size_t i = 0; i < threads.size(); ++i) {
    Thread& t = threads[i];
    t.block = static_cast<int>(i) / THREADS;
    t.id = static_cast<int>(i) % THREADS;
    getcontext(&t.context);
    t.context.uc_stack.ss_sp = stacks + i * stack;
    t.context.uc_stack.ss_size = stack;
    t.context.uc_link = nullptr;
    makecontext(&t.context, entry, 0);
  }
  std::size_t alive = threads.size();
  int result = 0;
  for (long round = 0; alive > 0 && result == 0; ++round) {
    if (round > 200000) result = 1;
    for (std::size_t i = 0; i < on_the_way.size();) {
      if (random() % 4 != 0) {
        ++i;
        continue;
      }
      on_the_way[i]();
      on_the_way[i] = on_the_way.back();
      on_the_way.pop_back();
    }
    if (round % 8 == 0) std::shuffle(order.begin(), order.end(), random);
    for (const int w : order) {
      if (random() % 4 == 0) continue;
      for (int lane = 0; lane < 32; ++lane) {
        Thread& t = threads[static_cast<std::size_t>(w) * 32 + lane];
        if (t.ended) continue;
        now = &t;
        swapcontext(&scheduler, &t.context);
        if (t.ended) --alive;
      }
    }
  }
  munmap(stacks, all);
  return result == 0 && !on_the_way.empty() ? 2 : result;
}

inline void end() {
  now->ended = true;
  yield();
}

}  // namespace emu
