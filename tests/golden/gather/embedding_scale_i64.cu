// genome: fast=0 hints=0 persistent=0 predication=0 threads=512 unroll=4 vector=16
// launch: grid 1x1x1 block 512x1x1 cluster 1x1x1 shared 0
// arguments: input0 input1 output0
// ---- tests/golden/shared/expression_prelude_cuda.cu ----
// ---- tests/golden/shared/cuda_memory_prelude.cu ----
typedef int ix;
extern "C" __global__ void __launch_bounds__(512, 1) planish_kernel(const long long* __restrict__ in0, const float* __restrict__ in1, float* __restrict__ out0) {
  {
    const ix tile = blockIdx.x;
    PlVec<long long, 1> r0[4];
    PlVec<float, 4> r1[4];
    #pragma unroll
    for (int u = 0; u < 4; ++u) {
      const ix q = tile * 2048 + u * 512 + (int)threadIdx.x;
      if (q < 592) {
        const ix d1 = (q % 16) * 4;
        const ix d0 = (q / 16);
        pl_load<0, 1>(r0[u], in0 + (d0));
        {
          const long long v0 = pl_ldg(in0 + (d0));
          if ((unsigned long long)v0 < 50ULL) pl_load<0, 4>(r1[u], in1 + (d1) + v0 * 64LL);
        }
      }
    }
    #pragma unroll
    for (int u = 0; u < 4; ++u) {
      const ix q = tile * 2048 + u * 512 + (int)threadIdx.x;
      if (q < 592) {
        const ix d1 = (q % 16) * 4;
        const ix d0 = (q / 16);
        PlVec<float, 4> o0;
        const long long v0 = r0[u].x[0];
        const float v2 = 0x1p+1f;
        #pragma unroll
        for (int j = 0; j < 4; ++j) {
          const float v1 = ((unsigned long long)v0 < 50ULL ? r1[u].x[j] : PL_NAN_F32);
          const float v3 = (v1 * v2);
          o0.x[j] = v3;
        }
        pl_store<0, 4>(out0 + (64 * d0 + d1), o0);
      }
    }
  }
}
