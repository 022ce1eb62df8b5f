// genome: min_blocks=1 raster=8 split=1 stages=4 threads=256 tile_k=64 tile_m=128 tile_n=128
// launch: grid 108x1x1 block 256x1x1 cluster 1x1x1 shared 147600
// arguments: input0 input1 input2 output0
// ---- tests/golden/shared/place_prelude.cu ----
// Products of 16-bit factors by mma.sync: out[m, n] = result(Σ_k a[m, k] · b[k, n]), with sums in fp32. All threads of
// a block bring tiles by cp.async from where a and b lie, in either major order, into a ring of stages, and multiply
// what came before; what the next tile of the block needs is asked for while this one's results leave. Warps share a
// tile's rows and columns. Where there are few tiles, several blocks have a part of k each; the last to arrive adds the
// parts in their order. Rows may be sorted in groups, each with a b of its own (experts).
//
// Policy (all constexpr): as sm90/product.cuh has it, of rows, columns, depth, units, groups, parts, tile_rows,
// tile_columns, stages, splits, raster, a_across, b_across, result_bytes and words; and
//   int tile_depth                      k of a stage: 32 or 64
//   int warps_rows, warps_columns       that share a tile: each has a multiple of 16 of both; of an operand whose
//   memory
//                                       runs across k a power of two
//   int resident                        blocks of a multiprocessor
//   bool bf16                           instead of f16
//   long long a_row, a_depth            elements from a row of a to the next, and from a k to the next
//   long long b_row, b_depth            the same of b, whose rows are columns of the result
//
// Functors F: result() and place() as sm90/product.cuh has them, group_end(i) where there are groups, and
//   a(unit), b(part, unit)              where their first elements lie; unit: of a batch, or b's group

// Parts that products of 16-bit and 8-bit factors share, whatever multiplies: which tile a block has at a turn, how
// parts of k are added, and how results leave. P is a policy (see sm90/product.cuh), L its layout, with
//   int cluster, pair_rows, pair_columns, across, down    blocks that have tiles beside each other, and their tiles
//   bool share_a, share_b                                 which operand they share
//   int steps                                             of k

// What warps fold of results while they store them: sums along rows over runs of neighbouring columns, or means and
// squared distances from them, as a norm behind a product needs them.

// ---- src/codegen/device/types.cuh ----
// ---- src/codegen/device/product_folds.cuh ----
// ---- src/codegen/device/product_tiles.cuh ----
// Tiles of 16-bit operands in shared memory, as threads write them 16 bytes at a time, and as warps load fragments for
// mma.sync from them.

// Instructions that CUDA C++ has no name for and that sm_80 and all later GPUs have, one function each: what kernels on
// mma.sync and cp.async are made of. Tests run what includes it on a CPU with another file of this name. PTX ISA 7.4.

// ---- src/codegen/device/sm80/ptx.cuh ----
// ---- src/codegen/device/sm80/fragments.cuh ----
// ---- src/codegen/device/sm80/product.cuh ----
template <typename T> PL_DEVICE T pl_ldg(const T* p) { return __ldg(p); }
struct Policy {
  static constexpr int rows = 2048, columns = 4096, depth = 1024, units = 1, groups = 0, parts = 1;
  static constexpr int tile_rows = 128, tile_columns = 128, tile_depth = 64, stages = 4;
  static constexpr int warps_rows = 2, warps_columns = 4, resident = 1;
  static constexpr int splits = 1, raster = 8, result_bytes = 2;
  static constexpr bool a_across = false, b_across = false, bf16 = true, words = true;
  static constexpr long long a_row = 1024, a_depth = 1;
  static constexpr long long b_row = 1024, b_depth = 1;
};
struct Functors {
  const unsigned short* __restrict__ in0;
  const unsigned short* __restrict__ in1;
  const unsigned short* __restrict__ in2;
  unsigned short* __restrict__ out0;
  PL_DEVICE const u16* a(int unit) const {
    return (const u16*)(in0 + 0ll);
  }
  PL_DEVICE const u16* b(int part, int unit) const {
    return (const u16*)(in1 + 0ll);
  }
  template <int words>
  PL_DEVICE void result(u32 (&out)[words], int unit, int row, int column, const float (&sums)[1][2]) const {
    const int d0 = row, d1 = column;
    union { u32 all; unsigned short each[2]; } l6 = {pl_ldg((const u32*)(in2 + (d1)))};
    float got[2];
    const int first = column;
    #pragma unroll
    for (int e = 0; e < 2; ++e) {
      const int d1 = first + e;
      const float folded = sums[0][e];
      const float v5 = folded;
      const float v6 = pl_from_bf16(l6.each[e]);
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
      got[e] = v16;
    }
    out[0] = pack_bf16(got[0], got[1]);
  }
  PL_DEVICE char* place(int unit, int row, int column) const {
    const int d0 = row, d1 = column;
    return (char*)(out0 + (4096 * d0 + d1));
  }
};
// ---- kernel ----
extern "C" __global__ void __launch_bounds__(256, 1) planish_kernel(const unsigned short* __restrict__ in0, const unsigned short* __restrict__ in1, const unsigned short* __restrict__ in2, unsigned short* __restrict__ out0) {
  extern __shared__ __align__(16) unsigned char pl_smem[];
  const Functors f{in0, in1, in2, out0};
  product_by_mma<Policy>(f, pl_smem, nullptr, nullptr);
}
