// genome: cluster=1 exchange=0 rows=1 tile=1 unroll=1 wavefront=1
// launch: grid 2x1x1 block 256x1x1 cluster 1x1x1 shared 0 packs
// arguments: input0 scratch1 scratch2 scratch3
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
      plane_values(v[i], in0, batch, row, chunk * 8);
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
      Chunk hi, lo;
      #pragma unroll
      for (int j = 0; j < 8; ++j) {
        const float s = v[i][j] * f * g;
        hi.x[j] = high_part(v[i][j], s);
        lo.x[j] = low_part(s, hi.x[j]);
      }
      const long long place = batch * 8192ll + chunk / 8 * 8192ll + row / 8 * 1024ll + chunk % 8 * 128 + r * 16;
      put_chunk(out0 + place, hi);
      put_chunk(out1 + place, lo);
    }
  }
}

// launch: grid 3x1x1 block 256x1x1 cluster 1x1x1 shared 0 packs
// arguments: input3 scratch4 scratch5 scratch6
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
        plane_values(v[i], in1, batch, row, chunk * 8);
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
  if (part == 0 && threadIdx.x % 128 < 8) out2[batch * 48 + row] = e;
  const float f = power_of_two(-e / 2), g = power_of_two(-e - -e / 2);
  for (int at = 0; at < 1; at += 1) {
    #pragma unroll
    for (int i = 0; i < 1; ++i) {
      const int own = (int)threadIdx.x % 128 / 8 + (at + i) * 16, chunk = part * 8 + own;
      if (own < 8 && chunk < 8) {
        Chunk hi, lo;
        #pragma unroll
        for (int j = 0; j < 8; ++j) {
          const float s = v[i][j] * f * g;
          hi.x[j] = high_part(v[i][j], s);
          lo.x[j] = low_part(s, hi.x[j]);
        }
        const long long place = batch * 6144ll + chunk / 8 * 6144ll + row / 8 * 1024ll + chunk % 8 * 128 + r * 16;
        put_chunk(out0 + place, hi);
        put_chunk(out1 + place, lo);
      }
    }
  }
}

// launch: grid 3x1x1 block 256x1x1 cluster 1x1x1 shared 169216
// arguments: scratch1 scratch2 scratch4 scratch5 scratch3 scratch6 input5 scratch0
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
template <int count, typename Sums> PL_DEVICE void neighbours(const Sums& sums, int r, int c, float (&v)[count]) {
#pragma unroll
  for (int i = 0; i < count; ++i) v[i] = sums(r, c + i);
}
template <bool streaming, typename Word>
PL_DEVICE void put_word(void* to, Word word) {
  if (streaming) __stcs((Word*)to, word);
  else *(Word*)to = word;
}
template <bool streaming> PL_DEVICE void put_chunk(float* to, const float (&v)[4]) {
  put_word<streaming>(to, make_float4(v[0], v[1], v[2], v[3]));
}
template <bool streaming> PL_DEVICE void put_chunk(float* to, const float (&v)[2]) {
  put_word<streaming>(to, make_float2(v[0], v[1]));
}
template <bool streaming> PL_DEVICE void put_chunk(unsigned short* to, const unsigned short (&v)[2]) {
  put_word<streaming>(to, (unsigned)v[0] | (unsigned)v[1] << 16);
}
template <int rows, int columns, bool all, typename Sums>
PL_DEVICE void store_sums(const float* __restrict__ in2, float* __restrict__ out0, int batch, int y, int x, int end, int lane, Sums sums) {
  constexpr int interleave = 1, step = 32;
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
        neighbours(sums, r, inside ? j + lane * beside : 0, sum);
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
          put_chunk<false>(to0, got0);
        }
      }
    }
  }
  else {
    #pragma unroll 2
    for (int r = 0; r < rows; r += interleave) {
      const int row = y + r;
      if (!all && row >= 15) break;
      const int d0 = (unsigned)(row);
      #pragma unroll
      for (int j = 0; j < columns; j += step) {
        const int at = x + j + lane / interleave;
        const int d1 = (unsigned)(at);
        const bool there = (at < end);
        const bool ok = there;
        const float folded = sums(r + lane % interleave, j + lane / interleave);
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
      for (int tile = blockIdx.x; tile < 3; tile += gridDim.x) {
        const int band = tile / 24 * 8, within = tile % 24;
        const int height = min(8, 1 - band);
        const int row = (band + within % height) * 64;
        const int column = within / height * 16;
        const long long from_a = row * 128ll, from_b = column * 128ll;
        for (int k = 0; k < 1; ++k) {
          barrier_wait(empty + stage * 8, parity ^ 1);
          const u32 at = base + stage * 20480;
          barrier_expect(full + stage * 8, 20480);
          bulk_load(at + 0, a0 + from_a + k * 8192ll, 8192, full + stage * 8);
          bulk_load(at + 8192, a1 + from_a + k * 8192ll, 8192, full + stage * 8);
          bulk_load(at + 16384, b0 + from_b + k * 6144ll, 2048, full + stage * 8);
          bulk_load(at + 18432, b1 + from_b + k * 6144ll, 2048, full + stage * 8);
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
          multiply(small, 274878431232ull + at_a + 0, 274878431232ull + at + 1152, 0);
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
            const float left = scale_by_power(is_finite(sum[j / 2 + h * 2]) ? fmaf(small[j / 2 + h * 2], 0x1p-11f, sum[j / 2 + h * 2]) : sum[j / 2 + h * 2], (h == 0 ? up0 : up1) + eb[column + j + lane % 4 * 2]);
            const float right = scale_by_power(is_finite(sum[j / 2 + h * 2 + 1]) ? fmaf(small[j / 2 + h * 2 + 1], 0x1p-11f, sum[j / 2 + h * 2 + 1]) : sum[j / 2 + h * 2 + 1], (h == 0 ? up0 : up1) + eb[column + j + lane % 4 * 2 + 1]);
            *(float2*)(mine + j - part) = make_float2(left, right);
          }
          __syncwarp();
          store_sums<8, 32, false>(in2, out0, 0, m + h * 8, column + part, min(column + 16, 36), lane, Exchange<40>{exchange});
        }
      }
    }
  }
}

