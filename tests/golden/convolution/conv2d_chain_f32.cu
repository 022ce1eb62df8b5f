// genome: min_blocks=1 passes=1 pingpong=0 promote=64 raster=8 split=1 stages=8 stationary=0 swap_operands=0 tile_k=64 tile_m=64 tile_n=16
// launch: grid 2x1x1 block 256x1x1 cluster 1x1x1 shared 0 packs
// arguments: input1 scratch0 scratch1
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
      plane_values(v[i], in1, batch, row, chunk * 8);
    }
    #pragma unroll
    for (int i = 0; i < 1; ++i) {
      const int own = (int)threadIdx.x % 64 / 8 + (at + i) * 8, chunk = part * 8 + own;
      #pragma unroll
      for (int j = 0; j < 8; ++j) top = fmaxf(top, is_finite(v[i][j]) ? fabsf(v[i][j]) : 0.0f);
    }
  }
  top = most_of_lanes(most_of_lanes(top, 8), 16);
  if (threadIdx.x % 32 < 8) most[threadIdx.x / 32 * 8 + r] = top;
  __syncthreads();
  for (int w = 0; w < 2; ++w) top = fmaxf(top, most[(threadIdx.x / 64 * 2 + w) * 8 + r]);
  const int e = scaling_exponent(top);
  if (part == 0 && threadIdx.x % 64 < 8) out2[batch * 64 + row] = e;
  const float f = power_of_two(-e / 2), g = power_of_two(-e - -e / 2);
  for (int at = 0; at < 1; at += 1) {
    #pragma unroll
    for (int i = 0; i < 1; ++i) {
      const int own = (int)threadIdx.x % 64 / 8 + (at + i) * 8, chunk = part * 8 + own;
      Chunk hi;
      #pragma unroll
      for (int j = 0; j < 8; ++j) {
        const float s = v[i][j] * f * g;
        hi.x[j] = high_part(v[i][j], s);
      }
      const long long place = batch * 8192ll + chunk / 8 * 8192ll + row / 8 * 1024ll + chunk % 8 * 128 + r * 16;
      put_chunk(out0 + place, hi);
    }
  }
}

// launch: grid 19x1x1 block 256x1x1 cluster 1x1x1 shared 0 packs
// arguments: input0 scratch2 scratch3
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
        plane_values(v[i], in0, batch, row, chunk * 8);
      }
    }
    #pragma unroll
    for (int i = 0; i < 1; ++i) {
      const int own = (int)threadIdx.x % 128 / 8 + (at + i) * 16, chunk = part * 8 + own;
      if (own < 8 && chunk < 8) {
        #pragma unroll
        for (int j = 0; j < 8; ++j) top = fmaxf(top, is_finite(v[i][j]) ? fabsf(v[i][j]) : 0.0f);
      }
    }
  }
  top = most_of_lanes(most_of_lanes(top, 8), 16);
  if (threadIdx.x % 32 < 8) most[threadIdx.x / 32 * 8 + r] = top;
  __syncthreads();
  for (int w = 0; w < 4; ++w) top = fmaxf(top, most[(threadIdx.x / 128 * 4 + w) * 8 + r]);
  const int e = scaling_exponent(top);
  if (part == 0 && threadIdx.x % 128 < 8) out2[batch * 304 + row] = e;
  const float f = power_of_two(-e / 2), g = power_of_two(-e - -e / 2);
  for (int at = 0; at < 1; at += 1) {
    #pragma unroll
    for (int i = 0; i < 1; ++i) {
      const int own = (int)threadIdx.x % 128 / 8 + (at + i) * 16, chunk = part * 8 + own;
      if (own < 8 && chunk < 8) {
        Chunk hi;
        #pragma unroll
        for (int j = 0; j < 8; ++j) {
          const float s = v[i][j] * f * g;
          hi.x[j] = high_part(v[i][j], s);
        }
        const long long place = batch * 38912ll + chunk / 8 * 38912ll + row / 8 * 1024ll + chunk % 8 * 128 + r * 16;
        put_chunk(out0 + place, hi);
      }
    }
  }
}

