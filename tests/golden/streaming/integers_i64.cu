// genome: fast=0 hints=0 persistent=0 predication=0 threads=512 unroll=4 vector=16
// launch: grid 1x1x1 block 512x1x1 cluster 1x1x1 shared 0
// arguments: input0 input1 output0 output1
// ---- tests/golden/shared/expression_prelude_cuda.cu ----
// ---- tests/golden/shared/cuda_memory_prelude.cu ----
typedef int ix;
extern "C" __global__ void __launch_bounds__(512, 1) planish_kernel(const long long* __restrict__ in0, const long long* __restrict__ in1, long long* __restrict__ out0, long long* __restrict__ out1) {
  {
    const ix tile = blockIdx.x;
    PlVec<long long, 2> r0[4];
    PlVec<long long, 1> r1[4];
    #pragma unroll
    for (int u = 0; u < 4; ++u) {
      const ix q = tile * 2048 + u * 512 + (int)threadIdx.x;
      if (q < 55) {
        const ix d1 = (q % 11) * 2;
        const ix d0 = (q / 11);
        pl_load<0, 2>(r0[u], in0 + (22 * d0 + d1));
        pl_load<0, 1>(r1[u], in1 + (d0));
      }
    }
    #pragma unroll
    for (int u = 0; u < 4; ++u) {
      const ix q = tile * 2048 + u * 512 + (int)threadIdx.x;
      if (q < 55) {
        const ix d1 = (q % 11) * 2;
        const ix d0 = (q / 11);
        PlVec<long long, 2> o0;
        PlVec<long long, 2> o1;
        const long long v1 = r1[u].x[0];
        #pragma unroll
        for (int j = 0; j < 2; ++j) {
          const long long v0 = r0[u].x[j];
          const long long v2 = (long long)pl_remainder((long long)v0, (long long)v1);
          const long long v3 = (long long)pl_floor_div((long long)v0, (long long)v1);
          o0.x[j] = v2;
          o1.x[j] = v3;
        }
        pl_store<0, 2>(out0 + (22 * d0 + d1), o0);
        pl_store<0, 2>(out1 + (22 * d0 + d1), o1);
      }
    }
  }
}
