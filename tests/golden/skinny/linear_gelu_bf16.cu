// genome: fast=0 min_blocks=2 operand_residency=1 residency=2 rows=16 stages=5 threads=512
// launch: grid 132x1x1 block 512x1x1 cluster 1x1x1 shared 111616
// arguments: input0 input1 input2 output0
// ---- tests/golden/shared/place_prelude.cu ----
// Products of a few rows with a large matrix: y[m, n] = store(Σ_k operand(m, k) · weight(part, n)[k]), 1 to 32 rows m.
// The weights' bytes are all that costs: each is read once, in place, row-major, into a ring that a thread fills for
// itself. No thread waits for another but at the end of a pass, and the ring is full before the launches before this
// one have ended (programmatic dependent launch). Tensor cores multiply whatever m is: weights are the operand with 16
// rows, x the one with 8 columns, and the order of k within 32 is what 16 neighbouring bytes make it, for both.
//
// A policy P says:
//   constexpr int rows, depth, count;  n, k (a multiple of 8) and m
//   constexpr int parts;               products of the same x, summed beside each other: parts of one result
//   constexpr int tiles, warps, stages, resident;           16-row tiles of a part a pass; steps under way; blocks of a
//                                                           multiprocessor
//   constexpr bool bf16;               else f16
//   constexpr bool ring_shared;        the ring lies in shared memory, else in registers
//   constexpr bool x_shared;           x is computed once a block, else at every step
//   constexpr bool chained;            may be launched with the programmatic attribute
//   constexpr int statistics;          sums along rows of x that come before, each of which may need the ones before it
//   struct Args                        pointers
//   void touch(args, first, last)                       brings what x is made of into the L2 cache, and what rows
//                                                       from `first` to before `last` have beside their sums
//   constexpr SkinnyCode code;         how weights are stored: code_none in 16 bits, else see codes.cuh
//   constexpr int bits;                of a weight
//   constexpr u32 order;               of eight neighbours along k as weights are multiplied, a digit each
//   constexpr SkinnyScale scaling;     what a scale belongs to
//   constexpr bool flipped, zeroed;    nibbles of two's complement; a zero point is taken off each code
//   constexpr int zero;                and this
//   constexpr bool across;             16 bytes are words of four neighbouring rows; tiles is even, rows four times a
//                                      number
//   constexpr bool turned;             16 bytes are words at one k, each of eight neighbouring rows' nibbles; tiles is
//                                      even, rows 32 times a number, and the ring shared
//   constexpr u32 rows_of_word;        which of the eight each nibble is of, a digit each, then
//   constexpr long long pitch;         bytes from a row's word to its next, across or turned
//   const void* weight(args, part, row)                 where the row begins, a multiple of 16
//   constexpr bool table;              scales and zero points of a block's rows wait in shared memory
//   constexpr int table_pieces;        pieces that have them in common: 1, the 4 of a warp's step, or 0, those of a row
//   constexpr int blocks;              that share the rows
//   void touch_row(args, part, row, line)               brings a line of its scales and zero points into the L2 cache
//   float scale(args, part, row, piece)                 a piece: 16 bytes of a row
//   float zero_point(args, part, row, piece)
//   uint4 weights(args, part, row, piece, raw, chunk)   8 of a piece, where they are computed
//   struct Held                                         what is loaded of 8 elements of x
//   Held held<of>(args, m, k)                           from k on: for the sum `of`, for x (`statistics`), or for all
//   uint4 operand(held, args, m, k, statistics)         8 elements of x from k on, in 16 bits
//   float statistic<s>(held, args, m, k, statistics)    8 terms of the sum s, added
//   void store(args, m, row, sums, statistics)          sums[parts], statistics[s * count + m]

// Weights stored in 8 or 4 bits, as pairs of 16-bit numbers: eight at a time, in the order in which they are cheapest
// to take apart. Every code is exact in bf16 and in f16.

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
// ---- src/codegen/device/sm90/codes.cuh ----
// ---- src/codegen/device/sm90/skinny.cuh ----

