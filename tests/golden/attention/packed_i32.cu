// genome: pingpong=1 pipeline_depth=1 raster=4 stages=2 tile_m=128 tile_n=128
// launch: grid 132x1x1 block 384x1x1 cluster 1x1x1 shared 183552
// arguments: input0 input1 input2 input3 output0 scratch0 scratch1
// ---- tests/golden/shared/place_prelude.cu ----
// Attention of many queries in 16 bits: out = epilogue(softmax(score(q · kᵀ)) · v), a block's rows of queries at a
// time, by FlashAttention's online softmax. One producer thread brings tiles by tensor maps from where q, k and v lie;
// consumer warpgroups have 64 rows each. Scores and sums stay in fp32 registers, weights are rounded once to be the
// first operand of the second product, and results once where they are stored.
//
// Policy (all constexpr):
//   int features, columns       of a row of q and k; of a row of v
//   int rows, keys, units       of queries a unit (a head of a batch); of keys; how many units
//   int tile_keys               keys of a tile: a multiple of 16, at most 256
//   int consumers, stages       warpgroups that multiply; places of the rings of k and of v
//   bool overlap                the next tile's scores are multiplied while this one's become weights
//   bool ping_pong              consumers take turns: one multiplies while others do softmax
//   int section                 units whose blocks run side by side, longest first, so that their k and v stay in L2
//   int exchange                columns that a warp's lanes hand each other at once before the epilogue
//   bool bf16                   instead of fp16
//   bool plain                  scores are q · k times a number, but for those that visible() masks
//   bool masks                  visible() is false somewhere
//   bool packed                 rows and keys are those of sequences, one after the other, whose offsets are known at
//                               run time
//   int sequences               how many these are
//   bool deals                  blocks ask for their next tile: what sequences make of work is as long as it is
//   float scale                 of what is in `s` before the exponential, for a power of two
//   float natural               of what is in `s`, for scores as the definition has them
//   float slack                 by how much a power of two may grow before sums are rescaled: 0 keeps the largest
//                               weight of a row at 1, which rounding leaves alone
//
// Functors F (values; what one needs of memory it holds as pointers):
//   scores(d, a, b, keep), values(d, a0 … a3, b, keep)   the two products' instructions
//   map_queries(map), map_keys(map), map_values(map)     fill in tensor maps at shared addresses
//   load_queries(to, map, barrier, unit, row, column), load_keys(…, unit, key, column), load_values(likewise)
//   tiles(first_row, last_row) -> AttentionSpan          tiles of keys that count, and those of them wholly visible
//   visible(row, key)                                    by place alone; of packed sequences places count as in
//                                                        AttentionPart, and both take the number of keys as well
//   rows_begin(n), rows_end(n), keys_begin(n), keys_end(n)   of packed sequences, whatever the offsets: inside of what
//                                                        there is; the last number is of the rows behind all
//   Ahead, ask(ahead, unit, row0, row1, first)           what scores of a thread's fragment load, and its loading
//   score(unit, row, key, product, ahead, i)             what is not plain, of the fragment's element i
//   shift(unit, row, maximum), divisor(unit, row, maximum, total)  of the softmax's definition
//   store<pitch, width>(unit, row, valid, column, lane, exchange)   the epilogue of `valid` ≤ 8 rows

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
// Behind the instructions, which it calls by name.
// What attention of many queries in 16 bits has in common, whatever multiplies: which rows a block has at a turn, the
// online softmax of the rows that a thread has a part of, and how results leave. P is a policy and F functors (see
// sm90/attention.cuh), L a layout, with
//   int rows, blocks, tiles              queries of a block; blocks of a unit; in all
//   int columns, exchange_pitch          of sums; of a row in what a warp hands its lanes, floats
// Sequences (P::packed) lie one after the other in the rows of a unit, P::sequences of them. A block's rows are one
// sequence's, of which the keys are counted from its first one. What is before and behind them sees no key.
// A thread's fragment of 16 rows has of each 8 keys, or columns, four: two neighbours of row lane / 4, and of the row 8
// further. Whoever includes it has included a file of instructions: exp2_fast(), pack_bf16() and pack_f16() are of
// that.

