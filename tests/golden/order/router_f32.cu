// genome: grid_split=0 threads=128 unroll=4
// launch: grid 16x1x1 block 128x1x1 cluster 1x1x1 shared 0
// arguments: input0 output0 output1
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
  static constexpr int length = 128, first = 0, count = 8;
  static constexpr int rows = 64, team = 32, each = 4, threads = 128, slices = 1;
  typedef u64 Item;
  const float* __restrict__ in0;
  float* __restrict__ out0;
  long long* __restrict__ out1;
  float r0;
  float r1;
  template <class Team>
  PL_DEVICE void fold(int row, const Team& team) {
  float own0 = (-PL_INF_F32);
  for (int place = team.thread; place < length; place += Team::count) {
  const int d0 = row;
  const int d2 = place;
  const float v0 = pl_ldg(in0 + (128 * d0 + d2));
  own0 = pl_max(own0, v0);
  }
  r0 = team.fold(own0, (float)(-PL_INF_F32), [](const float a, const float b) { return pl_max(a, b); });
  float own1 = 0x0p+0f;
  for (int place = team.thread; place < length; place += Team::count) {
  const int d0 = row;
  const int d2 = place;
  const float v0 = pl_ldg(in0 + (128 * d0 + d2));
  const float v1 = r0;
  const float v2 = (v0 - v1);
  const float v3 = expf(v2);
  own1 = (own1 + v3);
  }
  r1 = team.fold(own1, (float)0x0p+0f, [](const float a, const float b) { return (a + b); });
  }
  PL_DEVICE Item item(int row, int place) const {
  const int d0 = row;
  const int d2 = place;
  const float v0 = pl_ldg(in0 + (128 * d0 + d2));
  const float v1 = r0;
  const float v2 = (v0 - v1);
  const float v3 = expf(v2);
  const float v4 = r1;
  const float v5 = (v3 / v4);
  return order_item(~order_key((float)v5, 0), (u32)place);
  }
  PL_DEVICE void store(int row, int rank, int place) const {
  const int d0 = row;
  const int d2 = place;
  const int d1 = rank;
  const float v0 = pl_ldg(in0 + (128 * d0 + d2));
  const float v1 = r0;
  const float v2 = (v0 - v1);
  const float v3 = expf(v2);
  const float v4 = r1;
  const float v5 = (v3 / v4);
  const float v7 = v5;
  const long long v8 = (long long)(d2);
  const long long v9 = v8;
  out0[8 * d0 + d1] = v7;
  out1[8 * d0 + d1] = v9;
  }
};
extern "C" __global__ void __launch_bounds__(128) planish_kernel(const float* __restrict__ in0, float* __restrict__ out0, long long* __restrict__ out1) {
  extern __shared__ __align__(16) unsigned char pl_smem[];
  Policy p{in0, out0, out1};
  order_rows(p, (Policy::Item*)pl_smem);
}
