#pragma once
// Instructions of sm_90 that CUDA C++ has no name for, one function each: with wgmma.cuh all PTX there is, so that
// tests run what includes it on a CPU with another file of this name. PTX ISA 8.0.

#include "sm90/dependent.cuh"
#include "types.cuh"

/// The address within shared memory that instructions of the asynchronous proxy take.
PL_DEVICE u32 shared_address(const void* p) {
  return (u32)__cvta_generic_to_shared(p);
}

// ---- mbarriers ----

PL_DEVICE void barrier_init(u32 barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

/// Shows initialised barriers to the asynchronous proxy and to the cluster. One thread calls it before a block barrier.
PL_DEVICE void barrier_init_fence() {
  asm volatile("fence.mbarrier_init.release.cluster; fence.proxy.async.shared::cta;" ::: "memory");
}

/// Arrives, and lets the phase end only after so many bytes of bulk copies.
PL_DEVICE void barrier_expect(u32 barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

PL_DEVICE void barrier_arrive(u32 barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

/// Whether the phase of this parity has ended; the hardware waits for a while before it says no.
PL_DEVICE bool barrier_try_wait(u32 barrier, u32 parity) {
  u32 done;
  asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.b32 %0, 1, 0, p;}"
               : "=r"(done)
               : "r"(barrier), "r"(parity)
               : "memory");
  return done != 0;
}

/// A loop of the assembler's: one that the compiler sees cost registers where weights fill them.
PL_DEVICE void barrier_wait(u32 barrier, u32 parity) {
  asm volatile(
      "{\n\t.reg .pred p;\nW_%=:\n\tmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n\t@!p bra W_%=;\n\t}" ::"r"(
          barrier),
      "r"(parity)
      : "memory");
}

// ---- bulk copies ----

/// Global to shared memory, `bytes` a multiple of 16, both places too; the barrier counts them.
PL_DEVICE void bulk_load(u32 to, const void* from, int bytes, u32 barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "l"(from), "r"(bytes), "r"(barrier)
               : "memory");
}

/// The same with a hint for the L2 cache (see policy_evict_first).
PL_DEVICE void bulk_load(u32 to, const void* from, int bytes, u32 barrier, u64 policy) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::
          "r"(to),
      "l"(from), "r"(bytes), "r"(barrier), "l"(policy)
      : "memory");
}

/// For data read once: weights that stream through.
PL_DEVICE u64 policy_evict_first() {
  u64 policy;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

// ---- registers of warpgroups ----

template <int n>
PL_DEVICE void registers_decrease() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(n));
}
template <int n>
PL_DEVICE void registers_increase() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(n));
}

// ---- arithmetic ----

/// 2^x, to 2 ulp; results below 2^-126 are 0.
PL_DEVICE float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// The same with results below 2^-126.
PL_DEVICE float exp2_full(float x) {
  float y;
  asm("ex2.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
/// 1 / x, to 1 ulp.
PL_DEVICE float reciprocal_fast(float x) {
  float r;
  asm("rcp.approx.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}
/// The larger magnitude; NaN if either is.
PL_DEVICE float larger_magnitude(float top, float x) {
  float r;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(top), "f"(fabsf(x)));
  return r;
}
/// 0, which the compiler does not know: what is loaded from there is not held from one tile to the next.
PL_DEVICE int opaque_zero() {
  int zero;
  asm volatile("mov.b32 %0, 0;" : "=r"(zero));
  return zero;
}

PL_DEVICE u16 f16_bits(float x) {
  u16 r;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r) : "f"(x));
  return r;
}
PL_DEVICE float f16_value(u16 x) {
  float r;
  asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(x));
  return r;
}
PL_DEVICE void unpack_f16(float& low, float& high, u32 both) {
  asm("{.reg .f16 l, h; mov.b32 {l, h}, %2; cvt.f32.f16 %0, l; cvt.f32.f16 %1, h;}"
      : "=f"(low), "=f"(high)
      : "r"(both));
}
/// Two numbers as 16-bit ones, the first in the low half.
PL_DEVICE u32 pack_f16(float low, float high) {
  u32 r;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}
