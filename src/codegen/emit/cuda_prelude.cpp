#include <string>

#include "codegen/emit/cuda_emit.h"
#include "codegen/emit/cuda_math.h"

namespace planish::codegen::printing {

namespace {

/// Everything that is a machine instruction rather than C++ lives in this text, so that what comes after it can also
/// be run, slowly, on a CPU with another definition of the same names (tests do).
constexpr const char* machine =
    R"(template <typename T, int V> struct __align__(sizeof(T) * V > 16 ? 16 : sizeof(T) * V) PlVec { T x[V]; };
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
)";

constexpr const char* approximations =
    R"(PL_FN float pl_fast_exp2(float x) { float r; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x)); return r; }
PL_FN float pl_fast_exp(float x) { return pl_fast_exp2(x * 1.44269504f); }
PL_FN float pl_fast_rcp(float x) { float r; asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x)); return r; }
PL_FN float pl_fast_sigmoid(float x) { return pl_fast_rcp(1.0f + pl_fast_exp(-x)); }
PL_FN float pl_fast_sqrt(float x) { float r; asm("sqrt.approx.f32 %0, %1;" : "=f"(r) : "f"(x)); return r; }
PL_FN float pl_fast_tanh(float x) { float r; asm("tanh.approx.f32 %0, %1;" : "=f"(r) : "f"(x)); return r; }
PL_FN float pl_fast_div(float a, float b) { float r; asm("div.full.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b)); return r; }
)";

constexpr const char* behind =
    R"(PL_FN void pl_copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
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
)";

}  // namespace

std::string_view fast_prelude() {
  static const std::string text = std::string(approximations) + std::string(math_prelude());
  return text;
}

std::string_view cuda_memory_prelude() {
  static const std::string text =
      std::string(machine) + approximations + behind + std::string(math_prelude()) + "// ---- kernel ----\n";
  return text;
}

std::string_view cooperative_prelude() {
  return R"(// With ORDER, what the block has written so far is seen by whoever waits for `count` comings, of blocks that all run.
// Without, words have to say themselves whether they have come: nothing is waited for, and caches keep what they hold.
template <bool ORDER> PL_FN void pl_team_come(unsigned* gate) {
  if constexpr (ORDER) asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(gate) : "memory");
  else asm volatile("red.relaxed.gpu.global.add.u32 [%0], 1;" ::"l"(gate) : "memory");
}
template <bool ORDER> PL_FN void pl_team_wait(const unsigned* gate, unsigned count) {
  unsigned seen;
  do {
    if constexpr (ORDER) asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(gate) : "memory");
    else asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(gate) : "memory");
  } while (seen < count);
}
// Half of a word says which meeting it belongs to: who reads a word of the meeting at hand has what it says, and nothing
// else needs to have been written before it.
PL_FN void pl_word_say(unsigned long long* word, unsigned value, unsigned meeting) {
  asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(word), "l"((unsigned long long)meeting << 32 | value) : "memory");
}
PL_FN unsigned long long pl_word_look(const unsigned long long* word) {
  unsigned long long seen;
  asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(seen) : "l"(word) : "memory");
  return seen;
}
template <typename T> PL_FN void pl_team_say(unsigned long long* word, T value, unsigned meeting) {
  if constexpr (sizeof(T) > 4) {
    unsigned long long bits;
    *(T*)&bits = value;
    pl_word_say(word, (unsigned)bits, meeting);
    pl_word_say(word + 1, (unsigned)(bits >> 32), meeting);
  } else {
    unsigned bits = 0;
    *(T*)&bits = value;
    pl_word_say(word, bits, meeting);
  }
}
template <typename T> struct PlTold {
  unsigned long long seen[sizeof(T) > 4 ? 2 : 1];
  __device__ __forceinline__ void look(const unsigned long long* word) {
    seen[0] = pl_word_look(word);
    if constexpr (sizeof(T) > 4) seen[1] = pl_word_look(word + 1);
  }
  __device__ __forceinline__ bool of(unsigned meeting) const {
    bool all = (unsigned)(seen[0] >> 32) == meeting;
    if constexpr (sizeof(T) > 4) all = all & ((unsigned)(seen[1] >> 32) == meeting);
    return all;
  }
  __device__ __forceinline__ T value() const {
    if constexpr (sizeof(T) > 4) {
      const unsigned long long bits = seen[1] << 32 | (seen[0] & 0xffffffffu);
      return *(const T*)&bits;
    } else {
      const unsigned bits = (unsigned)seen[0];
      return *(const T*)&bits;
    }
  }
};
// The second-level cache gets what lies there; nobody waits.
template <typename T> PL_FN void pl_touch(const T* p) { asm volatile("prefetch.global.L2 [%0];" ::"l"(p)); }
PL_FN void pl_warp_meet() { __syncwarp(); }
// A barrier of the block whose warps come to it from different places. Its number is a constant: of a computed one the
// compiler knows nothing, and takes all 16 of the block, of which a multiprocessor has but four times as many.
template <int THREADS> PL_FN void pl_block_meet() { asm volatile("barrier.cta.sync 0, %0;" ::"n"(THREADS) : "memory"); }
)";
}

}  // namespace planish::codegen::printing
