#pragma once
// Instructions that CUDA C++ has no name for and that sm_80 and all later GPUs have, one function each: what kernels on
// mma.sync and cp.async are made of. Tests run what includes it on a CPU with another file of this name. PTX ISA 7.4.

#include "types.cuh"

/// The address within shared memory that instructions of the asynchronous proxy take.
PL_DEVICE u32 shared_address(const void* p) {
  return (u32)__cvta_generic_to_shared(p);
}

// ---- copies ----

/// For data read once: weights that stream through.
PL_DEVICE u64 policy_evict_first() {
  u64 policy;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

/// 16 bytes from global to shared memory where they are `there`, else zeros; then nothing is read.
PL_DEVICE void cp_async_if(u32 to, const char* from, bool there) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(there ? 16 : 0) : "memory");
}
/// `bytes` of 16 from global to shared memory, zeros for the rest: 16, or 0 where nothing may be read. Both places are
/// multiples of 16 bytes. The thread that asked waits by cp_async_wait(), in groups that cp_async_commit() ends.
PL_DEVICE void cp_async_16(u32 to, const void* from, int bytes) {
  asm volatile("cp.async.cg.shared.global.L2::256B [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}
/// The same, where nobody will read what follows in memory.
PL_DEVICE void cp_async_16_alone(u32 to, const void* from, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
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

/// A matrix of 8 by 8 numbers of 16 bits the other way round. Lane l, with g = l / 4 and t = l % 4, has columns 2t and
/// 2t + 1 of row g.
PL_DEVICE u32 matrix_transpose(u32 pair) {
  u32 r;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(r) : "r"(pair));
  return r;
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

// ---- fragments ----

/// Four 8 x 8 matrices of 16-bit numbers in shared memory, of which lane l says where row l % 8 of matrix l / 8 lies,
/// 16 bytes at a multiple of 16. It is given of each, with g = l / 4 and t = l % 4, row g at 2t, 2t + 1; or,
/// transposed, rows 2t, 2t + 1 at g.
PL_DEVICE void load_matrices(u32 (&r)[4], u32 row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(row)
               : "memory");
}
PL_DEVICE void load_matrices_transposed(u32 (&r)[4], u32 row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(row)
               : "memory");
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

/// a · b + c, rounded once.
template <bool bf16>
PL_DEVICE u32 fma_pairs(u32 a, u32 b, u32 c) {
  u32 r;
  if constexpr (bf16) {
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
  } else {
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
  }
  return r;
}
// Before sm_90 pairs of bf16 have no other instruction; the bits are the same.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
#define PL_BF16_PAIRS(r, name, a, b, otherwise) r = otherwise
#else
#define PL_BF16_PAIRS(r, name, a, b, otherwise) asm(name ".rn.bf16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b))
#endif
template <bool bf16>
PL_DEVICE u32 add_pairs(u32 a, u32 b) {
  u32 r;
  if constexpr (bf16) {
    PL_BF16_PAIRS(r, "add", a, b, fma_pairs<true>(a, 0x3f803f80u, b));
  } else {
    asm("add.rn.f16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
  }
  return r;
}
template <bool bf16>
PL_DEVICE u32 sub_pairs(u32 a, u32 b) {
  u32 r;
  if constexpr (bf16) {
    PL_BF16_PAIRS(r, "sub", a, b, fma_pairs<true>(b, 0xbf80bf80u, a));
  } else {
    asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
  }
  return r;
}
template <bool bf16>
PL_DEVICE u32 mul_pairs(u32 a, u32 b) {
  u32 r;
  if constexpr (bf16) {
    PL_BF16_PAIRS(r, "mul", a, b, fma_pairs<true>(a, b, 0x80008000u));
  } else {
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
  }
  return r;
}
/// Two floats of 8 bits, in the lower half of a word, as f16.
PL_DEVICE u32 pair_of_e4m3(u32 codes) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 890
  // Its exponent, under that of f16, is 8 short; 15 and 7 are no number.
  const u32 high = __byte_perm(codes, 0, 0x1404);
  const u32 short_of = (high & 0x80008000u) | (high & 0x7f007f00u) >> 1;
  u32 r = mul_pairs<false>(short_of, 0x5c005c00u);
  if ((high & 0x7f00u) == 0x7f00u) r = (r & 0xffff0000u) | 0x7fffu;
  if ((high & 0x7f000000u) == 0x7f000000u) r = (r & 0xffffu) | 0x7fff0000u;
  return r;
#else
  u32 r;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(r) : "h"((u16)codes));
  return r;
#endif
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
/// v & mask | bits, and v & mask ^ bits, in one instruction: the compiler makes two of it where both are constants.
PL_DEVICE u32 and_or(u32 v, u32 mask, u32 bits) {
  u32 r;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(r) : "r"(v), "r"(mask), "r"(bits));
  return r;
}
PL_DEVICE u32 and_xor(u32 v, u32 mask, u32 bits) {
  u32 r;
  asm("lop3.b32 %0, %1, %2, %3, 0x6a;" : "=r"(r) : "r"(v), "r"(mask), "r"(bits));
  return r;
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
