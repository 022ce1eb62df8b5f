// genome: direct=2 min_blocks=1 pingpong=0 raster=8 split=1 stages=5 stationary=0 tile_k=64 tile_m=128 tile_n=192
// launch: grid 192x1x1 block 1024x1x1 cluster 1x1x1 shared 0 packs
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
  if (row >= 320 || k >= 2880) {
    #pragma unroll
    for (int j = 0; j < 8; ++j) v[j] = 0.0f;
    return;
  }
  const int d1 = (unsigned)(row);
  float r2[8];
  #pragma unroll
  for (int j = 0; j < 8; ++j) {
    const int d6 = (unsigned)(k + j) % 320;
    const int d5 = (unsigned)(k + j) / 320 % 3;
    const int d4 = (unsigned)(k + j) / 960;
    r2[j] = pl_from_bf16(pl_ldg(in1 + (2880 * d1 + 3 * d4 + d5 + 9 * d6)));
  }
  #pragma unroll
  for (int j = 0; j < 8; ++j) {
    const int d6 = (unsigned)(k + j) % 320;
    const int d5 = (unsigned)(k + j) / 320 % 3;
    const int d4 = (unsigned)(k + j) / 960;
    const float v2 = r2[j];
    const float v3 = v2;
    v[j] = v3;
  }
}
extern "C" __global__ void __launch_bounds__(1024) planish_kernel(const unsigned short* __restrict__ in1, unsigned char* __restrict__ out0) {
  const int r = threadIdx.x % 8;
  const int part = blockIdx.x % 4, whole = blockIdx.x / 4;
  const int batch = whole / 48, row = whole % 48 * 8 + r;
  float v[1][8];
  for (int at = 0; at < 1; at += 1) {
    #pragma unroll
    for (int i = 0; i < 1; ++i) {
      const int own = (int)threadIdx.x / 8 + (at + i) * 128, chunk = part * 90 + own;
      if (own < 90 && chunk < 360) {
        plane_values(v[i], in1, batch, row, chunk * 8);
      }
    }
    #pragma unroll
    for (int i = 0; i < 1; ++i) {
      const int own = (int)threadIdx.x / 8 + (at + i) * 128, chunk = part * 90 + own;
      if (own < 90 && chunk < 360) {
        Chunk hi;
        #pragma unroll
        for (int j = 0; j < 8; ++j) hi.x[j] = pl_to_bf16(v[i][j]);
        const long long place = batch * 2211840ll + chunk / 8 * 49152ll + row / 8 * 1024ll + chunk % 8 * 128 + r * 16;
        put_chunk(out0 + place, hi);
      }
    }
  }
}

