// genome: direct=1 min_blocks=1 pingpong=0 promote=64 raster=8 split=1 stages=8 stationary=0 swap_operands=0 tile_k=64 tile_m=64 tile_n=16
// launch: grid 12x1x1 block 256x1x1 cluster 1x1x1 shared 170112
// arguments: input0 input1 input2 output0 scratch0
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
      if (!all && row >= 70) break;
      const int d0 = (unsigned)(row);
      const float v6 = 0x1p-1f;
      const float v8 = 0x1.6a09e6p-1f;
      const float v11 = 0x1p+0f;
      #pragma unroll
      for (int j = 0; j < columns; j += 32 * beside) {
        const bool inside = columns % (32 * beside) == 0 || j + lane * beside < columns;
        const int at = x + j + lane * beside;
        const int d1 = (unsigned)(at);
        const bool ok = inside & (at < end);
        float sum[beside];
        tc_neighbours(sums, r, inside ? j + lane * beside : 0, sum);
        float got0[beside];
        auto* const to0 = out0 + (96 * d0 + d1);
        const int first = d1;
        #pragma unroll
        for (int i = 0; i < beside; ++i) {
          const int d1 = first + i;
          const float folded = sum[i];
          const float v3 = folded;
          const float v4 = (ok ? pl_ldg(in2 + (d1)) : 0x0p+0f);
          const float v5 = (v3 + v4);
          const float v7 = (v5 * v6);
          const float v9 = (v5 * v8);
          const float v10 = erff(v9);
          const float v12 = (v10 + v11);
          const float v13 = (v7 * v12);
          got0[i] = v13;
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
      const int d0 = (unsigned)(row);
      const float v6 = 0x1p-1f;
      const float v8 = 0x1.6a09e6p-1f;
      const float v11 = 0x1p+0f;
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
        const float v7 = (v5 * v6);
        const float v9 = (v5 * v8);
        const float v10 = erff(v9);
        const float v12 = (v10 + v11);
        const float v13 = (v7 * v12);
        if (ok) {
          out0[96 * d0 + d1] = v13;
        }
      }
    }
  }
}
TC_FN int tc_row_a(int batch, int row) {
  const int d0 = (unsigned)(row);
  return (int)((64 * d0) / 8);
}
TC_FN int tc_depth_a(int k) {
  const int d2 = (unsigned)(k);
  return (int)((d2) / 8);
}
TC_FN int tc_row_b(int batch, int row) {
  const int d1 = (unsigned)(row);
  return (int)((64 * d1) / 8);
}
TC_FN int tc_depth_b(int k) {
  const int d2 = (unsigned)(k);
  return (int)((d2) / 8);
}
TC_FN u32 tc_pair(float low, float high) {
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
struct TcEight { float v[8]; };
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
TC_FN void tc_find_a(int (&at)[4], int product, int row, int thread) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int r = row + thread / 8 + i * 16;
    at[i] = r < 70 ? tc_row_a(product, r) : -1;
  }
}
TC_FN void tc_load_a(TcEight (&v)[4], const char* from, const int (&at)[4], int k, int thread) {
#pragma unroll
  for (int c = 0; c < 4; ++c) {
    const int i = c % 4, x = k + c / 4 * 64 + thread % 8 * 8;
    const bool there = at[i] >= 0;
    v[c] = tc_take(from + (there ? (long long)(at[i] + tc_depth_a(x)) * 32 : 0), there);
  }
}
TC_FN void tc_put_a(u32 to, const TcEight (&v)[4], unsigned (&top)[4], int thread) {
#pragma unroll
  for (int c = 0; c < 4; ++c) {
    const int i = c % 4;
    const u32 place = c / 4 * 8192 + i * 2048 + thread / 8 * 128 + (thread % 8 ^ thread / 8 % 8) * 16;
    tc_keep(to + place, to + 8192 + place, v[c]);
#pragma unroll
    for (int j = 0; j < 8; ++j) top[i] = max(top[i], tc_magnitude(v[c].v[j]));
  }
}
TC_FN void tc_doubt_a(unsigned (&top)[4], int* doubt) {
  bool odd = false;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    for (int apart = 1; apart < 8; apart *= 2) top[i] = max(top[i], __shfl_xor_sync(~0u, top[i], apart));
    odd = odd | !tc_plain(top[i]);
    top[i] = 0;
  }
  if (odd) *doubt = 1;
}
TC_FN void tc_find_b(int (&at)[1], int product, int row, int thread) {
#pragma unroll
  for (int i = 0; i < 1; ++i) {
    const int r = row + thread / 8 + i * 16;
    at[i] = tc_row_b(product, r);
  }
}
TC_FN void tc_load_b(TcEight (&v)[1], const char* from, const int (&at)[1], int k, int thread) {
#pragma unroll
  for (int c = 0; c < 1; ++c) {
    const int i = c % 1, x = k + c / 1 * 64 + thread % 8 * 8;
    const bool there = true;
    v[c] = tc_take(from + (there ? (long long)(at[i] + tc_depth_b(x)) * 32 : 0), there);
  }
}
TC_FN void tc_put_b(u32 to, const TcEight (&v)[1], unsigned (&top)[1], int thread) {
#pragma unroll
  for (int c = 0; c < 1; ++c) {
    const int i = c % 1;
    const u32 place = c / 1 * 2048 + i * 2048 + thread / 8 * 128 + (thread % 8 ^ thread / 8 % 8) * 16;
    tc_keep(to + place, to + 2048 + place, v[c]);
#pragma unroll
    for (int j = 0; j < 8; ++j) top[i] = max(top[i], tc_magnitude(v[c].v[j]));
  }
}
TC_FN void tc_doubt_b(unsigned (&top)[1], int* doubt) {
  bool odd = false;
#pragma unroll
  for (int i = 0; i < 1; ++i) {
    for (int apart = 1; apart < 8; apart *= 2) top[i] = max(top[i], __shfl_xor_sync(~0u, top[i], apart));
    odd = odd | !tc_plain(top[i]);
    top[i] = 0;
  }
  if (odd) *doubt = 1;
}
// ---- kernel ----
extern "C" __global__ void __launch_bounds__(256, 1) planish_kernel(const char* __restrict__ a0, const char* __restrict__ b0, const float* __restrict__ in2, float* __restrict__ out0, int* __restrict__ doubts) {
  extern __shared__ __align__(16) unsigned char pl_smem[];
  const u32 base = (tc_shared(pl_smem) + 1023u) & ~1023u;
  const u32 full = base + 163840, empty = full + 64;
  const int group = tc_group();
  if (threadIdx.x == 0) {
    for (int i = 0; i < 8; ++i) {
      tc_init(full + i * 8, 4);
      tc_init(empty + i * 8, 4);
    }
    tc_ready();
  }
  if (threadIdx.x == 0) doubts[blockIdx.x] = 0;
  __syncthreads();
  int stage = 0;
  u32 parity = 0;
  if (group == 0) {
    unsigned top_a[4] = {};
    unsigned top_b[1] = {};
    for (int tile = blockIdx.x; tile < 12; tile += gridDim.x) {
      const int band = tile / 48 * 8, within = tile % 48;
      const int height = min(8, 2 - band);
      const int row = (band + within % height) * 64;
      const int column = within / height * 16;
      int at_a[4];
      tc_find_a(at_a, 0, row, threadIdx.x);
      int at_b[1];
      tc_find_b(at_b, 0, column, threadIdx.x);
      const int begin = 0;
      TcEight v_a[4];
      TcEight v_b[1];
      tc_load_a(v_a, a0, at_a, begin + 0 * 64, threadIdx.x);
      for (int k = 0; k < 1; ++k) {
        tc_load_b(v_b, b0, at_b, begin + k * 64, threadIdx.x);
        tc_poll(empty + stage * 8, parity ^ 1);
        const u32 at = base + stage * 20480;
        tc_put_a(at + 0, v_a, top_a, threadIdx.x);
        if (k + 1 < 1) {
          tc_load_a(v_a, a0, at_a, begin + (k + 1) * 64, threadIdx.x);
        }
        tc_put_b(at + 16384, v_b, top_b, threadIdx.x);
        tc_shown();
        __syncwarp();
        if (threadIdx.x % 32 == 0) tc_leave(full + stage * 8);
        if (++stage == 8) {
          stage = 0;
          parity ^= 1;
        }
      }
      tc_doubt_a(top_a, doubts + blockIdx.x);
      tc_doubt_b(top_b, doubts + blockIdx.x);
    }
  } else {
    const int lane = threadIdx.x % 32;
    for (int tile = blockIdx.x; tile < 12; tile += gridDim.x) {
      const int band = tile / 48 * 8, within = tile % 48;
      const int height = min(8, 2 - band);
      const int row = (band + within % height) * 64;
      const int column = within / height * 16;
      const int warp = threadIdx.x % 128 / 32;
      const int m = row + (group - 1) * 64 + warp * 16;
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
          tc_product(high, 4611686293305360384ull + at_a + 0, 4611686293305360384ull + at + 1024, 0);
          tc_product(high, 4611686293305360384ull + at_a + 2, 4611686293305360384ull + at + 1026, 1);
          tc_product(high, 4611686293305360384ull + at_a + 4, 4611686293305360384ull + at + 1028, 1);
          tc_product(high, 4611686293305360384ull + at_a + 6, 4611686293305360384ull + at + 1030, 1);
          tc_commit();
          tc_finish<1>();
          if (k > 0 && lane == 0) tc_leave(empty + (stage == 0 ? 7 : stage - 1) * 8);
          tc_begin();
          tc_product(small, 4611686293305360384ull + at_a + 0, 4611686293305360384ull + at + 1152, 0);
          tc_product(small, 4611686293305360384ull + at_a + 512, 4611686293305360384ull + at + 1024, 1);
          tc_product(small, 4611686293305360384ull + at_a + 2, 4611686293305360384ull + at + 1154, 1);
          tc_product(small, 4611686293305360384ull + at_a + 514, 4611686293305360384ull + at + 1026, 1);
          tc_product(small, 4611686293305360384ull + at_a + 4, 4611686293305360384ull + at + 1156, 1);
          tc_product(small, 4611686293305360384ull + at_a + 516, 4611686293305360384ull + at + 1028, 1);
          tc_product(small, 4611686293305360384ull + at_a + 6, 4611686293305360384ull + at + 1158, 1);
          tc_product(small, 4611686293305360384ull + at_a + 518, 4611686293305360384ull + at + 1030, 1);
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
            const float left = tc_finite(sum[j / 2 + h * 2]) ? fmaf(small[j / 2 + h * 2], 0x1p-11f, sum[j / 2 + h * 2]) : sum[j / 2 + h * 2];
            const float right = tc_finite(sum[j / 2 + h * 2 + 1]) ? fmaf(small[j / 2 + h * 2 + 1], 0x1p-11f, sum[j / 2 + h * 2 + 1]) : sum[j / 2 + h * 2 + 1];
            *(float2*)(mine + j - part) = make_float2(left, right);
          }
          __syncwarp();
          tc_store<8, 32, false>(in2, out0, 0, m + h * 8, column + part, min(column + 16, 96), lane, TcExchange<40>{exchange});
        }
      }
    }
  }
}

