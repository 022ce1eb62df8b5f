#pragma once

/// What `sm80/product.cuh` and `sm80/attention.cuh` run on where there is no GPU: their file of instructions once more,
/// as C++, behind the language of `sm90_machine.h`. A copy lands when it is asked for, or not before its thread waits
/// for it (`late_copies`): a place that is filled too early, or read too early, holds something else in one of the two.
/// Where copies land at once, a warp runs on for as long as it can.
namespace planish::codegen {

/// In place of `sm80/ptx.cuh`.
inline constexpr const char* sm80_ptx = R"(#pragma once
#include "types.cuh"
static u32 shared_address(const void* p) { return (u32)((const unsigned char*)p - pl_smem); }
static bool late_copies;
static long conflicts;  // of banks, where matrices are loaded
struct Copy { u32 to; const char* from; int bytes; };
static std::vector<Copy> asked[most_threads];
static std::deque<std::vector<Copy>> copy_groups[most_threads];
static void land(const Copy& copy) {
  std::memset(pl_smem + copy.to, 0, 16);
  std::memcpy(pl_smem + copy.to, copy.from, copy.bytes);
}
static void cp_async_16(u32 to, const void* from, int bytes) {
  if (to % 16 != 0 || to + 16 > shared_size || bytes < 0 || bytes > 16) std::abort();
  if ((u64)from % 16 != 0) std::abort();
  const Copy copy{to, (const char*)from, bytes};
  if (late_copies) asked[own].push_back(copy); else land(copy);
}
static void cp_async_if(u32 to, const char* from, bool there) { cp_async_16(to, from, there ? 16 : 0); }
static void cp_async_commit() {
  copy_groups[own].push_back(std::move(asked[own]));
  asked[own].clear();
}
template <int left> void cp_async_wait() {
  for (auto& groups = copy_groups[own]; (int)groups.size() > left; groups.pop_front())
    for (const Copy& copy : groups.front()) land(copy);
}
static void begin_copies(bool late) {
  late_copies = late;
  skewed = !late;
  for (int i = 0; i < most_threads; ++i) asked[i].clear(), copy_groups[i].clear();
}
struct Matrices { unsigned char rows[32][16]; };
static Matrices matrices_at(u32 row) {
  if (row % 16 != 0) std::abort();
  const int slot = ask(row);
  Matrices all;
  for (int i = 0; i < 4; ++i) {
    u32 banks = 0;
    for (int r = 0; r < 8; ++r) banks |= 1u << told<u32>(slot, i * 8 + r) / 16 % 8;
    if (banks != 255) ++conflicts;
  }
  for (int l = 0; l < 32; ++l) std::memcpy(all.rows[l], pl_smem + told<u32>(slot, l), 16);
  return all;
}
static void load_matrices(u32 (&r)[4], u32 row) {
  const Matrices all = matrices_at(row);
  const int lane = own % 32;
  for (int i = 0; i < 4; ++i) std::memcpy(&r[i], all.rows[i * 8 + lane / 4] + lane % 4 * 4, 4);
}
static void load_matrices_transposed(u32 (&r)[4], u32 row) {
  const Matrices all = matrices_at(row);
  const int lane = own % 32;
  for (int i = 0; i < 4; ++i) {
    u16 pair[2];
    for (int e = 0; e < 2; ++e) std::memcpy(&pair[e], all.rows[i * 8 + lane % 4 * 2 + e] + lane / 4 * 2, 2);
    std::memcpy(&r[i], pair, 4);
  }
}
template <bool bf16> float half_of(u32 word, int which) {
  const u16 x = (u16)(word >> which * 16);
  return bf16 ? pl_from_bf16(x) : pl_from_f16(x);
}
struct FourWords { u32 x[4]; };
struct TwoWords { u32 x[2]; };
template <bool bf16> void mma_16x8x16(float (&sums)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
  const int lane = own % 32, g = lane / 4, t = lane % 4;
  float a[2][16], b[2][16];
  int slot = ask(FourWords{{a0, a1, a2, a3}});
  for (int h = 0; h < 2; ++h)
    for (int k = 0; k < 16; ++k) a[h][k] = half_of<bf16>(told<FourWords>(slot, g * 4 + k % 8 / 2).x[h + k / 8 * 2], k % 2);
  slot = ask(TwoWords{{b0, b1}});
  for (int e = 0; e < 2; ++e)
    for (int k = 0; k < 16; ++k) b[e][k] = half_of<bf16>(told<TwoWords>(slot, (2 * t + e) * 4 + k % 8 / 2).x[k / 8], k % 2);
  for (int i = 0; i < 4; ++i)
    for (int k = 0; k < 16; ++k) sums[i] += a[i / 2][k] * b[i % 2][k];
}
static float exp2_fast(float x) { return exp2f(x); }
static float exp2_full(float x) { return exp2f(x); }
static void unpack_f16(float& low, float& high, u32 both) {
  low = pl_from_f16((u16)both), high = pl_from_f16((u16)(both >> 16));
}
static u32 pack_f16(float low, float high) { return pl_to_f16(low) | (u32)pl_to_f16(high) << 16; }
static u32 pack_bf16(float low, float high) { return pl_to_bf16(low) | (u32)pl_to_bf16(high) << 16; }
)";

}  // namespace planish::codegen
