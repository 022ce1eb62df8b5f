// genome: min_blocks=1 raster=8 stages=1 threads=128 tile_m=64 tile_n=128
// launch: grid 64x1x1 block 128x1x1 cluster 1x1x1 shared 91264
// arguments: input0 input1 input2 output0
// ---- tests/golden/shared/place_prelude.cu ----
// Attention of many queries in 16 bits by mma.sync: out = epilogue(softmax(score(q · kᵀ)) · v), a block's rows of
// queries at a time, by FlashAttention's online softmax. All threads bring tiles of keys and of values by cp.async from
// where they lie, into two rings; a warp has some rows of queries with all keys. Scores and sums stay in fp32
// registers, weights are rounded once to be the first operand of the second product, and results once where they are
// stored.
//
// Policy (all constexpr): as sm90/attention.cuh has it, of features, columns, rows, keys, units, tile_keys (at most
// 128), stages, section, exchange, bf16, plain, masks, scale, natural and slack; and
//   int warps, row_blocks        of a block; 16 rows of queries each, that a warp has
//   int resident                 blocks of a multiprocessor
//   long long query_stride, key_stride, value_stride     elements from a row to the next
//
// Functors F: tiles(), visible(), Ahead, ask(), score(), shift(), divisor() and store() as sm90/attention.cuh has them,
// and
//   queries(unit), keys(unit), values(unit)              where their first elements lie

// Tiles of 16-bit operands in shared memory, as threads write them 16 bytes at a time, and as warps load fragments for
// mma.sync from them.

// Instructions that CUDA C++ has no name for and that sm_80 and all later GPUs have, one function each: what kernels on
// mma.sync and cp.async are made of. Tests run what includes it on a CPU with another file of this name. PTX ISA 7.4.

// ---- src/codegen/device/types.cuh ----
// ---- src/codegen/device/sm80/ptx.cuh ----
// ---- src/codegen/device/sm80/fragments.cuh ----
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
// ---- src/codegen/device/sm80/attention.cuh ----
template <typename T> PL_DEVICE T pl_ldg(const T* p) { return __ldg(p); }
struct Policy {
  static constexpr int features = 128, columns = 128, rows = 512, keys = 512, units = 8;
  static constexpr int tile_keys = 128, warps = 4, row_blocks = 1, stages = 1, resident = 1;
  static constexpr int section = 8, exchange = 64;
  static constexpr long long query_stride = 128, key_stride = 128, value_stride = 128;
  static constexpr bool bf16 = true, plain = true, masks = true, packed = false;
  static constexpr int sequences = 0;
  static constexpr float scale = 0x1.0527dcp-3f, natural = 0x1.6a09e6p-4f, slack = 0;
};
struct Functors {
  const unsigned short* in0;
  const unsigned short* in1;
  const unsigned short* in2;
  unsigned short* out0;
  PL_DEVICE const u16* queries(int unit) const {
    const int d1 = (unsigned)(unit) % 4;
    const int d0 = (unsigned)(unit) / 4;
    return (const u16*)(in0 + 0ll + 262144ll * d0 + 65536ll * d1);
  }
  PL_DEVICE const u16* keys(int unit) const {
    const int d1 = (unsigned)(unit) % 4;
    const int d0 = (unsigned)(unit) / 4;
    return (const u16*)(in1 + 0ll + 65536ll * d0);
  }
  PL_DEVICE const u16* values(int unit) const {
    const int d1 = (unsigned)(unit) % 4;
    const int d0 = (unsigned)(unit) / 4;
    return (const u16*)(in2 + 0ll + 65536ll * d0);
  }
  PL_DEVICE AttentionSpan tiles(int first, int last) const {
    int begin = 0, end = 4, free_begin = 0, free_end = 4;
    {
      const int most = 1 * last + 0, least = 1 * first + 0;
      end = min(end, most < 0 ? 0 : most / 1 / 128 + 1);
      free_end = min(free_end, least < 0 ? 0 : (least / 1 + 1) / 128);
    }
    return {begin, end, free_begin, free_end};
  }
  PL_DEVICE bool visible(int row, int key) const {
    return (1 * row + -1 * key + 0 >= 0);
  }
  struct Ahead {
  };
  PL_DEVICE void ask(Ahead& ahead, int unit, int row0, int row1, int first) const {
  }
  PL_DEVICE float score(int unit, int row, int key, float product, const Ahead& ahead, int i) const {
    return product;
  }
  PL_DEVICE float shift(int unit, int row, float maximum) const {
    const float v11 = (-PL_INF_F32);
    const float v13 = maximum;
    const bool v14 = (v13 == v11);
    const float v15 = 0x0p+0f;
    const float v16 = (v14 ? v15 : v13);
    return v16;
  }
  PL_DEVICE float divisor(int unit, int row, float maximum, float total) const {
    const float v15 = 0x0p+0f;
    const float v19 = total;
    const bool v20 = (v19 == v15);
    const float v21 = 0x1p+0f;
    const float v22 = (v20 ? v21 : v19);
    return v22;
  }
  template <int pitch, int width>
  PL_DEVICE void store(int unit, int row, int valid, int column, int lane, const float* exchange) const {
    const int d1 = (unsigned)(unit) % 4;
    const int d0 = (unsigned)(unit) / 4;
    #pragma unroll
    for (int i = lane; i < width; i += 32) {
      const int r = i / (width / 8), first = column + i % (width / 8) * 8;
      if (r >= valid || first >= 128) continue;
      const int d2 = row + r;
      __align__(16) float sums[8];
      *(float4*)(sums + 0) = *(const float4*)(exchange + r * pitch + (first - column) + 0);
      *(float4*)(sums + 4) = *(const float4*)(exchange + r * pitch + (first - column) + 4);
      float got0[8];
      #pragma unroll
      for (int e = 0; e < 8; ++e) {
        const int d3 = first + e;
        const float folded = sums[e];
        const float v27 = folded;
        got0[e] = v27;
      }
      const int d3 = first;
      *(uint4*)(out0 + (262144 * d0 + 65536 * d1 + 128 * d2 + d3)) = make_uint4(pack_bf16(got0[0], got0[1]), pack_bf16(got0[2], got0[3]), pack_bf16(got0[4], got0[5]), pack_bf16(got0[6], got0[7]));
    }
  }
};
// ---- kernel ----
extern "C" __global__ void __launch_bounds__(128, 1) planish_kernel(const unsigned short* __restrict__ in0, const unsigned short* __restrict__ in1, const unsigned short* __restrict__ in2, unsigned short* __restrict__ out0) {
  extern __shared__ __align__(16) unsigned char pl_smem[];
  const Functors f{in0, in1, in2, out0};
  attention_by_mma<Policy>(f, pl_smem);
}
