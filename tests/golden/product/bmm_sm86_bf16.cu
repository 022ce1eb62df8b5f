// genome: min_blocks=2 raster=8 split=1 stages=3 threads=128 tile_k=32 tile_m=128 tile_n=64
// launch: grid 216x1x1 block 128x1x1 cluster 1x1x1 shared 45200
// arguments: input0 input1 output0
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
  static constexpr int rows = 512, columns = 512, depth = 64, units = 96, groups = 0, parts = 1;
  static constexpr int tile_rows = 128, tile_columns = 64, tile_depth = 32, stages = 3;
  static constexpr int warps_rows = 2, warps_columns = 2, resident = 2;
  static constexpr int splits = 1, raster = 8, result_bytes = 2;
  static constexpr bool a_across = false, b_across = false, bf16 = true, words = true;
  static constexpr long long a_row = 768, a_depth = 1;
  static constexpr long long b_row = 768, b_depth = 1;
};
struct Functors {
  const unsigned short* __restrict__ in0;
  const unsigned short* __restrict__ in1;
  unsigned short* __restrict__ out0;
  PL_DEVICE const u16* a(int unit) const {
    const int d1 = (unsigned)(unit) % 12;
    const int d0 = (unsigned)(unit) / 12;
    return (const u16*)(in0 + 0ll + 393216ll * d0 + 64ll * d1);
  }
  PL_DEVICE const u16* b(int part, int unit) const {
    const int d1 = (unsigned)(unit) % 12;
    const int d0 = (unsigned)(unit) / 12;
    return (const u16*)(in1 + 0ll + 393216ll * d0 + 64ll * d1);
  }
  template <int words>
  PL_DEVICE void result(u32 (&out)[words], int unit, int row, int column, const float (&sums)[1][2]) const {
    const int d1 = (unsigned)(unit) % 12;
    const int d0 = (unsigned)(unit) / 12;
    const int d2 = row, d3 = column;
    float got[2];
    const int first = column;
    #pragma unroll
    for (int e = 0; e < 2; ++e) {
      const int d3 = first + e;
      const float folded = sums[0][e];
      const float v5 = folded;
      got[e] = v5;
    }
    out[0] = pack_bf16(got[0], got[1]);
  }
  PL_DEVICE char* place(int unit, int row, int column) const {
    const int d1 = (unsigned)(unit) % 12;
    const int d0 = (unsigned)(unit) / 12;
    const int d2 = row, d3 = column;
    return (char*)(out0 + (3145728 * d0 + 262144 * d1 + 512 * d2 + d3));
  }
};
// ---- kernel ----
extern "C" __global__ void __launch_bounds__(128, 2) planish_kernel(const unsigned short* __restrict__ in0, const unsigned short* __restrict__ in1, unsigned short* __restrict__ out0) {
  extern __shared__ __align__(16) unsigned char pl_smem[];
  const Functors f{in0, in1, out0};
  product_by_mma<Policy>(f, pl_smem, nullptr, nullptr);
}