// Softmaxes of scores that come tile by tile.

// ---- src/codegen/device/softmax.cuh ----
// ---- src/codegen/device/attention_rows.cuh ----
// ---- src/codegen/device/sm90/attention.cuh ----
template <typename T> PL_DEVICE T pl_ldg(const T* p) { return __ldg(p); }
PL_WGMMA_SHARED(pl_scores, 128, "bf16", 0)
PL_WGMMA_REGISTERS(pl_values, 128, "bf16", 1)
struct Policy {
  static constexpr int features = 128, columns = 128, rows = 8192, keys = 8192, units = 32;
  static constexpr int tile_keys = 128, consumers = 2, stages = 2, section = 4, exchange = 64;
  static constexpr bool overlap = true, ping_pong = true, deals = true;
  static constexpr bool bf16 = true, plain = true, masks = true, packed = true;
  static constexpr int sequences = 16;
  static constexpr float scale = 0x1.0527dcp-3f, natural = 0x1.6a09e6p-4f, slack = 0;
};
struct Functors {
  const int* in0;
  const unsigned short* in1;
  const unsigned short* in2;
  const unsigned short* in3;
  unsigned short* out0;
  PL_DEVICE void scores(float (&d)[64], u64 a, u64 b, int keep) const { pl_scores(d, a, b, keep); }
  PL_DEVICE void values(float (&d)[64], u32 a0, u32 a1, u32 a2, u32 a3, u64 b, int keep) const {
    pl_values(d, a0, a1, a2, a3, b, keep);
  }
  PL_DEVICE void map_queries(u32 map) const {
    tensor_map_begin<4, true>(map, in1 + 0ll);
    tensor_map_dim<0>(map, 128, 64);
    tensor_map_dim<1>(map, 8192, 128);
    tensor_map_stride<1>(map, 8192ull);
    tensor_map_dim<2>(map, 8, 1);
    tensor_map_stride<2>(map, 1024ull);
    tensor_map_dim<3>(map, 4, 1);
    tensor_map_stride<3>(map, 256ull);
  }
  PL_DEVICE void load_queries(u32 to, const void* map, u32 barrier, int unit, int row, int column) const {
    const int d2 = (unsigned)(unit) % 4;
    const int d1 = (unsigned)(unit) / 4;
    tensor_load(to, map, barrier, column, row, (int)d1, (int)d2);
  }
  PL_DEVICE void map_keys(u32 map) const {
    tensor_map_begin<3, true>(map, in2 + 0ll);
    tensor_map_dim<0>(map, 128, 64);
    tensor_map_dim<1>(map, 8192, 128);
    tensor_map_stride<1>(map, 2048ull);
    tensor_map_dim<2>(map, 8, 1);
    tensor_map_stride<2>(map, 256ull);
  }
  PL_DEVICE void load_keys(u32 to, const void* map, u32 barrier, int unit, int row, int column) const {
    const int d2 = (unsigned)(unit) % 4;
    const int d1 = (unsigned)(unit) / 4;
    tensor_load(to, map, barrier, column, row, (int)d1);
  }
  PL_DEVICE void map_values(u32 map) const {
    tensor_map_begin<3, true>(map, in3 + 0ll);
    tensor_map_dim<0>(map, 128, 64);
    tensor_map_dim<1>(map, 8192, 128);
    tensor_map_stride<1>(map, 2048ull);
    tensor_map_dim<2>(map, 8, 1);
    tensor_map_stride<2>(map, 256ull);
  }
  PL_DEVICE void load_values(u32 to, const void* map, u32 barrier, int unit, int row, int column) const {
    const int d2 = (unsigned)(unit) % 4;
    const int d1 = (unsigned)(unit) / 4;
    tensor_load(to, map, barrier, column, row, (int)d1);
  }
  PL_DEVICE int rows_begin(int n) const {
    if (n == 0) return 0;
    const int place = pl_ldg(in0 + n);
    return place < 0 ? 0 : place > 8192 ? 8192 : (int)place;
  }
  PL_DEVICE int rows_end(int n) const {
    if (n == 16) return 8192;
    const int place = pl_ldg(in0 + n + 1);
    return place < 0 ? 0 : place > 8192 ? 8192 : (int)place;
  }
  PL_DEVICE int keys_begin(int n) const {
    const int place = pl_ldg(in0 + n);
    return place < 0 ? 0 : place > 8192 ? 8192 : (int)place;
  }
  PL_DEVICE int keys_end(int n) const {
    const int place = pl_ldg(in0 + n + 1);
    return place < 0 ? 0 : place > 8192 ? 8192 : (int)place;
  }
  PL_DEVICE AttentionSpan tiles(int first, int last, int keys) const {
    int begin = 0, end = (keys + 127) / 128, free_begin = 0, free_end = keys / 128;
    {
      const int most = 1 * last + 0, least = 1 * first + 0;
      end = min(end, most < 0 ? 0 : most / 1 / 128 + 1);
      free_end = min(free_end, least < 0 ? 0 : (least / 1 + 1) / 128);
    }
    return {begin, end, free_begin, free_end};
  }
  PL_DEVICE bool visible(int row, int key, int keys) const {
    return (key < keys) & (1 * row + -1 * key + 0 >= 0);
  }
  struct Ahead {
  };
  PL_DEVICE void ask(Ahead& ahead, int unit, int row0, int row1, int first) const {
  }
  PL_DEVICE float score(int unit, int row, int key, float product, const Ahead& ahead, int i) const {
    return product;
  }
  PL_DEVICE float shift(int unit, int row, float maximum) const {
    const float v64 = (-PL_INF_F32);
    const float v66 = maximum;
    const bool v67 = (v66 == v64);
    const float v68 = 0x0p+0f;
    const float v69 = (v67 ? v68 : v66);
    return v69;
  }
  PL_DEVICE float divisor(int unit, int row, float maximum, float total) const {
    const float v68 = 0x0p+0f;
    const float v72 = total;
    const bool v73 = (v72 == v68);
    const float v74 = 0x1p+0f;
    const float v75 = (v73 ? v74 : v72);
    return v75;
  }
  template <int pitch, int width>
  PL_DEVICE void store(int unit, int row, int valid, int column, int lane, const float* exchange) const {
    const int d2 = (unsigned)(unit) % 4;
    const int d1 = (unsigned)(unit) / 4;
    #pragma unroll
    for (int i = lane; i < width; i += 32) {
      const int r = i / (width / 8), first = column + i % (width / 8) * 8;
      if (r >= valid || first >= 128) continue;
      const int d0 = row + r;
      __align__(16) float sums[8];
      *(float4*)(sums + 0) = *(const float4*)(exchange + r * pitch + (first - column) + 0);
      *(float4*)(sums + 4) = *(const float4*)(exchange + r * pitch + (first - column) + 4);
      float got0[8];
      #pragma unroll
      for (int e = 0; e < 8; ++e) {
        const int d3 = first + e;
        const float folded = sums[e];
        const float v80 = folded;
        got0[e] = v80;
      }
      const int d3 = first;
      *(uint4*)(out0 + (4096 * d0 + 512 * d1 + 128 * d2 + d3)) = make_uint4(pack_bf16(got0[0], got0[1]), pack_bf16(got0[2], got0[3]), pack_bf16(got0[4], got0[5]), pack_bf16(got0[6], got0[7]));
    }
  }
};
// ---- kernel ----
extern "C" __global__ void __launch_bounds__(384, 1) planish_kernel(const int* __restrict__ in0, const unsigned short* __restrict__ in1, const unsigned short* __restrict__ in2, const unsigned short* __restrict__ in3, unsigned short* __restrict__ out0, char* __restrict__ maps, unsigned* __restrict__ counters) {
  extern __shared__ __align__(16) unsigned char pl_smem[];
  const Functors f{in0, in1, in2, in3, out0};
  attention<Policy>(f, pl_smem, maps, counters);
}
