// Runs emitted CUDA kernels on a CPU, one OS thread a CUDA thread: the names of the memory prelude again, with checks
// that the machine does not make (alignment, and every address inside its tensor). Slow; for small launches in tests.
#include <barrier>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#define __global__
#define __launch_bounds__(...)

namespace emu {
struct Index {
  unsigned x = 0;
};
struct Block {
  std::vector<unsigned char> arena = std::vector<unsigned char>(64 << 10);
  std::vector<unsigned char> dynamic;
  std::map<int, std::size_t> offsets;
  std::size_t used = 0;
  std::mutex mutex;
  std::unique_ptr<std::barrier<>> all;
  std::vector<std::unique_ptr<std::barrier<>>> warps;
  std::vector<unsigned long long> slots;
};
inline std::vector<Block*> cluster_blocks;
inline std::unique_ptr<std::barrier<>> cluster_barrier;
inline thread_local Block* block = nullptr;
inline thread_local unsigned thread = 0;
struct Range {
  const char* begin;
  const char* end;
};
inline std::vector<Range> ranges;
inline std::mutex report;
inline int faults = 0;

inline bool check(const void* p, std::size_t bytes, std::size_t align, const char* what) {
  const char* c = static_cast<const char*>(p);
  bool inside = false;
  for (const auto& r : ranges) inside = inside || (c >= r.begin && c + bytes <= r.end);
  if (inside && reinterpret_cast<std::uintptr_t>(p) % align == 0) return true;
  std::lock_guard lock(report);
  if (faults++ < 5)
    std::fprintf(stderr, "%s of %zu bytes: %s\n", what, bytes, inside ? "misaligned" : "outside every tensor");
  return false;
}
// A shared variable is placed once a block; the order of first use is the same in all blocks only by name, so the id
// decides.
inline void* shared(int id, std::size_t bytes) {
  std::lock_guard lock(block->mutex);
  (void)bytes;
  return block->arena.data() + static_cast<std::size_t>(id) * 16384;
}
}  // namespace emu

inline thread_local emu::Index threadIdx, blockIdx;
inline void __syncthreads() {
  emu::block->all->arrive_and_wait();
}

template <typename T, int V>
struct alignas(sizeof(T) * V > 16 ? 16 : sizeof(T) * V) PlVec {
  T x[V];
};
template <int H, int UNIT, typename T, int V>
void pl_load(PlVec<T, V>& r, const T* p) {
  for (int i = 0; i < V; i += UNIT) {
    if (emu::check(p + i, UNIT * sizeof(T), UNIT * sizeof(T), "load")) std::memcpy(&r.x[i], p + i, UNIT * sizeof(T));
  }
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
  pl_load<0, UNIT>(*d, p);
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
inline void pl_copy_commit() {}
template <int N>
void pl_copy_wait() {}
template <typename T>
T pl_xor(T v, int mask) {
  auto& warp = *emu::block->warps[emu::thread / 32];
  std::memcpy(&emu::block->slots[emu::thread], &v, sizeof(T));
  warp.arrive_and_wait();
  T r;
  std::memcpy(&r, &emu::block->slots[emu::thread ^ static_cast<unsigned>(mask)], sizeof(T));
  warp.arrive_and_wait();
  return r;
}
inline void pl_cluster_sync() {
  emu::cluster_barrier->arrive_and_wait();
}
template <typename T>
T pl_remote(const T* p, int rank) {
  const auto offset = reinterpret_cast<const unsigned char*>(p) - emu::block->arena.data();
  T r;
  std::memcpy(&r, emu::cluster_blocks[static_cast<std::size_t>(rank)]->arena.data() + offset, sizeof(T));
  return r;
}

inline int emu_launch(const std::function<void()>& body, unsigned grid, unsigned threads, unsigned cluster,
                      std::size_t dynamic, void** pointers, const std::size_t* bytes, int count) {
  emu::ranges.clear();
  emu::faults = 0;
  for (int i = 0; i < count; ++i)
    emu::ranges.push_back({static_cast<const char*>(pointers[i]), static_cast<const char*>(pointers[i]) + bytes[i]});
  for (unsigned first = 0; first < grid; first += cluster) {
    std::vector<std::unique_ptr<emu::Block>> blocks;
    emu::cluster_blocks.clear();
    emu::cluster_barrier = std::make_unique<std::barrier<>>(static_cast<std::ptrdiff_t>(threads * cluster));
    for (unsigned b = 0; b < cluster; ++b) {
      auto one = std::make_unique<emu::Block>();
      one->arena.resize(16 * 16384);
      one->dynamic.resize(dynamic + 16);
      one->slots.resize(threads);
      one->all = std::make_unique<std::barrier<>>(static_cast<std::ptrdiff_t>(threads));
      for (unsigned w = 0; w < threads; w += 32) one->warps.push_back(std::make_unique<std::barrier<>>(32));
      emu::cluster_blocks.push_back(one.get());
      blocks.push_back(std::move(one));
    }
    std::vector<std::thread> all;
    for (unsigned b = 0; b < cluster; ++b) {
      for (unsigned t = 0; t < threads; ++t) {
        all.emplace_back([&, b, t] {
          emu::block = emu::cluster_blocks[b];
          emu::thread = t;
          threadIdx.x = t;
          blockIdx.x = first + b;
          body();
        });
      }
    }
    for (auto& t : all) t.join();
  }
  return emu::faults;
}
