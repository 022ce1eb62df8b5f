// genome: min_blocks=1 pingpong=0 promote=64 raster=8 split=1 stages=8 swap_operands=0 tile_k=64 tile_m=64 tile_n=16
// launch: grid 12x1x1 block 256x1x1 cluster 1x1x1 shared 0 packs
// arguments: input0 scratch0 scratch1 scratch2
// ---- tests/golden/shared/place_prelude.cu ----
// Packing of a factor for the tensor cores: rows scaled by powers of two, rounded to one or two numbers of fp16, in
// chunks of eight.

// What blocks of a cluster hand each other through shared memory. Addresses are those of the shared window; barriers
// are mbarriers. What copies and asynchronous stores bring is there when their barrier says so; ordinary stores of
// other blocks need an acquire of the cluster, which empties the first-level cache. A fence of all proxies waits for
// the whole memory: those of one space do not. PTX ISA 8.0.

// Instructions of sm_90 that CUDA C++ has no name for, one function each: with wgmma.cuh and what sm_80 has all PTX
// there is, so that tests run what includes it on a CPU with another file of this name. PTX ISA 8.0.

// Instructions that CUDA C++ has no name for and that sm_80 and all later GPUs have, one function each: what kernels on
// mma.sync and cp.async are made of. Tests run what includes it on a CPU with another file of this name. PTX ISA 7.4.

// ---- src/codegen/device/types.cuh ----
// ---- src/codegen/device/sm80/ptx.cuh ----
// Launches that begin before the one before them has ended (programmatic dependent launch), and how what that one wrote
// is read. PTX ISA 7.8.

// ---- src/codegen/device/sm90/dependent.cuh ----
// ---- src/codegen/device/sm90/ptx.cuh ----
// ---- src/codegen/device/sm90/cluster.cuh ----
// What tensor cores have summed, on its way to an epilogue.

// ---- src/codegen/device/sums.cuh ----
// ---- src/codegen/device/sm90/pack.cuh ----
// ---- kernel ----
PL_DEVICE void plane_values(float (&v)[8], const float* __restrict__ in0, int batch, int row, int k) {
  if (row >= 40 || k >= 72) {
    #pragma unroll
    for (int j = 0; j < 8; ++j) v[j] = 0.0f;
    return;
  }
  const int d1 = (unsigned)(batch);
  const int d0 = (unsigned)(row);
  float r0[8];
  {
    const int d3 = (unsigned)(k);
    __align__(16) float raw[8];
    read_eight<4>(raw, in0 + (72 * d0 + 2880 * d1 + d3));
    #pragma unroll
    for (int j = 0; j < 8; ++j) r0[j] = raw[j];
  }
  #pragma unroll
  for (int j = 0; j < 8; ++j) {
    const int d3 = (unsigned)(k + j);
    const float v0 = r0[j];
    const float v1 = pl_max(v0, 0x0p+0f);
    v[j] = v1;
  }
}
extern "C" __global__ void __launch_bounds__(256) planish_kernel(const float* __restrict__ in0, unsigned char* __restrict__ out0, unsigned char* __restrict__ out1, int* __restrict__ out2) {
  __shared__ float most[64];
  const int r = threadIdx.x % 8;
  const int part = 0, whole = blockIdx.x * 2 + threadIdx.x / 128;
  const int batch = whole / 8, row = whole % 8 * 8 + r;
  float v[1][8];
  float top = 0.0f;
  for (int at = 0; at < 1; at += 1) {
    #pragma unroll
    for (int i = 0; i < 1; ++i) {
      const int own = (int)threadIdx.x % 128 / 8 + (at + i) * 16, chunk = part * 16 + own;
      plane_values(v[i], in0, batch, row, chunk * 8);
    }
    #pragma unroll
    for (int i = 0; i < 1; ++i) {
      const int own = (int)threadIdx.x % 128 / 8 + (at + i) * 16, chunk = part * 16 + own;
      #pragma unroll
      for (int j = 0; j < 8; ++j) top = fmaxf(top, is_finite(v[i][j]) ? fabsf(v[i][j]) : 0.0f);
    }
  }
  top = most_of_lanes(most_of_lanes(top, 8), 16);
  if (threadIdx.x % 32 < 8) most[threadIdx.x / 32 * 8 + r] = top;
  __syncthreads();
  for (int w = 0; w < 4; ++w) top = fmaxf(top, most[(threadIdx.x / 128 * 4 + w) * 8 + r]);
  const int e = scaling_exponent(top);
  if (part == 0 && threadIdx.x % 128 < 8) out2[batch * 64 + row] = e;
  const float f = power_of_two(-e / 2), g = power_of_two(-e - -e / 2);
  for (int at = 0; at < 1; at += 1) {
    #pragma unroll
    for (int i = 0; i < 1; ++i) {
      const int own = (int)threadIdx.x % 128 / 8 + (at + i) * 16, chunk = part * 16 + own;
      Chunk hi, lo;
      #pragma unroll
      for (int j = 0; j < 8; ++j) {
        const float s = v[i][j] * f * g;
        hi.x[j] = high_part(v[i][j], s);
        lo.x[j] = low_part(s, hi.x[j]);
      }
      const long long place = batch * 16384ll + chunk / 8 * 8192ll + row / 8 * 1024ll + chunk % 8 * 128 + r * 16;
      put_chunk(out0 + place, hi);
      put_chunk(out1 + place, lo);
    }
  }
}

