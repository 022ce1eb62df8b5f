// genome: min_blocks=1 stages=2 tile_m=64 tile_n=80
// launch: grid 24x1x1 block 256x1x1 cluster 1x1x1 shared 0
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
  if (row >= 100 || k >= 40) {
    #pragma unroll
    for (int j = 0; j < 8; ++j) v[j] = 0.0f;
    return;
  }
  const int d0 = (unsigned)(batch);
  const int d1 = (unsigned)(row);
  float r0[8];
  {
    const int d4 = (unsigned)(k);
    __align__(16) float raw[8];
    read_eight<4>(raw, in0 + (4000 * d0 + 40 * d1 + d4));
    #pragma unroll
    for (int j = 0; j < 8; ++j) r0[j] = raw[j];
  }
  #pragma unroll
  for (int j = 0; j < 8; ++j) {
    const int d4 = (unsigned)(k + j);
    const float v0 = r0[j];
    v[j] = v0;
  }
}
extern "C" __global__ void __launch_bounds__(256) planish_kernel(const float* __restrict__ in0, unsigned char* __restrict__ out0, unsigned char* __restrict__ out1, int* __restrict__ out2) {
  __shared__ float most[64];
  const int r = threadIdx.x % 8;
  const int part = 0, whole = blockIdx.x * 4 + threadIdx.x / 64;
  const int batch = whole / 16, row = whole % 16 * 8 + r;
  float v[1][8];
  float top = 0.0f;
  for (int at = 0; at < 1; at += 1) {
    #pragma unroll
    for (int i = 0; i < 1; ++i) {
      const int own = (int)threadIdx.x % 64 / 8 + (at + i) * 8, chunk = part * 6 + own;
      if (own < 6 && chunk < 6) {
        plane_values(v[i], in0, batch, row, chunk * 8);
      }
    }
    #pragma unroll
    for (int i = 0; i < 1; ++i) {
      const int own = (int)threadIdx.x % 64 / 8 + (at + i) * 8, chunk = part * 6 + own;
      if (own < 6 && chunk < 6) {
        #pragma unroll
        for (int j = 0; j < 8; ++j) top = fmaxf(top, is_finite(v[i][j]) ? fabsf(v[i][j]) : 0.0f);
      }
    }
  }
  top = most_of_lanes(most_of_lanes(top, 8), 16);
  if (threadIdx.x % 32 < 8) most[threadIdx.x / 32 * 8 + r] = top;
  __syncthreads();
  for (int w = 0; w < 2; ++w) top = fmaxf(top, most[(threadIdx.x / 64 * 2 + w) * 8 + r]);
  const int e = scaling_exponent(top);
  if (part == 0 && threadIdx.x % 64 < 8) out2[batch * 128 + row] = e;
  const float f = power_of_two(-e / 2), g = power_of_two(-e - -e / 2);
  for (int at = 0; at < 1; at += 1) {
    #pragma unroll
    for (int i = 0; i < 1; ++i) {
      const int own = (int)threadIdx.x % 64 / 8 + (at + i) * 8, chunk = part * 6 + own;
      if (own < 6 && chunk < 6) {
        Chunk hi, lo;
        #pragma unroll
        for (int j = 0; j < 8; ++j) {
          const float s = v[i][j] * f * g;
          hi.x[j] = high_part(v[i][j], s);
          lo.x[j] = low_part_joint(s, hi.x[j]);
        }
        const long long place = batch * 12288ll + chunk / 6 * 12288ll + row / 8 * 768ll + chunk % 6 * 128 + r * 16;
        put_chunk(out0 + place, hi);
        put_chunk(out1 + place, lo);
      }
    }
  }
}

