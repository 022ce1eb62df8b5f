// The instructions that device/sm90/skinny.cuh is made of, on the fibers of cuda_emulator.h: in place of sm90/ptx.cuh.
#include <bit>

#include "cuda_emulator.h"
#include "pairs_cpu.h"

#define __device__
#define __forceinline__ inline

#define PL_DEVICE inline

struct uint4 {
  unsigned x, y, z, w;
};
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) {
  return {x, y, z, w};
}

namespace cpu {
inline const unsigned char zeros[16] = {};
inline int waits = 0, launches = 0;  ///< threads that waited for the launches before, or let the one after begin
inline bool asked_for_x = false;     ///< something that is no weight was read before the wait
inline unsigned char* place(u32 at, std::size_t bytes) {
  static unsigned char nowhere[16];
  auto& memory = emu::block->dynamic;
  if (at % 16 == 0 && at + bytes <= memory.size()) return memory.data() + at;
  if (emu::faults++ < 5) std::fprintf(stderr, "%zu bytes of shared memory at %u\n", bytes, at);
  return nowhere;
}
/// What the lanes of each warp of the one block that runs hand to an instruction of all of them.
inline unsigned lanes[32][32][6];
}  // namespace cpu

inline u32 shared_address(const void* p) {
  return static_cast<u32>(static_cast<const unsigned char*>(p) - emu::block->dynamic.data());
}
inline u64 policy_evict_first() {
  return 0;
}
inline void cp_async_16(u32 to, const void* from, int bytes, u64) {
  if (bytes == 16) emu::check(from, 16, 16, "asynchronous copy");
  emu::current->asked.push_back({cpu::place(to, 16), bytes == 16 ? from : cpu::zeros, 16});
}
inline void cp_async_commit() {
  pl_copy_commit();
}
template <int n>
void cp_async_wait() {
  pl_copy_wait<n>();
}
inline uint4 load_once_16(const void* from, bool there, u64) {
  uint4 v{0, 0, 0, 0};
  if (there && emu::check(from, 16, 16, "load")) std::memcpy(&v, from, 16);
  return v;
}
inline uint4 load_visible_16(const void* from) {
  if (cpu::waits == 0) cpu::asked_for_x = true;
  return load_once_16(from, true, 0);
}
template <typename T>
T load_visible(const T* from) {
  return *from;
}
template <typename T>
T load_constant(const T* from) {
  return *from;
}
inline void prefetch_line(const void*) {}
inline void prefetch_lines(const void*, int, int, int) {}
inline u32 own_register(u32 v) {
  return v;
}
inline uint4 shared_load_16(u32 from) {
  uint4 v;
  std::memcpy(&v, cpu::place(from, 16), 16);
  return v;
}
inline float shared_load(u32 from) {
  float v;
  std::memcpy(&v, cpu::place(from / 16 * 16, 16) + from % 16, 4);
  return v;
}
inline u32 __float_as_uint(float v) {
  return std::bit_cast<u32>(v);
}
inline float __uint_as_float(u32 v) {
  return std::bit_cast<float>(v);
}
inline void shared_store(u32 to, float v) {
  std::memcpy(cpu::place(to / 16 * 16, 16) + to % 16, &v, 4);
}
inline void __syncwarp() {
  emu::wait(emu::block->warps[emu::thread / 32]);
}
inline void shared_store_16(u32 to, uint4 v) {
  std::memcpy(cpu::place(to, 16), &v, 16);
}
inline void dependency_wait() {
  ++cpu::waits;
}
inline void dependency_launch() {
  ++cpu::launches;
}
inline void dependency_stay() {}
template <bool bf16>
void mma_16x8x16(float (&sums)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
  auto& barrier = emu::block->warps[emu::thread / 32];
  auto& all = cpu::lanes[emu::thread / 32];
  const unsigned lane = emu::thread % 32, mine[6] = {a0, a1, a2, a3, b0, b1};
  std::memcpy(all[lane], mine, sizeof mine);
  emu::wait(barrier);
  for (unsigned e = 0; e < 4; ++e) {
    const unsigned row = lane / 4 + e / 2 * 8, column = lane % 4 * 2 + e % 2;
    for (unsigned k = 0; k < 16; ++k) {
      const unsigned t = k % 8 / 2, a = row / 8 + k / 8 * 2, b = 4 + k / 8;
      sums[e] += cpu::value(all[row % 8 * 4 + t][a], static_cast<int>(k % 2), bf16) *
                 cpu::value(all[column * 4 + t][b], static_cast<int>(k % 2), bf16);
    }
  }
  emu::wait(barrier);
}
inline float warp_sum(float v) {
  for (int mask = 16; mask > 0; mask /= 2) v += pl_xor(v, mask);
  return v;
}