// launch: grid 4x1x1 block 256x1x1 cluster 1x1x1 shared 0
// arguments: scratch0 input0 scratch1 scratch2 scratch3
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
  if (row >= 70 || k >= 64) {
    #pragma unroll
    for (int j = 0; j < 8; ++j) v[j] = 0.0f;
    return;
  }
  const int d0 = (unsigned)(row);
  float r0[8];
  {
    const int d2 = (unsigned)(k);
    __align__(16) float raw[8];
    tc_read<4>(raw, in0 + (64 * d0 + d2));
    #pragma unroll
    for (int j = 0; j < 8; ++j) r0[j] = raw[j];
  }
  #pragma unroll
  for (int j = 0; j < 8; ++j) {
    const int d2 = (unsigned)(k + j);
    const float v0 = r0[j];
    v[j] = v0;
  }
}
extern "C" __global__ void __launch_bounds__(256) planish_kernel(const int* __restrict__ doubts, const float* __restrict__ in0, unsigned char* __restrict__ out0, unsigned char* __restrict__ out1, int* __restrict__ out2) {
  {
    int any = 0;
    for (int i = threadIdx.x; i < 12; i += blockDim.x) any |= doubts[i];
    if (!__syncthreads_or(any)) return;
  }
  __shared__ float most[64];
  const int r = threadIdx.x % 8;
  const int part = 0, whole = blockIdx.x * 4 + threadIdx.x / 64;
  const int batch = whole / 16, row = whole % 16 * 8 + r;
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
  if (part == 0 && threadIdx.x % 64 < 8) out2[batch * 128 + row] = e;
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
      const long long place = batch * 16384ll + chunk / 8 * 16384ll + row / 8 * 1024ll + chunk % 8 * 128 + r * 16;
      tc_put(out0 + place, hi);
      tc_put(out1 + place, lo);
    }
  }
}