// launch: grid 30x1x1 block 256x1x1 cluster 1x1x1 shared 0
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
  if (row >= 130 || k >= 40) {
    #pragma unroll
    for (int j = 0; j < 8; ++j) v[j] = 0.0f;
    return;
  }
  const int d0 = (unsigned)(batch);
  const int d3 = (unsigned)(row);
  float r1[8];
  {
    const int d4 = (unsigned)(k);
    __align__(16) float raw[8];
    read_eight<4>(raw, in1 + (5200 * d0 + 40 * d3 + d4));
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
  const int part = 0, whole = blockIdx.x * 4 + threadIdx.x / 64;
  const int batch = whole / 20, row = whole % 20 * 8 + r;
  float v[1][8];
  float top = 0.0f;
  for (int at = 0; at < 1; at += 1) {
    #pragma unroll
    for (int i = 0; i < 1; ++i) {
      const int own = (int)threadIdx.x % 64 / 8 + (at + i) * 8, chunk = part * 6 + own;
      if (own < 6 && chunk < 6) {
        plane_values(v[i], in1, batch, row, chunk * 8);
      }
    }
    #pragma unroll
    for (int i = 0; i < 1; ++i) {
      const int own = (int)threadIdx.x % 64 / 8 + (at + i) * 8, chunk = part * 6 + own;
      if (own < 6 && chunk < 6) {
        #pragma unroll
        for (int j = 0; j < 8; ++j) top = fmaxf(top, is_finite(v[i][j]) ? fabsf(v[i][j]) : 0.0f);
      }
    }
  }
  top = most_of_lanes(most_of_lanes(top, 8), 16);
  if (threadIdx.x % 32 < 8) most[threadIdx.x / 32 * 8 + r] = top;
  __syncthreads();
  for (int w = 0; w < 2; ++w) top = fmaxf(top, most[(threadIdx.x / 64 * 2 + w) * 8 + r]);
  const int e = scaling_exponent(top);
  if (part == 0 && threadIdx.x % 64 < 8) out2[batch * 160 + row] = e;
  const float f = power_of_two(-e / 2), g = power_of_two(-e - -e / 2);
  for (int at = 0; at < 1; at += 1) {
    #pragma unroll
    for (int i = 0; i < 1; ++i) {
      const int own = (int)threadIdx.x % 64 / 8 + (at + i) * 8, chunk = part * 6 + own;
      if (own < 6 && chunk < 6) {
        Chunk hi, lo;
        #pragma unroll
        for (int j = 0; j < 8; ++j) {
          const float s = v[i][j] * f * g;
          hi.x[j] = high_part(v[i][j], s);
          lo.x[j] = low_part_joint(s, hi.x[j]);
        }
        const long long place = batch * 15360ll + chunk / 6 * 15360ll + row / 8 * 768ll + chunk % 6 * 128 + r * 16;
        put_chunk(out0 + place, hi);
        put_chunk(out1 + place, lo);
      }
    }
  }
}