// launch: grid 12x1x1 block 256x1x1 cluster 1x1x1 shared 0 packs
// arguments: input1 scratch3 scratch4 scratch5
// ---- tests/golden/shared/place_prelude.cu ----
// Packing of a factor for the tensor cores: rows scaled by powers of two, rounded to one or two numbers of fp16, in
// chunks of eight.

// What blocks of a cluster hand each other through shared memory. Addresses are those of the shared window; barriers
// are mbarriers. What copies and asynchronous stores bring is there when their barrier says so; ordinary stores of
// other blocks need an acquire of the cluster, which empties the first-level cache. A fence of all proxies waits for
// the whole memory: those of one space do not. PTX ISA 8.0.

// Instructions of sm_90 that CUDA C++ has no name for, one function each: with wgmma.cuh and what sm_80 has all PTX
// there is, so that tests run what includes it on a CPU with another file of this name. PTX ISA 8.0.

// Instructions that CUDA C++ has no name for and that sm_80 and all later GPUs have, one function each: what kernels on
// mma.sync and cp.async are made of. Tests run what includes it on a CPU with another file of this name. PTX ISA 7.4.

// ---- src/codegen/device/types.cuh ----
// ---- src/codegen/device/sm80/ptx.cuh ----
// Launches that begin before the one before them has ended (programmatic dependent launch), and how what that one wrote
// is read. PTX ISA 7.8.

// ---- src/codegen/device/sm90/dependent.cuh ----
// ---- src/codegen/device/sm90/ptx.cuh ----
// ---- src/codegen/device/sm90/cluster.cuh ----
// What tensor cores have summed, on its way to an epilogue.