// launch: grid 19x1x1 block 256x1x1 cluster 1x1x1 shared 87296
// arguments: scratch0 scratch2 scratch1 scratch3 input2 input3 output0
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
PL_DEVICE void store_sums(const float* __restrict__ in2, const float* __restrict__ in3, float* __restrict__ out0, int batch, int y, int x, int end, int lane, Sums sums) {
  constexpr int interleave = 1, step = 32;
  #pragma unroll 2
  for (int r = 0; r < rows; r += interleave) {
    const int row = y + r;
    if (!all && row >= 24) break;
    const int d0 = (unsigned)(row);
    const float v4 = pl_ldg(in2 + (d0));
    const float v7 = pl_ldg(in3 + (d0));
    #pragma unroll
    for (int j = 0; j < columns; j += step) {
      const int at = x + j + lane / interleave;
      const int d2 = (unsigned)(at) % 99;
      const int d1 = (unsigned)(at) / 99;
      const bool there = (at < end);
      const bool ok = there;
      const float folded = sums(r + lane % interleave, j + lane / interleave);
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
  const u32 base = (shared_address(pl_smem) + 127u) & ~127u;
  const u32 full = base + 81920, empty = full + 64;
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
      for (int tile = blockIdx.x; tile < 19; tile += gridDim.x) {
        const int band = tile / 152 * 8, within = tile % 152;
        const int height = min(8, 1 - band);
        const int row = (band + within % height) * 64;
        const int column = within / height * 16;
        const long long from_a = row * 128ll, from_b = column * 128ll;
        for (int k = 0; k < 1; ++k) {
          barrier_wait(empty + stage * 8, parity ^ 1);
          const u32 at = base + stage * 10240;
          barrier_expect(full + stage * 8, 10240);
          bulk_load(at + 0, a0 + from_a + k * 8192ll, 8192, full + stage * 8);
          bulk_load(at + 8192, b0 + from_b + k * 38912ll, 2048, full + stage * 8);
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
          barrier_wait(full + stage * 8, parity);
          const u64 at = (u64)((base + stage * 10240) >> 4);
          const u64 at_a = at + (group - 1) * 512;
          wgmma_fence();
          multiply(high, 274878431232ull + at_a + 0, 274878431232ull + at + 512, k > 0);
          multiply(high, 274878431232ull + at_a + 16, 274878431232ull + at + 528, 1);
          multiply(high, 274878431232ull + at_a + 32, 274878431232ull + at + 544, 1);
          multiply(high, 274878431232ull + at_a + 48, 274878431232ull + at + 560, 1);
          wgmma_commit();
          wgmma_wait<1>();
          if (k > 0 && lane == 0) barrier_arrive(empty + (stage == 0 ? 7 : stage - 1) * 8);
          if (++stage == 8) {
            stage = 0;
            parity ^= 1;
          }
        }
      }
      wgmma_wait<0>();
      wgmma_hold(high);
      if (lane == 0) barrier_arrive(empty + (stage == 0 ? 7 : stage - 1) * 8);
      float* const exchange = (float*)(pl_smem + (base - shared_address(pl_smem)) + 82048) + ((group - 1) * 4 + warp) * 320;
      float* const mine = exchange + lane / 4 * 40 + lane % 4 * 2;
      #pragma unroll
      for (int part = 0; part < 16; part += 32) {
        #pragma unroll
        for (int h = 0; h < 2; ++h) {
          __syncwarp();
          #pragma unroll
          for (int j = part; j < min(part + 32, 16); j += 8) {
            const float left = scale_by_power(high[j / 2 + h * 2], (h == 0 ? up0 : up1) + eb[column + j + lane % 4 * 2]);
            const float right = scale_by_power(high[j / 2 + h * 2 + 1], (h == 0 ? up0 : up1) + eb[column + j + lane % 4 * 2 + 1]);
            *(float2*)(mine + j - part) = make_float2(left, right);
          }
          __syncwarp();
          store_sums<8, 32, false>(in2, in3, out0, 0, m + h * 8, column + part, min(column + 16, 297), lane, Exchange<40>{exchange});
        }
      }
    }
  }
}
