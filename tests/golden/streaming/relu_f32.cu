// genome: fast=0 hints=0 persistent=0 predication=0 threads=1024 unroll=2 vector=16
// launch: grid 1x1x1 block 1024x1x1 cluster 1x1x1 shared 0
// arguments: input0 output0
// ---- tests/golden/shared/expression_prelude_cuda.cu ----
// ---- tests/golden/shared/cuda_memory_prelude.cu ----
typedef int ix;
extern "C" __global__ void __launch_bounds__(1024, 1) planish_kernel(const float* __restrict__ in0, float* __restrict__ out0) {
  {
    const ix tile = blockIdx.x;
    PlVec<float, 4> r0[2];
    #pragma unroll
    for (int u = 0; u < 2; ++u) {
      const ix q = tile * 2048 + u * 1024 + (int)threadIdx.x;
      if (q < 1024) {
        const ix d0 = (q) * 4;
        pl_load<0, 4>(r0[u], in0 + (d0));
      }
    }
    #pragma unroll
    for (int u = 0; u < 2; ++u) {
      const ix q = tile * 2048 + u * 1024 + (int)threadIdx.x;
      if (q < 1024) {
        const ix d0 = (q) * 4;
        PlVec<float, 4> o0;
        #pragma unroll
        for (int j = 0; j < 4; ++j) {
          const float v0 = r0[u].x[j];
          const float v1 = pl_max(v0, 0x0p+0f);
          o0.x[j] = v1;
        }
        pl_store<0, 4>(out0 + (d0), o0);
      }
    }
  }
}
