// genome: cluster=1 exchange=0 rows=1 tile=1 unroll=1 wavefront=1
// launch: grid 2x1x1 block 256x1x1 cluster 1x1x1 shared 0 packs
// arguments: input0 scratch1 scratch2 scratch3
// ---- tests/golden/shared/place_prelude.cu ----
// ---- tests/golden/shared/machine_text.cu ----
template <typename T> TC_FN T pl_ldg(const T* p) { return __ldg(p); }
template <int UNIT, typename T> TC_FN void tc_read(T (&d)[8], const T* p) {
#pragma unroll
  for (int i = 0; i < 8; i += UNIT) {
    if (UNIT * sizeof(T) == 16) *(uint4*)&d[i] = __ldg((const uint4*)(p + i));
    else if (UNIT * sizeof(T) == 8) *(uint2*)&d[i] = __ldg((const uint2*)(p + i));
    else if (UNIT * sizeof(T) == 4) *(unsigned*)&d[i] = __ldg((const unsigned*)(p + i));
    else for (int j = 0; j < UNIT; ++j) d[i + j] = __ldg(p + i + j);
  }
}
TC_FN float tc_most(float v, int apart) { return fmaxf(v, __shfl_xor_sync(~0u, v, apart)); }
TC_FN void tc_come() { asm volatile("barrier.cluster.arrive;" ::: "memory"); }
TC_FN void tc_await() { asm volatile("barrier.cluster.wait;" ::: "memory"); }
TC_FN float tc_remote(const float* p, int block) {
  float v;
  asm volatile("{.reg .b32 a; mapa.shared::cluster.u32 a, %1, %2; ld.shared::cluster.f32 %0, [a];}"
               : "=f"(v) : "r"(tc_shared(p)), "r"(block) : "memory");
  return v;
}
TC_FN float tc_power(int e) { return __int_as_float((127 + e) << 23); }
struct __align__(16) TcChunk { unsigned short x[8]; };
TC_FN void tc_put(unsigned char* p, const TcChunk& c) { *(uint4*)p = *(const uint4*)&c; }
// The pairs of a chunk, each into a chunk of its own.
TC_FN void tc_put_pairs(unsigned char* p, const TcChunk& c) {
#pragma unroll
  for (int i = 0; i < 4; ++i) *(unsigned*)(p + i * 128) = ((const unsigned*)&c)[i];
}
// The exponent that brings `top` into [2^13, 2^14).
TC_FN int tc_exponent(float top) {
  const int e = (int)(__float_as_uint(top) >> 23);
  return top == 0.0f ? 0 : (e == 0 ? 1 : e) - 140;
}
// The power of two that most rows may be multiplied by, and whether one whose largest magnitude this is may: it stays
// below what fp16 holds, and what is lost below fp16's least value is 2^-20 of it, or 2^-31 where operands are split.
TC_FN float tc_usual() { return 64.0f; }
TC_FN int tc_usual_exponent() { return -6; }
TC_FN bool tc_is_usual(float top) { return top == 0.0f || (top >= 0x1p-11f && top < 512.0f); }
// Where the parts are summed together the low one has no scale of its own: 2^-33 of the largest magnitude is lost.
TC_FN float tc_usual_joint() { return 2048.0f; }
TC_FN int tc_usual_exponent_joint() { return -11; }
TC_FN bool tc_is_usual_joint(float top) { return top == 0.0f || (top >= 0.125f && top < 16.0f); }
TC_FN unsigned short tc_high(float x, float s) {
  const unsigned short hi = pl_to_f16(s);
  return x != 0.0f && (hi & 0x7fff) == 0 ? (unsigned short)(hi | 1) : hi;
}
TC_FN unsigned short tc_low(float s, unsigned short hi) {
  return tc_finite(s) ? pl_to_f16((s - pl_from_f16(hi)) * 2048.0f) : (unsigned short)0;
}
TC_FN unsigned short tc_low_joint(float s, unsigned short hi) {
  return tc_finite(s) ? pl_to_f16(s - pl_from_f16(hi)) : (unsigned short)0;
}
// ---- kernel ----
TC_FN void tc_values(float (&v)[8], const float* __restrict__ in0, int batch, int row, int k) {
  if (row >= 15 || k >= 4) {
    #pragma unroll
    for (int j = 0; j < 8; ++j) v[j] = 0.0f;
    return;
  }
  const int d0 = (unsigned)(row);
  float r0[8];
  #pragma unroll
  for (int j = 0; j < 8; ++j) {
    const int d2 = (unsigned)(k + j);
    r0[j] = k + j < 4 ? pl_ldg(in0 + (4 * d0 + d2)) : 0x0p+0f;
  }
  #pragma unroll
  for (int j = 0; j < 8; ++j) {
    const int d2 = (unsigned)(k + j);
    const float v0 = r0[j];
    v[j] = k + j < 4 ? v0 : 0.0f;
  }
}
extern "C" __global__ void __launch_bounds__(256) planish_kernel(const float* __restrict__ in0, unsigned char* __restrict__ out0, unsigned char* __restrict__ out1, int* __restrict__ out2) {
  __shared__ float most[64];
  const int r = threadIdx.x % 8;
  const int part = 0, whole = blockIdx.x * 4 + threadIdx.x / 64;
  const int batch = whole / 8, row = whole % 8 * 8 + r;
  float v[1][8];
  float top = 0.0f;
  for (int at = 0; at < 1; at += 1) {
    #pragma unroll
    for (int i = 0; i < 1; ++i) {
      const int own = (int)threadIdx.x % 64 / 8 + (at + i) * 8, chunk = part * 8 + own;
      tc_values(v[i], in0, batch, row, chunk * 8);
    }
    #pragma unroll
    for (int i = 0; i < 1; ++i) {
      const int own = (int)threadIdx.x % 64 / 8 + (at + i) * 8, chunk = part * 8 + own;
      #pragma unroll
      for (int j = 0; j < 8; ++j) top = fmaxf(top, tc_finite(v[i][j]) ? fabsf(v[i][j]) : 0.0f);
    }
  }
  top = tc_most(tc_most(top, 8), 16);
  if (threadIdx.x % 32 < 8) most[threadIdx.x / 32 * 8 + r] = top;
  __syncthreads();
  for (int w = 0; w < 2; ++w) top = fmaxf(top, most[(threadIdx.x / 64 * 2 + w) * 8 + r]);
  const int e = tc_exponent(top);
  if (part == 0 && threadIdx.x % 64 < 8) out2[batch * 64 + row] = e;
  const float f = tc_power(-e / 2), g = tc_power(-e - -e / 2);
  for (int at = 0; at < 1; at += 1) {
    #pragma unroll
    for (int i = 0; i < 1; ++i) {
      const int own = (int)threadIdx.x % 64 / 8 + (at + i) * 8, chunk = part * 8 + own;
      TcChunk hi, lo;
      #pragma unroll
      for (int j = 0; j < 8; ++j) {
        const float s = v[i][j] * f * g;
        hi.x[j] = tc_high(v[i][j], s);
        lo.x[j] = tc_low(s, hi.x[j]);
      }
      const long long place = batch * 8192ll + chunk / 8 * 8192ll + row / 8 * 1024ll + chunk % 8 * 128 + r * 16;
      tc_put(out0 + place, hi);
      tc_put(out1 + place, lo);
    }
  }
}

