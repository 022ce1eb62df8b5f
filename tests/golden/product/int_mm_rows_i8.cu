// genome: multicast=0 pingpong=0 raster=4 stages=4 tile_m=128 tile_n=256
// launch: grid 132x1x1 block 384x1x1 cluster 1x1x1 shared 214096
// arguments: input0 input1 input2 input3 input4 output0 scratch0
// ---- tests/golden/shared/place_prelude.cu ----
// Products of factors of 16 or 8 bits: out[m, n] = result(Σ_k a[m, k] · b[k, n]), with sums in fp32. A persistent
// kernel: one producer thread brings tiles by tensor maps from where a and b lie, in either major order; consumer
// warpgroups multiply. Consumers share a tile's rows (cooperative), or have tiles of their own in turn, so that one's
// epilogue runs while the other multiplies (ping-pong). Two blocks of a cluster may share the tiles of one operand
// (multicast). Where there are few tiles, several blocks have a part of k each; the last to arrive adds the parts in
// their order, so that results have the same bits every time. Rows may be sorted in groups, each with a b of its own
// (experts). Or they are places of images, of which a tile is a box, and k is taps and of each its channels
// (convolutions). Of floats of 8 bits tensor cores keep some 14 bits of a sum: what each step gives is added in fp32,
// and blocks of 128 k may have scales. Of integers of 8 bits they keep all of it, in i32.
//
// Policy (all constexpr):
//   int rows, columns, depth    of a product: m, n, k
//   int units                   products of a batch; 1 where there are groups
//   int groups                  0, or how many bs share the rows: f.group_end(i) says where group i's rows end
//   int parts                   products of one a with several bs, of which one result is made: gate and up
//   int tile_rows, tile_columns a multiple of 64 a consumer (ping_pong: of 64); a multiple of 8, at most 256 / parts
//   int consumers, stages       warpgroups that multiply; places of the ring, each of a step of k
//   int factor_bytes            2, or 1: a step is 128 bytes of k. 1: not across, nor boxed; of floats not ping_pong
//   bool integer_sums           1 byte: factors are integers, and sums i32
//   bool scales_a               floats of 1 byte: a's rows have a scale for each step
//   int scales_b                floats of 1 byte: 0, or for how many columns b has one for each step: a multiple of 8,
//                               of which tile_columns is a whole part, or the other way round
//   bool ping_pong              a tile a consumer
//   int cluster                 1, or 2 blocks that share b (or a) of tiles above (or beside) each other
//   bool share_b                b is what they share
//   int splits                  parts of k, at most as many as there are steps; 1 where there are groups
//   int raster                  rows of tiles that blocks go through together, columns after columns
//   bool a_across, b_across     memory runs along m, or n, instead of along k
//   bool boxed                  rows are places in boxes, a tile each, of which some may be none; k goes through taps
//   int result_bytes            2, or 4
//   bool words                  8 (of 4 bytes: 4) results from a multiple of these on are 16 aligned bytes of one row
//
// Functors F (values; what one needs of memory it holds as pointers):
//   multiply(d, a, b, keep)                     the instruction: m64, n of all parts' tile_columns, 32 bytes of k
//   scale_a(unit, row, k), scale_b(unit, column, k)
//                                               with scales_a, scales_b: of the step that begins at k. Rows and columns
//                                               behind the last are asked for, too
//   map_a(map, rows), map_b(map, part, rows)    fill in tensor maps at shared addresses, of boxes of so many rows
//   load_a<mask>(to, map, barrier, unit, x, y), load_b<mask>(…)     a box; x is where memory runs along. To the blocks
//                                               of the mask, or to this one if it is 0. unit: of a batch, or b's group
//   taps(k)                                     where rows are boxed alone: the tap and channels that k, a multiple of
//                                               64, stands for, as a value whose next() goes 64 further. It and a row,
//                                               or column, are what load_a and load_b have in place of x and y then
//   inside(row)                                 likewise: whether there is such a place
//   result(out, unit, row, column, sums)        two neighbours: u32 out[result_bytes / 2], float sums[parts][2], or
//                                               int. It is asked for places outside, too, which are not stored
//   place(unit, row, column)                    where a result goes; neighbouring columns are neighbours
//   piece(unit, row, column)                    with Folds (product_folds.cuh) alone: where goes what remains of a run
//                                               of that row, and result() has one more argument: float
//                                               more[Folds::count][2]

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
// Where a thread is in a ring of stages that barriers hand over: producers and consumers go through it at their own
// pace.

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
// ---- src/codegen/device/sm90/product.cuh ----
template <typename T> PL_DEVICE T pl_ldg(const T* p) { return __ldg(p); }
PL_WGMMA_INTEGER(pl_multiply, 256, "s8", "s8")
struct Policy {
  static constexpr int rows = 2048, columns = 4096, depth = 4096, units = 1, groups = 0, parts = 1;
  static constexpr int tile_rows = 128, tile_columns = 256, consumers = 2, stages = 4;
  static constexpr int cluster = 1, splits = 1, raster = 4, result_bytes = 2;
  static constexpr bool ping_pong = false, share_b = true, a_across = false, b_across = false, boxed = false;
  static constexpr bool words = true, scales_a = false;
  static constexpr int factor_bytes = 1, scales_b = 0;
  static constexpr bool integer_sums = true;
};
struct Functors {
  const signed char* __restrict__ in0;
  const signed char* __restrict__ in1;
  const float* __restrict__ in2;
  const float* __restrict__ in3;
  const unsigned short* __restrict__ in4;
  unsigned short* __restrict__ out0;
  PL_DEVICE void multiply(int (&d)[128], u64 a, u64 b, int keep) const { pl_multiply(d, a, b, keep); }
  PL_DEVICE void map_a(u32 map, int rows) const {
    tensor_map_begin_bytes<2>(map, in0 + 0ll);
    tensor_map_dim<0>(map, 4096, 128);
    tensor_map_dim<1>(map, 2048, rows);
    tensor_map_stride<1>(map, 4096ull);
  }
  template <int blocks>
  PL_DEVICE void load_a(u32 to, const void* map, u32 barrier, int unit, int x, int y) const {
    if constexpr (blocks != 0) tensor_share(to, map, barrier, blocks, x, y);
    else tensor_load(to, map, barrier, x, y);
  }
  PL_DEVICE void map_b(u32 map, int part, int rows) const {
    tensor_map_begin_bytes<2>(map, in1 + 0ll);
    tensor_map_dim<0>(map, 4096, 128);
    tensor_map_dim<1>(map, 4096, rows);
    tensor_map_stride<1>(map, 4096ull);
  }
  template <int blocks>
  PL_DEVICE void load_b(u32 to, const void* map, u32 barrier, int unit, int x, int y) const {
    if constexpr (blocks != 0) tensor_share(to, map, barrier, blocks, x, y);
    else tensor_load(to, map, barrier, x, y);
  }
  template <int words>
  PL_DEVICE void result(u32 (&out)[words], int unit, int row, int column, const int (&sums)[1][2]) const {
    const int d0 = row, d1 = column;
    union { u64 all; float each[2]; } l9 = {pl_ldg((const u64*)(in3 + (d1)))};
    union { u32 all; unsigned short each[2]; } l11 = {pl_ldg((const u32*)(in4 + (d1)))};
    float got[2];
    const int first = column;
    #pragma unroll
    for (int e = 0; e < 2; ++e) {
      const int d1 = first + e;
      const int folded = sums[0][e];
      const int v5 = folded;
      const float v6 = (float)v5;
      const float v7 = pl_ldg(in2 + (d0));
      const float v8 = (v6 * v7);
      const float v9 = l9.each[e];
      const float v10 = (v8 * v9);
      const float v11 = pl_from_bf16(l11.each[e]);
      const float v12 = v11;
      const float v13 = (v10 + v12);
      const float v14 = pl_round_bf16(v13);
      got[e] = v14;
    }
    out[0] = pack_bf16(got[0], got[1]);
  }
  PL_DEVICE char* place(int unit, int row, int column) const {
    const int d0 = row, d1 = column;
    return (char*)(out0 + (4096 * d0 + d1));
  }
};
// ---- kernel ----
extern "C" __global__ void __launch_bounds__(384, 1) planish_kernel(const signed char* __restrict__ in0, const signed char* __restrict__ in1, const float* __restrict__ in2, const float* __restrict__ in3, const unsigned short* __restrict__ in4, unsigned short* __restrict__ out0, char* __restrict__ maps) {
  extern __shared__ __align__(16) unsigned char pl_smem[];
  const Functors f{in0, in1, in2, in3, in4, out0};
  product<Policy>(f, pl_smem, maps, nullptr, nullptr);
}