PL_DEVICE u16 skinny_half(const uint4& v, int j) {
  const u32 word = j < 2 ? v.x : j < 4 ? v.y : j < 6 ? v.z : v.w;
  return (u16)(j % 2 == 0 ? word : word >> 16);
}
PL_DEVICE float skinny_word(const uint4& v, const uint4& w, int j) {
  const uint4& u = j < 4 ? v : w;
  return __uint_as_float(j % 4 == 0 ? u.x : j % 4 == 1 ? u.y : j % 4 == 2 ? u.z : u.w);
}
// ---- policy ----
struct Policy {
static constexpr int rows = 2048, depth = 2048, count = 4, parts = 1, statistics = 0;
static constexpr int tiles = 1, warps = 16, stages = 5, blocks = 132, resident = 2;
static constexpr bool bf16 = true, ring_shared = true, x_shared = true, chained = true;
static constexpr SkinnyCode code = code_none;
static constexpr SkinnyScale scaling = scale_none;
static constexpr int bits = 16, zero = 0;
static constexpr bool flipped = false, zeroed = false;
static constexpr u32 order = 0x76543210u;
static constexpr bool across = false, turned = false;
static constexpr u32 rows_of_word = 0x76543210u;
static constexpr long long pitch = 0;
static constexpr bool table = false;
static constexpr int table_pieces = 0;
struct Args {
  const unsigned short* in0;
  const unsigned short* in1;
  const unsigned short* in2;
  unsigned short* out0;
};
static PL_DEVICE void touch(const Args& args, int first, int last) {
  prefetch_lines(args.in0, 16384, threadIdx.x, warps * 32);
  {
    const int d1 = (unsigned)(first);
    prefetch_lines(args.in2 + (d1), (last - first) * 2, threadIdx.x, warps * 32);
  }
}
static PL_DEVICE const void* weight(const Args& args, int part, int row) {
  const int d1 = (unsigned)(row);
  return args.in1 + (long long)(2048 * d1);
}
struct Held {
  uint4 r0;
};
template <int of>
static PL_DEVICE Held held(const Args& args, int m, int k) {
  Held out;
  const int d0 = (unsigned)(m);
  const unsigned short* in0 = args.in0;
  const int d2 = (unsigned)(k);
  if constexpr (of == 0 || of == 1) {
    out.r0 = load_visible_16(in0 + (2048 * d0 + d2));
  }
  return out;
}
template <int s>
static PL_DEVICE float statistic(const Held& held, const Args& args, int m, int k, const float* statistics) {
  float sum = 0;
  return sum;
}
static PL_DEVICE uint4 operand(const Held& held, const Args& args, int m, int k, const float* statistics) {
  u32 out[4] = {0, 0, 0, 0};
  const int d0 = (unsigned)(m);
  const unsigned short* in0 = args.in0;
  #pragma unroll
  for (int j = 0; j < 8; ++j) {
    const int d2 = (unsigned)(k + j);
    const float v0 = pl_from_bf16(skinny_half(held.r0, j));
    const float v1 = v0;
    out[j / 2] |= (u32)pl_to_bf16(v1) << j % 2 * 16;
  }
  return make_uint4(out[0], out[1], out[2], out[3]);
}
static PL_DEVICE void store(const Args& args, int m, int row, const float (&sums)[parts], const float* statistics) {
  const int d0 = (unsigned)(m);
  const int d1 = (unsigned)(row);
  const unsigned short* in2 = args.in2;
  unsigned short* out0 = args.out0;
  const float v5 = sums[0];
  const float v6 = pl_from_bf16(load_visible(in2 + (d1)));
  const float v7 = v6;
  const float v8 = (v5 + v7);
  const float v9 = 0x1p-1f;
  const float v10 = (v8 * v9);
  const float v11 = 0x1.6a09e6p-1f;
  const float v12 = (v8 * v11);
  const float v13 = erff(v12);
  const float v14 = 0x1p+0f;
  const float v15 = pl_narrow_normal(v8);
  const float v16 = (v10 * v15);
  out0[2048 * d0 + d1] = pl_to_bf16(v16);
}
};
// ---- entry ----
extern "C" __global__ void __launch_bounds__(Policy::warps * 32, Policy::resident) planish_kernel(const unsigned short* in0, const unsigned short* in1, const unsigned short* in2, unsigned short* out0) {
  extern __shared__ __align__(128) unsigned char memory[];
  const Policy::Args args{in0, in1, in2, out0};
  skinny_product<Policy>(args, memory, blockIdx.x, gridDim.x);
}
