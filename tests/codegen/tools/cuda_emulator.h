// Runs emitted CUDA kernels on a CPU, one fiber a CUDA thread, all on one OS thread: the names of the memory prelude
// again, with checks that the machine does not make (alignment, and every address inside its tensor). For small
// launches.
#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <vector>

#define __global__
#define __launch_bounds__(...)

namespace emu {
struct Index {
  unsigned x = 0;
};
/// Lets a fiber go on once `size` of them have come.
struct Barrier {
  unsigned size = 0, arrived = 0, generation = 0;
};
constexpr std::size_t slot_bytes = 64 << 10;
struct Block {
  std::vector<unsigned char> arena = std::vector<unsigned char>(16 * slot_bytes);
  std::vector<unsigned char> dynamic;
  Barrier all;
  std::vector<Barrier> warps;
  std::vector<unsigned long long> slots;
};
/// What a thread asked to be copied into shared memory: it lies there when the thread has waited for it, not before.
struct Copy {
  void* to;
  const void* from;
  std::size_t bytes;
};
struct Fiber {
  std::vector<Copy> asked;
  std::deque<std::vector<Copy>> groups;
  ucontext_t context;
  std::unique_ptr<unsigned char[]> stack;
  Block* block = nullptr;
  unsigned thread = 0, index = 0;
  bool done = false;
};
inline std::vector<Block*> cluster_blocks;
inline Barrier cluster_barrier;
inline Block* block = nullptr;
inline unsigned thread = 0;
inline ucontext_t scheduler;
inline Fiber* current = nullptr;
inline const std::function<void()>* kernel = nullptr;
inline void wait(Barrier& barrier) {
  const unsigned generation = barrier.generation;
  if (++barrier.arrived == barrier.size) {
    barrier.arrived = 0;
    ++barrier.generation;
    return;
  }
  while (barrier.generation == generation) swapcontext(&current->context, &scheduler);
}
inline void enter() {
  (*kernel)();
  current->done = true;
}
struct Range {
  const char* begin;
  const char* end;
};
inline std::vector<Range> ranges;
/// A phase is over when nobody's arrival and no byte is missing.
struct Mbarrier {
  int needed = 0, pending = 0;
  long long bytes = 0;
  unsigned phase = 0;
};
inline std::map<unsigned long long*, Mbarrier> barriers;  // by address: shared memory of all blocks under way
inline void arrived(unsigned long long* b, long long bytes, int arrivals) {
  Mbarrier& barrier = barriers.at(b);
  barrier.bytes += bytes;
  barrier.pending -= arrivals;
  if (barrier.pending != 0 || barrier.bytes != 0) return;
  barrier.pending = barrier.needed;
  ++barrier.phase;
}
inline int faults = 0;

inline bool check(const void* p, std::size_t bytes, std::size_t align, const char* what) {
  const char* c = static_cast<const char*>(p);
  bool inside = false;
  for (const auto& r : ranges) inside = inside || (c >= r.begin && c + bytes <= r.end);
  if (inside && reinterpret_cast<std::uintptr_t>(p) % align == 0) return true;
  if (faults++ < 5)
    std::fprintf(stderr, "%s of %zu bytes: %s\n", what, bytes, inside ? "misaligned" : "outside every tensor");
  return false;
}
// A shared variable is placed once a block; the order of first use is the same in all blocks only by name, so the id
// decides.
inline void* shared(int id, std::size_t) {
  return block->arena.data() + static_cast<std::size_t>(id) * slot_bytes;
}
}  // namespace emu

inline emu::Index threadIdx, blockIdx;
inline void __syncthreads() {
  emu::wait(emu::block->all);
}

