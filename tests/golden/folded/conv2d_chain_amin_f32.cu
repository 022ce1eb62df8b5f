// genome: min_blocks=1 passes=1 pingpong=0 promote=64 raster=8 split=1 stages=8 stationary=0 tile_k=64 tile_m=64 tile_n=24
// launch: grid 3x1x1 block 256x1x1 cluster 1x1x1 shared 0 packs
// arguments: input1 scratch0 scratch1 scratch2
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
  const int unit = k % 48 / 8, within = unit % 6;
  const int strip = k / 48 * 1 + unit / 6;
  const bool none = unit >= 6;
  const int tap = strip / 1 * 3 + within % 3;
  k = (strip % 1 * 2 + within / 3) * 8;
  if (row >= 24 || k >= 16 || none || tap >= 9) {
    #pragma unroll
    for (int j = 0; j < 8; ++j) v[j] = 0.0f;
    return;
  }
  const int d3 = (unsigned)(row);
  const int d6 = (unsigned)(tap) % 3;
  const int d5 = (unsigned)(tap) / 3;
  float r1[8];
  #pragma unroll
  for (int j = 0; j < 8; ++j) {
    const int d4 = (unsigned)(k + j);
    r1[j] = pl_ldg(in1 + (144 * d3 + 9 * d4 + 3 * d5 + d6));
  }
  #pragma unroll
  for (int j = 0; j < 8; ++j) {
    const int d4 = (unsigned)(k + j);
    const float v1 = r1[j];
    v[j] = v1;
  }
}
PL_DEVICE int chunk_at(int number) {
  const int within = number % 3, group = number / 3 % 3;
  const int chunk = number / 9;
  const int strip = group * 1 + chunk / 2;
  return strip / 1 * 6 + strip % 1 * 6 + chunk % 2 * 3 + within;
}
extern "C" __global__ void __launch_bounds__(256) planish_kernel(const float* __restrict__ in1, unsigned char* __restrict__ out0, int* __restrict__ out2, int* __restrict__ notes) {
  if (blockIdx.x == 0) for (int i = threadIdx.x; i < 2; i += 256) notes[i] = 0;
  __shared__ float most[64];
  const int r = threadIdx.x % 8;
  const int part = blockIdx.x % 1, whole = blockIdx.x / 1;
  const int batch = whole / 3, row = whole % 3 * 8 + r;
  float v[1][8];
  float top = 0.0f;
  for (int at = 0; at < 1; at += 1) {
    #pragma unroll
    for (int i = 0; i < 1; ++i) {
      const int own = (int)threadIdx.x / 8 + (at + i) * 32, number = part * 18 + own;
      if (own < 18 && number < 18) {
        const int chunk = chunk_at(number);
        if (chunk >= 0) {
          plane_values(v[i], in1, batch, row, chunk * 8);
        }
      }
    }
    #pragma unroll
    for (int i = 0; i < 1; ++i) {
      const int own = (int)threadIdx.x / 8 + (at + i) * 32, number = part * 18 + own;
      if (own < 18 && number < 18) {
        const int chunk = chunk_at(number);
        if (chunk >= 0) {
          #pragma unroll
          for (int j = 0; j < 8; ++j) top = fmaxf(top, is_finite(v[i][j]) ? fabsf(v[i][j]) : 0.0f);
        }
      }
    }
  }
  top = most_of_lanes(most_of_lanes(top, 8), 16);
  if (threadIdx.x % 32 < 8) most[threadIdx.x / 32 * 8 + r] = top;
  __syncthreads();
  for (int w = 0; w < 8; ++w) top = fmaxf(top, most[w * 8 + r]);
  const int e = scaling_exponent(top);
  if (part == 0 && threadIdx.x < 8) out2[batch * 24 + row] = e;
  const float f = power_of_two(-e / 2), g = power_of_two(-e - -e / 2);
  for (int at = 0; at < 1; at += 1) {
    #pragma unroll
    for (int i = 0; i < 1; ++i) {
      const int own = (int)threadIdx.x / 8 + (at + i) * 32, number = part * 18 + own;
      if (own < 18 && number < 18) {
        const int chunk = chunk_at(number);
        if (chunk >= 0) {
          Chunk hi;
          #pragma unroll
          for (int j = 0; j < 8; ++j) {
            const float s = v[i][j] * f * g;
            hi.x[j] = high_part(v[i][j], s);
          }
          const long long place = batch * 6912ll + chunk / 6 * 2304ll + row / 8 * 768ll + chunk % 6 * 128 + r * 16;
          put_chunk(out0 + place, hi);
        }
      }
    }
  }
}

