// Runs a step kernel of codegen/recurrence on a CPU, in place of its machine (step_machine()): every thread is a fiber,
// warps take turns at random, some of them slowly, and what is sent or fetched lands late. Barriers that are left too
// early, arrive too often or wait for nothing end the process or the run. The text that includes it defines SUMMING,
// THREADS and CLUSTER before, and after it the kernel, `emulated_call` and EMULATED_RUN.
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
#define RN_FN static inline
typedef unsigned int u32;
struct alignas(16) F4 {
  float x, y, z, w;
};

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

RN_FN u32 rn_shared() {
  return emu::base;
}
RN_FN F4 rn_get4(u32 a) {
  F4 v;
  std::memcpy(&v, emu::at(emu::block(), a, 16, 16), 16);
  return v;
}
RN_FN float rn_get(u32 a) {
  float v;
  std::memcpy(&v, emu::at(emu::block(), a, 4, 4), 4);
  return v;
}
RN_FN void rn_put(u32 a, float v) {
  std::memcpy(emu::at(emu::block(), a, 4, 4), &v, 4);
}
RN_FN void rn_put4(u32 a, F4 v) {
  std::memcpy(emu::at(emu::block(), a, 16, 16), &v, 16);
}
RN_FN void rn_put_word(u32 a, u32 v) {
  std::memcpy(emu::at(emu::block(), a, 4, 4), &v, 4);
}
RN_FN float rn_other(float v, int mask) {
  const u32 got = emu::exchange(emu::bits(v))[(emu::now->id & 31) ^ mask];
  std::memcpy(&v, &got, 4);
  return v;
}
RN_FN u32 rn_first(u32 v) {
  return emu::exchange(v)[0];
}
RN_FN int rn_all(int p) {
  const u32* all = emu::exchange(p != 0);
  return std::all_of(all, all + 32, [](u32 one) { return one != 0; });
}
RN_FN void rn_warp() {
  emu::exchange(0);
}
RN_FN void rn_block() {
  emu::meet(emu::block().all, THREADS);
}
RN_FN void rn_summing() {
  emu::meet(emu::block().summing, SUMMING);
}
RN_FN void rn_cluster() {
  emu::meet(emu::clusters[emu::now->block / CLUSTER], CLUSTER * THREADS);
}
RN_FN u32 rn_rank() {
  return emu::now->block % CLUSTER;
}
RN_FN void rn_bar_init(u32 a, u32 n) {
  emu::at(emu::block(), a, 8, 8);
  emu::block().barriers[a] = {static_cast<int>(n), static_cast<int>(n)};
}
RN_FN void rn_bars_seen() {}
RN_FN void rn_bar_expect(u32 a, u32 n) {
  emu::Barrier& b = emu::barrier_at(emu::block(), a);
  b.bytes += static_cast<int>(n);
  --b.pending;
  b.look();
}
RN_FN void rn_bar_wait(u32 a, u32 parity) {
  emu::Barrier& b = emu::barrier_at(emu::block(), a);
  while (b.parity == static_cast<int>(parity)) emu::yield();
}
RN_FN void rn_bar_wait_for_stores(u32 a, u32 parity) {
  rn_bar_wait(a, parity);
}
RN_FN u32 rn_of_block(u32 a, u32 rank) {
  assert(rank < CLUSTER);
  return a | rank << 24;
}
RN_FN void rn_send4(u32 a, F4 v, u32 bar) {
  emu::Block* there = &emu::block_at(a);
  assert(a >> 24 == bar >> 24);
  emu::on_the_way.push_back([=] {
    std::memcpy(emu::at(*there, a, 16, 16), &v, 16);
    emu::land(*there, bar, 16);
  });
}
RN_FN void rn_send(u32 to, u32 from, u32 n, u32 bar) {
  emu::Block *there = &emu::block_at(to), *here = &emu::block();
  assert(to >> 24 == bar >> 24 && n % 16 == 0);
  emu::on_the_way.push_back([=] {
    std::memmove(emu::at(*there, to, n, 16), emu::at(*here, from, n, 16), n);
    emu::land(*there, bar, n);
  });
}
RN_FN void rn_fetch(u32 to, const float* from, u32 n, u32 bar) {
  emu::Block* here = &emu::block();
  assert(n % 16 == 0 && reinterpret_cast<std::size_t>(from) % 16 == 0);
  emu::on_the_way.push_back([=] {
    std::memcpy(emu::at(*here, to, n, 16), from, n);
    emu::land(*here, bar, n);
  });
}
RN_FN void rn_put4_there(u32 a, F4 v) {
  std::memcpy(emu::at(emu::block_at(a), a, 16, 16), &v, 16);
  if (emu::random() % 8 == 0) emu::yield();
}
RN_FN void rn_arrive_there(u32 bar) {
  emu::Barrier& b = emu::barrier_at(emu::block_at(bar), bar);
  --b.pending;
  b.look();
}
RN_FN void rn_fence_copies() {}
RN_FN void rn_fence_sends() {}
RN_FN void rn_fence_fetches() {}
RN_FN void rn_count(u32 a) {
  u32 v;
  char* at = emu::at(emu::block(), a, 4, 4);
  std::memcpy(&v, at, 4);
  ++v;
  std::memcpy(at, &v, 4);
}
RN_FN u32 rn_counted(u32 a) {
  u32 v;
  std::memcpy(&v, emu::at(emu::block(), a, 4, 4), 4);
  return v;
}
RN_FN u32 rn_flag(const u32* p) {
  return *static_cast<const volatile u32*>(p);
}
RN_FN void rn_set_flag(u32* p, u32 v) {
  *static_cast<volatile u32*>(p) = v;
}
RN_FN void rn_pause() {
  emu::yield();
}
RN_FN void rn_more_registers() {}
RN_FN void rn_fewer_registers() {}
RN_FN float rn_reciprocal(float x) {
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
