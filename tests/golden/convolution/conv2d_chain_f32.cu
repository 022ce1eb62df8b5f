// genome: min_blocks=1 passes=1 pingpong=0 promote=64 raster=8 split=1 stages=8 stationary=0 swap_operands=0 tile_k=64 tile_m=64 tile_n=16
// launch: grid 2x1x1 block 256x1x1 cluster 1x1x1 shared 0 packs
// arguments: input1 scratch0 scratch1
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
  if (row >= 24 || k >= 20) {
    #pragma unroll
    for (int j = 0; j < 8; ++j) v[j] = 0.0f;
    return;
  }
  const int d0 = (unsigned)(row);
  float r1[8];
  #pragma unroll
  for (int j = 0; j < 8; ++j) {
    const int d3 = (unsigned)(k + j);
    r1[j] = k + j < 20 ? pl_ldg(in1 + (20 * d0 + d3)) : 0x0p+0f;
  }
  #pragma unroll
  for (int j = 0; j < 8; ++j) {
    const int d3 = (unsigned)(k + j);
    const float v1 = r1[j];
    v[j] = k + j < 20 ? v1 : 0.0f;
  }
}
extern "C" __global__ void __launch_bounds__(256) planish_kernel(const float* __restrict__ in1, unsigned char* __restrict__ out0, int* __restrict__ out2) {
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
      tc_values(v[i], in1, batch, row, chunk * 8);
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
      TcChunk hi;
      #pragma unroll
      for (int j = 0; j < 8; ++j) {
        const float s = v[i][j] * f * g;
        hi.x[j] = tc_high(v[i][j], s);
      }
      const long long place = batch * 8192ll + chunk / 8 * 8192ll + row / 8 * 1024ll + chunk % 8 * 128 + r * 16;
      tc_put(out0 + place, hi);
    }
  }
}

