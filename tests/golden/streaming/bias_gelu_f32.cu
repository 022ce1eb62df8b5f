// genome: fast=0 hints=0 persistent=0 predication=0 threads=512 unroll=2 vector=16
// launch: grid 1x1x1 block 512x1x1 cluster 1x1x1 shared 0
// arguments: input0 input1 input2 output0
// ---- tests/golden/shared/expression_prelude_cuda.cu ----
// ---- tests/golden/shared/cuda_memory_prelude.cu ----
typedef int ix;
extern "C" __global__ void __launch_bounds__(512, 1) planish_kernel(const float* __restrict__ in0, const float* __restrict__ in1, const float* __restrict__ in2, float* __restrict__ out0) {
  {
    const ix tile = blockIdx.x;
    PlVec<float, 4> r0[2];
    PlVec<float, 4> r1[2];
    PlVec<float, 4> r2[2];
    #pragma unroll
    for (int u = 0; u < 2; ++u) {
      const ix q = tile * 1024 + u * 512 + (int)threadIdx.x;
      if (q < 168) {
        const ix d1 = (q % 24) * 4;
        const ix d0 = (q / 24);
        pl_load<0, 4>(r0[u], in0 + (96 * d0 + d1));
        pl_load<0, 4>(r1[u], in1 + (d1));
        pl_load<0, 4>(r2[u], in2 + (96 * d0 + d1));
      }
    }
    #pragma unroll
    for (int u = 0; u < 2; ++u) {
      const ix q = tile * 1024 + u * 512 + (int)threadIdx.x;
      if (q < 168) {
        const ix d1 = (q % 24) * 4;
        const ix d0 = (q / 24);
        PlVec<float, 4> o0;
        const float v4 = 0x1.6a09e6p-1f;
        const float v7 = 0x1p-1f;
        const float v9 = 0x1p+0f;
        #pragma unroll
        for (int j = 0; j < 4; ++j) {
          const float v0 = r0[u].x[j];
          const float v1 = r1[u].x[j];
          const float v2 = r2[u].x[j];
          const float v3 = (v0 + v1);
          const float v5 = (v3 * v4);
          const float v6 = erff(v5);
          const float v8 = (v3 * v7);
          const float v10 = (v6 + v9);
          const float v11 = (v8 * v10);
          const float v12 = (v11 + v2);
          o0.x[j] = v12;
        }
        pl_store<0, 4>(out0 + (96 * d0 + d1), o0);
      }
    }
  }
}