// launch: grid 18x1x1 block 256x1x1 cluster 1x1x1 shared 0
// arguments: input2 scratch6 scratch7 scratch8
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
PL_DEVICE void plane_values(float (&v)[8], const float* __restrict__ in2, int batch, int row, int k) {
  if (row >= 24 || k >= 130) {
    #pragma unroll
    for (int j = 0; j < 8; ++j) v[j] = 0.0f;
    return;
  }
  const int d0 = (unsigned)(batch);
  const int d2 = (unsigned)(row);
  float r18[8];
  #pragma unroll
  for (int j = 0; j < 8; ++j) {
    const int d3 = (unsigned)(k + j);
    r18[j] = k + j < 130 ? pl_ldg(in2 + (3120 * d0 + d2 + 24 * d3)) : 0x0p+0f;
  }
  #pragma unroll
  for (int j = 0; j < 8; ++j) {
    const int d3 = (unsigned)(k + j);
    const float v18 = r18[j];
    v[j] = k + j < 130 ? v18 : 0.0f;
  }
}
extern "C" __global__ void __launch_bounds__(256) planish_kernel(const float* __restrict__ in2, unsigned char* __restrict__ out0, unsigned char* __restrict__ out1, int* __restrict__ out2) {
  __shared__ float most[64];
  const int r = threadIdx.x % 8;
  const int part = blockIdx.x % 1, whole = blockIdx.x / 1;
  const int batch = whole / 3, row = whole % 3 * 8 + r;
  float v[1][8];
  float top = 0.0f;
  for (int at = 0; at < 1; at += 1) {
    #pragma unroll
    for (int i = 0; i < 1; ++i) {
      const int own = (int)threadIdx.x / 8 + (at + i) * 32, chunk = part * 20 + own;
      if (own < 20 && chunk < 20) {
        plane_values(v[i], in2, batch, row, chunk * 8);
      }
    }
    #pragma unroll
    for (int i = 0; i < 1; ++i) {
      const int own = (int)threadIdx.x / 8 + (at + i) * 32, chunk = part * 20 + own;
      if (own < 20 && chunk < 20) {
        #pragma unroll
        for (int j = 0; j < 8; ++j) top = fmaxf(top, is_finite(v[i][j]) ? fabsf(v[i][j]) : 0.0f);
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
      const int own = (int)threadIdx.x / 8 + (at + i) * 32, chunk = part * 20 + own;
      if (own < 20 && chunk < 20) {
        Chunk hi, lo;
        #pragma unroll
        for (int j = 0; j < 8; ++j) {
          const float s = v[i][j] * f * g;
          hi.x[j] = f16_bits(s);
          lo.x[j] = low_part(s, hi.x[j]);
        }
        const long long place = batch * 7680ll + chunk / 10 * 3840ll + row / 8 * 1280ll + chunk % 10 * 128 + r * 16;
        put_chunk(out0 + place, hi);
        put_chunk(out1 + place, lo);
      }
    }
  }
}

// launch: grid 12x1x1 block 256x1x1 cluster 1x1x1 shared 63696
// arguments: scratch0 scratch1 scratch3 scratch4 scratch6 scratch7 scratch2 scratch5 scratch8 input0 input1 input2 output0
// ---- tests/golden/shared/place_prelude.cu ----
// Attention of many queries in fp32: out = epilogue(softmax(score(q · kᵀ)) · v), a block's rows of queries at a time,
// by FlashAttention's online softmax. Factors are packed before, each as two parts in fp16 with a power of two for a
// row (a column of v), and products are three: high · high and both of high · low, summed in fp32. Weights are times
// 2^weight_bits, so that both of their parts are fp16 numbers that matter. One producer thread brings tiles by bulk
// copies; consumer warpgroups have 64 rows each. The low parts of weights and values are times 2^11: a row that is one
// value, however small it is beside its column, is that value to fp32's last places.
//
// A row whose sums are not finite is computed again, element by element as the definition says: pairs of fp16 do not
// say where an infinity times a negative number, or times a part that vanished, belongs.
//
// Policy (all constexpr):
//   int features, columns           of packed rows, up to whole instructions; of a block's results
//   int depth, value_columns        of rows of q and k, and of v, as they are
//   int rows, key_count             queries and keys of a batch
//   int keys, consumers, stages     keys of a tile; warpgroups that multiply; places for a tile of keys and of values
//   int row_blocks, column_blocks   blocks of a batch; those that share rows, each with its columns of values
//   int key_tiles                   tiles of all keys
//   int exchange                    columns that a warp's lanes hand each other at once before the epilogue
//   bool batched_queries, batched_keys, batched_values   they differ from batch to batch
//   bool shares                     registers go from the producer to consumers: these have
//   int producer_registers, consumer_registers
//
// Functors F (values; what one needs of memory it holds as pointers):
//   multiply_scores(d, a, b, keep), multiply_values(d, a0 … a3, b, keep)   the two products' instructions
//   tiles(row)                          tiles of keys that count for the block's rows from `row` on
//   score(batch, row, key, product), query(batch, row, k), key(batch, key, k), value(batch, key, column)
//   shift(batch, row, maximum), divisor(batch, row, maximum, total)  of the softmax's definition
//   store<rows, columns, all>(batch, row, column, end, lane, sums)         the epilogue (contraction/main_loop.h)

// Where a thread is in a ring of stages that barriers hand over: producers and consumers go through it at their own
// pace.

// ---- src/codegen/device/types.cuh ----
// ---- src/codegen/device/sm90/pipeline.cuh ----
// Instructions of sm_90 that CUDA C++ has no name for, one function each: with wgmma.cuh and what sm_80 has all PTX
// there is, so that tests run what includes it on a CPU with another file of this name. PTX ISA 8.0.

// Instructions that CUDA C++ has no name for and that sm_80 and all later GPUs have, one function each: what kernels on
// mma.sync and cp.async are made of. Tests run what includes it on a CPU with another file of this name. PTX ISA 7.4.

// ---- src/codegen/device/sm80/ptx.cuh ----
// Launches that begin before the one before them has ended (programmatic dependent launch), and how what that one wrote
// is read. PTX ISA 7.8.

// ---- src/codegen/device/sm90/dependent.cuh ----
// ---- src/codegen/device/sm90/ptx.cuh ----
// Tensor-core instructions of sm_90a: m64nNk16 of 16-bit numbers, and m64nNk32 of 8-bit ones, with sums in fp32, or of
// integers in i32. An instruction's text needs its registers one by one, so each N has its lists here, and a kernel
// expands PL_WGMMA_SHARED or PL_WGMMA_REGISTERS for the few that it issues. A CPU's form of this file has functions of
// the same names. PTX ISA 8.0.

// ---- src/codegen/device/sm90/wgmma.cuh ----
// Softmaxes of scores that come tile by tile.

// ---- src/codegen/device/softmax.cuh ----
// What tensor cores have summed, on its way to an epilogue.

// ---- src/codegen/device/sums.cuh ----
// ---- src/codegen/device/sm90/split_attention.cuh ----
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
PL_DEVICE void store_sums(float* __restrict__ out0, int batch, int y, int x, int end, int lane, Sums sums) {
  const int d0 = (unsigned)(batch);
  constexpr int interleave = 1, step = 32;
  if constexpr (columns >= 64) {
    constexpr int beside = columns >= 96 ? 4 : 2;
    #pragma unroll 4
    for (int r = 0; r < rows; ++r) {
      const int row = y + r;
      if (!all && row >= 100) break;
      const int d1 = (unsigned)(row);
      #pragma unroll
      for (int j = 0; j < columns; j += 32 * beside) {
        const bool inside = columns % (32 * beside) == 0 || j + lane * beside < columns;
        const int at = x + j + lane * beside;
        const int d2 = (unsigned)(at);
        const bool ok = inside & (at < end);
        float sum[beside];
        neighbours(sums, r, inside ? j + lane * beside : 0, sum);
        float got0[beside];
        auto* const to0 = out0 + (2400 * d0 + 24 * d1 + d2);
        const int first = d2;
        #pragma unroll
        for (int i = 0; i < beside; ++i) {
          const int d2 = first + i;
          const float folded = sum[i];
          const float v20 = folded;
          got0[i] = v20;
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
      if (!all && row >= 100) break;
      const int d1 = (unsigned)(row);
      #pragma unroll
      for (int j = 0; j < columns; j += step) {
        const int at = x + j + lane / interleave;
        const int d2 = (unsigned)(at);
        const bool there = (at < end);
        const bool ok = there;
        const float folded = sums(r + lane % interleave, j + lane / interleave);
        const float v20 = folded;
        if (ok) {
          out0[2400 * d0 + 24 * d1 + d2] = v20;
        }
      }
    }
  }
}
PL_WGMMA_SHARED(pl_scores, 80, "f16", 0)
PL_WGMMA_REGISTERS(pl_values, 24, "f16", 0)
struct Policy {
  static constexpr int features = 48, columns = 24, depth = 40, value_columns = 24;
  static constexpr int rows = 100, key_count = 130, keys = 80, consumers = 1, stages = 2;
  static constexpr int row_blocks = 2, column_blocks = 1, key_tiles = 2, exchange = 32;
  static constexpr bool batched_queries = true, batched_keys = true, batched_values = true, shares = false;
  static constexpr int producer_registers = 24, consumer_registers = 240;
};
struct Functors {
  const float* in0;
  const float* in1;
  const float* in2;
  float* out0;
  PL_DEVICE void multiply_scores(float (&d)[40], u64 a, u64 b, int keep) const {
    pl_scores(d, a, b, keep);
  }
  PL_DEVICE void multiply_values(float (&d)[12], u32 a0, u32 a1, u32 a2, u32 a3, u64 b, int keep) const {
    pl_values(d, a0, a1, a2, a3, b, keep);
  }
  PL_DEVICE int tiles(int row) const {
    return 2;
  }
  PL_DEVICE float score(int batch, int row, int key, float product) const {
    const float v3 = product;
    const float v4 = 0x1.43d136p-3f;
    const float v5 = (v3 * v4);
    return v5;
  }
  PL_DEVICE float query(int batch, int row, int k) const {
    const int d0 = (unsigned)(batch);
    const int d1 = (unsigned)(row);
    const int d4 = (unsigned)(k);
    const float v0 = pl_ldg(in0 + (4000 * d0 + 40 * d1 + d4));
    return v0;
  }
  PL_DEVICE float key(int batch, int key, int k) const {
    const int d0 = (unsigned)(batch);
    const int d3 = (unsigned)(key);
    const int d4 = (unsigned)(k);
    const float v1 = pl_ldg(in1 + (5200 * d0 + 40 * d3 + d4));
    return v1;
  }
  PL_DEVICE float value(int batch, int key, int column) const {
    const int d0 = (unsigned)(batch);
    const int d3 = (unsigned)(key);
    const int d2 = (unsigned)(column);
    const float v18 = pl_ldg(in2 + (3120 * d0 + d2 + 24 * d3));
    return v18;
  }
  PL_DEVICE float shift(int batch, int row, float maximum) const {
    const float v6 = maximum;
    const float v7 = (-PL_INF_F32);
    const bool v8 = (v6 == v7);
    const float v9 = 0x0p+0f;
    const float v10 = (v8 ? v9 : v6);
    return v10;
  }
  PL_DEVICE float divisor(int batch, int row, float maximum, float total) const {
    const float v9 = 0x0p+0f;
    const float v13 = total;
    const bool v14 = (v13 == v9);
    const float v15 = 0x1p+0f;
    const float v16 = (v14 ? v15 : v13);
    return v16;
  }
  template <int rows, int columns, bool all, typename Sums>
  PL_DEVICE void store(int batch, int row, int column, int end, int lane, const Sums& sums) const {
    store_sums<rows, columns, all>(out0, batch, row, column, end, lane, sums);
  }
};
// ---- kernel ----
extern "C" __global__ void __launch_bounds__(256, 1) planish_kernel(const char* __restrict__ q0, const char* __restrict__ q1, const char* __restrict__ k0, const char* __restrict__ k1, const char* __restrict__ v0, const char* __restrict__ v1, const int* __restrict__ eq, const int* __restrict__ ek, const int* __restrict__ ev, const float* __restrict__ in0, const float* __restrict__ in1, const float* __restrict__ in2, float* __restrict__ out0) {
  extern __shared__ __align__(16) unsigned char pl_smem[];
  const u32 begin = shared_address(pl_smem);
  const SplitOperands operands{{q0, q1}, {k0, k1}, {v0, v1}, eq, ek, ev};
  split_attention<Policy>(Functors{in0, in1, in2, out0}, operands, pl_smem + (((begin + 127u) & ~127u) - begin));
}
