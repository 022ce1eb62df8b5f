typedef unsigned int u32;
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