// launch: grid 3x1x1 block 256x1x1 cluster 1x1x1 shared 0 packs
// arguments: input3 scratch4 scratch5 scratch6
// ---- tests/golden/shared/place_prelude.cu ----
// ---- tests/golden/shared/machine_text.cu ----
template <typename T> TC_FN T pl_ldg(const T* p) { return __ldg(p); }
template <int UNIT, typename T> TC_FN void tc_read(T (&d)[8], const T* p) {
#pragma unroll
  for (int i = 0; i < 8; i += UNIT) {
    if (UNIT * sizeof(T) == 16) *(uint4*)&d[i] = __ldg((const uint4*)(p + i));
    else if (UNIT * sizeof(T) == 8) *(uint2*)&d[i] = __ldg((const uint2*)(p + i));
    else if (UNIT * sizeof(T) == 4) *(unsigned*)&d[i] = __ldg((const unsigned*)(p + i));
    else for (int j = 0; j < UNIT; ++j) d[i + j] = __ldg(p + i + j);
  }
}
TC_FN float tc_most(float v, int apart) { return fmaxf(v, __shfl_xor_sync(~0u, v, apart)); }
TC_FN void tc_come() { asm volatile("barrier.cluster.arrive;" ::: "memory"); }
TC_FN void tc_await() { asm volatile("barrier.cluster.wait;" ::: "memory"); }
TC_FN float tc_remote(const float* p, int block) {
  float v;
  asm volatile("{.reg .b32 a; mapa.shared::cluster.u32 a, %1, %2; ld.shared::cluster.f32 %0, [a];}"
               : "=f"(v) : "r"(tc_shared(p)), "r"(block) : "memory");
  return v;
}
TC_FN float tc_power(int e) { return __int_as_float((127 + e) << 23); }
struct __align__(16) TcChunk { unsigned short x[8]; };
TC_FN void tc_put(unsigned char* p, const TcChunk& c) { *(uint4*)p = *(const uint4*)&c; }
// The pairs of a chunk, each into a chunk of its own.
TC_FN void tc_put_pairs(unsigned char* p, const TcChunk& c) {
#pragma unroll
  for (int i = 0; i < 4; ++i) *(unsigned*)(p + i * 128) = ((const unsigned*)&c)[i];
}
// The exponent that brings `top` into [2^13, 2^14).
TC_FN int tc_exponent(float top) {
  const int e = (int)(__float_as_uint(top) >> 23);
  return top == 0.0f ? 0 : (e == 0 ? 1 : e) - 140;
}
// The power of two that most rows may be multiplied by, and whether one whose largest magnitude this is may: it stays
// below what fp16 holds, and what is lost below fp16's least value is 2^-20 of it, or 2^-31 where operands are split.
TC_FN float tc_usual() { return 64.0f; }
TC_FN int tc_usual_exponent() { return -6; }
TC_FN bool tc_is_usual(float top) { return top == 0.0f || (top >= 0x1p-11f && top < 512.0f); }
// Where the parts are summed together the low one has no scale of its own: 2^-33 of the largest magnitude is lost.
TC_FN float tc_usual_joint() { return 2048.0f; }
TC_FN int tc_usual_exponent_joint() { return -11; }
TC_FN bool tc_is_usual_joint(float top) { return top == 0.0f || (top >= 0.125f && top < 16.0f); }
TC_FN unsigned short tc_high(float x, float s) {
  const unsigned short hi = pl_to_f16(s);
  return x != 0.0f && (hi & 0x7fff) == 0 ? (unsigned short)(hi | 1) : hi;
}
TC_FN unsigned short tc_low(float s, unsigned short hi) {
  return tc_finite(s) ? pl_to_f16((s - pl_from_f16(hi)) * 2048.0f) : (unsigned short)0;
}
TC_FN unsigned short tc_low_joint(float s, unsigned short hi) {
  return tc_finite(s) ? pl_to_f16(s - pl_from_f16(hi)) : (unsigned short)0;
}
// ---- kernel ----
TC_FN void tc_values(float (&v)[8], const float* __restrict__ in1, int batch, int row, int k) {
  if (row >= 36 || k >= 4) {
    #pragma unroll
    for (int j = 0; j < 8; ++j) v[j] = 0.0f;
    return;
  }
  const int d1 = (unsigned)(row);
  float r1[8];
  #pragma unroll
  for (int j = 0; j < 8; ++j) {
    const int d2 = (unsigned)(k + j);
    r1[j] = k + j < 4 ? pl_ldg(in1 + (4 * d1 + d2)) : 0x0p+0f;
  }
  #pragma unroll
  for (int j = 0; j < 8; ++j) {
    const int d2 = (unsigned)(k + j);
    const float v1 = r1[j];
    v[j] = k + j < 4 ? v1 : 0.0f;
  }
}
extern "C" __global__ void __launch_bounds__(256) planish_kernel(const float* __restrict__ in1, unsigned char* __restrict__ out0, unsigned char* __restrict__ out1, int* __restrict__ out2) {
  __shared__ float most[64];
  const int r = threadIdx.x % 8;
  const int part = 0, whole = blockIdx.x * 2 + threadIdx.x / 128;
  const int batch = whole / 6, row = whole % 6 * 8 + r;
  float v[1][8];
  float top = 0.0f;
  for (int at = 0; at < 1; at += 1) {
    #pragma unroll
    for (int i = 0; i < 1; ++i) {
      const int own = (int)threadIdx.x % 128 / 8 + (at + i) * 16, chunk = part * 8 + own;
      if (own < 8 && chunk < 8) {
        tc_values(v[i], in1, batch, row, chunk * 8);
      }
    }
    #pragma unroll
    for (int i = 0; i < 1; ++i) {
      const int own = (int)threadIdx.x % 128 / 8 + (at + i) * 16, chunk = part * 8 + own;
      if (own < 8 && chunk < 8) {
        #pragma unroll
        for (int j = 0; j < 8; ++j) top = fmaxf(top, tc_finite(v[i][j]) ? fabsf(v[i][j]) : 0.0f);
      }
    }
  }
  top = tc_most(tc_most(top, 8), 16);
  if (threadIdx.x % 32 < 8) most[threadIdx.x / 32 * 8 + r] = top;
  __syncthreads();
  for (int w = 0; w < 4; ++w) top = fmaxf(top, most[(threadIdx.x / 128 * 4 + w) * 8 + r]);
  const int e = tc_exponent(top);
  if (part == 0 && threadIdx.x % 128 < 8) out2[batch * 48 + row] = e;
  const float f = tc_power(-e / 2), g = tc_power(-e - -e / 2);
  for (int at = 0; at < 1; at += 1) {
    #pragma unroll
    for (int i = 0; i < 1; ++i) {
      const int own = (int)threadIdx.x % 128 / 8 + (at + i) * 16, chunk = part * 8 + own;
      if (own < 8 && chunk < 8) {
        TcChunk hi, lo;
        #pragma unroll
        for (int j = 0; j < 8; ++j) {
          const float s = v[i][j] * f * g;
          hi.x[j] = tc_high(v[i][j], s);
          lo.x[j] = tc_low(s, hi.x[j]);
        }
        const long long place = batch * 6144ll + chunk / 8 * 6144ll + row / 8 * 1024ll + chunk % 8 * 128 + r * 16;
        tc_put(out0 + place, hi);
        tc_put(out1 + place, lo);
      }
    }
  }
}

