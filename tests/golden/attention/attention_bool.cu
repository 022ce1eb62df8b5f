// genome: min_blocks=1 stages=2 tile_m=64 tile_n=96
// launch: grid 8x1x1 block 256x1x1 cluster 1x1x1 shared 0
// arguments: input1 scratch0 scratch1 scratch2
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
  if (row >= 70 || k >= 16) {
    #pragma unroll
    for (int j = 0; j < 8; ++j) v[j] = 0.0f;
    return;
  }
  const int d0 = (unsigned)(batch);
  const int d1 = (unsigned)(row);
  float r1[8];
  {
    const int d4 = (unsigned)(k);
    __align__(16) float raw[8];
    tc_read<4>(raw, in1 + (1120 * d0 + 16 * d1 + d4));
    #pragma unroll
    for (int j = 0; j < 8; ++j) r1[j] = raw[j];
  }
  #pragma unroll
  for (int j = 0; j < 8; ++j) {
    const int d4 = (unsigned)(k + j);
    const float v1 = r1[j];
    v[j] = v1;
  }
}
extern "C" __global__ void __launch_bounds__(256) planish_kernel(const float* __restrict__ in1, unsigned char* __restrict__ out0, unsigned char* __restrict__ out1, int* __restrict__ out2) {
  __shared__ float most[64];
  const int r = threadIdx.x % 8;
  const int part = 0, whole = blockIdx.x * 8 + threadIdx.x / 32;
  const int batch = whole / 16, row = whole % 16 * 8 + r;
  float v[1][8];
  float top = 0.0f;
  for (int at = 0; at < 1; at += 1) {
    #pragma unroll
    for (int i = 0; i < 1; ++i) {
      const int own = (int)threadIdx.x % 32 / 8 + (at + i) * 4, chunk = part * 2 + own;
      if (own < 2 && chunk < 2) {
        tc_values(v[i], in1, batch, row, chunk * 8);
      }
    }
    #pragma unroll
    for (int i = 0; i < 1; ++i) {
      const int own = (int)threadIdx.x % 32 / 8 + (at + i) * 4, chunk = part * 2 + own;
      if (own < 2 && chunk < 2) {
        #pragma unroll
        for (int j = 0; j < 8; ++j) top = fmaxf(top, tc_finite(v[i][j]) ? fabsf(v[i][j]) : 0.0f);
      }
    }
  }
  top = tc_most(tc_most(top, 8), 16);
  if (threadIdx.x % 32 < 8) most[threadIdx.x / 32 * 8 + r] = top;
  __syncthreads();
  for (int w = 0; w < 1; ++w) top = fmaxf(top, most[(threadIdx.x / 32 * 1 + w) * 8 + r]);
  const int e = tc_exponent(top);
  if (part == 0 && threadIdx.x % 32 < 8) out2[batch * 128 + row] = e;
  const float f = tc_power(-e / 2), g = tc_power(-e - -e / 2);
  for (int at = 0; at < 1; at += 1) {
    #pragma unroll
    for (int i = 0; i < 1; ++i) {
      const int own = (int)threadIdx.x % 32 / 8 + (at + i) * 4, chunk = part * 2 + own;
      if (own < 2 && chunk < 2) {
        TcChunk hi, lo;
        #pragma unroll
        for (int j = 0; j < 8; ++j) {
          const float s = v[i][j] * f * g;
          hi.x[j] = tc_high(v[i][j], s);
          lo.x[j] = tc_low_joint(s, hi.x[j]);
        }
        const long long place = batch * 4096ll + chunk / 2 * 4096ll + row / 8 * 256ll + chunk % 2 * 128 + r * 16;
        tc_put(out0 + place, hi);
        tc_put(out1 + place, lo);
      }
    }
  }
}