// launch: grid 6x1x1 block 256x1x1 cluster 1x1x1 shared 0
// arguments: input0 scratch3 scratch2
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
PL_DEVICE void plane_values(float (&v)[8], const float* __restrict__ in0, int batch, int phase, int chunk, int at) {
  bool there = true;
  const int d0 = (unsigned)at / 22 % 14;
  const int d1 = (unsigned)at / 1 % 22;
  if (!there) {
    #pragma unroll
    for (int j = 0; j < 8; ++j) v[j] = 0.0f;
    return;
  }
  const int d2 = 0;
  const int d3 = 0;
  const int d4 = (unsigned)((unsigned)at / 308);
  #pragma unroll
  for (int j = 0; j < 8; ++j) {
    const int channel = chunk * 8 + j;
    const int d5 = (unsigned)(channel);
    const float v0 = pl_ldg(in0 + (4928 * d4 + 22 * d0 + d1 + 308 * d5));
    v[j] = v0;
  }
}
extern "C" __global__ void __launch_bounds__(256) planish_kernel(const float* __restrict__ in0, unsigned char* __restrict__ out0, int* __restrict__ notes) {
  const long long first = (long long)blockIdx.x * 256;
  float top = 0.0f;
  int noted = -1;
  for (int i = 0; i < 1; ++i) {
    const long long item = first + i * 256 + threadIdx.x;
    if (item >= 1490ll) break;
    float v[8];
    long long place;
    if (item < 1232ll) {
      const int at = item % 616;
      const int plane = item / 616;
      place = (long long)plane * 616ll + at;
      const int image = at / 308;
      plane_values(v, in0, plane / 2, plane / 2 % 1, plane % 2, at);
      if (image != noted) note_magnitude(notes, noted, top), top = 0.0f, noted = image;
      #pragma unroll
      for (int j = 0; j < 8; ++j) top = fmaxf(top, is_finite(v[j]) ? fabsf(v[j]) : 0.0f);
    }
    else {
      place = 0ll + item;
      #pragma unroll
      for (int j = 0; j < 8; ++j) v[j] = 0.0f;
    }
    Chunk hi;
    #pragma unroll
    for (int j = 0; j < 8; ++j) {
      const float s = v[j] * 1.0f;
      hi.x[j] = high_part(v[j], s);
    }
    put_chunk(out0 + place * 16, hi);
  }
  for (int apart = 16; apart > 0; apart /= 2) {
    const int other = __shfl_xor_sync(~0u, noted, apart);
    const float theirs = __shfl_xor_sync(~0u, top, apart);
    if (other != noted) { note_magnitude(notes, noted, top); continue; }
    top = fmaxf(top, theirs);
  }
  if (threadIdx.x % 32 == 0) note_magnitude(notes, noted, top);
}

