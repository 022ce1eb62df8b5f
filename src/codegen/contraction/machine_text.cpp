#include <fmt/format.h>

#include "codegen/contraction/main_loop.h"

namespace planish::codegen::contraction {

/// Every machine instruction but the product itself is in a function here, so that what comes after can also be run,
/// slowly, on a CPU with another definition of the same names.
std::string_view machine_text() {
  return R"(typedef unsigned int u32;
typedef unsigned long long u64;
#define TC_FN __device__ __forceinline__
TC_FN u32 tc_shared(const void* p) { return (u32)__cvta_generic_to_shared(p); }
TC_FN void tc_init(u32 barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(barrier), "r"(arrivals) : "memory");
}
TC_FN void tc_ready() { asm volatile("fence.mbarrier_init.release.cluster; fence.proxy.async.shared::cta;" ::: "memory"); }
TC_FN void tc_clear(u32 to) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %1, %1, %1};" :: "r"(to), "r"(0) : "memory");
}
TC_FN void tc_expect(u32 barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(barrier), "r"(bytes) : "memory");
}
TC_FN void tc_leave(u32 barrier) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(barrier) : "memory"); }
TC_FN void tc_copy(u32 to, const void* from, int bytes, u32 barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
               :: "r"(to), "l"(from), "r"(bytes), "r"(barrier) : "memory");
}
TC_FN bool tc_poll_once(u32 barrier, u32 parity) {
  u32 done;
  asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.b32 %0, 1, 0, p;}"
               : "=r"(done) : "r"(barrier), "r"(parity) : "memory");
  return done != 0;
}
TC_FN void tc_trap() { asm volatile("trap;"); }
TC_FN void tc_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
TC_FN void tc_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int left> TC_FN void tc_finish() { asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(left) : "memory"); }
template <int n> TC_FN void tc_fewer() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" :: "n"(n)); }
template <int n> TC_FN void tc_more() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(n)); }
// Says to the compiler that these registers changed here, so that no use of them moves above a tc_finish().
template <int n> TC_FN void tc_hold(float (&d)[n]) {
#pragma unroll
  for (int i = 0; i < n; ++i) asm volatile("" : "+f"(d[i]) :: "memory");
}
TC_FN int tc_group() { return __shfl_sync(~0u, (int)threadIdx.x / 128, 0); }
TC_FN bool tc_finite(float v) { return (__float_as_uint(v) & 0x7f800000u) != 0x7f800000u; }
// v * 2^e, rounded once where the result is normal, for sums of products of operands that were scaled (|v| from 2^-60 to
// 2^60): beyond |e| = 252 the result is infinite, or 0, as it is there.
struct TcFactors { float one, other; };
TC_FN TcFactors tc_factors(int e) {
  e = min(max(e, -252), 252);
  const int half = e >> 1;
  return {__int_as_float((127 + half) << 23), __int_as_float((127 + e - half) << 23)};
}
TC_FN float tc_scale(float v, int e) {
  const TcFactors f = tc_factors(e);
  return v * f.one * f.other;
}
// 0, which the compiler does not know: what is loaded from there is not held from one tile to the next.
TC_FN int tc_zero() {
  int zero;
  asm volatile("mov.b32 %0, 0;" : "=r"(zero));
  return zero;
}
// A warp's results in shared memory.
template <int pitch> struct TcExchange {
  const float* at;
  __device__ __forceinline__ float operator()(int r, int c) const { return at[r * pitch + c]; }
};
template <int pitch> TC_FN void tc_neighbours(const TcExchange<pitch>& sums, int r, int c, float (&v)[4]) {
  const float4 all = *(const float4*)(sums.at + r * pitch + c);
  v[0] = all.x, v[1] = all.y, v[2] = all.z, v[3] = all.w;
}
template <int pitch> TC_FN void tc_neighbours(const TcExchange<pitch>& sums, int r, int c, float (&v)[2]) {
  const float2 both = *(const float2*)(sums.at + r * pitch + c);
  v[0] = both.x, v[1] = both.y;
}
)";
}

