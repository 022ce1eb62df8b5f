// genome: direct=2 min_blocks=1 pingpong=0 raster=8 split=1 stages=8 stationary=0 swap_operands=0 tile_k=64 tile_m=64 tile_n=16
// launch: grid 5x1x1 block 256x1x1 cluster 1x1x1 shared 0 packs
// arguments: input1 scratch0
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
PL_DEVICE void plane_values(float (&v)[8], const unsigned short* __restrict__ in1, int batch, int row, int k) {
  if (row >= 66 || k >= 96) {
    #pragma unroll
    for (int j = 0; j < 8; ++j) v[j] = 0.0f;
    return;
  }
  const int d1 = (unsigned)(row);
  float r2[8];
  #pragma unroll
  for (int j = 0; j < 8; ++j) {
    const int d2 = (unsigned)(k + j);
    r2[j] = pl_from_f16(pl_ldg(in1 + (d1 + 66 * d2)));
  }
  #pragma unroll
  for (int j = 0; j < 8; ++j) {
    const int d2 = (unsigned)(k + j);
    const float v2 = r2[j];
    const float v3 = v2;
    v[j] = v3;
  }
}
extern "C" __global__ void __launch_bounds__(256) planish_kernel(const unsigned short* __restrict__ in1, unsigned char* __restrict__ out0) {
  const int r = threadIdx.x % 8;
  const int part = 0, whole = blockIdx.x * 2 + threadIdx.x / 128;
  const int batch = whole / 10, row = whole % 10 * 8 + r;
  float v[1][8];
  for (int at = 0; at < 1; at += 1) {
    #pragma unroll
    for (int i = 0; i < 1; ++i) {
      const int own = (int)threadIdx.x % 128 / 8 + (at + i) * 16, chunk = part * 16 + own;
      plane_values(v[i], in1, batch, row, chunk * 8);
    }
    #pragma unroll
    for (int i = 0; i < 1; ++i) {
      const int own = (int)threadIdx.x % 128 / 8 + (at + i) * 16, chunk = part * 16 + own;
      Chunk hi;
      #pragma unroll
      for (int j = 0; j < 8; ++j) hi.x[j] = pl_to_f16(v[i][j]);
      const long long place = batch * 20480ll + chunk / 8 * 10240ll + row / 8 * 1024ll + chunk % 8 * 128 + r * 16;
      put_chunk(out0 + place, hi);
    }
  }
}