// launch: grid 6x1x1 block 256x1x1 cluster 1x1x1 shared 0
// arguments: input0 scratch3 scratch2 scratch4
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
PL_DEVICE void plane_values(float (&v)[8], const float* __restrict__ in0, int batch, int phase, int chunk, int at) {
  bool there = true;
  const int d0 = (unsigned)at / 22 % 14;
  const int d1 = (unsigned)at / 1 % 22;
  if (!there) {
    #pragma unroll
    for (int j = 0; j < 8; ++j) v[j] = 0.0f;
    return;
  }
  const int d2 = 0;
  const int d3 = 0;
  const int d4 = (unsigned)((unsigned)at / 308);
  #pragma unroll
  for (int j = 0; j < 8; ++j) {
    const int channel = chunk * 8 + j;
    const int d5 = (unsigned)(channel);
    const float v0 = pl_ldg(in0 + (4928 * d4 + 22 * d0 + d1 + 308 * d5));
    v[j] = v0;
  }
}
extern "C" __global__ void __launch_bounds__(256) planish_kernel(const float* __restrict__ in0, unsigned char* __restrict__ out0, int* __restrict__ notes, int* __restrict__ exponents) {
  const long long first = (long long)blockIdx.x * 256;
  if (blockIdx.x == 0) for (int i = threadIdx.x; i < 2; i += 256) {
    const float most = __int_as_float(notes[i]);
    exponents[i] = is_safe(most) ? 0 : scaling_exponent(most);
  }
  const float most = threadIdx.x < 2 ? __int_as_float(notes[threadIdx.x]) : 0.0f;
  if (!__syncthreads_or(!is_safe(most))) return;
  for (int i = 0; i < 1; ++i) {
    const long long item = first + i * 256 + threadIdx.x;
    if (item >= 1232ll) break;
    float v[8];
    const int at = item % 616;
    const int plane = item / 616;
    const long long place = (long long)plane * 616ll + at;
    const int image = at / 308;
    const float most = __int_as_float(notes[image]);
    if (is_safe(most)) continue;
    const int e = scaling_exponent(most);
    const float f = power_of_two(-e / 2), g = power_of_two(-e - -e / 2);
    plane_values(v, in0, plane / 2, plane / 2 % 1, plane % 2, at);
    Chunk hi;
    #pragma unroll
    for (int j = 0; j < 8; ++j) {
      const float s = v[j] * f * g;
      hi.x[j] = high_part(v[j], s);
    }
    put_chunk(out0 + place * 16, hi);
  }
}