std::string_view bringing_text() {
  return R"(TC_FN void tc_bring(u32 to, const char* from, bool there) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(to), "l"(from), "r"(there ? 16 : 0) : "memory");
}
TC_FN void tc_brought() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits for all groups of copies of this thread but so many, and shows what they wrote to the tensor cores.
template <int left> TC_FN void tc_show() {
  asm volatile("cp.async.wait_group %0; fence.proxy.async.shared::cta;" :: "n"(left) : "memory");
}
)";
}

std::string_view parting_text() {
  return R"(TC_FN u32 tc_pair(float low, float high) {
  u32 r;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}
// x = hi + lo * 2^-11 in fp16, two at once.
TC_FN void tc_part(u32& hi, u32& lo, float a, float b) {
  hi = tc_pair(a, b);
  lo = tc_pair((a - pl_from_f16((unsigned short)(hi & 0xffff))) * 2048.0f,
               (b - pl_from_f16((unsigned short)(hi >> 16))) * 2048.0f);
}
// Grows with |x|; Inf and NaN are above all numbers.
TC_FN unsigned tc_magnitude(float x) { return __float_as_uint(x) & 0x7fffffffu; }
// Whether a row with this largest magnitude needs no scale: from 2^-9, of which 2^-36 may be lost, to 2^15.
TC_FN bool tc_plain(unsigned top) { return top == 0 || (top >= 0x3b000000u && top < 0x47000000u); }
)";
}

std::string_view register_text() {
  return R"(TC_FN void tc_four(float (&x)[4], u32 from) {
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(x[0]), "=f"(x[1]), "=f"(x[2]), "=f"(x[3]) : "r"(from) : "memory");
}
// The larger magnitude; NaN if either is.
TC_FN float tc_larger(float top, float x) {
  float r;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(top), "f"(fabsf(x)));
  return r;
}
// What a thread has of both parts of 16 rows and 16 k: those of its row at `from`, and of the row 8 below.
TC_FN void tc_part_rows(u32 (&hi)[4], u32 (&lo)[4], float (&top)[2], u32 from) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float x[4];
    tc_four(x, from + h * 1024);
    tc_part(hi[h], lo[h], x[0], x[1]);
    tc_part(hi[h + 2], lo[h + 2], x[2], x[3]);
#pragma unroll
    for (int i = 0; i < 4; ++i) top[h] = tc_larger(top[h], x[i]);
  }
}
// Whether lanes that have the same rows saw one that has to be scaled; forgets it.
TC_FN bool tc_odd(float (&top)[2]) {
  bool odd = false;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    top[h] = tc_larger(top[h], __shfl_xor_sync(~0u, top[h], 1));
    top[h] = tc_larger(top[h], __shfl_xor_sync(~0u, top[h], 2));
    odd = odd | !tc_plain(tc_magnitude(top[h]));
    top[h] = 0.0f;
  }
  return odd;
}
)";
}

std::string_view strip_text() {
  return R"(// Eight channels of a place, which are constants apart; zeros where there is none.
template <int apart> TC_FN void tc_eight(TcEight& e, const float* from, bool there) {
  asm volatile("{.reg .pred p; setp.ne.b32 p, %9, 0;"
               "mov.b32 %0, 0; mov.b32 %1, 0; mov.b32 %2, 0; mov.b32 %3, 0;"
               "mov.b32 %4, 0; mov.b32 %5, 0; mov.b32 %6, 0; mov.b32 %7, 0;"
               "@p ld.global.nc.f32 %0, [%8]; @p ld.global.nc.f32 %1, [%8+%10];"
               "@p ld.global.nc.f32 %2, [%8+%11]; @p ld.global.nc.f32 %3, [%8+%12];"
               "@p ld.global.nc.f32 %4, [%8+%13]; @p ld.global.nc.f32 %5, [%8+%14];"
               "@p ld.global.nc.f32 %6, [%8+%15]; @p ld.global.nc.f32 %7, [%8+%16];}"
               : "=&f"(e.v[0]), "=&f"(e.v[1]), "=&f"(e.v[2]), "=&f"(e.v[3]), "=&f"(e.v[4]), "=&f"(e.v[5]),
                 "=&f"(e.v[6]), "=&f"(e.v[7])
               : "l"(from), "r"((int)there), "n"(4 * apart), "n"(8 * apart), "n"(12 * apart), "n"(16 * apart),
                 "n"(20 * apart), "n"(24 * apart), "n"(28 * apart));
}
)";
}