template <typename T, int V>
struct alignas(sizeof(T) * V > 16 ? 16 : sizeof(T) * V) PlVec {
  T x[V];
};
template <int V>
float pl_lane_bf16(const PlVec<unsigned short, V>& r, int j) {
  const unsigned bits = static_cast<unsigned>(r.x[j]) << 16;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
template <int H, int UNIT, typename T, int V>
void pl_load(PlVec<T, V>& r, const T* p) {
  for (int i = 0; i < V; i += UNIT) {
    if (emu::check(p + i, UNIT * sizeof(T), UNIT * sizeof(T), "load")) std::memcpy(&r.x[i], p + i, UNIT * sizeof(T));
  }
}
template <typename T>
const T* pl_near(const T* p) {
  return p;
}
template <int UNIT, typename T>
void pl_load_unit(T* r, const T* p) {
  if (emu::check(p, UNIT * sizeof(T), UNIT * sizeof(T), "load")) std::memcpy(r, p, UNIT * sizeof(T));
}
template <int H, typename T, int V>
void pl_load_across(PlVec<T, V>& r, const T* p) {
  const auto first = reinterpret_cast<std::uintptr_t>(p) / 16 * 16;
  const auto last = reinterpret_cast<std::uintptr_t>(p + V) - 1;
  if (emu::check(reinterpret_cast<const void*>(first), last / 16 * 16 + 16 - first, 16, "load"))
    std::memcpy(r.x, p, sizeof(T) * V);
}
template <int H, int UNIT, typename T, int V>
void pl_store(T* p, const PlVec<T, V>& r) {
  for (int i = 0; i < V; i += UNIT) {
    if (emu::check(p + i, UNIT * sizeof(T), UNIT * sizeof(T), "store")) std::memcpy(p + i, &r.x[i], UNIT * sizeof(T));
  }
}
template <typename T, int V>
void pl_get(PlVec<T, V>& r, const PlVec<T, V>* p) {
  r = *p;
}
template <typename T>
T pl_ldg(const T* p) {
  return emu::check(p, sizeof(T), sizeof(T), "load") ? *p : T{};
}
template <typename T>
void pl_put(T* p, T v) {
  if (emu::check(p, sizeof(T), sizeof(T), "store")) *p = v;
}
template <int UNIT, typename T, int V>
void pl_copy_async(PlVec<T, V>* d, const T* p) {
  constexpr std::size_t bytes = UNIT * sizeof(T);
  for (int i = 0; i < V; i += UNIT) {
    if (!emu::check(p + i, bytes, bytes, "copy")) continue;
    if (bytes < 4) {
      std::memcpy(&d->x[i], p + i, bytes);
    } else {
      emu::current->asked.push_back({&d->x[i], p + i, bytes});
    }
  }
}
template <int UNIT, typename T, int V>
void pl_take(PlVec<T, V>& r, const T* p) {
  const auto* c = reinterpret_cast<const unsigned char*>(p);
  const auto& memory = emu::block->dynamic;
  const bool inside = c >= memory.data() && c + sizeof(r) <= memory.data() + memory.size();
  for (int i = 0; i < V; i += UNIT) {
    if (!inside || (c - memory.data()) % (UNIT * sizeof(T)) != 0) {
      if (emu::faults++ < 5) std::fprintf(stderr, "shared read: %s\n", inside ? "misaligned" : "outside");
      return;
    }
    std::memcpy(&r.x[i], p + i, UNIT * sizeof(T));
  }
}
inline void pl_barrier_init(unsigned long long* b, int arrivals) {
  emu::barriers[b] = {arrivals, arrivals, 0, 0};
}
inline void pl_async_fence() {}
inline void pl_barrier_ready() {}
inline void pl_barrier_expect(unsigned long long* b, int bytes) {
  emu::arrived(b, bytes, 1);
}
template <typename D, typename T>
void pl_push(D* d, T v, unsigned long long* b, int rank) {
  const auto in = [&](const void* p) {
    return emu::cluster_blocks[static_cast<std::size_t>(rank)]->arena.data() +
           (static_cast<const unsigned char*>(p) - emu::block->arena.data());
  };
  D word{};
  std::memcpy(&word, &v, sizeof(T));
  std::memcpy(in(d), &word, sizeof(D));
  emu::arrived(reinterpret_cast<unsigned long long*>(in(b)), -static_cast<long long>(sizeof(D)), 0);
}
template <typename T, typename D>
T pl_bits(D v) {
  T out{};
  std::memcpy(&out, &v, sizeof(T));
  return out;
}
inline void pl_barrier_wait(unsigned long long* b, int parity) {
  while (emu::barriers.at(b).phase % 2 == static_cast<unsigned>(parity))
    swapcontext(&emu::current->context, &emu::scheduler);
}
template <int H, typename T>
void pl_bulk_load(void* d, const T* s, int bytes, unsigned long long* b) {
  auto* to = static_cast<unsigned char*>(d);
  const auto& memory = emu::block->dynamic;
  if (to < memory.data() || to + bytes > memory.data() + memory.size() || (to - memory.data()) % 16 != 0 ||
      bytes % 16 != 0) {
    if (emu::faults++ < 5) std::fprintf(stderr, "bulk copy of %d bytes to a wrong place\n", bytes);
  } else if (emu::check(s, static_cast<std::size_t>(bytes), 16, "bulk copy")) {
    std::memcpy(d, s, static_cast<std::size_t>(bytes));
  }
  emu::arrived(b, -bytes, 0);
}
inline float pl_fast_exp2(float x) {
  return exp2f(x);
}
inline float pl_fast_exp(float x) {
  return exp2f(x * 1.44269504f);
}
inline float pl_fast_sigmoid(float x) {
  return 1.0f / (1.0f + pl_fast_exp(-x));
}
inline float pl_fast_sqrt(float x) {
  return sqrtf(x);
}
inline float pl_fast_tanh(float x) {
  return tanhf(x);
}
inline float pl_fast_div(float a, float b) {
  return a / b;
}
inline void pl_copy_commit() {
  emu::current->groups.push_back(std::move(emu::current->asked));
  emu::current->asked.clear();
}
template <int N>
void pl_copy_wait() {
  auto& groups = emu::current->groups;
  for (; groups.size() > N; groups.pop_front()) {
    for (const emu::Copy& copy : groups.front()) std::memcpy(copy.to, copy.from, copy.bytes);
  }
}
/// Blocks that wait for each other: the launch runs all of them at once.
template <bool ORDER>
void pl_team_come(unsigned* gate) {
  ++*gate;
}
template <bool ORDER>
void pl_team_wait(const unsigned* gate, unsigned count) {
  while (*gate < count) swapcontext(&emu::current->context, &emu::scheduler);
}
inline void pl_word_say(unsigned long long* word, unsigned value, unsigned meeting) {
  *word = static_cast<unsigned long long>(meeting) << 32 | value;
}
template <typename T>
void pl_team_say(unsigned long long* word, T value, unsigned meeting) {
  unsigned bits[2] = {};
  std::memcpy(bits, &value, sizeof(T));
  pl_word_say(word, bits[0], meeting);
  if (sizeof(T) > 4) pl_word_say(word + 1, bits[1], meeting);
}
/// Lets others go on where nothing was said yet.
template <typename T>
struct PlTold {
  unsigned long long seen[2] = {};
  void look(const unsigned long long* word) { std::memcpy(seen, word, sizeof(T) > 4 ? 16 : 8); }
  bool of(unsigned meeting) const {
    if (seen[0] >> 32 == meeting && (sizeof(T) <= 4 || seen[1] >> 32 == meeting)) return true;
    swapcontext(&emu::current->context, &emu::scheduler);
    return false;
  }
  T value() const {
    const unsigned bits[2] = {static_cast<unsigned>(seen[0]), static_cast<unsigned>(seen[1])};
    T value;
    std::memcpy(&value, bits, sizeof(T));
    return value;
  }
};
template <typename T>
void pl_touch(const T*) {}
/// All threads of the block, from wherever they come; a count that is not theirs is a fault.
template <int THREADS>
void pl_block_meet() {
  if (emu::block->all.size != THREADS && emu::faults++ < 5)
    std::fprintf(stderr, "a barrier of %d threads in a block of %u\n", THREADS, emu::block->all.size);
  emu::wait(emu::block->all);
}
inline void pl_warp_meet() {
  emu::wait(emu::block->warps[emu::thread / 32]);
}
inline float pl_fast_rcp(float x) {
  return 1.0f / x;
}
template <typename T>
T pl_xor(T v, int mask) {
  auto& warp = emu::block->warps[emu::thread / 32];
  std::memcpy(&emu::block->slots[emu::thread], &v, sizeof(T));
  emu::wait(warp);
  T r;
  std::memcpy(&r, &emu::block->slots[emu::thread ^ static_cast<unsigned>(mask)], sizeof(T));
  emu::wait(warp);
  return r;
}
/// The value of the lane that `from` says of the own warp; what it gives outside the warp is the own one.
template <typename T>
T exchanged(T v, int from) {
  auto& warp = emu::block->warps[emu::thread / 32];
  std::memcpy(&emu::block->slots[emu::thread], &v, sizeof(T));
  emu::wait(warp);
  T r = v;
  if (from >= 0 && from < 32)
    std::memcpy(&r, &emu::block->slots[emu::thread / 32 * 32 + static_cast<unsigned>(from)], sizeof(T));
  emu::wait(warp);
  return r;
}
template <typename T>
T pl_up(T v, int lanes) {
  return exchanged(v, static_cast<int>(emu::thread % 32) - lanes);
}
template <typename T>
T pl_from_lane(T v, int lane) {
  return exchanged(v, lane);
}
inline void pl_cluster_sync() {
  emu::wait(emu::cluster_barrier);
}
inline void pl_cluster_meet() {
  emu::wait(emu::cluster_barrier);
}
template <typename T>
T pl_remote(const T* p, int rank) {
  const auto offset = reinterpret_cast<const unsigned char*>(p) - emu::block->arena.data();
  T r;
  std::memcpy(&r, emu::cluster_blocks[static_cast<std::size_t>(rank)]->arena.data() + offset, sizeof(T));
  return r;
}

inline int emu_launch(const std::function<void()>& body, unsigned grid, unsigned threads, unsigned cluster,
                      bool cooperative, std::size_t dynamic, void** pointers, const std::size_t* bytes, int count) {
  emu::ranges.clear();
  emu::faults = 0;
  for (int i = 0; i < count; ++i)
    emu::ranges.push_back({static_cast<const char*>(pointers[i]), static_cast<const char*>(pointers[i]) + bytes[i]});
  emu::kernel = &body;
  const unsigned together = cooperative ? grid : cluster;
  for (unsigned first = 0; first < grid; first += together) {
    std::vector<std::unique_ptr<emu::Block>> blocks;
    std::vector<std::unique_ptr<emu::Fiber>> fibers;
    emu::cluster_blocks.clear();
    emu::barriers.clear();
    emu::cluster_barrier = {threads * cluster};
    for (unsigned b = 0; b < together; ++b) {
      auto one = std::make_unique<emu::Block>();
      one->dynamic.resize(dynamic + 16);
      one->slots.resize(threads);
      one->all = {threads};
      one->warps.assign((threads + 31) / 32, {std::min(threads, 32u)});
      emu::cluster_blocks.push_back(one.get());
      for (unsigned t = 0; t < threads; ++t) {
        constexpr std::size_t stack_bytes = 64 << 10;
        auto fiber = std::make_unique<emu::Fiber>();
        fiber->stack = std::make_unique_for_overwrite<unsigned char[]>(stack_bytes);
        fiber->block = one.get();
        fiber->thread = t;
        fiber->index = first + b;
        getcontext(&fiber->context);
        fiber->context.uc_stack.ss_sp = fiber->stack.get();
        fiber->context.uc_stack.ss_size = stack_bytes;
        fiber->context.uc_link = &emu::scheduler;
        makecontext(&fiber->context, emu::enter, 0);
        fibers.push_back(std::move(fiber));
      }
      blocks.push_back(std::move(one));
    }
    // With a seed warps and blocks take turns at random, some of them much more often than others for a while.
    const char* const seed = std::getenv("PLANISH_EMULATE_SEED");
    std::mt19937 rng(seed != nullptr ? static_cast<unsigned>(std::atoi(seed)) : 0);
    std::vector<unsigned> patience(seed != nullptr ? fibers.size() / 32 + 1 : 0);
    unsigned passes = 0;
    for (bool alive = true; alive; ++passes) {
      alive = false;
      if (seed != nullptr && passes % 64 == 0) {
        for (unsigned& one : patience) one = 1u << rng() % 6;
      }
      bool skipped = false;
      for (std::size_t f = 0; f < fibers.size(); ++f) {
        const auto& fiber = fibers[f];
        if (fiber->done) continue;
        if (seed != nullptr && f % 32 == 0) skipped = rng() % patience[f / 32] != 0;
        if (skipped) {
          alive = true;
          continue;
        }
        emu::current = fiber.get();
        emu::block = fiber->block;
        emu::thread = threadIdx.x = fiber->thread;
        blockIdx.x = fiber->index;
        swapcontext(&emu::scheduler, &fiber->context);
        alive = alive || !fiber->done;
      }
    }
  }
  return emu::faults;
}