// launch: grid 10x1x1 block 256x1x1 cluster 1x1x1 shared 41312
// arguments: scratch3 scratch0 scratch4 scratch1 input2 input3 output0
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
PL_WGMMA_BOTH(multiply, 24, "f16", 0, 0)
__constant__ long long tap_offsets[3] = {0ll, 22ll, 44ll};
// ---- tests/golden/shared/place_prelude.cu ----
template <typename T> PL_DEVICE T pl_ldg(const T* p) { return __ldg(p); }
template <int columns, bool all>
PL_DEVICE void fold_sums(const float* __restrict__ in2, const float* __restrict__ in3, float* __restrict__ out0, int batch, int y, int x, int end, int lane, float (&v)[columns / 2]) {
  const int part = (lane + opaque_zero()) & 3;
  float all1[2];
  #pragma unroll
  for (int w = 0; w < 1; ++w) {
    float parts1[2][4];
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
      parts1[0][i] = parts1[1][i] = PL_INF_F32;
    }
    #pragma unroll
    for (int run = 0; run < 1; ++run) {
      #pragma unroll
      for (int i = 0; i < 6; ++i) {
        const int g = w * 3 + i / 2;
        const int c = i / 2 * 8 + part * 2 + i % 2;
        #pragma unroll
        for (int h = 0; h < 2; ++h) {
          const int at = y + lane / 4 + 8 * h;
          const int row = all ? at : min(at, 615);
          bool inside = all || at < 616;
          const int d0 = (unsigned)((unsigned)(row) / 308);
          const int d1 = (unsigned)(row) / 22 % 14;
          const int d2 = (unsigned)(row) / 1 % 22;
          inside = inside & ((d1 < 12) & (d2 < 20));
          {
            const int d3 = (unsigned)(c);
            const float folded = v[4 * (run * 3 + g) + 2 * h + i % 2];
            const float v3 = folded;
            const float v4 = (true ? pl_ldg(in2 + (d3)) : 0x0p+0f);
            const float v5 = (v3 + v4);
            const float v6 = pl_max(v5, 0x0p+0f);
            const float v7 = (true ? pl_ldg(in3 + (d3)) : 0x0p+0f);
            const float v8 = (v6 * v7);
            parts1[h][(run * 6 + i) % 4] = pl_min(parts1[h][(run * 6 + i) % 4], v8);
          }
        }
      }
    }
    #pragma unroll
    for (int h = 0; h < 2; ++h) {
      parts1[h][0] = pl_min(parts1[h][0], parts1[h][1]);
      parts1[h][2] = pl_min(parts1[h][2], parts1[h][3]);
      parts1[h][0] = pl_min(parts1[h][0], parts1[h][2]);
      float fold1 = parts1[h][0];
      fold1 = pl_min(fold1, __shfl_xor_sync(~0u, fold1, 1));
      fold1 = pl_min(fold1, __shfl_xor_sync(~0u, fold1, 2));
      all1[h * 1 + w] = fold1;
    }
  }
  #pragma unroll
  for (int j = 0; j < 2; j += 4) {
    const int mine = j + part % 4;
    const int h = mine / 1, w = mine % 1;
    const int at = y + lane / 4 + 8 * h;
    const int row = all ? at : min(at, 615);
    bool inside = all || at < 616;
    const int d0 = (unsigned)((unsigned)(row) / 308);
    const int d1 = (unsigned)(row) / 22 % 14;
    const int d2 = (unsigned)(row) / 1 % 22;
    inside = inside & ((d1 < 12) & (d2 < 20));
    const int window = w;
    const int begin = x / 24 + window;
    const bool ok = inside & (begin < 1);
    float fold1 = all1[j];
    if (j + 1 < 2 && part % 4 == 1) fold1 = all1[j + 1];
    if (j + 2 < 2 && part % 4 == 2) fold1 = all1[j + 2];
    if (j + 3 < 2 && part % 4 == 3) fold1 = all1[j + 3];
    if (ok & (mine < 2)) {
      const float v9 = fold1;
      const float v10 = 0x0p+0f;
      const bool v11 = (v9 > v10);
      const float v12 = 0x1p-2f;
      const float v13 = (v9 * v12);
      const float v14 = (v11 ? v9 : v13);
      out0[240 * d0 + 20 * d1 + d2] = v14;
    }
  }
}
// ---- kernel ----
extern "C" __global__ void __launch_bounds__(256, 1) planish_kernel(const char* __restrict__ a0, const char* __restrict__ b0, const int* __restrict__ ea, const int* __restrict__ eb, const float* __restrict__ in2, const float* __restrict__ in3, float* __restrict__ out0) {
  extern __shared__ __align__(16) unsigned char pl_smem[];
  const u32 base = (shared_address(pl_smem) + 127u) & ~127u;
  const u32 full = base + 35840, empty = full + 64;
  const int group = warpgroup_number();
  if (threadIdx.x == 0) {
    for (int i = 0; i < 8; ++i) {
      barrier_init(full + i * 8, 1);
      barrier_init(empty + i * 8, 4);
    }
    barrier_init_fence();
  }
  int* const column_scale = (int*)(pl_smem + (base - shared_address(pl_smem)) + 41088);
  bool immoderate = false;
  for (int i = threadIdx.x; i < 24; i += 256) {
    const int e = eb[i];
    immoderate = immoderate | (abs(e) > 63);
    column_scale[i] = (int)((unsigned)(127 + e) << 23);
  }
  const bool far_columns = __syncthreads_or(immoderate);
  int stage = 0;
  u32 parity = 0;
  if (group == 0) {
    if (threadIdx.x == 0) {
      for (int tile = blockIdx.x; tile < 10; tile += gridDim.x) {
        const int band = tile / 8 * 8, within = tile % 8;
        const int height = min(8, 10 - band);
        const int row = (band + within % height) * 64;
        const int column = within / height * 24;
        const long long from_a = row, from_b = column * 96ll;
        int taps = 0, run = 0;
        for (int k = 0; k < 3; ++k) {
          barrier_wait(empty + stage * 8, parity ^ 1);
          const u32 at = base + stage * 4480;
          barrier_expect(full + stage * 8, 4416);
          bulk_load(at + 2176, b0 + from_b + k * 2304ll, 2304, full + stage * 8);
          #pragma unroll
          for (int i = 0; i < 1; ++i) {
            const long long place = taps < 3 ? from_a + tap_offsets[taps] + run * 1232ll : 1232ll;
            const long long next = taps < 3 ? 616ll : 0ll;
            bulk_load(at + 0 + i * 2112, a0 + (place + 0 * next) * 16, 1056, full + stage * 8);
            bulk_load(at + 1056 + i * 2112, a0 + (place + 1 * next) * 16, 1056, full + stage * 8);
            if (++run == 1) {
              run = 0;
              ++taps;
            }
          }
          if (++stage == 8) {
            stage = 0;
            parity ^= 1;
          }
        }
      }
    }
  } else {
    const int lane = threadIdx.x % 32;
    for (int tile = blockIdx.x; tile < 10; tile += gridDim.x) {
      const int band = tile / 8 * 8, within = tile % 8;
      const int height = min(8, 10 - band);
      const int row = (band + within % height) * 64;
      const int column = within / height * 24;
      const int warp = threadIdx.x % 128 / 32;
      const int m = row + (group - 1) * 64 + warp * 16;
      const int up0 = ea[min((m + lane / 4) / 308, 1)], up1 = ea[min((m + lane / 4 + 8) / 308, 1)];
      float high[12];
      #pragma unroll 1
      for (int k = 0; k < 3; k += 1) {
        {
          barrier_wait(full + stage * 8, parity);
          const u64 at = (u64)((base + stage * 4480) >> 4);
          const u64 at_a = at + (group - 1) * 64;
          wgmma_fence();
          multiply(high, 34359803904ull + at_a + 0, 206158954496ull + at + 136, k > 0);
          multiply(high, 34363932672ull + at_a + 2, 206158954496ull + at + 152, 1);
          multiply(high, 34359803904ull + at_a + 67, 206158954496ull + at + 168, 1);
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
      const bool far = far_columns | __any_sync(~0u, (abs(up0) > 63) | (abs(up1) > 63));
      const int row0 = far ? 0 : up0 << 23, row1 = far ? 0 : up1 << 23;
      if (far) {
        #pragma unroll
        for (int i = 0; i < 12; ++i) {
          const int e = (i / 2 % 2 == 0 ? up0 : up1) + eb[i / 4 * 8 + lane % 4 * 2 + i % 2];
          high[i] = scale_by_power(high[i], e);
        }
      }
      #pragma unroll
      for (int h = 0; h < 2; ++h) {
        #pragma unroll
        for (int j = 0; j < 24; j += 8) {
          const int2 by = far ? make_int2(127 << 23, 127 << 23) : *(const int2*)(column_scale + j + lane % 4 * 2);
          const float left = (high[j / 2 + h * 2]) * __int_as_float(by.x + (h == 0 ? row0 : row1));
          const float right = (high[j / 2 + h * 2 + 1]) * __int_as_float(by.y + (h == 0 ? row0 : row1));
          high[j / 2 + h * 2] = left, high[j / 2 + h * 2 + 1] = right;
        }
      }
      fold_sums<24, false>(in2, in3, out0, 0, m, column, min(column + 24, 24), lane, high);
    }
  }
}