// ---- src/codegen/device/sums.cuh ----
// ---- src/codegen/device/sm90/pack.cuh ----
// ---- kernel ----
PL_DEVICE void plane_values(float (&v)[8], const float* __restrict__ in1, int batch, int row, int k) {
  if (row >= 50 || k >= 72) {
    #pragma unroll
    for (int j = 0; j < 8; ++j) v[j] = 0.0f;
    return;
  }
  const int d1 = (unsigned)(batch);
  const int d2 = (unsigned)(row);
  float r2[8];
  #pragma unroll
  for (int j = 0; j < 8; ++j) {
    const int d3 = (unsigned)(k + j);
    r2[j] = pl_ldg(in1 + (3600 * d1 + d2 + 50 * d3));
  }
  #pragma unroll
  for (int j = 0; j < 8; ++j) {
    const int d3 = (unsigned)(k + j);
    const float v2 = r2[j];
    v[j] = v2;
  }
}
extern "C" __global__ void __launch_bounds__(256) planish_kernel(const float* __restrict__ in1, unsigned char* __restrict__ out0, unsigned char* __restrict__ out1, int* __restrict__ out2) {
  __shared__ float most[64];
  const int r = threadIdx.x % 8;
  const int part = 0, whole = blockIdx.x * 2 + threadIdx.x / 128;
  const int batch = whole / 8, row = whole % 8 * 8 + r;
  float v[1][8];
  float top = 0.0f;
  for (int at = 0; at < 1; at += 1) {
    #pragma unroll
    for (int i = 0; i < 1; ++i) {
      const int own = (int)threadIdx.x % 128 / 8 + (at + i) * 16, chunk = part * 16 + own;
      plane_values(v[i], in1, batch, row, chunk * 8);
    }
    #pragma unroll
    for (int i = 0; i < 1; ++i) {
      const int own = (int)threadIdx.x % 128 / 8 + (at + i) * 16, chunk = part * 16 + own;
      #pragma unroll
      for (int j = 0; j < 8; ++j) top = fmaxf(top, is_finite(v[i][j]) ? fabsf(v[i][j]) : 0.0f);
    }
  }
  top = most_of_lanes(most_of_lanes(top, 8), 16);
  if (threadIdx.x % 32 < 8) most[threadIdx.x / 32 * 8 + r] = top;
  __syncthreads();
  for (int w = 0; w < 4; ++w) top = fmaxf(top, most[(threadIdx.x / 128 * 4 + w) * 8 + r]);
  const int e = scaling_exponent(top);
  if (part == 0 && threadIdx.x % 128 < 8) out2[batch * 64 + row] = e;
  const float f = power_of_two(-e / 2), g = power_of_two(-e - -e / 2);
  for (int at = 0; at < 1; at += 1) {
    #pragma unroll
    for (int i = 0; i < 1; ++i) {
      const int own = (int)threadIdx.x % 128 / 8 + (at + i) * 16, chunk = part * 16 + own;
      Chunk hi, lo;
      #pragma unroll
      for (int j = 0; j < 8; ++j) {
        const float s = v[i][j] * f * g;
        hi.x[j] = high_part(v[i][j], s);
        lo.x[j] = low_part(s, hi.x[j]);
      }
      const long long place = batch * 16384ll + chunk / 8 * 8192ll + row / 8 * 1024ll + chunk % 8 * 128 + r * 16;
      put_chunk(out0 + place, hi);
      put_chunk(out1 + place, lo);
    }
  }
}

// launch: grid 12x1x1 block 256x1x1 cluster 1x1x1 shared 169216
// arguments: scratch0 scratch1 scratch3 scratch4 scratch2 scratch5 input2 output0
// ---- src/codegen/device/sm90/contraction.cuh ----
// Instructions of sm_90 that CUDA C++ has no name for, one function each: with wgmma.cuh and what sm_80 has all PTX
// there is, so that tests run what includes it on a CPU with another file of this name. PTX ISA 8.0.

// Instructions that CUDA C++ has no name for and that sm_80 and all later GPUs have, one function each: what kernels on
// mma.sync and cp.async are made of. Tests run what includes it on a CPU with another file of this name. PTX ISA 7.4.

// ---- src/codegen/device/types.cuh ----
// ---- src/codegen/device/sm80/ptx.cuh ----
// Launches that begin before the one before them has ended (programmatic dependent launch), and how what that one wrote
// is read. PTX ISA 7.8.

// ---- src/codegen/device/sm90/dependent.cuh ----
// ---- src/codegen/device/sm90/ptx.cuh ----
// Numbers of fp32 as two of fp16, x = high + low · 2^-11, made by the threads that bring an operand or that multiply.
// Rows whose largest magnitude does not fit are to be scaled, which is done elsewhere: here they are only met.

// ---- src/codegen/device/sm90/split.cuh ----
// Tensor-core instructions of sm_90a: m64nNk16 of 16-bit numbers, and m64nNk32 of 8-bit ones, with sums in fp32, or of
// integers in i32. An instruction's text needs its registers one by one, so each N has its lists here, and a kernel
// expands PL_WGMMA_SHARED or PL_WGMMA_REGISTERS for the few that it issues. A CPU's form of this file has functions of
// the same names. PTX ISA 8.0.

// ---- src/codegen/device/sm90/wgmma.cuh ----
// What tensor cores have summed, on its way to an epilogue.