// launch: grid 3x1x1 block 256x1x1 cluster 1x1x1 shared 0
// arguments: scratch0 input1 scratch4 scratch5 scratch6
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
  if (row >= 96 || k >= 64) {
    #pragma unroll
    for (int j = 0; j < 8; ++j) v[j] = 0.0f;
    return;
  }
  const int d1 = (unsigned)(row);
  float r1[8];
  {
    const int d2 = (unsigned)(k);
    __align__(16) float raw[8];
    tc_read<4>(raw, in1 + (64 * d1 + d2));
    #pragma unroll
    for (int j = 0; j < 8; ++j) r1[j] = raw[j];
  }
  #pragma unroll
  for (int j = 0; j < 8; ++j) {
    const int d2 = (unsigned)(k + j);
    const float v1 = r1[j];
    v[j] = v1;
  }
}
extern "C" __global__ void __launch_bounds__(256) planish_kernel(const int* __restrict__ doubts, const float* __restrict__ in1, unsigned char* __restrict__ out0, unsigned char* __restrict__ out1, int* __restrict__ out2) {
  {
    int any = 0;
    for (int i = threadIdx.x; i < 12; i += blockDim.x) any |= doubts[i];
    if (!__syncthreads_or(any)) return;
  }
  __shared__ float most[64];
  const int r = threadIdx.x % 8;
  const int part = 0, whole = blockIdx.x * 4 + threadIdx.x / 64;
  const int batch = whole / 12, row = whole % 12 * 8 + r;
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
  if (part == 0 && threadIdx.x % 64 < 8) out2[batch * 96 + row] = e;
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
      const long long place = batch * 12288ll + chunk / 8 * 12288ll + row / 8 * 1024ll + chunk % 8 * 128 + r * 16;
      tc_put(out0 + place, hi);
      tc_put(out1 + place, lo);
    }
  }
}