PL_DEVICE u32 pack_bf16(float low, float high) {
  u32 r;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}

// ---- pairs of 16-bit numbers ----

template <bool bf16>
PL_DEVICE u32 add_pairs(u32 a, u32 b) {
  u32 r;
  if constexpr (bf16) {
    asm("add.rn.bf16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
  } else {
    asm("add.rn.f16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
  }
  return r;
}
template <bool bf16>
PL_DEVICE u32 sub_pairs(u32 a, u32 b) {
  u32 r;
  if constexpr (bf16) {
    asm("sub.rn.bf16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
  } else {
    asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
  }
  return r;
}
template <bool bf16>
PL_DEVICE u32 mul_pairs(u32 a, u32 b) {
  u32 r;
  if constexpr (bf16) {
    asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
  } else {
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
  }
  return r;
}
/// Two floats of 8 bits, in the lower half of a word, as f16.
PL_DEVICE u32 pair_of_e4m3(u32 codes) {
  u32 r;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(r) : "h"((u16)codes));
  return r;
}
/// A pair of f16 as bf16, rounded.
PL_DEVICE u32 bf16_of_f16(u32 pair) {
  float low, high;
  unpack_f16(low, high, pair);
  return pack_bf16(low, high);
}
/// A number that nobody writes while the kernel runs, nor did the launch before.
template <typename T>
PL_DEVICE T load_constant(const T* from) {
  return __ldg(from);
}
/// Four of the eight bytes of a and b, a's first, by the digits of the selector.
PL_DEVICE u32 byte_permute(u32 a, u32 b, u32 selector) {
  return __byte_perm(a, b, selector);
}

/// A barrier of the block by number (1 to 15), at which so many threads are counted, those that wait among them.
PL_DEVICE void named_barrier_wait(int barrier, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}
PL_DEVICE void named_barrier_arrive(int barrier, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

// ---- shared memory of the block, by address ----

PL_DEVICE float shared_load(u32 from) {
  float v;
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(v) : "r"(from));
  return v;
}
PL_DEVICE float4 shared_load_4(u32 from) {
  float4 v;
  asm volatile("ld.shared.v4.f32 {%0,%1,%2,%3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "r"(from));
  return v;
}
PL_DEVICE void shared_store(u32 to, float v) {
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(to), "f"(v) : "memory");
}
PL_DEVICE void shared_store_4(u32 to, float4 v) {
  asm volatile("st.shared.v4.f32 [%0], {%1,%2,%3,%4};" ::"r"(to), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w) : "memory");
}
PL_DEVICE void shared_load_floats(float (&x)[4], u32 from) {
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(x[0]), "=f"(x[1]), "=f"(x[2]), "=f"(x[3])
               : "r"(from)
               : "memory");
}
PL_DEVICE void shared_store_words(u32 to, const u32 (&x)[4]) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3])
               : "memory");
}

// ---- fences between what threads write and copies read, or the other way round ----

PL_DEVICE void fence_copies() {
  asm volatile("fence.proxy.async;" ::: "memory");
}
PL_DEVICE void fence_shared_copies() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
PL_DEVICE void fence_global_copies() {
  asm volatile("fence.proxy.async.global;" ::: "memory");
}

// ---- tensor maps, made by a block for itself ----

/// Sixteen bytes of zeros, at a shared address.
PL_DEVICE void shared_clear(u32 to) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %1, %1, %1};" ::"r"(to), "r"(0) : "memory");
}

