// genome: grid_split=32 threads=256 unroll=8
// launch: grid 64x1x1 block 256x1x1 cluster 1x1x1 shared 16400
// arguments: input0 output0 output1 scratch0
// ---- tests/golden/shared/expression_prelude_cuda.cu ----
// ---- tests/golden/shared/cuda_memory_prelude.cu ----
// Elements of rows by their rank on a GPU. A team of threads puts a row in order by a bitonic network whose items stay
// in registers: neighbours within a thread first, then threads of a warp by shuffles, then all of a block through
// shared memory. Of a row that is longer than a block holds, the first few of the order are looked for: what comes
// behind the last of those known so far is left out as it is read, and the rest is put in order whenever a buffer is
// full. Blocks may share such a row (slices); another launch puts their candidates in order.
//
// Policy (all constexpr):
//   int length, first, count    of a row; the ranks that are stored are [first, first + count)
//   int rows, team, each        team: threads of a row, a power of two; each: items of a thread, a power of two
//   int threads                 of a block: one team, or teams of at most a warp
//   int slices                  blocks that share a row
//   type Item
// and functions: Item item(int row, int place), store(int row, int rank − first, int place),
// template <class Team> fold(int row, const Team&), which computes what elements need of the whole row.

// ---- src/codegen/device/types.cuh ----

#define ORDER_FN PL_DEVICE
// ---- src/codegen/device/shared/order_keys.h ----
// ---- src/codegen/device/order.cuh ----
struct Policy {
  static constexpr int length = 151936, first = 0, count = 50;
  static constexpr int rows = 2, team = 256, each = 8, threads = 256, slices = 32;
  typedef u64 Item;
  const float* __restrict__ in0;
  float* __restrict__ out0;
  long long* __restrict__ out1;
  template <class Team>
  PL_DEVICE void fold(int row, const Team& team) {
  }
  PL_DEVICE Item item(int row, int place) const {
  const int d0 = row;
  const int d2 = place;
  const float v0 = pl_ldg(in0 + (151936 * d0 + d2));
  return order_item(~order_key((float)v0, 0), (u32)place);
  }
  PL_DEVICE void store(int row, int rank, int place) const {
  const int d0 = row;
  const int d2 = place;
  const int d1 = rank;
  const float v0 = pl_ldg(in0 + (151936 * d0 + d2));
  const float v2 = v0;
  const long long v3 = (long long)(d2);
  const long long v4 = v3;
  out0[50 * d0 + d1] = v2;
  out1[50 * d0 + d1] = v4;
  }
};
extern "C" __global__ void __launch_bounds__(256) planish_kernel(const float* __restrict__ in0, float* __restrict__ out0, long long* __restrict__ out1, Policy::Item* __restrict__ candidates) {
  extern __shared__ __align__(16) unsigned char pl_smem[];
  Policy p{in0, out0, out1};
  order_slices(p, *(Candidates<Policy>*)pl_smem, candidates);
}

// launch: grid 2x1x1 block 256x1x1 cluster 1x1x1 shared 16400
// arguments: input0 output0 output1 scratch0
// ---- tests/golden/shared/expression_prelude_cuda.cu ----
// ---- tests/golden/shared/cuda_memory_prelude.cu ----
// Elements of rows by their rank on a GPU. A team of threads puts a row in order by a bitonic network whose items stay
// in registers: neighbours within a thread first, then threads of a warp by shuffles, then all of a block through
// shared memory. Of a row that is longer than a block holds, the first few of the order are looked for: what comes
// behind the last of those known so far is left out as it is read, and the rest is put in order whenever a buffer is
// full. Blocks may share such a row (slices); another launch puts their candidates in order.
//
// Policy (all constexpr):
//   int length, first, count    of a row; the ranks that are stored are [first, first + count)
//   int rows, team, each        team: threads of a row, a power of two; each: items of a thread, a power of two
//   int threads                 of a block: one team, or teams of at most a warp
//   int slices                  blocks that share a row
//   type Item
// and functions: Item item(int row, int place), store(int row, int rank − first, int place),
// template <class Team> fold(int row, const Team&), which computes what elements need of the whole row.

// ---- src/codegen/device/types.cuh ----

#define ORDER_FN PL_DEVICE
// ---- src/codegen/device/shared/order_keys.h ----
// ---- src/codegen/device/order.cuh ----
struct Policy {
  static constexpr int length = 151936, first = 0, count = 50;
  static constexpr int rows = 2, team = 256, each = 8, threads = 256, slices = 32;
  typedef u64 Item;
  const float* __restrict__ in0;
  float* __restrict__ out0;
  long long* __restrict__ out1;
  template <class Team>
  PL_DEVICE void fold(int row, const Team& team) {
  }
  PL_DEVICE Item item(int row, int place) const {
  const int d0 = row;
  const int d2 = place;
  const float v0 = pl_ldg(in0 + (151936 * d0 + d2));
  return order_item(~order_key((float)v0, 0), (u32)place);
  }
  PL_DEVICE void store(int row, int rank, int place) const {
  const int d0 = row;
  const int d2 = place;
  const int d1 = rank;
  const float v0 = pl_ldg(in0 + (151936 * d0 + d2));
  const float v2 = v0;
  const long long v3 = (long long)(d2);
  const long long v4 = v3;
  out0[50 * d0 + d1] = v2;
  out1[50 * d0 + d1] = v4;
  }
};
extern "C" __global__ void __launch_bounds__(256) planish_kernel(const float* __restrict__ in0, float* __restrict__ out0, long long* __restrict__ out1, Policy::Item* __restrict__ candidates) {
  extern __shared__ __align__(16) unsigned char pl_smem[];
  Policy p{in0, out0, out1};
  order_candidates(p, *(Candidates<Policy>*)pl_smem, candidates);
}