// launch: grid 6x1x1 block 256x1x1 cluster 1x1x1 shared 0
// arguments: input2 scratch3 scratch4 scratch5
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
TC_FN void tc_values(float (&v)[8], const float* __restrict__ in2, int batch, int row, int k) {
  if (row >= 96 || k >= 16) {
    #pragma unroll
    for (int j = 0; j < 8; ++j) v[j] = 0.0f;
    return;
  }
  const int d0 = (unsigned)(batch);
  const int d3 = (unsigned)(row);
  float r2[8];
  {
    const int d4 = (unsigned)(k);
    __align__(16) float raw[8];
    tc_read<4>(raw, in2 + (1536 * d0 + 16 * d3 + d4));
    #pragma unroll
    for (int j = 0; j < 8; ++j) r2[j] = raw[j];
  }
  #pragma unroll
  for (int j = 0; j < 8; ++j) {
    const int d4 = (unsigned)(k + j);
    const float v2 = r2[j];
    v[j] = v2;
  }
}
extern "C" __global__ void __launch_bounds__(256) planish_kernel(const float* __restrict__ in2, unsigned char* __restrict__ out0, unsigned char* __restrict__ out1, int* __restrict__ out2) {
  __shared__ float most[64];
  const int r = threadIdx.x % 8;
  const int part = 0, whole = blockIdx.x * 8 + threadIdx.x / 32;
  const int batch = whole / 12, row = whole % 12 * 8 + r;
  float v[1][8];
  float top = 0.0f;
  for (int at = 0; at < 1; at += 1) {
    #pragma unroll
    for (int i = 0; i < 1; ++i) {
      const int own = (int)threadIdx.x % 32 / 8 + (at + i) * 4, chunk = part * 2 + own;
      if (own < 2 && chunk < 2) {
        tc_values(v[i], in2, batch, row, chunk * 8);
      }
    }
    #pragma unroll
    for (int i = 0; i < 1; ++i) {
      const int own = (int)threadIdx.x % 32 / 8 + (at + i) * 4, chunk = part * 2 + own;
      if (own < 2 && chunk < 2) {
        #pragma unroll
        for (int j = 0; j < 8; ++j) top = fmaxf(top, tc_finite(v[i][j]) ? fabsf(v[i][j]) : 0.0f);
      }
    }
  }
  top = tc_most(tc_most(top, 8), 16);
  if (threadIdx.x % 32 < 8) most[threadIdx.x / 32 * 8 + r] = top;
  __syncthreads();
  for (int w = 0; w < 1; ++w) top = fmaxf(top, most[(threadIdx.x / 32 * 1 + w) * 8 + r]);
  const int e = tc_exponent(top);
  if (part == 0 && threadIdx.x % 32 < 8) out2[batch * 96 + row] = e;
  const float f = tc_power(-e / 2), g = tc_power(-e - -e / 2);
  for (int at = 0; at < 1; at += 1) {
    #pragma unroll
    for (int i = 0; i < 1; ++i) {
      const int own = (int)threadIdx.x % 32 / 8 + (at + i) * 4, chunk = part * 2 + own;
      if (own < 2 && chunk < 2) {
        TcChunk hi, lo;
        #pragma unroll
        for (int j = 0; j < 8; ++j) {
          const float s = v[i][j] * f * g;
          hi.x[j] = tc_high(v[i][j], s);
          lo.x[j] = tc_low_joint(s, hi.x[j]);
        }
        const long long place = batch * 3072ll + chunk / 2 * 3072ll + row / 8 * 256ll + chunk % 2 * 128 + r * 16;
        tc_put(out0 + place, hi);
        tc_put(out1 + place, lo);
      }
    }
  }
}

