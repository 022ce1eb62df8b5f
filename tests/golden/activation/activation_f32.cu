// genome: fast=1 hints=0 persistent=0 predication=0 threads=1024 unroll=4 vector=8
// launch: grid 3x1x1 block 1024x1x1 cluster 1x1x1 shared 0
// arguments: input0 output0
// ---- tests/golden/shared/expression_prelude_cuda.cu ----
// ---- tests/golden/shared/cuda_memory_prelude.cu ----
typedef int ix;
extern "C" __global__ void __launch_bounds__(1024, 1) planish_kernel(const float* __restrict__ in0, float* __restrict__ out0) {
  {
    const ix tile = blockIdx.x;
    PlVec<float, 2> r0[4];
    #pragma unroll
    for (int u = 0; u < 4; ++u) {
      const ix q = tile * 4096 + u * 1024 + (int)threadIdx.x;
      if (q < 10005) {
        const ix e0 = q * 2;
        pl_load<0, 2>(r0[u], in0 + (e0));
      }
    }
    #pragma unroll
    for (int u = 0; u < 4; ++u) {
      const ix q = tile * 4096 + u * 1024 + (int)threadIdx.x;
      if (q < 10005) {
        const ix e0 = q * 2;
        PlVec<float, 2> o0;
        #pragma unroll
        for (int j = 0; j < 2; ++j) {
          const ix e = e0 + j;
          const ix l0 = e;
          const float v0 = r0[u].x[j];
          const float v1 = pl_fast_sigmoid(v0);
          const float v2 = (v0 * v1);
          o0.x[j] = v2;
        }
        pl_store<0, 2>(out0 + (e0), o0);
      }
    }
  }
  if (blockIdx.x == 2 && threadIdx.x < 1) {
    const int u = 0;
    const ix e = 20010 + (int)threadIdx.x;
    const ix d0 = e;
    PlVec<float, 1> r0[1];
    #pragma unroll
    for (int j = 0; j < 1; ++j) {
      r0[u].x[j] = pl_ldg(in0 + (d0));
    }
    PlVec<float, 1> o0;
    const int j = 0;
    const float v0 = r0[u].x[j];
    const float v1 = pl_fast_sigmoid(v0);
    const float v2 = (v0 * v1);
    o0.x[j] = v2;
    pl_store<0, 1>(out0 + (d0), o0);
  }
}
