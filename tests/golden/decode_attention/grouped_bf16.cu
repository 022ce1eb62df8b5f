// genome: min_blocks=1 split=32 stages=2 threads=128
// launch: grid 132x1x1 block 128x1x1 cluster 1x1x1 shared 111616
// arguments: input0 input1 input2 output0 scratch0 scratch1
// ---- tests/golden/shared/place_prelude.cu ----
// Attention of a few queries over many keys: softmax(score(q · kᵀ)) · v for 1 to 16 rows of q, which all see the same
// keys (the query heads of a group, and queries beside each other). The bytes of keys and values are all that costs:
// each is read once, in place, into a ring that a warp fills for itself, so that no warp waits for another while keys
// pass. A warp takes a tile of 16 or 32 keys at a time. Tensor cores multiply whatever the rows are: q is the operand
// with 16 rows, and the order of features within 32, and of columns, is what 16 neighbouring bytes make it.
//
// Blocks share the keys of a unit (a setting of the batch, heads of keys among it): each leaves its sums relative to
// its own maximum, and the last that arrives puts them together, in their order. A block without keys leaves sums of
// nothing.
//
// Policy P (all constexpr, but for what it declares):
//   int rows, features, columns                     of q; features a multiple of 32, columns of 64
//   int units, keys                                 keys at most
//   int warps, stages, splits                       of a block; tiles under way of a warp; blocks that share a unit
//   int tile                                        keys of a tile: 16 or 32
//   long long key_stride, value_stride              elements from one key to the next, multiples of 16 bytes
//   SkinnyCode key_code, value_code                 how they are stored where they are no numbers of 16 bits
//   bool bf16                                       else f16: what is multiplied
//   int key_together, value_together                keys that lie so, by one look-up each; 0: all do, without a look-up
//   bool computed                                   queries are made by the block, once
//   bool chained                                    may be launched with the programmatic attribute
//   int ahead                                       keys of a block that are brought into the L2 cache before the wait
//   struct Args                                     pointers
//   int end(args, unit)                             keys from here on count for no row; any number
//   const void* key(args, unit), value(args, unit)  where those of key 0 begin, multiples of 16 bytes; without look-ups
//   const void* key_at(args, unit, key), value_at(args, unit, key)
//                                                   where a look-up says that a key's begins; null: nowhere, it is NaN
//   uint4 query(args, unit, row, feature)           8 features from one on, where they are not computed
//   u16 element(args, unit, row, feature)           one, where they are
//   struct Found, found(args, unit, row, key)       what is looked up for what a score needs beside the product,
//   struct Given, given(found, args, unit, row, key)    which is this
//   float score(product, given, args, unit, row, key)
//   bool weighs                                     values are times a number that moves with the key,
//   float weight(given, args, unit, key)            which is this
//   float shift(args, unit, row, maximum)           what is taken from a row's scores,
//   float divisor(args, unit, row, maximum, total)  and what its sums are divided by
//   void store(args, unit, row, column, value)
//
// Keys and values that the same launch writes (a step's own, into the cache that it reads) are what W says:
//   int rows                                        of each unit, at most; 0: none
//   struct Args                                     pointers
//   long long key_place(args, unit, row), value_place(…)     the key that it is; what is no key is dropped
//   u16 key(args, unit, row, feature), value(args, unit, row, column)
// All others lie there since before the launches that this one waits for, so that they are asked for before the wait.

// Attention of a few queries: the sums of warps are put together in shared memory, those of blocks in global memory.
// The policy is that of sm90/decode_attention.cuh.

// Attention of a few queries: which tiles a block has, and how a warp asks for its own. The policy is that of
// sm90/decode_attention.cuh.

// Attention of a few queries: what a block has in shared memory, and what a warp does with a tile of keys.
// The policy is that of sm90/decode_attention.cuh.

// Keys and values of attention of a few queries: how they lie in memory and in a tile, where a look-up says that they
// lie, and the copies that bring them. The policy is that of sm90/decode_attention.cuh.

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
// ---- src/codegen/device/sm90/decode_rows.cuh ----
// Softmaxes of scores that come tile by tile.