/// Fields of a map, whose 128 bytes are zeros at the shared address `map`: where the tensor begins; its dims, and its
/// elements by the instruction's number (6 f16, 7 f32, 10 bf16), in rows of 128 bytes swizzled, with zeros outside.
PL_DEVICE void tensor_map_at(u32 map, const void* from) {
  asm volatile("tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%0], %1;" ::"l"((u64)map), "l"(from)
               : "memory");
}
template <int dims, int type>
PL_DEVICE void tensor_map_type(u32 map) {
  const u64 at = map;
  asm volatile("tensormap.replace.tile.rank.shared::cta.b1024.b32 [%0], %1;" ::"l"(at), "n"(dims - 1) : "memory");
  asm volatile("tensormap.replace.tile.elemtype.shared::cta.b1024.b32 [%0], %1;" ::"l"(at), "n"(type) : "memory");
  asm volatile("tensormap.replace.tile.interleave_layout.shared::cta.b1024.b32 [%0], 0;" ::"l"(at) : "memory");
  asm volatile("tensormap.replace.tile.swizzle_mode.shared::cta.b1024.b32 [%0], 3;" ::"l"(at) : "memory");
  asm volatile("tensormap.replace.tile.fill_mode.shared::cta.b1024.b32 [%0], 0;" ::"l"(at) : "memory");
}
template <int dims, bool bf16>
PL_DEVICE void tensor_map_begin(u32 map, const void* from) {
  tensor_map_at(map, from);
  tensor_map_type<dims, bf16 ? 10 : 6>(map);
}
/// A dim's extent, what a box has of it, and from one that it has to the next.
template <int dim>
PL_DEVICE void tensor_map_dim(u32 map, int extent, int box, int step = 1) {
  const u64 at = map;
  asm volatile("tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%0], %1, %2;" ::"l"(at), "n"(dim), "r"(extent)
               : "memory");
  asm volatile("tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%0], %1, %2;" ::"l"(at), "n"(dim), "r"(box)
               : "memory");
  asm volatile("tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [%0], %1, %2;" ::"l"(at), "n"(dim),
               "r"(step)
               : "memory");
}
/// Bytes from one to the next, of all dims but the first.
template <int dim>
PL_DEVICE void tensor_map_stride(u32 map, u64 bytes) {
  asm volatile("tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [%0], %1, %2;" ::"l"((u64)map), "n"(dim - 1),
               "l"(bytes)
               : "memory");
}
/// The map goes to global memory, from where copies read it. All of a warp calls it; then one thread that copies
/// acquires.
PL_DEVICE void tensor_map_publish(void* to, u32 map) {
  asm volatile(
      "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%0], [%1], 128;" ::"l"(
          to),
      "l"((u64)map)
      : "memory");
}
PL_DEVICE void tensor_map_acquire(const void* map) {
  asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(map) : "memory");
}

/// The map's box at these coordinates, to a shared address; the barrier counts its bytes, zeros outside among them.
PL_DEVICE void tensor_load(u32 to, const void* map, u32 barrier, int x0, int x1) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::
          "r"(to),
      "l"(map), "r"(barrier), "r"(x0), "r"(x1)
      : "memory");
}
PL_DEVICE void tensor_load(u32 to, const void* map, u32 barrier, int x0, int x1, int x2) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], "
      "[%2];" ::"r"(to),
      "l"(map), "r"(barrier), "r"(x0), "r"(x1), "r"(x2)
      : "memory");
}
PL_DEVICE void tensor_load(u32 to, const void* map, u32 barrier, int x0, int x1, int x2, int x3) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], "
      "[%2];" ::"r"(to),
      "l"(map), "r"(barrier), "r"(x0), "r"(x1), "r"(x2), "r"(x3)
      : "memory");
}
PL_DEVICE void tensor_load(u32 to, const void* map, u32 barrier, int x0, int x1, int x2, int x3, int x4) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6, "
      "%7}], [%2];" ::"r"(to),
      "l"(map), "r"(barrier), "r"(x0), "r"(x1), "r"(x2), "r"(x3), "r"(x4)
      : "memory");
}

// ---- clusters ----