// launch: grid 12x1x1 block 256x1x1 cluster 1x1x1 shared 169216
// arguments: scratch0 scratch1 scratch2 scratch4 scratch5 scratch3 scratch6 input2 output0
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
      if (!all && row >= 70) break;
      const int d0 = (unsigned)(row);
      const float v6 = 0x1p-1f;
      const float v8 = 0x1.6a09e6p-1f;
      const float v11 = 0x1p+0f;
      #pragma unroll
      for (int j = 0; j < columns; j += 32 * beside) {
        const bool inside = columns % (32 * beside) == 0 || j + lane * beside < columns;
        const int at = x + j + lane * beside;
        const int d1 = (unsigned)(at);
        const bool ok = inside & (at < end);
        float sum[beside];
        tc_neighbours(sums, r, inside ? j + lane * beside : 0, sum);
        float got0[beside];
        auto* const to0 = out0 + (96 * d0 + d1);
        const int first = d1;
        #pragma unroll
        for (int i = 0; i < beside; ++i) {
          const int d1 = first + i;
          const float folded = sum[i];
          const float v3 = folded;
          const float v4 = (ok ? pl_ldg(in2 + (d1)) : 0x0p+0f);
          const float v5 = (v3 + v4);
          const float v7 = (v5 * v6);
          const float v9 = (v5 * v8);
          const float v10 = erff(v9);
          const float v12 = (v10 + v11);
          const float v13 = (v7 * v12);
          got0[i] = v13;
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
      const int d0 = (unsigned)(row);
      const float v6 = 0x1p-1f;
      const float v8 = 0x1.6a09e6p-1f;
      const float v11 = 0x1p+0f;
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
        const float v7 = (v5 * v6);
        const float v9 = (v5 * v8);
        const float v10 = erff(v9);
        const float v12 = (v10 + v11);
        const float v13 = (v7 * v12);
        if (ok) {
          out0[96 * d0 + d1] = v13;
        }
      }
    }
  }
}
// ---- kernel ----
extern "C" __global__ void __launch_bounds__(256, 1) planish_kernel(const int* __restrict__ doubts, const char* __restrict__ a0, const char* __restrict__ a1, const char* __restrict__ b0, const char* __restrict__ b1, const int* __restrict__ ea, const int* __restrict__ eb, const float* __restrict__ in2, float* __restrict__ out0) {
  {
    int any = 0;
    for (int i = threadIdx.x; i < 12; i += blockDim.x) any |= doubts[i];
    if (!__syncthreads_or(any)) return;
  }
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
      for (int tile = blockIdx.x; tile < 12; tile += gridDim.x) {
        const int band = tile / 48 * 8, within = tile % 48;
        const int height = min(8, 2 - band);
        const int row = (band + within % height) * 64;
        const int column = within / height * 16;
        const long long from_a = row * 128ll, from_b = column * 128ll;
        for (int k = 0; k < 1; ++k) {
          tc_poll(empty + stage * 8, parity ^ 1);
          const u32 at = base + stage * 20480;
          tc_expect(full + stage * 8, 20480);
          tc_copy(at + 0, a0 + from_a + k * 16384ll, 8192, full + stage * 8);
          tc_copy(at + 8192, a1 + from_a + k * 16384ll, 8192, full + stage * 8);
          tc_copy(at + 16384, b0 + from_b + k * 12288ll, 2048, full + stage * 8);
          tc_copy(at + 18432, b1 + from_b + k * 12288ll, 2048, full + stage * 8);
          if (++stage == 8) {
            stage = 0;
            parity ^= 1;
          }
        }
      }
    }
  } else {
    const int lane = threadIdx.x % 32;
    for (int tile = blockIdx.x; tile < 12; tile += gridDim.x) {
      const int band = tile / 48 * 8, within = tile % 48;
      const int height = min(8, 2 - band);
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
          tc_store<8, 32, false>(in2, out0, 0, m + h * 8, column + part, min(column + 16, 96), lane, TcExchange<40>{exchange});
        }
      }
    }
  }
}