// launch: grid 19x1x1 block 256x1x1 cluster 1x1x1 shared 0 packs
// arguments: input0 scratch2 scratch3
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
  if (row >= 297 || k >= 20) {
    #pragma unroll
    for (int j = 0; j < 8; ++j) v[j] = 0.0f;
    return;
  }
  const int d2 = (unsigned)(row) % 99;
  const int d1 = (unsigned)(row) / 99;
  float r0[8];
  #pragma unroll
  for (int j = 0; j < 8; ++j) {
    const int d3 = (unsigned)(k + j);
    r0[j] = k + j < 20 ? pl_ldg(in0 + (1980 * d1 + d2 + 99 * d3)) : 0x0p+0f;
  }
  #pragma unroll
  for (int j = 0; j < 8; ++j) {
    const int d3 = (unsigned)(k + j);
    const float v0 = r0[j];
    v[j] = k + j < 20 ? v0 : 0.0f;
  }
}
extern "C" __global__ void __launch_bounds__(256) planish_kernel(const float* __restrict__ in0, unsigned char* __restrict__ out0, int* __restrict__ out2) {
  __shared__ float most[64];
  const int r = threadIdx.x % 8;
  const int part = 0, whole = blockIdx.x * 2 + threadIdx.x / 128;
  const int batch = whole / 38, row = whole % 38 * 8 + r;
  float v[1][8];
  float top = 0.0f;
  for (int at = 0; at < 1; at += 1) {
    #pragma unroll
    for (int i = 0; i < 1; ++i) {
      const int own = (int)threadIdx.x % 128 / 8 + (at + i) * 16, chunk = part * 8 + own;
      if (own < 8 && chunk < 8) {
        tc_values(v[i], in0, batch, row, chunk * 8);
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
  if (part == 0 && threadIdx.x % 128 < 8) out2[batch * 304 + row] = e;
  const float f = tc_power(-e / 2), g = tc_power(-e - -e / 2);
  for (int at = 0; at < 1; at += 1) {
    #pragma unroll
    for (int i = 0; i < 1; ++i) {
      const int own = (int)threadIdx.x % 128 / 8 + (at + i) * 16, chunk = part * 8 + own;
      if (own < 8 && chunk < 8) {
        TcChunk hi;
        #pragma unroll
        for (int j = 0; j < 8; ++j) {
          const float s = v[i][j] * f * g;
          hi.x[j] = tc_high(v[i][j], s);
        }
        const long long place = batch * 38912ll + chunk / 8 * 38912ll + row / 8 * 1024ll + chunk % 8 * 128 + r * 16;
        tc_put(out0 + place, hi);
      }
    }
  }
}

// launch: grid 19x1x1 block 256x1x1 cluster 1x1x1 shared 87296
// arguments: scratch0 scratch2 scratch1 scratch3 input2 input3 output0
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
template <int rows, int columns, bool all, typename Sums>
TC_FN void tc_store(const float* __restrict__ in2, const float* __restrict__ in3, float* __restrict__ out0, int batch, int y, int x, int end, int lane, Sums sums) {
  constexpr int weave = 1, step = 32;
  #pragma unroll 2
  for (int r = 0; r < rows; r += weave) {
    const int row = y + r;
    if (!all && row >= 24) break;
    const int d0 = (unsigned)(row);
    const float v4 = pl_ldg(in2 + (d0));
    const float v7 = pl_ldg(in3 + (d0));
    #pragma unroll
    for (int j = 0; j < columns; j += step) {
      const int at = x + j + lane / weave;
      const int d2 = (unsigned)(at) % 99;
      const int d1 = (unsigned)(at) / 99;
      const bool there = (at < end);
      const bool ok = there;
      const float folded = sums(r + lane % weave, j + lane / weave);
      const float v3 = folded;
      const float v5 = (v3 + v4);
      const float v6 = pl_max(v5, 0x0p+0f);
      const float v8 = (v6 * v7);
      if (ok) {
        out0[99 * d0 + 2376 * d1 + d2] = v8;
      }
    }
  }
}
// ---- kernel ----
extern "C" __global__ void __launch_bounds__(256, 1) planish_kernel(const char* __restrict__ a0, const char* __restrict__ b0, const int* __restrict__ ea, const int* __restrict__ eb, const float* __restrict__ in2, const float* __restrict__ in3, float* __restrict__ out0) {
  extern __shared__ __align__(16) unsigned char pl_smem[];
  const u32 base = (tc_shared(pl_smem) + 127u) & ~127u;
  const u32 full = base + 81920, empty = full + 64;
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
      for (int tile = blockIdx.x; tile < 19; tile += gridDim.x) {
        const int band = tile / 152 * 8, within = tile % 152;
        const int height = min(8, 1 - band);
        const int row = (band + within % height) * 64;
        const int column = within / height * 16;
        const long long from_a = row * 128ll, from_b = column * 128ll;
        for (int k = 0; k < 1; ++k) {
          tc_poll(empty + stage * 8, parity ^ 1);
          const u32 at = base + stage * 10240;
          tc_expect(full + stage * 8, 10240);
          tc_copy(at + 0, a0 + from_a + k * 8192ll, 8192, full + stage * 8);
          tc_copy(at + 8192, b0 + from_b + k * 38912ll, 2048, full + stage * 8);
          if (++stage == 8) {
            stage = 0;
            parity ^= 1;
          }
        }
      }
    }
  } else {
    const int lane = threadIdx.x % 32;
    for (int tile = blockIdx.x; tile < 19; tile += gridDim.x) {
      const int band = tile / 152 * 8, within = tile % 152;
      const int height = min(8, 1 - band);
      const int row = (band + within % height) * 64;
      const int column = within / height * 16;
      const int warp = threadIdx.x % 128 / 32;
      const int m = row + (group - 1) * 64 + warp * 16;
      const int up0 = ea[m + lane / 4], up1 = ea[m + lane / 4 + 8];
      float high[8];
      #pragma unroll 1
      for (int k = 0; k < 1; k += 1) {
        {
          tc_poll(full + stage * 8, parity);
          const u64 at = (u64)((base + stage * 10240) >> 4);
          const u64 at_a = at + (group - 1) * 512;
          tc_begin();
          tc_product(high, 274878431232ull + at_a + 0, 274878431232ull + at + 512, k > 0);
          tc_product(high, 274878431232ull + at_a + 16, 274878431232ull + at + 528, 1);
          tc_product(high, 274878431232ull + at_a + 32, 274878431232ull + at + 544, 1);
          tc_product(high, 274878431232ull + at_a + 48, 274878431232ull + at + 560, 1);
          tc_commit();
          tc_finish<1>();
          if (k > 0 && lane == 0) tc_leave(empty + (stage == 0 ? 7 : stage - 1) * 8);
          if (++stage == 8) {
            stage = 0;
            parity ^= 1;
          }
        }
      }
      tc_finish<0>();
      tc_hold(high);
      if (lane == 0) tc_leave(empty + (stage == 0 ? 7 : stage - 1) * 8);
      float* const exchange = (float*)(pl_smem + (base - tc_shared(pl_smem)) + 82048) + ((group - 1) * 4 + warp) * 320;
      float* const mine = exchange + lane / 4 * 40 + lane % 4 * 2;
      #pragma unroll
      for (int part = 0; part < 16; part += 32) {
        #pragma unroll
        for (int h = 0; h < 2; ++h) {
          __syncwarp();
          #pragma unroll
          for (int j = part; j < min(part + 32, 16); j += 8) {
            const float left = tc_scale(high[j / 2 + h * 2], (h == 0 ? up0 : up1) + eb[column + j + lane % 4 * 2]);
            const float right = tc_scale(high[j / 2 + h * 2 + 1], (h == 0 ? up0 : up1) + eb[column + j + lane % 4 * 2 + 1]);
            *(float2*)(mine + j - part) = make_float2(left, right);
          }
          __syncwarp();
          tc_store<8, 32, false>(in2, in3, out0, 0, m + h * 8, column + part, min(column + 16, 297), lane, TcExchange<40>{exchange});
        }
      }
    }
  }
}
