template <typename T, int V> struct __align__(sizeof(T) * V > 16 ? 16 : sizeof(T) * V) PlVec { T x[V]; };
// H: 0 = through the read-only path, 1 = the same without keeping lines in L1.
template <int B, int H> struct PlMem;
template <int H> struct PlMem<1, H> {
  PL_FN static void ld(void* d, const void* s) { *(unsigned char*)d = __ldg((const unsigned char*)s); }
  PL_FN static void st(void* d, const void* s) { *(unsigned char*)d = *(const unsigned char*)s; }
};
template <int H> struct PlMem<2, H> {
  PL_FN static void ld(void* d, const void* s) { *(unsigned short*)d = __ldg((const unsigned short*)s); }
  PL_FN static void st(void* d, const void* s) {
    if (H) __stcs((unsigned short*)d, *(const unsigned short*)s); else *(unsigned short*)d = *(const unsigned short*)s;
  }
};
template <int H> struct PlMem<4, H> {
  PL_FN static void ld(void* d, const void* s) {
    if (H) asm volatile("ld.global.nc.L1::no_allocate.u32 %0, [%1];" : "=r"(*(unsigned*)d) : "l"(s)); else *(unsigned*)d = __ldg((const unsigned*)s);
  }
  PL_FN static void st(void* d, const void* s) { if (H) __stcs((unsigned*)d, *(const unsigned*)s); else *(unsigned*)d = *(const unsigned*)s; }
};
template <int H> struct PlMem<8, H> {
  PL_FN static void ld(void* d, const void* s) {
    uint2 v;
    if (H) asm volatile("ld.global.nc.L1::no_allocate.v2.u32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "l"(s)); else v = __ldg((const uint2*)s);
    *(uint2*)d = v;
  }
  PL_FN static void st(void* d, const void* s) { if (H) __stcs((uint2*)d, *(const uint2*)s); else *(uint2*)d = *(const uint2*)s; }
};
template <int H> struct PlMem<16, H> {
  PL_FN static void ld(void* d, const void* s) {
    uint4 v;
    if (H) asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(s));
    else v = __ldg((const uint4*)s);
    *(uint4*)d = v;
  }
  PL_FN static void st(void* d, const void* s) { if (H) __stcs((uint4*)d, *(const uint4*)s); else *(uint4*)d = *(const uint4*)s; }
};
// Lane j of a vector that arrived in words.
template <int V> PL_FN float pl_lane_bf16(const PlVec<unsigned short, V>& r, int j) {
  const unsigned w = ((const unsigned*)r.x)[j >> 1];
  return __uint_as_float(j & 1 ? w & 0xffff0000u : w << 16);
}
// UNIT elements an access: what the address is known to be aligned to.
template <int H, int UNIT, typename T, int V> PL_FN void pl_load(PlVec<T, V>& r, const T* p) {
#pragma unroll
  for (int i = 0; i < V; i += UNIT) PlMem<UNIT * sizeof(T), H>::ld(&r.x[i], p + i);
}
template <int UNIT, typename T> PL_FN void pl_load_unit(T* r, const T* p) { PlMem<UNIT * sizeof(T), 0>::ld(r, p); }
// An address that others lie near: kept, rather than made again for each of them with its guard.
template <typename T> PL_FN const T* pl_near(const T* p) { asm("" : "+l"(p)); return p; }
// The same from any element: all 16-byte units that the vector lies across, and its words out of them. Where the vector
// is aligned, one unit more than it has is not touched.
template <int H, typename T, int V> PL_FN void pl_load_across(PlVec<T, V>& r, const T* p) {
  constexpr int N = sizeof(T) * V / 4;
  const unsigned off = (unsigned)(unsigned long long)p & 15u;
  const unsigned char* const from = (const unsigned char*)p - off;
  unsigned a[N + 4];
#pragma unroll
  for (int i = 0; i < N; i += 4) PlMem<16, H>::ld(&a[i], from + 4 * i);
  PlMem<16, H>::ld(&a[N], from + (off ? 4 * N : 4 * N - 16));
  if (off & 8u) {
#pragma unroll
    for (int i = 0; i < N + 2; ++i) a[i] = a[i + 2];
  }
  if (off & 4u) {
#pragma unroll
    for (int i = 0; i < N + 1; ++i) a[i] = a[i + 1];
  }
  unsigned* const d = (unsigned*)r.x;
#pragma unroll
  for (int i = 0; i < N; ++i) d[i] = sizeof(T) < 4 ? __funnelshift_r(a[i], a[i + 1], (off & 3u) * 8u) : a[i];
}
template <int H, int UNIT, typename T, int V> PL_FN void pl_store(T* p, const PlVec<T, V>& r) {
#pragma unroll
  for (int i = 0; i < V; i += UNIT) PlMem<UNIT * sizeof(T), H>::st(p + i, &r.x[i]);
}
template <typename T, int V> PL_FN void pl_get(PlVec<T, V>& r, const PlVec<T, V>* p) {
  constexpr int B = sizeof(T) * V;
  if constexpr (B % 16 == 0) {
#pragma unroll
    for (int i = 0; i < B / 16; ++i) ((uint4*)&r)[i] = ((const uint4*)p)[i];
  } else {
    r = *p;
  }
}
template <typename T> PL_FN T pl_ldg(const T* p) { return __ldg(p); }
// Global → shared without registers where the access is 4, 8 or 16 bytes.
template <int UNIT, typename T, int V> PL_FN void pl_copy_async(PlVec<T, V>* d, const T* p) {
  constexpr int B = UNIT * sizeof(T);
#pragma unroll
  for (int i = 0; i < V; i += UNIT) {
    if constexpr (B >= 4) {
      const unsigned a = (unsigned)__cvta_generic_to_shared(&d->x[i]);
      if constexpr (B == 16) asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(a), "l"(p + i) : "memory");
      else asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(a), "l"(p + i), "n"(B) : "memory");
    } else {
      PlMem<B, 0>::ld(&d->x[i], p + i);
    }
  }
}
template <int UNIT, typename T, int V> PL_FN void pl_take(PlVec<T, V>& r, const T* p) {
#pragma unroll
  for (int i = 0; i < V; i += UNIT) {
    constexpr int B = UNIT * sizeof(T);
    if constexpr (B == 16) *(uint4*)&r.x[i] = *(const uint4*)(p + i);
    else if constexpr (B == 8) *(uint2*)&r.x[i] = *(const uint2*)(p + i);
    else if constexpr (B == 4) *(unsigned*)&r.x[i] = *(const unsigned*)(p + i);
    else if constexpr (B == 2) *(unsigned short*)&r.x[i] = *(const unsigned short*)(p + i);
    else r.x[i] = p[i];
  }
}
// A barrier that counts arrivals and bytes; the copy engine reports the bytes.
PL_FN unsigned pl_shared_address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
PL_FN void pl_barrier_init(unsigned long long* b, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(pl_shared_address(b)), "r"(arrivals) : "memory");
}
PL_FN void pl_async_fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
PL_FN void pl_barrier_ready() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); pl_async_fence(); }
PL_FN void pl_barrier_expect(unsigned long long* b, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(pl_shared_address(b)), "r"(bytes) : "memory");
}
PL_FN void pl_barrier_wait(unsigned long long* b, int parity) {
  unsigned done;
  do {
    asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
                 : "=r"(done) : "r"(pl_shared_address(b)), "r"(parity) : "memory");
  } while (!done);
}
// H: 1 = the lines leave the L2 cache first.
template <int H> PL_FN void pl_bulk_load(void* d, const void* s, int bytes, unsigned long long* b) {
  if constexpr (H != 0) {
    unsigned long long policy;
    asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;"
                 ::"r"(pl_shared_address(d)), "l"(s), "r"(bytes), "r"(pl_shared_address(b)), "l"(policy) : "memory");
  } else {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 ::"r"(pl_shared_address(d)), "l"(s), "r"(bytes), "r"(pl_shared_address(b)) : "memory");
  }
}
PL_FN float pl_fast_exp2(float x) { float r; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x)); return r; }
PL_FN float pl_fast_exp(float x) { return pl_fast_exp2(x * 1.44269504f); }
PL_FN float pl_fast_rcp(float x) { float r; asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x)); return r; }
PL_FN float pl_fast_sigmoid(float x) { return pl_fast_rcp(1.0f + pl_fast_exp(-x)); }
PL_FN float pl_fast_sqrt(float x) { float r; asm("sqrt.approx.f32 %0, %1;" : "=f"(r) : "f"(x)); return r; }
PL_FN float pl_fast_tanh(float x) { float r; asm("tanh.approx.f32 %0, %1;" : "=f"(r) : "f"(x)); return r; }
PL_FN float pl_fast_div(float a, float b) { float r; asm("div.full.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b)); return r; }
PL_FN void pl_copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> PL_FN void pl_copy_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }
template <typename T> PL_FN T pl_xor(T v, int mask) {
  if constexpr (sizeof(T) >= 4) return __shfl_xor_sync(0xffffffffu, v, mask); else return (T)__shfl_xor_sync(0xffffffffu, (int)v, mask);
}
template <typename T> PL_FN T pl_up(T v, int lanes) { return __shfl_up_sync(0xffffffffu, v, lanes); }
template <typename T> PL_FN T pl_from_lane(T v, int lane) { return __shfl_sync(0xffffffffu, v, lane); }
PL_FN void pl_cluster_sync() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}
// All blocks of the cluster run, and see each other's barriers; nothing else is waited for.
PL_FN void pl_cluster_meet() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}
// The value at the same shared address in block `rank` of the cluster.
template <typename T> PL_FN T pl_remote(const T* p, int rank) {
  unsigned a = (unsigned)__cvta_generic_to_shared(p), r;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(rank));
  if constexpr (sizeof(T) == 8) {
    unsigned long long v;
    asm volatile("ld.shared::cluster.u64 %0, [%1];" : "=l"(v) : "r"(r) : "memory");
    return *(T*)&v;
  } else if constexpr (sizeof(T) == 4) {
    unsigned v;
    asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(v) : "r"(r) : "memory");
    return *(T*)&v;
  } else {
    unsigned short v;
    asm volatile("ld.shared::cluster.u8 %0, [%1];" : "=h"(v) : "r"(r) : "memory");
    return (T)v;
  }
}
// Into block `rank` of the cluster: the value at the same shared address as d, the bytes counted by the barrier at b.
template <typename D, typename T> PL_FN void pl_push(D* d, T v, unsigned long long* b, int rank) {
  unsigned to, at;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(to) : "r"(pl_shared_address(d)), "r"(rank));
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(at) : "r"(pl_shared_address(b)), "r"(rank));
  if constexpr (sizeof(D) == 8) {
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.b64 [%0], %1, [%2];" ::"r"(to), "l"(*(unsigned long long*)&v), "r"(at) : "memory");
  } else {
    unsigned word;
    if constexpr (sizeof(T) == 4) word = *(unsigned*)&v; else word = (unsigned)v;
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" ::"r"(to), "r"(word), "r"(at) : "memory");
  }
}
template <typename T, typename D> PL_FN T pl_bits(D v) {
  if constexpr (sizeof(T) == sizeof(D)) return *(T*)&v; else return (T)v;
}
// 1 / (1 + exp(-x)), as exact as a division: of a divisor from 1 to infinity, which needs no branches. A quarter of it
// has an inverse among the normal numbers.
PL_FN float pl_full_sigmoid(float x) {
  const float d = 1.0f + expf(-x), q = 0.25f * d, r = pl_fast_rcp(q);
  return d > 0x1.fffffep+127f ? 0.0f : 0.25f * fmaf(r, fmaf(-q, r, 1.0f), r);
}
// tanh(x * in) * out; in and out are positive constants, which the compiler multiplies into the coefficients. One
// rational function of x * x, fitted to be a little above 1 where tanh rounds to 1, and cut there.
PL_FN float pl_short_tanh(float x, double in, double out) {
  const double s = in * in, first = out * in;
  const float a = pl_min(fabsf(x), (float)(9.0 / in)), u = a * a;
  float p = fmaf(u, (float)(0x1.dc8f46p-27 * first * s * s * s * s), (float)(0x1.5fcba2p-16 * first * s * s * s));
  p = fmaf(u, p, (float)(0x1.cd0046p-9 * first * s * s));
  p = fmaf(u, p, (float)(0x1.126a1cp-3 * first * s));
  p = fmaf(a * u, p, a * (float)first);
  float q = fmaf(u, (float)(0x1.ac98e2p-21 * s * s * s * s), (float)(0x1.5c3d54p-12 * s * s * s));
  q = fmaf(u, q, (float)(0x1.a94f76p-6 * s * s));
  q = fmaf(u, q, (float)(0x1.de8a5ep-2 * s));
  q = fmaf(u, q, 1.0f);
  return copysignf(pl_min(p * pl_fast_rcp(q), (float)out), x);
}
// The same for |x * in| <= 0.9.
PL_FN float pl_near_tanh(float x, double in, double out) {
  const double s = in * in, first = out * in;
  const float u = x * x;
  float p = fmaf(u, (float)(0x1.55d3845f761d5p-10 * first * s * s * s * s * s * s), (float)(-0x1.c194d2db6cb5ap-8 * first * s * s * s * s * s));
  p = fmaf(u, p, (float)(0x1.567e4fa0a67dfp-6 * first * s * s * s * s));
  p = fmaf(u, p, (float)(-0x1.b81624975fa62p-5 * first * s * s * s));
  p = fmaf(u, p, (float)(0x1.11017a7be524fp-3 * first * s * s));
  p = fmaf(u, p, (float)(-0x1.5555040969f7bp-2 * first * s));
  return fmaf(x * u, p, x * (float)first);
}
// exp(x) for |x| < 128: what x * log2(e) loses in its rounding is made good after. Results that are no normal numbers are 0.
PL_FN float pl_close_exp(float x) {
  const float t = x * 0x1.715476p+0f, lost = fmaf(x, 0x1.4ae0cp-26f, fmaf(x, 0x1.715476p+0f, -t)), e = pl_fast_exp2(t);
  return fmaf(e, lost * 0x1.62e43p-1f, e);
}
// log(1 + exp(x)) = max(x, 0) + log(1 + t), t = exp(-|x|) from 0 to 1.
PL_FN float pl_short_softplus(float x) {
  const float t = pl_close_exp(pl_max(-fabsf(x), -104.0f));
  float p = fmaf(t, -0x1.b2f2e553a558fp-9f, 0x1.4b06ba860e256p-6f);
  p = fmaf(t, p, -0x1.d861c0cca1808p-5f);
  p = fmaf(t, p, 0x1.b5790f5739a7dp-4f);
  p = fmaf(t, p, -0x1.3a7a4cd213250p-3f);
  p = fmaf(t, p, 0x1.935c8d8a09bd9p-3f);
  p = fmaf(t, p, -0x1.ff26dd9e2368fp-3f);
  p = fmaf(t, p, 0x1.554def5af64c6p-2f);
  p = fmaf(t, p, -0x1.ffffd2df8e6c1p-2f);
  p = fmaf(t, p, 1.0f);
  return fmaf(t, p, pl_max(x, 0.0f));
}
// 1 + erf(x / sqrt(2)) to 2^-17, for results of 16 bits: exp(-x * x / 2) times a polynomial in 1 / (1 + 0.3 |x|), fitted to
// erfc(|x| / sqrt(2)) * exp(x * x / 2), on the side where that is small.
PL_FN float pl_narrow_normal(float x) {
  const float t = pl_fast_rcp(fmaf(fabsf(x), 0x1.333334p-2f, 1.0f));
  float p = fmaf(t, -0x1.5a7e42p-3f, 0x1.ecb12ap-2f);
  p = fmaf(t, p, -0x1.8e7d78p-4f);
  p = fmaf(t, p, 0x1.516fdap-2f);
  p = fmaf(t, p, 0x1.b50feep-3f);
  p = fmaf(t, p, 0x1.f0bdbap-3f);
  p = fmaf(t, p, -0x1.4ea82p-13f);
  const float far = p * pl_fast_exp2(x * x * -0x1.715476p-1f);
  return x < 0.0f ? far : 2.0f - far;
}
// tanh(log(1 + e)) = (e * e + 2 e) / (e * e + 2 e + 2), e = exp(x); 1 from x = 20 on.
PL_FN float pl_short_tanh_softplus(float x) {
  const float e = pl_close_exp(pl_max(pl_min(x, 20.0f), -104.0f)), n = e * (e + 2.0f);
  return n * pl_fast_rcp(n + 2.0f);
}
// ---- kernel ----