// launch: grid 132x1x1 block 384x1x1 cluster 1x1x1 shared 224336
// arguments: scratch0 input0 input2 input3 output0 scratch1
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
PL_WGMMA_BOTH(multiply, 192, "bf16", 0, 0)
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
PL_DEVICE void get_pair(const unsigned short* from, unsigned short (&v)[2]) {
  const unsigned both = pl_ldg((const unsigned*)from);
  v[0] = (unsigned short)both, v[1] = (unsigned short)(both >> 16);
}
PL_DEVICE void get_pair(const float* from, float (&v)[2]) {
  const float2 both = pl_ldg((const float2*)from);
  v[0] = both.x, v[1] = both.y;
}
template <int rows, int columns, bool all, typename Sums>
PL_DEVICE void store_sums(const unsigned short* __restrict__ in2, const unsigned short* __restrict__ in3, unsigned short* __restrict__ out0, int batch, int y, int x, int end, int lane, Sums sums) {
  constexpr int interleave = 1, step = 32;
  if constexpr (columns >= 2) {
    constexpr int beside = 2;
    constexpr int some = rows < 8 ? rows : 8;
    #pragma unroll 1
    for (int first_row = 0; first_row < rows; first_row += some) {
      unsigned short l9[some][(columns + 32 * beside - 1) / (32 * beside)][beside];
      #pragma unroll
      for (int n = 0; n < some; ++n) {
        const int r = first_row + n;
        const int row = y + r;
        if (!all && row >= 320) break;
        const int d1 = (unsigned)(row);
        #pragma unroll
        for (int j = 0; j < columns; j += 32 * beside) {
          const bool inside = columns % (32 * beside) == 0 || j + lane * beside < columns;
          const int at = x + j + lane * beside;
          const int d3 = (unsigned)(at) / 192 % 2 * 32 + (unsigned)(at) % 32;
          const int d2 = (unsigned)(at) / 384 % 11 * 6 + (unsigned)(at) / 32 % 6;
          const int d0 = (unsigned)(at) / 4224 * 1;
          const bool ok = inside & (at < end) & (d2 < 64);
          if (ok) {
            get_pair(in3 + (1310720 * d0 + 4096 * d1 + 64 * d2 + d3), l9[n][j / (32 * beside)]);
          }
        }
      }
      #pragma unroll
      for (int n = 0; n < some; ++n) {
        const int r = first_row + n;
        const int row = y + r;
        if (!all && row >= 320) break;
        const int d1 = (unsigned)(row);
        const float v6 = pl_from_bf16(pl_ldg(in2 + (d1)));
        const float v7 = v6;
        #pragma unroll
        for (int j = 0; j < columns; j += 32 * beside) {
          const bool inside = columns % (32 * beside) == 0 || j + lane * beside < columns;
          const int at = x + j + lane * beside;
          const int d3 = (unsigned)(at) / 192 % 2 * 32 + (unsigned)(at) % 32;
          const int d2 = (unsigned)(at) / 384 % 11 * 6 + (unsigned)(at) / 32 % 6;
          const int d0 = (unsigned)(at) / 4224 * 1;
          const bool ok = inside & (at < end) & (d2 < 64);
          float sum[beside];
          neighbours(sums, r, inside ? j + lane * beside : 0, sum);
          unsigned short got0[beside];
          auto* const to0 = out0 + (1310720 * d0 + 4096 * d1 + 64 * d2 + d3);
          const int first = d3;
          #pragma unroll
          for (int i = 0; i < beside; ++i) {
            const int d3 = first + i;
            const float folded = sum[i];
            const float v5 = folded;
            const float v8 = (v5 + v7);
            const float v9 = pl_from_bf16(l9[n][j / (32 * beside)][i]);
            const float v10 = v9;
            const float v11 = (v8 + v10);
            const float v12 = pl_max(v11, 0x0p+0f);
            got0[i] = pl_to_bf16(v12);
          }
          if (ok) {
            put_chunk<false>(to0, got0);
          }
        }
      }
    }
  }
  else {
    constexpr int some = rows < 4 ? rows : 4;
    #pragma unroll 1
    for (int first = 0; first < rows; first += some) {
      float l9[some][(columns + step - 1) / step];
      #pragma unroll
      for (int i = 0; i < some; ++i) {
        const int r = first + i;
        const int row = y + r;
        if (!all && row >= 320) break;
        const int d1 = (unsigned)(row);
        #pragma unroll
        for (int j = 0; j < columns; j += step) {
          const int at = x + j + lane / interleave;
          const int d3 = (unsigned)(at) / 192 % 2 * 32 + (unsigned)(at) % 32;
          const int d2 = (unsigned)(at) / 384 % 11 * 6 + (unsigned)(at) / 32 % 6;
          const int d0 = (unsigned)(at) / 4224 * 1;
          const bool there = (at < end) & (d2 < 64);
          const bool ok = there;
          l9[i][j / step] = ok ? pl_from_bf16(pl_ldg(in3 + (1310720 * d0 + 4096 * d1 + 64 * d2 + d3))) : 0x0p+0f;
        }
      }
      #pragma unroll
      for (int i = 0; i < some; ++i) {
        const int r = first + i;
        const int row = y + r;
        if (!all && row >= 320) break;
        const int d1 = (unsigned)(row);
        const float v6 = pl_from_bf16(pl_ldg(in2 + (d1)));
        const float v7 = v6;
        #pragma unroll
        for (int j = 0; j < columns; j += step) {
          const int at = x + j + lane / interleave;
          const int d3 = (unsigned)(at) / 192 % 2 * 32 + (unsigned)(at) % 32;
          const int d2 = (unsigned)(at) / 384 % 11 * 6 + (unsigned)(at) / 32 % 6;
          const int d0 = (unsigned)(at) / 4224 * 1;
          const bool there = (at < end) & (d2 < 64);
          const bool ok = there;
          const float folded = sums(r + lane % interleave, j + lane / interleave);
          const float v5 = folded;
          const float v8 = (v5 + v7);
          const float v9 = l9[i][j / step];
          const float v10 = v9;
          const float v11 = (v8 + v10);
          const float v12 = pl_max(v11, 0x0p+0f);
          if (ok) {
            out0[1310720 * d0 + 4096 * d1 + 64 * d2 + d3] = pl_to_bf16(v12);
          }
        }
      }
    }
  }
}
PL_DEVICE void map_b(u32 map, const char* from) {
  tensor_map_at(map, from + 0ll);
  tensor_map_type<4, 10>(map);
  tensor_map_dim<0>(map, 320, 64, 1);
  tensor_map_dim<1>(map, 64, 32, 1);
  tensor_map_stride<1>(map, 640ull);
  tensor_map_dim<2>(map, 64, 6, 1);
  tensor_map_stride<2>(map, 40960ull);
  tensor_map_dim<3>(map, 2, 1, 1);
  tensor_map_stride<3>(map, 2621440ull);
}
PL_DEVICE void fetch_b(u32 to, const void* map, int product, int row, int k, u32 barrier) {
  const int d3 = (unsigned)row / 192 % 2 * 32;
  const int d2 = (unsigned)row / 192 / 2 % 11 * 6;
  const int d0 = (unsigned)row / 192 / 22 * 1;
  #pragma unroll
  for (int i = 0; i < 1; ++i) {
    const unsigned at = k + i * 64;
    const int tap = at / 320;
    const int d5 = (unsigned)(tap) % 3;
    const int d4 = (unsigned)(tap) / 3;
    tensor_load(to + i * 24576, map, barrier, (int)(at % 320), -1 + (int)d3 + (int)d5, -1 + (int)d2 + (int)d4, 0 + (int)d0);
  }
}
// ---- kernel ----
extern "C" __global__ void __launch_bounds__(384, 1) planish_kernel(const char* __restrict__ a0, const char* __restrict__ b0, const unsigned short* __restrict__ in2, const unsigned short* __restrict__ in3, unsigned short* __restrict__ out0, char* __restrict__ maps) {
  extern __shared__ __align__(16) unsigned char pl_smem[];
  const u32 base = (shared_address(pl_smem) + 1023u) & ~1023u;
  const u32 full = base + 204800, empty = full + 40;
  const int group = warpgroup_number();
  if (threadIdx.x == 0) {
    for (int i = 0; i < 5; ++i) {
      barrier_init(full + i * 8, 1);
      barrier_init(empty + i * 8, 8);
    }
    barrier_init_fence();
  }
  char* const map = maps + blockIdx.x * 256;
  if (threadIdx.x < 32) {
    if (threadIdx.x < 16) shared_clear(base + threadIdx.x * 16);
    __syncwarp();
    if (threadIdx.x == 0) map_b(base + 128, b0);
    __syncwarp();
    tensor_map_publish(map + 128, base + 128);
    if (threadIdx.x == 0) {
      tensor_map_acquire(map + 128);
      barrier_init_fence();
    }
  }
  __syncthreads();
  int stage = 0;
  u32 parity = 0;
  if (group == 0) {
    registers_decrease<40>();
    if (threadIdx.x == 0) {
      for (int tile = blockIdx.x; tile < 132; tile += gridDim.x) {
        const int band = tile / 352 * 8, within = tile % 352;
        const int height = min(8, 3 - band);
        const int row = (band + within % height) * 128;
        const int column = within / height * 192;
        const long long from_a = row * 128ll;
        const int begin = 0;
        for (int k = 0; k < 45; ++k) {
          barrier_wait(empty + stage * 8, parity ^ 1);
          const u32 at = base + stage * 40960;
          barrier_expect(full + stage * 8, 40960);
          bulk_load(at + 0, a0 + from_a + k * 49152ll, 16384, full + stage * 8);
          fetch_b(at + 16384, map + 128, 0, column, begin + k * 64, full + stage * 8);
          if (++stage == 5) {
            stage = 0;
            parity ^= 1;
          }
        }
      }
    }
  } else {
    registers_increase<232>();
    const int lane = threadIdx.x % 32;
    for (int tile = blockIdx.x; tile < 132; tile += gridDim.x) {
      const int band = tile / 352 * 8, within = tile % 352;
      const int height = min(8, 3 - band);
      const int row = (band + within % height) * 128;
      const int column = within / height * 192;
      const int warp = threadIdx.x % 128 / 32;
      const int m = row + (group - 1) * 64 + warp * 16;
      float high[96];
      #pragma unroll 1
      for (int k = 0; k < 45; k += 1) {
        {
          barrier_wait(full + stage * 8, parity);
          const u64 at = (u64)((base + stage * 40960) >> 4);
          const u64 at_a = at + (group - 1) * 512;
          wgmma_fence();
          multiply(high, 274878431232ull + at_a + 0, 4611686293305360384ull + at + 1024, k > 0);
          multiply(high, 274878431232ull + at_a + 16, 4611686293305360384ull + at + 1026, 1);
          multiply(high, 274878431232ull + at_a + 32, 4611686293305360384ull + at + 1028, 1);
          multiply(high, 274878431232ull + at_a + 48, 4611686293305360384ull + at + 1030, 1);
          wgmma_commit();
          wgmma_wait<1>();
          if (k > 0 && lane == 0) barrier_arrive(empty + (stage == 0 ? 4 : stage - 1) * 8);
          if (++stage == 5) {
            stage = 0;
            parity ^= 1;
          }
        }
      }
      wgmma_wait<0>();
      wgmma_hold(high);
      if (lane == 0) barrier_arrive(empty + (stage == 0 ? 4 : stage - 1) * 8);
      float* const exchange = (float*)(pl_smem + (base - shared_address(pl_smem)) + 204880) + ((group - 1) * 4 + warp) * 576;
      float* const mine = exchange + lane / 4 * 72 + lane % 4 * 2;
      #pragma unroll
      for (int part = 0; part < 192; part += 64) {
        #pragma unroll
        for (int h = 0; h < 2; ++h) {
          __syncwarp();
          #pragma unroll
          for (int j = part; j < min(part + 64, 192); j += 8) {
            const float left = high[j / 2 + h * 2];
            const float right = high[j / 2 + h * 2 + 1];
            *(float2*)(mine + j - part) = make_float2(left, right);
          }
          __syncwarp();
          store_sums<8, 64, false>(in2, in3, out0, 0, m + h * 8, column + part, 0x7fffffff, lane, Exchange<72>{exchange});
        }
      }
    }
  }
}