// launch: grid 15x1x1 block 256x1x1 cluster 1x1x1 shared 88192
// arguments: input0 scratch0 output0 scratch1
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
PL_DEVICE void store_sums(unsigned short* __restrict__ out0, int batch, int y, int x, int end, int lane, Sums sums) {
  constexpr int interleave = 1, step = 32;
  if constexpr (columns >= 2) {
    constexpr int beside = 2;
    #pragma unroll 4
    for (int r = 0; r < rows; ++r) {
      const int row = y + r;
      if (!all && row >= 130) break;
      const int d0 = (unsigned)(row);
      #pragma unroll
      for (int j = 0; j < columns; j += 32 * beside) {
        const bool inside = columns % (32 * beside) == 0 || j + lane * beside < columns;
        const int at = x + j + lane * beside;
        const int d1 = (unsigned)(at);
        const bool ok = inside & (at < end);
        float sum[beside];
        neighbours(sums, r, inside ? j + lane * beside : 0, sum);
        unsigned short got0[beside];
        auto* const to0 = out0 + (66 * d0 + d1);
        const int first = d1;
        #pragma unroll
        for (int i = 0; i < beside; ++i) {
          const int d1 = first + i;
          const float folded = sum[i];
          const float v5 = folded;
          got0[i] = pl_to_f16(v5);
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
      if (!all && row >= 130) break;
      const int d0 = (unsigned)(row);
      #pragma unroll
      for (int j = 0; j < columns; j += step) {
        const int at = x + j + lane / interleave;
        const int d1 = (unsigned)(at);
        const bool there = (at < end);
        const bool ok = there;
        const float folded = sums(r + lane % interleave, j + lane / interleave);
        const float v5 = folded;
        if (ok) {
          out0[66 * d0 + d1] = pl_to_f16(v5);
        }
      }
    }
  }
}
PL_DEVICE void map_a(u32 map, const char* from) {
  tensor_map_at(map, from + 0ll);
  tensor_map_type<2, 6>(map);
  tensor_map_dim<0>(map, 96, 64, 1);
  tensor_map_dim<1>(map, 130, 64, 1);
  tensor_map_stride<1>(map, 192ull);
}
PL_DEVICE void fetch_a(u32 to, const void* map, int product, int row, int k, u32 barrier) {
  #pragma unroll
  for (int i = 0; i < 1; ++i) tensor_load(to + i * 8192, map, barrier, k + i * 64, row);
}
// ---- kernel ----
extern "C" __global__ void __launch_bounds__(256, 1) planish_kernel(const char* __restrict__ a0, const char* __restrict__ b0, unsigned short* __restrict__ out0, char* __restrict__ maps) {
  extern __shared__ __align__(16) unsigned char pl_smem[];
  const u32 base = (shared_address(pl_smem) + 1023u) & ~1023u;
  const u32 full = base + 81920, empty = full + 64;
  const int group = warpgroup_number();
  if (threadIdx.x == 0) {
    for (int i = 0; i < 8; ++i) {
      barrier_init(full + i * 8, 1);
      barrier_init(empty + i * 8, 4);
    }
    barrier_init_fence();
  }
  char* const map = maps + blockIdx.x * 256;
  if (threadIdx.x < 32) {
    if (threadIdx.x < 16) shared_clear(base + threadIdx.x * 16);
    __syncwarp();
    if (threadIdx.x == 0) map_a(base + 0, a0);
    __syncwarp();
    tensor_map_publish(map + 0, base + 0);
    if (threadIdx.x == 0) {
      tensor_map_acquire(map + 0);
      barrier_init_fence();
    }
  }
  __syncthreads();
  int stage = 0;
  u32 parity = 0;
  if (group == 0) {
    if (threadIdx.x == 0) {
      for (int tile = blockIdx.x; tile < 15; tile += gridDim.x) {
        const int band = tile / 40 * 8, within = tile % 40;
        const int height = min(8, 3 - band);
        const int row = (band + within % height) * 64;
        const int column = within / height * 16;
        const long long from_b = column * 128ll;
        const int begin = 0;
        for (int k = 0; k < 2; ++k) {
          barrier_wait(empty + stage * 8, parity ^ 1);
          const u32 at = base + stage * 10240;
          barrier_expect(full + stage * 8, 10240);
          bulk_load(at + 8192, b0 + from_b + k * 10240ll, 2048, full + stage * 8);
          fetch_a(at + 0, map + 0, 0, row, begin + k * 64, full + stage * 8);
          if (++stage == 8) {
            stage = 0;
            parity ^= 1;
          }
        }
      }
    }
  } else {
    const int lane = threadIdx.x % 32;
    for (int tile = blockIdx.x; tile < 15; tile += gridDim.x) {
      const int band = tile / 40 * 8, within = tile % 40;
      const int height = min(8, 3 - band);
      const int row = (band + within % height) * 64;
      const int column = within / height * 16;
      const int warp = threadIdx.x % 128 / 32;
      const int m = row + (group - 1) * 64 + warp * 16;
      float high[8];
      #pragma unroll 1
      for (int k = 0; k < 2; k += 1) {
        {
          barrier_wait(full + stage * 8, parity);
          const u64 at = (u64)((base + stage * 10240) >> 4);
          const u64 at_a = at + (group - 1) * 512;
          wgmma_fence();
          multiply(high, 4611686293305360384ull + at_a + 0, 274878431232ull + at + 512, k > 0);
          multiply(high, 4611686293305360384ull + at_a + 2, 274878431232ull + at + 528, 1);
          multiply(high, 4611686293305360384ull + at_a + 4, 274878431232ull + at + 544, 1);
          multiply(high, 4611686293305360384ull + at_a + 6, 274878431232ull + at + 560, 1);
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
            const float left = high[j / 2 + h * 2];
            const float right = high[j / 2 + h * 2 + 1];
            *(float2*)(mine + j - part) = make_float2(left, right);
          }
          __syncwarp();
          store_sums<8, 32, false>(out0, 0, m + h * 8, column + part, min(column + 16, 66), lane, Exchange<40>{exchange});
        }
      }
    }
  }
}