/// All threads of a cluster's blocks meet. It shows initialised barriers (see barrier_init_fence()), not what else was
/// written.
PL_DEVICE void cluster_sync() {
  asm volatile("barrier.cluster.arrive.relaxed; barrier.cluster.wait;" ::: "memory");
}
/// Arrives at the barrier that lies there in the cluster's block `rank`. It releases nothing that this thread wrote: a
/// fence of a cluster's scope is one of the whole GPU, and takes as long as a step of a product.
PL_DEVICE void barrier_arrive(u32 barrier, int rank) {
  asm volatile(
      "{.reg .b32 there; mapa.shared::cluster.u32 there, %0, %1; mbarrier.arrive.shared::cluster.b64 "
      "_, "
      "[there];}" ::"r"(barrier),
      "r"(rank)
      : "memory");
}

/// As tensor_load(), to the same place of every block of the cluster that the mask names, and to its barrier there.
PL_DEVICE void tensor_share(u32 to, const void* map, u32 barrier, u16 blocks, int x0, int x1) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, "
      "{%3, %4}], [%2], %5;" ::"r"(to),
      "l"(map), "r"(barrier), "r"(x0), "r"(x1), "h"(blocks)
      : "memory");
}
PL_DEVICE void tensor_share(u32 to, const void* map, u32 barrier, u16 blocks, int x0, int x1, int x2) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, "
      "{%3, %4, %5}], [%2], %6;" ::"r"(to),
      "l"(map), "r"(barrier), "r"(x0), "r"(x1), "r"(x2), "h"(blocks)
      : "memory");
}
PL_DEVICE void tensor_share(u32 to, const void* map, u32 barrier, u16 blocks, int x0, int x1, int x2, int x3) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, "
      "{%3, %4, %5, %6}], [%2], %7;" ::"r"(to),
      "l"(map), "r"(barrier), "r"(x0), "r"(x1), "r"(x2), "r"(x3), "h"(blocks)
      : "memory");
}
PL_DEVICE void tensor_share(u32 to, const void* map, u32 barrier, u16 blocks, int x0, int x1, int x2, int x3, int x4) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, "
      "{%3, %4, %5, %6, %7}], [%2], %8;" ::"r"(to),
      "l"(map), "r"(barrier), "r"(x0), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "h"(blocks)
      : "memory");
}

// ---- decode attention ----

/// `bytes` of 16 from global to shared memory, zeros for the rest: 16, or 0 where nothing may be read. Both places are
/// multiples of 16 bytes. The thread that asked waits by cp_async_wait(), in groups that cp_async_commit() ends.
PL_DEVICE void cp_async_16(u32 to, const void* from, int bytes) {
  asm volatile("cp.async.cg.shared.global.L2::256B [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}
PL_DEVICE void cp_async_commit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
/// Until at most n of the thread's youngest groups are under way.
template <int n>
PL_DEVICE void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(n) : "memory");
}

/// One more of those that have come, who had come before is returned. What the block wrote before a barrier that the
/// thread was at is seen by who finds it counted, and by their block behind a barrier.
PL_DEVICE u32 count_in(u32* counter) {
  u32 before;
  asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(counter) : "memory");
  return before;
}

PL_DEVICE uint2 shared_load_8(u32 from) {
  uint2 v;
  asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "r"(from) : "memory");
  return v;
}
PL_DEVICE uint4 shared_load_16(u32 from) {
  uint4 v;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(from)
               : "memory");
  return v;
}

/// sums += a · b for 16 rows of a, 8 columns of b and 16 products each, of bf16 or f16. Lane l has, with g = l / 4 and
/// t = l % 4: of a rows g and g + 8 at k = 2t, 2t + 1 (a0, a1) and k = 2t + 8, 2t + 9 (a2, a3); of b column g at the
/// same k (b0, b1); of the sums rows g (0, 1) and g + 8 (2, 3) at columns 2t, 2t + 1.
template <bool bf16>
PL_DEVICE void mma_16x8x16(float (&sums)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
  if constexpr (bf16) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
  }
}