// launch: grid 3x1x1 block 256x1x1 cluster 1x1x1 shared 169216
// arguments: scratch1 scratch2 scratch4 scratch5 scratch3 scratch6 input5 scratch0
// ---- tests/golden/shared/machine_text.cu ----
TC_FN void tc_product(float (&d)[8], u64 a, u64 b, int keep) {
  asm volatile("{.reg .pred p; setp.ne.b32 p, %10, 0; wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7}, %8, %9, p, 1, 1, 0, 0;}" :
  "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]) : "l"(a), "l"(b), "r"(keep) : "memory");
}
TC_FN void tc_poll(u32 barrier, u32 parity) {
  while (!tc_poll_once(barrier, parity)) { }
}
// ---- tests/golden/shared/place_prelude.cu ----
template <typename T> TC_FN T pl_ldg(const T* p) { return __ldg(p); }
template <int count, typename Sums> TC_FN void tc_neighbours(const Sums& sums, int r, int c, float (&v)[count]) {
#pragma unroll
  for (int i = 0; i < count; ++i) v[i] = sums(r, c + i);
}
template <bool streaming, typename Word>
TC_FN void tc_put_word(void* to, Word word) {
  if (streaming) __stcs((Word*)to, word);
  else *(Word*)to = word;
}
template <bool streaming> TC_FN void tc_put(float* to, const float (&v)[4]) {
  tc_put_word<streaming>(to, make_float4(v[0], v[1], v[2], v[3]));
}
template <bool streaming> TC_FN void tc_put(float* to, const float (&v)[2]) {
  tc_put_word<streaming>(to, make_float2(v[0], v[1]));
}
template <bool streaming> TC_FN void tc_put(unsigned short* to, const unsigned short (&v)[2]) {
  tc_put_word<streaming>(to, (unsigned)v[0] | (unsigned)v[1] << 16);
}
template <int rows, int columns, bool all, typename Sums>
TC_FN void tc_store(const float* __restrict__ in2, float* __restrict__ out0, int batch, int y, int x, int end, int lane, Sums sums) {
  constexpr int weave = 1, step = 32;
  if constexpr (columns >= 64) {
    constexpr int beside = columns >= 96 ? 4 : 2;
    #pragma unroll 4
    for (int r = 0; r < rows; ++r) {
      const int row = y + r;
      if (!all && row >= 15) break;
      const int d0 = (unsigned)(row);
      #pragma unroll
      for (int j = 0; j < columns; j += 32 * beside) {
        const bool inside = columns % (32 * beside) == 0 || j + lane * beside < columns;
        const int at = x + j + lane * beside;
        const int d1 = (unsigned)(at);
        const bool ok = inside & (at < end);
        float sum[beside];
        tc_neighbours(sums, r, inside ? j + lane * beside : 0, sum);
        float got0[beside];
        auto* const to0 = out0 + (36 * d0 + d1);
        const int first = d1;
        #pragma unroll
        for (int i = 0; i < beside; ++i) {
          const int d1 = first + i;
          const float folded = sum[i];
          const float v3 = folded;
          const float v4 = (ok ? pl_ldg(in2 + (d1)) : 0x0p+0f);
          const float v5 = (v3 + v4);
          got0[i] = v5;
        }
        if (ok) {
          tc_put<false>(to0, got0);
        }
      }
    }
  }
  else {
    #pragma unroll 2
    for (int r = 0; r < rows; r += weave) {
      const int row = y + r;
      if (!all && row >= 15) break;
      const int d0 = (unsigned)(row);
      #pragma unroll
      for (int j = 0; j < columns; j += step) {
        const int at = x + j + lane / weave;
        const int d1 = (unsigned)(at);
        const bool there = (at < end);
        const bool ok = there;
        const float folded = sums(r + lane % weave, j + lane / weave);
        const float v3 = folded;
        const float v4 = (ok ? pl_ldg(in2 + (d1)) : 0x0p+0f);
        const float v5 = (v3 + v4);
        if (ok) {
          out0[36 * d0 + d1] = v5;
        }
      }
    }
  }
}
// ---- kernel ----
extern "C" __global__ void __launch_bounds__(256, 1) planish_kernel(const char* __restrict__ a0, const char* __restrict__ a1, const char* __restrict__ b0, const char* __restrict__ b1, const int* __restrict__ ea, const int* __restrict__ eb, const float* __restrict__ in2, float* __restrict__ out0) {
  extern __shared__ __align__(16) unsigned char pl_smem[];
  const u32 base = (tc_shared(pl_smem) + 127u) & ~127u;
  const u32 full = base + 163840, empty = full + 64;
  const int group = tc_group();
  if (threadIdx.x == 0) {
    for (int i = 0; i < 8; ++i) {
      tc_init(full + i * 8, 1);
      tc_init(empty + i * 8, 4);
    }
    tc_ready();
  }
  __syncthreads();
  int stage = 0;
  u32 parity = 0;
  if (group == 0) {
    if (threadIdx.x == 0) {
      for (int tile = blockIdx.x; tile < 3; tile += gridDim.x) {
        const int band = tile / 24 * 8, within = tile % 24;
        const int height = min(8, 1 - band);
        const int row = (band + within % height) * 64;
        const int column = within / height * 16;
        const long long from_a = row * 128ll, from_b = column * 128ll;
        for (int k = 0; k < 1; ++k) {
          tc_poll(empty + stage * 8, parity ^ 1);
          const u32 at = base + stage * 20480;
          tc_expect(full + stage * 8, 20480);
          tc_copy(at + 0, a0 + from_a + k * 8192ll, 8192, full + stage * 8);
          tc_copy(at + 8192, a1 + from_a + k * 8192ll, 8192, full + stage * 8);
          tc_copy(at + 16384, b0 + from_b + k * 6144ll, 2048, full + stage * 8);
          tc_copy(at + 18432, b1 + from_b + k * 6144ll, 2048, full + stage * 8);
          if (++stage == 8) {
            stage = 0;
            parity ^= 1;
          }
        }
      }
    }
  } else {
    const int lane = threadIdx.x % 32;
    for (int tile = blockIdx.x; tile < 3; tile += gridDim.x) {
      const int band = tile / 24 * 8, within = tile % 24;
      const int height = min(8, 1 - band);
      const int row = (band + within % height) * 64;
      const int column = within / height * 16;
      const int warp = threadIdx.x % 128 / 32;
      const int m = row + (group - 1) * 64 + warp * 16;
      const int up0 = ea[m + lane / 4], up1 = ea[m + lane / 4 + 8];
      float high[8];
      float small[8];
      float (&sum)[8] = high;
      #pragma unroll 1
      for (int k = 0; k < 1; k += 1) {
        {
          tc_poll(full + stage * 8, parity);
          const u64 at = (u64)((base + stage * 20480) >> 4);
          const u64 at_a = at + (group - 1) * 512;
          tc_begin();
          tc_product(high, 274878431232ull + at_a + 0, 274878431232ull + at + 1024, 0);
          tc_product(high, 274878431232ull + at_a + 16, 274878431232ull + at + 1040, 1);
          tc_product(high, 274878431232ull + at_a + 32, 274878431232ull + at + 1056, 1);
          tc_product(high, 274878431232ull + at_a + 48, 274878431232ull + at + 1072, 1);
          tc_commit();
          tc_finish<1>();
          if (k > 0 && lane == 0) tc_leave(empty + (stage == 0 ? 7 : stage - 1) * 8);
          tc_begin();
          tc_product(small, 274878431232ull + at_a + 0, 274878431232ull + at + 1152, 0);
          tc_product(small, 274878431232ull + at_a + 512, 274878431232ull + at + 1024, 1);
          tc_product(small, 274878431232ull + at_a + 16, 274878431232ull + at + 1168, 1);
          tc_product(small, 274878431232ull + at_a + 528, 274878431232ull + at + 1040, 1);
          tc_product(small, 274878431232ull + at_a + 32, 274878431232ull + at + 1184, 1);
          tc_product(small, 274878431232ull + at_a + 544, 274878431232ull + at + 1056, 1);
          tc_product(small, 274878431232ull + at_a + 48, 274878431232ull + at + 1200, 1);
          tc_product(small, 274878431232ull + at_a + 560, 274878431232ull + at + 1072, 1);
          tc_commit();
          tc_finish<1>();
          tc_hold(high);
          if (++stage == 8) {
            stage = 0;
            parity ^= 1;
          }
        }
      }
      tc_finish<0>();
      tc_hold(small);
      if (lane == 0) tc_leave(empty + (stage == 0 ? 7 : stage - 1) * 8);
      float* const exchange = (float*)(pl_smem + (base - tc_shared(pl_smem)) + 163968) + ((group - 1) * 4 + warp) * 320;
      float* const mine = exchange + lane / 4 * 40 + lane % 4 * 2;
      #pragma unroll
      for (int part = 0; part < 16; part += 32) {
        #pragma unroll
        for (int h = 0; h < 2; ++h) {
          __syncwarp();
          #pragma unroll
          for (int j = part; j < min(part + 32, 16); j += 8) {
            const float left = tc_scale(tc_finite(sum[j / 2 + h * 2]) ? fmaf(small[j / 2 + h * 2], 0x1p-11f, sum[j / 2 + h * 2]) : sum[j / 2 + h * 2], (h == 0 ? up0 : up1) + eb[column + j + lane % 4 * 2]);
            const float right = tc_scale(tc_finite(sum[j / 2 + h * 2 + 1]) ? fmaf(small[j / 2 + h * 2 + 1], 0x1p-11f, sum[j / 2 + h * 2 + 1]) : sum[j / 2 + h * 2 + 1], (h == 0 ? up0 : up1) + eb[column + j + lane % 4 * 2 + 1]);
            *(float2*)(mine + j - part) = make_float2(left, right);
          }
          __syncwarp();
          tc_store<8, 32, false>(in2, out0, 0, m + h * 8, column + part, min(column + 16, 36), lane, TcExchange<40>{exchange});
        }
      }
    }
  }
}

// launch: grid 6x1x1 block 192x1x1 cluster 1x1x1 shared 416
// arguments: scratch0 input4 input6 input8 input10 input7 input9 input1 input2 output0 output1 output2 scratch7 scratch8
#define GATES 4
#define STEPS 5
#define BATCH 3
#define HIDDEN 9
#define CELLS 2
#define STACKED 1
#define CLUSTER 1
#define SLICES 3
#define SLICE 1
#define UNITS 1
#define ROWS 1
#define TURNS 1
#define SUMS 4
#define EXCHANGE 0
#define BLOCK_UNITS 9
#define PADDED 12
#define PART 12
#define QUADS 3
#define ALL_CHUNKS 3
#define CHUNKS 1
#define KEPT 1
#define WARPS 5
#define SUMMING 160
#define THREADS 192
#define HANDS_REGISTERS 0
#define GIVES_ALL 1
#define STATE_BYTES 48
#define SEND_BYTES 48
#define ZEROS_AT 96
#define STATE_AT 128
#define BELOW_AT 224
#define MINE_AT 320
#define WEIGHTS_AT 416
#define FIRST_H(b, k) h0[0LL + cell * 27LL + (b) * 9LL + (k) * 1LL]
#define FIRST_C(b, k) c0[0LL + cell * 27LL + (b) * 9LL + (k) * 1LL]
#define ALL(t, b, k) all[0LL + (t) * 27LL + (b) * 9LL + (k) * 1LL]
#define PLAIN(x) tanhf(x)
#define GIVE_LAST last_h[0LL + cell * 27LL + b * 9LL + unit * 1LL] = h_before[turn]; last_c[0LL + cell * 27LL + b * 9LL + unit * 1LL] = c[turn];
#define CELL_POINTERS const float* const made = cell == 0 ? made0 + 0LL : (const float*)0; const float* const hidden_weights = cell == 0 ? wh0 + 0LL : cell == 1 ? wh1 + 0LL : (const float*)0; const float* const hidden_bias = cell == 0 ? bh0 + 0LL : cell == 1 ? bh1 + 0LL : (const float*)0; const float* const input_weights = cell == 1 ? wx1 + 0LL : (const float*)0; const float* const input_bias = cell == 1 ? bx1 + 0LL : (const float*)0; 
#define RN_FN static __device__ __forceinline__
typedef unsigned int u32;
struct __align__(16) F4 { float x, y, z, w; };
RN_FN u32 rn_shared() { extern __shared__ __align__(128) unsigned char rn_smem[]; return (u32)__cvta_generic_to_shared(rn_smem); }
RN_FN F4 rn_get4(u32 a) { F4 v; asm volatile("ld.shared.v4.f32 {%0,%1,%2,%3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "r"(a)); return v; }
RN_FN float rn_get(u32 a) { float v; asm volatile("ld.shared.f32 %0, [%1];" : "=f"(v) : "r"(a)); return v; }
RN_FN void rn_put(u32 a, float v) { asm volatile("st.shared.f32 [%0], %1;" :: "r"(a), "f"(v) : "memory"); }
RN_FN void rn_put4(u32 a, F4 v) { asm volatile("st.shared.v4.f32 [%0], {%1,%2,%3,%4};" :: "r"(a), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w) : "memory"); }
RN_FN void rn_put_word(u32 a, u32 v) { asm volatile("st.shared.u32 [%0], %1;" :: "r"(a), "r"(v) : "memory"); }
RN_FN float rn_other(float v, int mask) { return __shfl_xor_sync(0xffffffffu, v, mask); }
RN_FN u32 rn_first(u32 v) { return __shfl_sync(0xffffffffu, v, 0); }
RN_FN int rn_all(int p) { return __all_sync(0xffffffffu, p); }
RN_FN void rn_warp() { __syncwarp(); }
RN_FN void rn_block() { __syncthreads(); }
RN_FN void rn_summing() { asm volatile("bar.sync 1, %0;" :: "n"(SUMMING) : "memory"); }
RN_FN void rn_cluster() { asm volatile("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::: "memory"); }
RN_FN u32 rn_rank() { u32 r; asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(r)); return r; }
RN_FN void rn_bar_init(u32 a, u32 n) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(a), "r"(n) : "memory"); }
RN_FN void rn_bars_seen() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
RN_FN void rn_bar_expect(u32 a, u32 n) { asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(a), "r"(n) : "memory"); }
RN_FN void rn_bar_wait(u32 a, u32 parity) {
  asm volatile("{\n\t.reg .pred p;\nW_%=:\n\tmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n\t@!p bra W_%=;\n\t}" :: "r"(a), "r"(parity) : "memory");
}
RN_FN void rn_bar_wait_for_stores(u32 a, u32 parity) {
  asm volatile("{\n\t.reg .pred p;\nW_%=:\n\tmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%0], %1;\n\t@!p bra W_%=;\n\t}" :: "r"(a), "r"(parity) : "memory");
}
RN_FN u32 rn_of_block(u32 a, u32 rank) { u32 r; asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(rank)); return r; }
RN_FN void rn_send4(u32 a, F4 v, u32 bar) {
  asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1,%2,%3,%4}, [%5];"
    :: "r"(a), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w), "r"(bar) : "memory");
}
RN_FN void rn_send(u32 to, u32 from, u32 n, u32 bar) {
  asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
    :: "r"(to), "r"(from), "r"(n), "r"(bar) : "memory");
}
RN_FN void rn_fetch(u32 to, const float* from, u32 n, u32 bar) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
    :: "r"(to), "l"(from), "r"(n), "r"(bar) : "memory");
}
RN_FN void rn_put4_there(u32 a, F4 v) { asm volatile("st.shared::cluster.v4.f32 [%0], {%1,%2,%3,%4};" :: "r"(a), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w) : "memory"); }
RN_FN void rn_arrive_there(u32 bar) { asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" :: "r"(bar) : "memory"); }
RN_FN void rn_fence_copies() { asm volatile("fence.proxy.async;" ::: "memory"); }
RN_FN void rn_fence_sends() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
RN_FN void rn_fence_fetches() { asm volatile("fence.proxy.async.global;" ::: "memory"); }
RN_FN void rn_count(u32 a) { asm volatile("red.release.cta.shared::cta.add.u32 [%0], 1;" :: "r"(a) : "memory"); }
RN_FN u32 rn_counted(u32 a) { u32 v; asm volatile("ld.acquire.cta.shared::cta.u32 %0, [%1];" : "=r"(v) : "r"(a) : "memory"); return v; }
RN_FN u32 rn_flag(const u32* p) { u32 v; asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory"); return v; }
RN_FN void rn_set_flag(u32* p, u32 v) { asm volatile("st.release.gpu.global.u32 [%0], %1;" :: "l"(p), "r"(v) : "memory"); }
RN_FN void rn_pause() {}
RN_FN void rn_more_registers() { asm volatile("setmaxnreg.inc.sync.aligned.u32 240;"); }
RN_FN void rn_fewer_registers() { asm volatile("setmaxnreg.dec.sync.aligned.u32 24;"); }
RN_FN float rn_reciprocal(float x) { float r; asm("rcp.approx.f32 %0, %1;" : "=f"(r) : "f"(x)); return r; }
// ---- kernel ----
RN_FN float rn_sigmoid(float x) { return rn_reciprocal(1.0f + expf(-x)); }
// One level of summing N values over the threads that differ in `mask`: each keeps one half of them.
template <int N> RN_FN void rn_halve(float* v, int mask, bool upper) {
  if (N == 1) {
    v[0] += rn_other(v[0], mask);
    return;
  }
  constexpr int half = (N + 1) / 2;
#pragma unroll
  for (int i = 0; i < half; ++i) {
    const float high = half + i < N ? v[half + i < N ? half + i : 0] : 0.0f;
    const float keep = upper ? high : v[i], send = upper ? v[i] : high;
    v[i] = keep + rn_other(send, mask);
  }
}
extern "C" __global__ void __launch_bounds__(192, 1) planish_kernel(const float* __restrict__ made0, const float* __restrict__ wh0, const float* __restrict__ bh0, const float* __restrict__ wh1, const float* __restrict__ bh1, const float* __restrict__ wx1, const float* __restrict__ bx1, const float* __restrict__ h0, const float* __restrict__ c0, float* __restrict__ all, float* __restrict__ last_h, float* __restrict__ last_c, float* handed, u32* flags) {
  const u32 shared = rn_shared();
  const int tid = threadIdx.x, warp = tid >> 5, lane = tid & 31;
  const int rank = (int)rn_rank();
  const int cell = blockIdx.x / CLUSTER / SLICES, slice = blockIdx.x / CLUSTER % SLICES;
  const int b0 = slice * SLICE, u0 = rank * BLOCK_UNITS;
  const u32 state_bar = shared, below_bar = shared + 16, done = shared + 64;
  CELL_POINTERS
  for (int i = tid; i < (WEIGHTS_AT - STATE_AT) / 4; i += THREADS) rn_put(shared + STATE_AT + i * 4, 0.0f);
  if (tid == 0) {
    const u32 n = EXCHANGE == 2 ? CLUSTER * WARPS : 1;
    rn_bar_init(state_bar, n);
    rn_bar_init(state_bar + 8, n);
    for (int i = 0; i < 2; ++i) rn_bar_init(below_bar + i * 8, 1);
    rn_put_word(done, 0);
    for (int i = 0; i < 4; ++i) rn_put(shared + ZEROS_AT + i * 4, 0.0f);
    rn_bars_seen();
    if (EXCHANGE != 2) {
      rn_bar_expect(state_bar, CLUSTER * SEND_BYTES);
      rn_bar_expect(state_bar + 8, CLUSTER * SEND_BYTES);
    }
  }
  rn_block();
  for (int i = tid; i < SLICE * HIDDEN; i += THREADS) {
    const int b = i / HIDDEN, k = i % HIDDEN;
    if (b0 + b < BATCH) rn_put(shared + STATE_AT + STATE_BYTES + ((k / BLOCK_UNITS) * PART + b * PADDED + k % BLOCK_UNITS) * 4, FIRST_H(b0 + b, k));
  }
  rn_fence_copies();
  rn_warp();
  rn_cluster();

  const auto chunk_at = [shared](u32 state, u32 offset, int row) {
    return ALL_CHUNKS % 16 != 0 && offset == 0xffffffffu ? shared + ZEROS_AT : state + offset + row * PADDED * 4;
  };
  if (warp < WARPS) {
    if (HANDS_REGISTERS) rn_more_registers();
    const int group = lane & 1, member = lane >> 1;
    const int first_unit = (warp * 2 + group) * UNITS;
    u32 offset[CHUNKS];
#pragma unroll
    for (int j = 0; j < CHUNKS; ++j) {
      const int chunk = member + 16 * j;
      // Threads without a chunk of their own read zeros: an infinity elsewhere times their weights of zero would be none.
      offset[j] = chunk < ALL_CHUNKS ? ((chunk / QUADS) * PART + (chunk % QUADS) * 4) * 4 : 0xffffffffu;
      if (ALL_CHUNKS % 16 == 0 && 16 % QUADS == 0) offset[j] = offset[0] + j * (16 / QUADS) * PART * 4;
    }
    F4 wh[UNITS][GATES][KEPT > 0 ? KEPT : 1];
    F4 wx[STACKED ? UNITS : 1][STACKED ? GATES : 1][STACKED ? CHUNKS : 1];
#pragma unroll
    for (int m = 0; m < 1 + STACKED; ++m) {
      const float* const from = m == 0 ? hidden_weights : input_weights;
#pragma unroll
      for (int u = 0; u < UNITS; ++u) {
        const int unit = u0 + first_unit + u;
#pragma unroll
        for (int j = 0; j < CHUNKS; ++j) {
          const int chunk = member + 16 * j, block = chunk / QUADS, within = (chunk % QUADS) * 4, k = block * BLOCK_UNITS + within;
          const bool there = from != 0 && first_unit + u < BLOCK_UNITS && unit < HIDDEN && block < CLUSTER;
#pragma unroll
          for (int g = 0; g < GATES; ++g) {
            const float* const p = from + (long long)(g * HIDDEN + unit) * HIDDEN + k;
            F4 v;
            v.x = there && within + 0 < BLOCK_UNITS && k + 0 < HIDDEN ? p[0] : 0.0f;
            v.y = there && within + 1 < BLOCK_UNITS && k + 1 < HIDDEN ? p[1] : 0.0f;
            v.z = there && within + 2 < BLOCK_UNITS && k + 2 < HIDDEN ? p[2] : 0.0f;
            v.w = there && within + 3 < BLOCK_UNITS && k + 3 < HIDDEN ? p[3] : 0.0f;
            if (m == 1) {
              wx[STACKED ? u : 0][STACKED ? g : 0][STACKED ? j : 0] = v;
            } else if (j < KEPT) {
              wh[u][g][j < KEPT ? j : 0] = v;
            } else {
              rn_put4(shared + WEIGHTS_AT + ((((j - KEPT) * UNITS + u) * GATES + g) * SUMMING + tid) * 16, v);  // read by this thread alone
            }
          }
        }
      }
    }
    // Which of the sums this thread finishes: rn_halve leaves one or none of them to each.
    int item = 0, left = UNITS * ROWS;
    {
      int n = UNITS * ROWS;
#pragma unroll
      for (int level = 3; level >= 0; --level) {
        const int half = (n + 1) / 2, upper = (member >> level) & 1;
        if (n == 1) {
          if (upper) left = 0;
        } else if (upper) {
          item += half;
          left -= half;
        } else {
          left = left < half ? left : half;
        }
        n = half;
      }
    }
    const bool finishes = left >= 1;
    const int my_row = finishes ? item % ROWS : 0, my_unit = first_unit + (finishes ? item / ROWS : 0), unit = u0 + my_unit;
    const bool has_unit = finishes && my_unit < BLOCK_UNITS && unit < HIDDEN;
    float c[TURNS], h_before[TURNS], known[TURNS][GATES], bias[GATES];
    float state_bias = 0.0f;  // of GRU's new state: inside of the product with the reset gate
    const bool beforehand = !STACKED || cell == 0;
#pragma unroll
    for (int g = 0; g < GATES; ++g) {
      bias[g] = has_unit && hidden_bias != 0 ? hidden_bias[g * HIDDEN + unit] : 0.0f;
      if (GATES == 3 && g == 2) {
        state_bias = bias[g];
        bias[g] = 0.0f;
      }
      if (!beforehand && has_unit && input_bias != 0) bias[g] += input_bias[g * HIDDEN + unit];
    }
    const bool backwards = !STACKED && cell == 1;
    const float* next[TURNS];
#pragma unroll
    for (int turn = 0; turn < TURNS; ++turn) {
      const int row = turn * ROWS + my_row, b = b0 + row;
      const bool there = has_unit && row < SLICE && b < BATCH;
      c[turn] = there ? FIRST_C(b, unit) : 0.0f;
      h_before[turn] = there ? FIRST_H(b, unit) : 0.0f;
      next[turn] = beforehand && there ? made + ((long long)(backwards ? STEPS - 1 : 0) * BATCH + b) * (GATES * HIDDEN) + unit : 0;
#pragma unroll
      for (int g = 0; g < GATES; ++g) known[turn][g] = bias[g] + (next[turn] != 0 ? next[turn][g * HIDDEN] : 0.0f);
    }
    const long long onward = (backwards ? -1 : 1) * (long long)BATCH * (GATES * HIDDEN);
    const bool gives = !STACKED || cell == CELLS - 1;
    const bool hands_on = STACKED && cell < CELLS - 1;

    for (int t = 0; t < STEPS; ++t) {
      const u32 state = shared + STATE_AT + ((t + 1) & 1) * STATE_BYTES;
      const u32 mine = shared + MINE_AT + (t & 1) * SEND_BYTES;
#pragma unroll
      for (int turn = 0; turn < TURNS; ++turn) {
        float sum[SUMS][UNITS * ROWS];
#pragma unroll
        for (int a = 0; a < SUMS; ++a)
#pragma unroll
          for (int i = 0; i < UNITS * ROWS; ++i) sum[a][i] = 0.0f;
        if (STACKED && cell > 0) {
          const u32 below = shared + BELOW_AT + (t & 1) * STATE_BYTES;
          if (turn == 0) rn_bar_wait(below_bar + (t & 1) * 8, (t >> 1) & 1);
#pragma unroll
          for (int j = 0; j < CHUNKS; ++j)
#pragma unroll
            for (int b = 0; b < ROWS; ++b) {
              if (turn * ROWS + b >= SLICE) continue;
              const F4 v = rn_get4(chunk_at(below, offset[j], turn * ROWS + b));
#pragma unroll
              for (int e = 0; e < 4; ++e)
#pragma unroll
                for (int u = 0; u < UNITS; ++u)
#pragma unroll
                  for (int g = 0; g < GATES; ++g) {
                    const F4& w = wx[STACKED ? u : 0][STACKED ? g : 0][STACKED ? j : 0];
                    sum[g][u * ROWS + b] += (e == 0 ? w.x : e == 1 ? w.y : e == 2 ? w.z : w.w) * (e == 0 ? v.x : e == 1 ? v.y : e == 2 ? v.z : v.w);
                  }
            }
        }
        if (turn == 0 && t > 0) {
          if (EXCHANGE == 2) rn_bar_wait_for_stores(state_bar + ((t - 1) & 1) * 8, ((t - 1) >> 1) & 1);
          else rn_bar_wait(state_bar + ((t - 1) & 1) * 8, ((t - 1) >> 1) & 1);
          if (EXCHANGE != 2 && tid == 0) rn_bar_expect(state_bar + ((t - 1) & 1) * 8, CLUSTER * SEND_BYTES);
        }
#pragma unroll
        for (int j = 0; j < CHUNKS; ++j) {
          F4 w[UNITS][GATES];
#pragma unroll
          for (int u = 0; u < UNITS; ++u)
#pragma unroll
            for (int g = 0; g < GATES; ++g)
              w[u][g] = j < KEPT ? wh[u][g][j < KEPT ? j : 0] : rn_get4(shared + WEIGHTS_AT + ((((j - KEPT) * UNITS + u) * GATES + g) * SUMMING + tid) * 16);
#pragma unroll
          for (int b = 0; b < ROWS; ++b) {
            if (turn * ROWS + b >= SLICE) continue;
            const F4 v = rn_get4(chunk_at(state, offset[j], turn * ROWS + b));
#pragma unroll
            for (int e = 0; e < 4; ++e)
#pragma unroll
              for (int u = 0; u < UNITS; ++u)
#pragma unroll
                for (int g = 0; g < GATES; ++g)
                  sum[SUMS == 4 && GATES == 3 && g == 2 ? 3 : g][u * ROWS + b] +=
                      (e == 0 ? w[u][g].x : e == 1 ? w[u][g].y : e == 2 ? w[u][g].z : w[u][g].w) * (e == 0 ? v.x : e == 1 ? v.y : e == 2 ? v.z : v.w);
          }
        }
        constexpr int n0 = UNITS * ROWS, n1 = (n0 + 1) / 2, n2 = (n1 + 1) / 2, n3 = (n2 + 1) / 2;
#pragma unroll
        for (int a = 0; a < SUMS; ++a) {
          rn_halve<n0>(sum[a], 16, (member >> 3) & 1);
          rn_halve<n1>(sum[a], 8, (member >> 2) & 1);
          rn_halve<n2>(sum[a], 4, (member >> 1) & 1);
          rn_halve<n3>(sum[a], 2, member & 1);
        }
        float h;
        if (GATES == 4) {
          const float in = rn_sigmoid(sum[0][0] + known[turn][0]), forget = rn_sigmoid(sum[1 % SUMS][0] + known[turn][1 % GATES]);
          const float fresh = tanhf(sum[2 % SUMS][0] + known[turn][2 % GATES]), out = rn_sigmoid(sum[3 % SUMS][0] + known[turn][3 % GATES]);
          c[turn] = forget * c[turn] + in * fresh;
          h = out * tanhf(c[turn]);
        } else if (GATES == 3) {
          const float reset = rn_sigmoid(sum[0][0] + known[turn][0]), update = rn_sigmoid(sum[1 % SUMS][0] + known[turn][1 % GATES]);
          const float of_input = known[turn][2 % GATES] + (SUMS == 4 ? sum[2 % SUMS][0] : 0.0f), of_state = sum[SUMS - 1][0] + state_bias;
          const float fresh = tanhf(of_input + reset * of_state);
          h = (1.0f - update) * fresh + update * h_before[turn];
        } else {
          h = PLAIN(sum[0][0] + known[turn][0]);
        }
        h_before[turn] = h;
        const int row = turn * ROWS + my_row;
        if (finishes && my_unit < BLOCK_UNITS && row < SLICE) rn_put(mine + (row * PADDED + my_unit) * 4, has_unit ? h : 0.0f);
        if (beforehand && t + 1 < STEPS && next[turn] != 0) {
          next[turn] += onward;
#pragma unroll
          for (int g = 0; g < GATES; ++g) known[turn][g] = bias[g] + next[turn][g * HIDDEN];
        }
      }
      if (EXCHANGE == 1) rn_fence_sends();
      rn_warp();
      rn_summing();
      if (t + 1 < STEPS) {
        const u32 to = shared + STATE_AT + (t & 1) * STATE_BYTES + rank * PART * 4, bar = state_bar + (t & 1) * 8;
        if (EXCHANGE == 1) {
          if (warp == 0 && lane < CLUSTER) rn_send(rn_of_block(to, lane), mine, SEND_BYTES, rn_of_block(bar, lane));
        } else {
          constexpr int quads = SLICE * QUADS;
#pragma unroll 4
          for (int i = tid; i < quads * CLUSTER; i += SUMMING) {
            const int q = i % quads, there = i / quads;
            const F4 v = rn_get4(mine + q * 16);
            if (EXCHANGE == 0) rn_send4(rn_of_block(to + q * 16, there), v, rn_of_block(bar, there));
            else rn_put4_there(rn_of_block(to + q * 16, there), v);
          }
          if (EXCHANGE == 2) {
            rn_warp();
            if (lane < CLUSTER) rn_arrive_there(rn_of_block(bar, lane));
          }
        }
      }
      if (hands_on) {
        float* const to = handed + ((((long long)cell * STEPS + t) * SLICES + slice) * CLUSTER + rank) * PART;
        for (int q = tid; q < SLICE * QUADS; q += SUMMING) *(F4*)(to + q * 4) = rn_get4(mine + q * 16);
      }
      if (GIVES_ALL && gives) {
        const int at = backwards ? STEPS - 1 - t : t;
        for (int i = tid; i < SLICE * BLOCK_UNITS; i += SUMMING) {
          const int b = i / BLOCK_UNITS, u = i % BLOCK_UNITS;
          if (b0 + b < BATCH && u0 + u < HIDDEN) ALL(at, b0 + b, (STACKED ? 0 : cell * HIDDEN) + u0 + u) = rn_get(mine + (b * PADDED + u) * 4);
        }
      }
      if (STACKED) {
        rn_warp();
        if (lane == 0) rn_count(done);
      }
    }
#pragma unroll
    for (int turn = 0; turn < TURNS; ++turn) {
      const int row = turn * ROWS + my_row, b = b0 + row;
      if (!has_unit || row >= SLICE || b >= BATCH) continue;
      GIVE_LAST
    }
  } else if (STACKED) {  // says which steps are finished, and fetches what the cell below has made
    if (HANDS_REGISTERS) rn_fewer_registers();
    if (warp == WARPS) {
      u32* const own = flags + (cell * SLICES + slice) * CLUSTER + rank;
      const u32* const below = flags + ((cell - 1) * SLICES + slice) * CLUSTER + lane;
      int fetched = cell == 0 ? STEPS : 0, said = cell == CELLS - 1 ? STEPS : 0;
      while (fetched < STEPS || said < STEPS) {
        const int finished = (int)(rn_first(rn_counted(done)) / WARPS);
        if (said < STEPS && said < finished) {
          rn_warp();
          if (lane == 0) rn_set_flag(own, (u32)finished);
          said = finished;
        }
        if (fetched < STEPS && fetched < finished + 2) {
          const u32 there = lane < CLUSTER ? rn_flag(below) : 0x7fffffffu;
          if (rn_all((int)there > fetched)) {
            rn_warp();
            if (lane == 0) {
              rn_fence_fetches();
              const u32 bar = below_bar + (fetched & 1) * 8;
              rn_bar_expect(bar, STATE_BYTES);
              rn_fetch(shared + BELOW_AT + (fetched & 1) * STATE_BYTES, handed + (((long long)(cell - 1) * STEPS + fetched) * SLICES + slice) * CLUSTER * PART, STATE_BYTES, bar);
            }
            ++fetched;
          }
        }
        rn_pause();
      }
    }
  }
  rn_warp();
  rn_cluster();
}