// launch: grid 6x1x1 block 192x1x1 cluster 1x1x1 shared 416
// arguments: scratch0 input4 input6 input8 input10 input7 input9 input1 input2 output0 output1 output2 scratch7 scratch8
// Steps of recurrent cells (LSTM, GRU, tanh or ReLU), all of them in one launch.
//
// A cell is a layer in one direction. Its blocks are clusters, one for each slice of the batch; each block of a cluster
// has some of the units: their rows of the weights, in registers as far as they fit and in its shared memory; the
// state of all units, of this and of the last step; and what its units' cells keep, in registers. After a step it
// writes its part of the state into the shared memory of all blocks of the cluster. Cells that are stacked read the
// state of the cell below through global memory, some steps behind it, which a warp of its own fetches.
//
// A warp has 2 · units units: two groups of sixteen threads, each of which has every sixteenth chunk of four elements
// of the state. In shared memory a state lies block by block, of each the batch, of each of that its units.
//
// Policy (all constexpr):
//   int gates                 4 LSTM, 3 GRU, 1 plain
//   int steps, batch, hidden, cells
//   bool stacked              cells are layers, each reading the one below; else directions of one layer
//   int cluster, slices       blocks of a cluster; clusters of a cell
//   int slice                 batch rows of a cluster
//   int units, rows           that a thread sums for at once
//   int exchange              0 asynchronous stores, 1 bulk copies, 2 stores and one arrival
//   int block_units           units of a block
//   int kept                  chunks whose weights are in registers
//   int warps, threads        that sum; of a block
//   bool hands_registers      from the threads that do not sum to those that do
//   bool all                  states of all steps are results
//
// Functors F (values; of one cell, whose number is f.cell):
//   made                      products with what it reads, [steps][batch][gates · hidden], bias included; or 0
//   hidden_weights, hidden_bias, input_weights, input_bias   gates · hidden rows; 0 where there are none
//   handed, flags             memory through which stacked cells hand on what they make, and words beside it
//   first_h(b, k), first_c(b, k), give(t, b, k, h), last(b, k, h, c), plain(x)

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
// ---- src/codegen/device/sm90/recurrence.cuh ----
struct Policy {
  static constexpr int gates = 4, steps = 5, batch = 3, hidden = 9, cells = 2;
  static constexpr int cluster = 1, slices = 3, slice = 1, units = 1, rows = 1, exchange = 0;
  static constexpr int block_units = 9, kept = 1, warps = 5, threads = 192;
  static constexpr bool stacked = true, hands_registers = false, all = true;
};
struct Functors {
  int cell;
  const float *made, *hidden_weights, *hidden_bias, *input_weights, *input_bias;
  const float* h0;
  const float* c0;
  float* every;
  float* last_h;
  float* last_c;
  float* handed;
  u32* flags;
  PL_DEVICE float first_h(int b, int k) const { return h0[0ll + cell * 27ll + b * 9ll + k * 1ll]; }
  PL_DEVICE float first_c(int b, int k) const { return c0[0ll + cell * 27ll + b * 9ll + k * 1ll]; }
  PL_DEVICE void give(int t, int b, int k, float h) const { every[0ll + t * 27ll + b * 9ll + k * 1ll] = h; }
  PL_DEVICE void last(int b, int k, float h, float c) const { last_h[0ll + cell * 27ll + b * 9ll + k * 1ll] = h; last_c[0ll + cell * 27ll + b * 9ll + k * 1ll] = c; }
  PL_DEVICE float plain(float x) const { return tanhf(x); }
};
// ---- kernel ----
extern "C" __global__ void __launch_bounds__(192, 1) planish_kernel(const float* __restrict__ made0, const float* __restrict__ wh0, const float* __restrict__ bh0, const float* __restrict__ wh1, const float* __restrict__ bh1, const float* __restrict__ wx1, const float* __restrict__ bx1, const float* __restrict__ h0, const float* __restrict__ c0, float* __restrict__ every, float* __restrict__ last_h, float* __restrict__ last_c, float* handed, u32* flags) {
  extern __shared__ __align__(128) unsigned char pl_smem[];
  Functors f;
  f.cell = blockIdx.x / 3;
  f.made = f.cell == 0 ? made0 + 0ll : (const float*)0;
  f.hidden_weights = f.cell == 0 ? wh0 + 0ll : f.cell == 1 ? wh1 + 0ll : (const float*)0;
  f.hidden_bias = f.cell == 0 ? bh0 + 0ll : f.cell == 1 ? bh1 + 0ll : (const float*)0;
  f.input_weights = f.cell == 1 ? wx1 + 0ll : (const float*)0;
  f.input_bias = f.cell == 1 ? bx1 + 0ll : (const float*)0;
  f.h0 = h0;
  f.c0 = c0;
  f.every = every;
  f.last_h = last_h;
  f.last_c = last_c;
  f.handed = handed, f.flags = flags;
  recurrence<Policy>(f, shared_address(pl_smem));
}