// ---- src/codegen/device/sums.cuh ----
PL_WGMMA_BOTH(multiply, 16, "f16", 0, 0)
// ---- tests/golden/shared/place_prelude.cu ----
template <typename T> PL_DEVICE T pl_ldg(const T* p) { return __ldg(p); }
template <int rows, int columns, bool all, typename Sums>
PL_DEVICE void store_sums(const float* __restrict__ in2, float* __restrict__ out0, int batch, int y, int x, int end, int lane, Sums sums) {
  const int d1 = (unsigned)(batch);
  constexpr int interleave = 1, step = 32;
  constexpr int some = rows < 4 ? rows : 4;
  #pragma unroll 1
  for (int first = 0; first < rows; first += some) {
    float l5[some][(columns + step - 1) / step];
    #pragma unroll
    for (int i = 0; i < some; ++i) {
      const int r = first + i;
      const int row = y + r;
      if (!all && row >= 40) break;
      const int d0 = (unsigned)(row);
      #pragma unroll
      for (int j = 0; j < columns; j += step) {
        const int at = x + j + lane / interleave;
        const int d2 = (unsigned)(at);
        const bool there = (at < end);
        const bool ok = there;
        l5[i][j / step] = ok ? pl_ldg(in2 + (50 * d0 + 2000 * d1 + d2)) : 0x0p+0f;
      }
    }
    #pragma unroll
    for (int i = 0; i < some; ++i) {
      const int r = first + i;
      const int row = y + r;
      if (!all && row >= 40) break;
      const int d0 = (unsigned)(row);
      #pragma unroll
      for (int j = 0; j < columns; j += step) {
        const int at = x + j + lane / interleave;
        const int d2 = (unsigned)(at);
        const bool there = (at < end);
        const bool ok = there;
        const float folded = sums(r + lane % interleave, j + lane / interleave);
        const float v4 = folded;
        const float v5 = l5[i][j / step];
        const float v6 = (v4 + v5);
        if (ok) {
          out0[50 * d0 + 2000 * d1 + d2] = v6;
        }
      }
    }
  }
}
// ---- kernel ----
extern "C" __global__ void __launch_bounds__(256, 1) planish_kernel(const char* __restrict__ a0, const char* __restrict__ a1, const char* __restrict__ b0, const char* __restrict__ b1, const int* __restrict__ ea, const int* __restrict__ eb, const float* __restrict__ in2, float* __restrict__ out0) {
  extern __shared__ __align__(16) unsigned char pl_smem[];
  const u32 base = (shared_address(pl_smem) + 127u) & ~127u;
  const u32 full = base + 163840, empty = full + 64;
  const int group = warpgroup_number();
  if (threadIdx.x == 0) {
    for (int i = 0; i < 8; ++i) {
      barrier_init(full + i * 8, 1);
      barrier_init(empty + i * 8, 4);
    }
    barrier_init_fence();
  }
  __syncthreads();
  int stage = 0;
  u32 parity = 0;
  if (group == 0) {
    if (threadIdx.x == 0) {
      for (int whole = blockIdx.x; whole < 12; whole += gridDim.x) {
        const int slice = whole / 4, tile = whole % 4;
        const int band = tile / 32 * 8, within = tile % 32;
        const int height = min(8, 1 - band);
        const int row = (band + within % height) * 64;
        const int column = within / height * 16;
        const long long from_a = slice * 16384ll + row * 128ll, from_b = slice * 16384ll + column * 128ll;
        for (int k = 0; k < 2; ++k) {
          barrier_wait(empty + stage * 8, parity ^ 1);
          const u32 at = base + stage * 20480;
          barrier_expect(full + stage * 8, 20480);
          bulk_load(at + 0, a0 + from_a + k * 8192ll, 8192, full + stage * 8);
          bulk_load(at + 8192, a1 + from_a + k * 8192ll, 8192, full + stage * 8);
          bulk_load(at + 16384, b0 + from_b + k * 8192ll, 2048, full + stage * 8);
          bulk_load(at + 18432, b1 + from_b + k * 8192ll, 2048, full + stage * 8);
          if (++stage == 8) {
            stage = 0;
            parity ^= 1;
          }
        }
      }
    }
  } else {
    const int lane = threadIdx.x % 32;
    for (int whole = blockIdx.x; whole < 12; whole += gridDim.x) {
      const int slice = whole / 4, tile = whole % 4;
      const int band = tile / 32 * 8, within = tile % 32;
      const int height = min(8, 1 - band);
      const int row = (band + within % height) * 64;
      const int column = within / height * 16;
      const int warp = threadIdx.x % 128 / 32;
      const int m = row + (group - 1) * 64 + warp * 16;
      const int up0 = ea[slice * 64 + m + lane / 4], up1 = ea[slice * 64 + m + lane / 4 + 8];
      float high[8];
      float small[8];
      float sum[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) sum[i] = 0.0f;
      #pragma unroll 1
      for (int k = 0; k < 2; k += 1) {
        {
          barrier_wait(full + stage * 8, parity);
          const u64 at = (u64)((base + stage * 20480) >> 4);
          const u64 at_a = at + (group - 1) * 512;
          wgmma_fence();
          multiply(high, 274878431232ull + at_a + 0, 274878431232ull + at + 1024, 0);
          multiply(high, 274878431232ull + at_a + 16, 274878431232ull + at + 1040, 1);
          multiply(high, 274878431232ull + at_a + 32, 274878431232ull + at + 1056, 1);
          multiply(high, 274878431232ull + at_a + 48, 274878431232ull + at + 1072, 1);
          wgmma_commit();
          wgmma_wait<1>();
          if (k > 0 && lane == 0) barrier_arrive(empty + (stage == 0 ? 7 : stage - 1) * 8);
          wgmma_fence();
          multiply(small, 274878431232ull + at_a + 0, 274878431232ull + at + 1152, k > 0);
          multiply(small, 274878431232ull + at_a + 512, 274878431232ull + at + 1024, 1);
          multiply(small, 274878431232ull + at_a + 16, 274878431232ull + at + 1168, 1);
          multiply(small, 274878431232ull + at_a + 528, 274878431232ull + at + 1040, 1);
          multiply(small, 274878431232ull + at_a + 32, 274878431232ull + at + 1184, 1);
          multiply(small, 274878431232ull + at_a + 544, 274878431232ull + at + 1056, 1);
          multiply(small, 274878431232ull + at_a + 48, 274878431232ull + at + 1200, 1);
          multiply(small, 274878431232ull + at_a + 560, 274878431232ull + at + 1072, 1);
          wgmma_commit();
          wgmma_wait<1>();
          wgmma_hold(high);
          #pragma unroll
          for (int i = 0; i < 8; ++i) sum[i] += high[i];
          if (++stage == 8) {
            stage = 0;
            parity ^= 1;
          }
        }
      }
      wgmma_wait<0>();
      wgmma_hold(small);
      if (lane == 0) barrier_arrive(empty + (stage == 0 ? 7 : stage - 1) * 8);
      float* const exchange = (float*)(pl_smem + (base - shared_address(pl_smem)) + 163968) + ((group - 1) * 4 + warp) * 320;
      float* const mine = exchange + lane / 4 * 40 + lane % 4 * 2;
      #pragma unroll
      for (int part = 0; part < 16; part += 32) {
        #pragma unroll
        for (int h = 0; h < 2; ++h) {
          __syncwarp();
          #pragma unroll
          for (int j = part; j < min(part + 32, 16); j += 8) {
            const float left = scale_by_power(is_finite(sum[j / 2 + h * 2]) ? fmaf(small[j / 2 + h * 2], 0x1p-11f, sum[j / 2 + h * 2]) : sum[j / 2 + h * 2], (h == 0 ? up0 : up1) + eb[slice * 64 + column + j + lane % 4 * 2]);
            const float right = scale_by_power(is_finite(sum[j / 2 + h * 2 + 1]) ? fmaf(small[j / 2 + h * 2 + 1], 0x1p-11f, sum[j / 2 + h * 2 + 1]) : sum[j / 2 + h * 2 + 1], (h == 0 ? up0 : up1) + eb[slice * 64 + column + j + lane % 4 * 2 + 1]);
            *(float2*)(mine + j - part) = make_float2(left, right);
          }
          __syncwarp();
          store_sums<8, 32, false>(in2, out0, slice, m + h * 8, column + part, min(column + 16, 50), lane, Exchange<40>{exchange});
        }
      }
    }
  }
}