/// The same without a hint: 16 bytes where they are `there`.
PL_DEVICE void cp_async_if(u32 to, const char* from, bool there) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(there ? 16 : 0) : "memory");
}
/// Waits as cp_async_wait(), and shows what the copies wrote to the tensor cores.
template <int left>
PL_DEVICE void cp_async_show() {
  asm volatile("cp.async.wait_group %0; fence.proxy.async.shared::cta;" ::"n"(left) : "memory");
}
/// Eight numbers that are `apart` elements from each other; zeros where there is none.
template <int apart>
PL_DEVICE void load_strided_8(float (&v)[8], const float* from, bool there) {
  asm volatile(
      "{.reg .pred p; setp.ne.b32 p, %9, 0;"
      "mov.b32 %0, 0; mov.b32 %1, 0; mov.b32 %2, 0; mov.b32 %3, 0;"
      "mov.b32 %4, 0; mov.b32 %5, 0; mov.b32 %6, 0; mov.b32 %7, 0;"
      "@p ld.global.nc.f32 %0, [%8]; @p ld.global.nc.f32 %1, [%8+%10];"
      "@p ld.global.nc.f32 %2, [%8+%11]; @p ld.global.nc.f32 %3, [%8+%12];"
      "@p ld.global.nc.f32 %4, [%8+%13]; @p ld.global.nc.f32 %5, [%8+%14];"
      "@p ld.global.nc.f32 %6, [%8+%15]; @p ld.global.nc.f32 %7, [%8+%16];}"
      : "=&f"(v[0]), "=&f"(v[1]), "=&f"(v[2]), "=&f"(v[3]), "=&f"(v[4]), "=&f"(v[5]), "=&f"(v[6]), "=&f"(v[7])
      : "l"(from), "r"((int)there), "n"(4 * apart), "n"(8 * apart), "n"(12 * apart), "n"(16 * apart), "n"(20 * apart),
        "n"(24 * apart), "n"(28 * apart));
}

// ---- skinny products ----

/// The same number, which the compiler no longer knows to be made of a uniform one. CUDA 13.0's assembler joins a
/// uniform address in shared memory with a cache policy into an instruction that does not exist.
PL_DEVICE u32 own_register(u32 v) {
  return __shfl_sync(0xffffffffu, v, threadIdx.x % 32);
}

/// `bytes` of 16 from global to shared memory, zeros for the rest: 16, or 0 where nothing may be read. Both places are
/// multiples of 16 bytes. The thread that asked waits by cp_async_wait(), in groups that cp_async_commit() ends.
PL_DEVICE void cp_async_16(u32 to, const void* from, int bytes, u64 policy) {
  asm volatile("cp.async.cg.shared.global.L2::cache_hint.L2::256B [%0], [%1], 16, %2, %3;" ::"r"(to), "l"(from),
               "r"(bytes), "l"(policy)
               : "memory");
}
/// 16 bytes that nobody writes while the kernel runs, past the L1 cache; zeros where it is not `there`.
PL_DEVICE uint4 load_once_16(const void* from, bool there, u64 policy) {
  uint4 v = make_uint4(0, 0, 0, 0);
  asm volatile(
      "{.reg .pred p; setp.ne.b32 p, %5, 0; @p ld.global.nc.L1::no_allocate.L2::cache_hint.L2::256B.v4.u32 "
      "{%0, %1, %2, %3}, [%4], %6;}"
      : "+r"(v.x), "+r"(v.y), "+r"(v.z), "+r"(v.w)
      : "l"(from), "r"((int)there), "l"(policy));
  return v;
}

PL_DEVICE void shared_store_16(u32 to, uint4 v) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
}

/// The sum over a warp, in every lane, with the same bits in all.
PL_DEVICE float warp_sum(float v) {
  for (int mask = 16; mask > 0; mask /= 2) v += __shfl_xor_sync(0xffffffffu, v, mask);
  return v;
}