// ---- src/codegen/device/softmax.cuh ----
// ---- src/codegen/device/sm90/decode_warp.cuh ----
// ---- src/codegen/device/sm90/decode_share.cuh ----
// ---- src/codegen/device/sm90/decode_sums.cuh ----
// ---- src/codegen/device/sm90/decode_attention.cuh ----
// ---- policy ----
template <typename T> PL_DEVICE T pl_ldg(const T* p) { return load_visible(p); }
struct P {
  static constexpr int units = 2, rows = 4, features = 128, columns = 128, keys = 2048;
  static constexpr int warps = 4, stages = 2, splits = 32, tile = 16;
  static constexpr long long key_stride = 128, value_stride = 128;
  static constexpr SkinnyCode key_code = code_none, value_code = code_none;
  static constexpr int key_together = 0, value_together = 0;
  static constexpr bool weighs = false;
  static constexpr bool bf16 = true, computed = false, chained = true;
  static constexpr int ahead = 256;
  struct Args {
    const unsigned short* in0;
    const unsigned short* in1;
    const unsigned short* in2;
    unsigned short* out0;
  };
  static PL_DEVICE const void* key(const Args& args, int unit) {
    const auto* const in1 = args.in1;
    const int d0 = (unsigned)(unit);
    return in1 + (262144 * d0);
  }
  static PL_DEVICE const void* value(const Args& args, int unit) {
    const auto* const in2 = args.in2;
    const int d0 = (unsigned)(unit);
    return in2 + (262144 * d0);
  }
  static PL_DEVICE int end(const Args& args, int unit) {
    return keys;
  }
  static PL_DEVICE uint4 query(const Args& args, int unit, int row, int feature) {
    const auto* const in0 = args.in0;
    const int d0 = (unsigned)(unit);
    const int d1 = (unsigned)(row);
    const int d4 = (unsigned)(feature);
    return load_visible_16(in0 + (512 * d0 + 128 * d1 + d4));
  }
  struct Found {
  };
  static PL_DEVICE Found found(const Args& args, int unit, int row, int key) {
    const int d0 = (unsigned)(unit);
    const int d1 = (unsigned)(row);
    const int d3 = (unsigned)(key);
    return {};
  }
  struct Given {
  };
  static PL_DEVICE Given given(const Found& found, const Args& args, int unit, int row, int key) {
    const int d0 = (unsigned)(unit);
    const int d1 = (unsigned)(row);
    const int d3 = (unsigned)(key);
    return {};
  }
  static PL_DEVICE float score(float product, const Given& given, const Args& args, int unit, int row, int key) {
    const int d0 = (unsigned)(unit);
    const int d1 = (unsigned)(row);
    const int d3 = (unsigned)(key);
    const float v5 = product;
    const float v6 = 0x1.6a09e6p-4f;
    const float v7 = (v5 * v6);
    return v7;
  }
  static PL_DEVICE float shift(const Args& args, int unit, int row, float maximum) {
    const float v8 = maximum;
    const float v9 = (-PL_INF_F32);
    const bool v10 = (v8 == v9);
    const float v11 = 0x0p+0f;
    const float v12 = (v10 ? v11 : v8);
    return v12;
  }
  static PL_DEVICE float divisor(const Args& args, int unit, int row, float maximum, float total) {
    const float v11 = 0x0p+0f;
    const float v15 = total;
    const bool v16 = (v15 == v11);
    const float v17 = 0x1p+0f;
    const float v18 = (v16 ? v17 : v15);
    return v18;
  }
  static PL_DEVICE void store(const Args& args, int unit, int row, int column, float value) {
    const int d0 = (unsigned)(unit);
    const int d1 = (unsigned)(row);
    const int d2 = (unsigned)(column);
    auto* const out0 = args.out0;
    const float v23 = value;
    out0[512 * d0 + 128 * d1 + d2] = pl_to_bf16(v23);
  }
};
extern "C" __global__ void __launch_bounds__(128, 2) planish_kernel(const unsigned short* in0, const unsigned short* in1, const unsigned short* in2, unsigned short* out0, float* partial, u32* arrived) {
  extern __shared__ __align__(16) unsigned char pl_smem[];
  const P::Args args{in0, in1, in2, out0};
  decode_attention<P>(args, NoneWritten::Args(), partial, arrived, pl_smem);
}