// launch: grid 4x1x1 block 256x1x1 cluster 1x1x1 shared 0
// arguments: input3 scratch6 scratch7 scratch8
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
TC_FN void tc_values(float (&v)[8], const float* __restrict__ in3, int batch, int row, int k) {
  if (row >= 16 || k >= 96) {
    #pragma unroll
    for (int j = 0; j < 8; ++j) v[j] = 0.0f;
    return;
  }
  const int d0 = (unsigned)(batch);
  const int d2 = (unsigned)(row);
  float r20[8];
  #pragma unroll
  for (int j = 0; j < 8; ++j) {
    const int d3 = (unsigned)(k + j);
    r20[j] = pl_ldg(in3 + (1536 * d0 + d2 + 16 * d3));
  }
  #pragma unroll
  for (int j = 0; j < 8; ++j) {
    const int d3 = (unsigned)(k + j);
    const float v20 = r20[j];
    v[j] = v20;
  }
}
extern "C" __global__ void __launch_bounds__(256) planish_kernel(const float* __restrict__ in3, unsigned char* __restrict__ out0, unsigned char* __restrict__ out1, int* __restrict__ out2) {
  __shared__ float most[64];
  const int r = threadIdx.x % 8;
  const int part = 0, whole = blockIdx.x * 2 + threadIdx.x / 128;
  const int batch = whole / 2, row = whole % 2 * 8 + r;
  float v[1][8];
  float top = 0.0f;
  for (int at = 0; at < 1; at += 1) {
    #pragma unroll
    for (int i = 0; i < 1; ++i) {
      const int own = (int)threadIdx.x % 128 / 8 + (at + i) * 16, chunk = part * 12 + own;
      if (own < 12 && chunk < 12) {
        tc_values(v[i], in3, batch, row, chunk * 8);
      }
    }
    #pragma unroll
    for (int i = 0; i < 1; ++i) {
      const int own = (int)threadIdx.x % 128 / 8 + (at + i) * 16, chunk = part * 12 + own;
      if (own < 12 && chunk < 12) {
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
  if (part == 0 && threadIdx.x % 128 < 8) out2[batch * 16 + row] = e;
  const float f = tc_power(-e / 2), g = tc_power(-e - -e / 2);
  for (int at = 0; at < 1; at += 1) {
    #pragma unroll
    for (int i = 0; i < 1; ++i) {
      const int own = (int)threadIdx.x % 128 / 8 + (at + i) * 16, chunk = part * 12 + own;
      if (own < 12 && chunk < 12) {
        TcChunk hi, lo;
        #pragma unroll
        for (int j = 0; j < 8; ++j) {
          const float s = v[i][j] * f * g;
          hi.x[j] = tc_high(v[i][j], s);
          lo.x[j] = tc_low_joint(s, hi.x[j]);
        }
        const long long place = batch * 3072ll + chunk / 12 * 3072ll + row / 8 * 1536ll + chunk % 12 * 128 + r * 16;
        tc_put(out0 + place, hi);
        tc_put(out1 + place, lo);
      }
    }
  }
}

// launch: grid 8x1x1 block 256x1x1 cluster 1x1x1 shared 34000
// arguments: scratch0 scratch1 scratch3 scratch4 scratch6 scratch7 scratch2 scratch5 scratch8 input0 input1 input2 input3 output0
// ---- tests/golden/shared/place_prelude.cu ----
// ---- tests/golden/shared/machine_text.cu ----
TC_FN void tc_scores(float (&d)[48], u64 a, u64 b, int keep) {
  asm volatile("{.reg .pred p; setp.ne.b32 p, %50, 0; wgmma.mma_async.sync.aligned.m64n96k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47}, %48, %49, p, 1, 1, 0, 0;}"
    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47])
    : "l"(a), "l"(b), "r"(keep) : "memory");
}
TC_FN void tc_weigh(float (&d)[8], const u32 (&a)[4], u64 b, int keep) {
  asm volatile("{.reg .pred p; setp.ne.b32 p, %13, 0; wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7}, {%8, %9, %10, %11}, %12, p, 1, 1, 0;}"
    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
    : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(keep) : "memory");
}
TC_FN void tc_poll(u32 barrier, u32 parity) { while (!tc_poll_once(barrier, parity)) { } }
TC_FN float tc_exp2(float x) { float y; asm("ex2.approx.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
// Two numbers as fp16, and what is left of them.
TC_FN u32 tc_pair(float a, float b) { u32 r; asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(b), "f"(a)); return r; }
TC_FN u32 tc_left(float a, float b, u32 hi) {
  float x, y;
  asm("{.reg .f16 l, h; mov.b32 {l, h}, %2; cvt.f32.f16 %0, l; cvt.f32.f16 %1, h;}" : "=f"(x), "=f"(y) : "r"(hi));
  return tc_pair(a - x, b - y);
}
// 2^e: beyond what a float holds, its last.
TC_FN float tc_two(int e) { return __int_as_float((min(max(e, -126), 127) + 127) << 23); }
TC_FN float tc_over(float v) { v = fmaxf(v, __shfl_xor_sync(~0u, v, 1)); return fmaxf(v, __shfl_xor_sync(~0u, v, 2)); }
TC_FN float tc_all(float v) { v += __shfl_xor_sync(~0u, v, 1); return v + __shfl_xor_sync(~0u, v, 2); }
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
TC_FN void tc_store(float* __restrict__ out0, int batch, int y, int x, int end, int lane, Sums sums) {
  const int d0 = (unsigned)(batch);
  constexpr int weave = 1, step = 32;
  if constexpr (columns >= 64) {
    constexpr int beside = columns >= 96 ? 4 : 2;
    #pragma unroll 4
    for (int r = 0; r < rows; ++r) {
      const int row = y + r;
      if (!all && row >= 70) break;
      const int d1 = (unsigned)(row);
      #pragma unroll
      for (int j = 0; j < columns; j += 32 * beside) {
        const bool inside = columns % (32 * beside) == 0 || j + lane * beside < columns;
        const int at = x + j + lane * beside;
        const int d2 = (unsigned)(at);
        const bool ok = inside & (at < end);
        float sum[beside];
        tc_neighbours(sums, r, inside ? j + lane * beside : 0, sum);
        float got0[beside];
        auto* const to0 = out0 + (1120 * d0 + 16 * d1 + d2);
        const int first = d2;
        #pragma unroll
        for (int i = 0; i < beside; ++i) {
          const int d2 = first + i;
          const float folded = sum[i];
          const float v22 = folded;
          got0[i] = v22;
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
      if (!all && row >= 70) break;
      const int d1 = (unsigned)(row);
      #pragma unroll
      for (int j = 0; j < columns; j += step) {
        const int at = x + j + lane / weave;
        const int d2 = (unsigned)(at);
        const bool there = (at < end);
        const bool ok = there;
        const float folded = sums(r + lane % weave, j + lane / weave);
        const float v22 = folded;
        if (ok) {
          out0[1120 * d0 + 16 * d1 + d2] = v22;
        }
      }
    }
  }
}
TC_FN float tc_score(const unsigned char* __restrict__ in0, int batch, int row, int key, float folded) {
  const int d0 = (unsigned)(batch);
  const int d1 = (unsigned)(row);
  const int d3 = (unsigned)(key);
  const bool v0 = (pl_ldg(in0 + (96 * d1 + d3)) != 0);
  const float v4 = folded;
  const float v5 = 0x1p-2f;
  const float v6 = (v4 * v5);
  const float v7 = (-PL_INF_F32);
  const float v8 = (v0 ? v6 : v7);
  return v8;
}
TC_FN float tc_query(const float* __restrict__ in1, int batch, int row, int k) {
  const int d0 = (unsigned)(batch);
  const int d1 = (unsigned)(row);
  const int d4 = (unsigned)(k);
  const float v1 = pl_ldg(in1 + (1120 * d0 + 16 * d1 + d4));
  return v1;
}
TC_FN float tc_key(const float* __restrict__ in2, int batch, int key, int k) {
  const int d0 = (unsigned)(batch);
  const int d3 = (unsigned)(key);
  const int d4 = (unsigned)(k);
  const float v2 = pl_ldg(in2 + (1536 * d0 + 16 * d3 + d4));
  return v2;
}
TC_FN float tc_value(const float* __restrict__ in3, int batch, int key, int column) {
  const int d0 = (unsigned)(batch);
  const int d3 = (unsigned)(key);
  const int d2 = (unsigned)(column);
  const float v20 = pl_ldg(in3 + (1536 * d0 + d2 + 16 * d3));
  return v20;
}
TC_FN float tc_shift(float maximum) {
  const float v7 = (-PL_INF_F32);
  const float v9 = maximum;
  const bool v10 = (v9 == v7);
  const float v11 = 0x0p+0f;
  const float v12 = (v10 ? v11 : v9);
  return v12;
}
TC_FN float tc_divisor(float maximum, float total) {
  const float v11 = 0x0p+0f;
  const float v15 = total;
  const bool v16 = (v15 == v11);
  const float v17 = 0x1p+0f;
  const float v18 = (v16 ? v17 : v15);
  return v18;
}
// ---- kernel ----
extern "C" __global__ void __launch_bounds__(256, 1) planish_kernel(const char* __restrict__ q0, const char* __restrict__ q1, const char* __restrict__ k0, const char* __restrict__ k1, const char* __restrict__ v0, const char* __restrict__ v1, const int* __restrict__ eq, const int* __restrict__ ek, const int* __restrict__ ev, const unsigned char* __restrict__ in0, const float* __restrict__ in1, const float* __restrict__ in2, const float* __restrict__ in3, float* __restrict__ out0) {
  extern __shared__ __align__(16) unsigned char pl_smem[];
  const u32 base = (tc_shared(pl_smem) + 127u) & ~127u;
  const u32 stages = base + 4096, ready = base + 28672, keys_in = ready + 8, keys_out = keys_in + 16, values_in = keys_out + 16, values_out = values_in + 16;
  const int group = tc_group();
  if (threadIdx.x == 0) {
    tc_init(ready, 1);
    for (int i = 0; i < 2; ++i) {
      tc_init(keys_in + i * 8, 1);
      tc_init(values_in + i * 8, 1);
      tc_init(keys_out + i * 8, 4);
      tc_init(values_out + i * 8, 4);
    }
    tc_ready();
  }
  __syncthreads();
  const int part = blockIdx.x % 1, batch = blockIdx.x / 1 / 2, row = (2 - 1 - (int)(blockIdx.x / 1 % 2)) * 64;
  const int tiles = 1;
  int stage = 0;
  u32 parity = 0;
  if (group == 0) {
    if (threadIdx.x == 0) {
      const long long q = ((long long)batch * 128 + row) * 32;
      const long long k = (long long)batch * 3072ll;
      const long long v = (long long)batch * 3072ll + part * 3072;
      tc_expect(ready, 4096);
      tc_copy(base, q0 + q, 2048, ready);
      tc_copy(base + 2048, q1 + q, 2048, ready);
      for (int tile = 0; tile < tiles; ++tile) {
        const u32 to = stages + stage * 12288;
        tc_poll(keys_out + stage * 8, parity ^ 1);
        tc_expect(keys_in + stage * 8, 6144);
        tc_copy(to + 0, k0 + k + tile * 3072ll, 3072, keys_in + stage * 8);
        tc_copy(to + 3072, k1 + k + tile * 3072ll, 3072, keys_in + stage * 8);
        tc_poll(values_out + stage * 8, parity ^ 1);
        tc_expect(values_in + stage * 8, 6144);
        tc_copy(to + 6144, v0 + v + tile * 3072ll, 3072, values_in + stage * 8);
        tc_copy(to + 9216, v1 + v + tile * 3072ll, 3072, values_in + stage * 8);
        if (++stage == 2) {
          stage = 0;
          parity ^= 1;
        }
      }
    }
  }
  else {
    const int lane = threadIdx.x % 32;
    const int rows = row + (group - 1) * 64 + threadIdx.x % 128 / 32 * 16;
    const int row0 = min(rows + lane / 4, 69), row1 = min(rows + lane / 4 + 8, 69);
    const int* const mine_ = eq + (long long)batch * 128 + rows + lane / 4;
    const float up0 = tc_two(mine_[0]), up1 = tc_two(mine_[8]);
    const u64 at = (u64)((base + (group - 1) * 2048) >> 4);
    float top0 = __int_as_float(0xff800000), top1 = top0, base0 = 0.0f, base1 = 0.0f, sum0 = 0.0f, sum1 = 0.0f;
    float o[8];
    #pragma unroll
    for (int i = 0; i < 8; ++i) o[i] = 0.0f;
    tc_poll(ready, 0);
    #pragma unroll 1
    for (int tile = 0; tile < tiles; ++tile) {
      float s[48];
      tc_poll(keys_in + stage * 8, parity);
      const u64 from = (u64)((stages + stage * 12288) >> 4);
      tc_begin();
      tc_scores(s, 68720001024ull + at + 0, 68720001024ull + from + 192, 0);
      tc_scores(s, 68720001024ull + at + 128, 68720001024ull + from + 0, 1);
      tc_scores(s, 68720001024ull + at + 0, 68720001024ull + from + 0, 1);
      tc_commit();
      tc_finish<0>();
      tc_hold(s);
      if (lane == 0) tc_leave(keys_out + stage * 8);
      const int first = tile * 96;
      const float before0 = top0, before1 = top1;
      float new0 = top0, new1 = top1;
      #pragma unroll
      for (int j = 0; j < 12; ++j) {
        const int key = first + j * 8 + lane % 4 * 2;
        const int2 e = *(const int2*)(ek + (long long)batch * 96 + key);
        const float f[2] = {tc_two(e.x), tc_two(e.y)};
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
          float x = tc_score(in0, batch, i < 2 ? row0 : row1, key + i % 2, s[j * 4 + i] * f[i % 2] * (i < 2 ? up0 : up1));
          s[j * 4 + i] = x;
        }
        new0 = fmaxf(new0, fmaxf(s[j * 4], s[j * 4 + 1]));
        new1 = fmaxf(new1, fmaxf(s[j * 4 + 2], s[j * 4 + 3]));
      }
      top0 = tc_over(new0);
      top1 = tc_over(new1);
      const float now0 = fmaf(top0 == __int_as_float(0xff800000) ? 0.0f : top0, 0x1.715476p+0f, -12.0f), less0 = before0 == __int_as_float(0xff800000) ? 0.0f : tc_exp2(base0 - now0);
      base0 = now0;
      sum0 *= less0;
      const float now1 = fmaf(top1 == __int_as_float(0xff800000) ? 0.0f : top1, 0x1.715476p+0f, -12.0f), less1 = before1 == __int_as_float(0xff800000) ? 0.0f : tc_exp2(base1 - now1);
      base1 = now1;
      sum1 *= less1;
      #pragma unroll
      for (int j = 0; j < 12; ++j) {
        #pragma unroll
        for (int i = 0; i < 4; ++i) s[j * 4 + i] = tc_exp2(fmaf(s[j * 4 + i], 0x1.715476p+0f, i < 2 ? -base0 : -base1));
        sum0 += s[j * 4] + s[j * 4 + 1];
        sum1 += s[j * 4 + 2] + s[j * 4 + 3];
      }
      u32 hi[6][4], lo[6][4];
      #pragma unroll
      for (int i = 0; i < 6; ++i) {
        #pragma unroll
        for (int j = 0; j < 4; ++j) {
          hi[i][j] = tc_pair(s[i * 8 + j * 2], s[i * 8 + j * 2 + 1]);
          lo[i][j] = tc_left(s[i * 8 + j * 2], s[i * 8 + j * 2 + 1], hi[i][j]);
        }
      }
      tc_poll(values_in + stage * 8, parity);
      float t[8];
      tc_begin();
      tc_weigh(t, hi[0], 412317384704ull + from + 576, 0);
      tc_weigh(t, lo[0], 412317384704ull + from + 384, 1);
      tc_weigh(t, hi[1], 412317384704ull + from + 592, 1);
      tc_weigh(t, lo[1], 412317384704ull + from + 400, 1);
      tc_weigh(t, hi[2], 412317384704ull + from + 608, 1);
      tc_weigh(t, lo[2], 412317384704ull + from + 416, 1);
      tc_weigh(t, hi[3], 412317384704ull + from + 624, 1);
      tc_weigh(t, lo[3], 412317384704ull + from + 432, 1);
      tc_weigh(t, hi[4], 412317384704ull + from + 640, 1);
      tc_weigh(t, lo[4], 412317384704ull + from + 448, 1);
      tc_weigh(t, hi[5], 412317384704ull + from + 656, 1);
      tc_weigh(t, lo[5], 412317384704ull + from + 464, 1);
      tc_weigh(t, hi[0], 412317384704ull + from + 384, 1);
      tc_weigh(t, hi[1], 412317384704ull + from + 400, 1);
      tc_weigh(t, hi[2], 412317384704ull + from + 416, 1);
      tc_weigh(t, hi[3], 412317384704ull + from + 432, 1);
      tc_weigh(t, hi[4], 412317384704ull + from + 448, 1);
      tc_weigh(t, hi[5], 412317384704ull + from + 464, 1);
      tc_commit();
      tc_finish<0>();
      tc_hold(t);
      if (lane == 0) tc_leave(values_out + stage * 8);
      #pragma unroll
      for (int i = 0; i < 8; ++i) o[i] = fmaf(o[i], i % 4 < 2 ? less0 : less1, t[i]);
      if (++stage == 2) {
        stage = 0;
        parity ^= 1;
      }
    }
    sum0 = tc_all(sum0);
    sum1 = tc_all(sum1);
    const float own0 = top0 == __int_as_float(0xff800000) ? 0.0f : top0, shift0 = tc_shift(top0), scale0 = own0 == shift0 ? 0x1p-12f : 0x1p-12f * expf(own0 - shift0);
    const float factor0 = scale0 / tc_divisor(top0, sum0 * scale0);
    bool odd0 = !tc_finite(sum0);
    const float own1 = top1 == __int_as_float(0xff800000) ? 0.0f : top1, shift1 = tc_shift(top1), scale1 = own1 == shift1 ? 0x1p-12f : 0x1p-12f * expf(own1 - shift1);
    const float factor1 = scale1 / tc_divisor(top1, sum1 * scale1);
    bool odd1 = !tc_finite(sum1);
    #pragma unroll
    for (int i = 0; i < 8; ++i) (i % 4 < 2 ? odd0 : odd1) |= !tc_finite(o[i]);
    const int warp = threadIdx.x % 128 / 32;
    float* const exchange = (float*)(pl_smem + (base - tc_shared(pl_smem)) + 28752) + ((group - 1) * 4 + warp) * 320;
    float* const mine = exchange + lane / 4 * 40 + lane % 4 * 2;
    #pragma unroll
    for (int part_ = 0; part_ < 16; part_ += 32) {
      #pragma unroll
      for (int h = 0; h < 2; ++h) {
        __syncwarp();
        #pragma unroll
        for (int j = part_; j < min(part_ + 32, 16); j += 8) {
          const int2 e = *(const int2*)(ev + (long long)batch * 16 + part * 16 + j + lane % 4 * 2);
          const float by = h == 0 ? factor0 : factor1;
          *(float2*)(mine + j - part_) = make_float2(tc_scale(o[j / 2 + h * 2], e.x) * by, tc_scale(o[j / 2 + h * 2 + 1], e.y) * by);
        }
        __syncwarp();
        tc_store<8, 32, false>(out0, batch, rows + h * 8, part * 16 + part_, min(part * 16 + 16, 16), lane, TcExchange<40>{exchange});
      }
    }
    const unsigned both0 = __ballot_sync(~0u, odd0), both1 = __ballot_sync(~0u, odd1);
    if ((both0 | both1) != 0) {
      __syncwarp();
      #pragma unroll 1
      for (int r = 0; r < 16; ++r) {
        const unsigned mask = 15u << r % 8 * 4;
        const int y = rows + r;
        if (((r < 8 ? both0 : both1) & mask) == 0 || y >= 70) continue;
        const auto score = [&](int key) {
          float sum = 0.0f;
        #pragma unroll 1
          for (int k = 0; k < 16; ++k) sum = fmaf(tc_query(in1, batch, y, k), tc_key(in2, batch, key, k), sum);
          return tc_score(in0, batch, y, key, sum);
        };
        float top = __int_as_float(0xff800000);
        #pragma unroll 1
        for (int key = lane; key < 96; key += 32) {
          const float x = score(key);
          top = x != x || top != top ? x + top : fmaxf(top, x);
        }
        #pragma unroll
        for (int apart = 1; apart < 32; apart *= 2) {
          const float x = __shfl_xor_sync(~0u, top, apart);
          top = x != x || top != top ? x + top : fmaxf(top, x);
        }
        const float shift = tc_shift(top);
        float total = 0.0f, z[1];
        #pragma unroll
        for (int c = 0; c < 1; ++c) z[c] = 0.0f;
        #pragma unroll 1
        for (int first = 0; first < 96; first += 32) {
          const float w = first + lane < 96 ? expf(score(min(first + lane, 95)) - shift) : 0.0f;
          total += w;
          #pragma unroll 1
          for (int key = first; key < min(first + 32, 96); ++key) {
            const float by = __shfl_sync(~0u, w, key - first);
            #pragma unroll
            for (int c = 0; c < 1; ++c) {
              const int column = part * 16 + c * 32 + lane;
              if (column < 16) z[c] = fmaf(by, tc_value(in3, batch, key, column), z[c]);
            }
          }
        }
        #pragma unroll
        for (int apart = 1; apart < 32; apart *= 2) total += __shfl_xor_sync(~0u, total, apart);
        const float divisor = tc_divisor(top, total);
        #pragma unroll
        for (int c = 0; c < 1; ++c) {
          const float result = z[c] / divisor;
          tc_store<1, 32, true>(out0, batch, y, part * 16 + c * 32, min(part * 16 + 16, 16), lane, [&](int, int) { return result; });
        }
      }
    }
  }
}