std::string_view splitting_text() {
  return R"(struct TcEight { float v[8]; };
TC_FN TcEight tc_take(const char* from, bool there) {
  TcEight e;
  const float4 none = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  *(float4*)e.v = there ? __ldg((const float4*)from) : none;
  *(float4*)(e.v + 4) = there ? __ldg((const float4*)from + 1) : none;
  return e;
}
TC_FN void tc_write(u32 to, const u32 (&x)[4]) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" :: "r"(to), "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]) : "memory");
}
// x = hi + lo * 2^-11 in fp16, eight at once.
TC_FN void tc_keep(u32 high, u32 low, const TcEight& e) {
  u32 hi[4], lo[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) tc_part(hi[i], lo[i], e.v[2 * i], e.v[2 * i + 1]);
  tc_write(high, hi);
  tc_write(low, lo);
}
TC_FN void tc_shown() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
)";
}

std::string mapping_text() {
  std::string text = R"(// Fields of a tensor map, whose 128 bytes are in shared memory.
TC_FN void tc_map_begin(u32 map, const void* from) {
  asm volatile("tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%0], %1;" :: "l"((u64)map), "l"(from) : "memory");
}
// Rows of 128 bytes swizzled, zeros outside.
template <int rank, int type> TC_FN void tc_map_type(u32 map) {
  asm volatile("tensormap.replace.tile.rank.shared::cta.b1024.b32 [%0], %1;" :: "l"((u64)map), "n"(rank) : "memory");
  asm volatile("tensormap.replace.tile.elemtype.shared::cta.b1024.b32 [%0], %1;" :: "l"((u64)map), "n"(type) : "memory");
  asm volatile("tensormap.replace.tile.interleave_layout.shared::cta.b1024.b32 [%0], 0;" :: "l"((u64)map) : "memory");
  asm volatile("tensormap.replace.tile.swizzle_mode.shared::cta.b1024.b32 [%0], 3;" :: "l"((u64)map) : "memory");
  asm volatile("tensormap.replace.tile.fill_mode.shared::cta.b1024.b32 [%0], 0;" :: "l"((u64)map) : "memory");
}
template <int d> TC_FN void tc_map_dim(u32 map, int extent, int box, int step) {
  asm volatile("tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%0], %1, %2;" :: "l"((u64)map), "n"(d), "r"(extent) : "memory");
  asm volatile("tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%0], %1, %2;" :: "l"((u64)map), "n"(d), "r"(box) : "memory");
  asm volatile("tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [%0], %1, %2;" :: "l"((u64)map), "n"(d), "r"(step) : "memory");
}
template <int d> TC_FN void tc_map_stride(u32 map, u64 bytes) {
  asm volatile("tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [%0], %1, %2;" :: "l"((u64)map), "n"(d), "l"(bytes) : "memory");
}
// All of a warp: the map goes where the copy engine reads it.
TC_FN void tc_publish(void* to, u32 map) {
  asm volatile("tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%0], [%1], 128;"
               :: "l"(to), "l"((u64)map) : "memory");
}
TC_FN void tc_acquire(const void* map) {
  asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" :: "l"(map) : "memory");
}
)";
  // Of two to five dims.
  for (int dims = 2; dims <= 5; ++dims) {
    std::string parameters, places, operands;
    for (int d = 0; d < dims; ++d) {
      parameters += fmt::format(", int x{}", d);
      places += fmt::format("{}%{}", d == 0 ? "" : ", ", d + 3);
      operands += fmt::format(", \"r\"(x{})", d);
    }
    text += fmt::format(
        "TC_FN void tc_fetch(u32 to, const void* map, u32 barrier{}) {{\n"
        "  asm volatile(\"cp.async.bulk.tensor.{}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], "
        "[%1, {{{}}}], [%2];\" :: \"r\"(to), \"l\"(map), \"r\"(barrier){} : \"memory\");\n}}\n",
        parameters, dims, places, operands);
  }
  return text;
}

}  // namespace planish::codegen::contraction
