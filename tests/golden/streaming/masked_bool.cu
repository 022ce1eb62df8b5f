// genome: fast=0 hints=0 persistent=0 predication=0 threads=512 unroll=4 vector=16
// launch: grid 1x1x1 block 512x1x1 cluster 1x1x1 shared 0
// arguments: input0 input1 output0 output1
// ---- tests/golden/shared/expression_prelude_cuda.cu ----
// ---- tests/golden/shared/cuda_memory_prelude.cu ----
typedef int ix;
extern "C" __global__ void __launch_bounds__(512, 1) planish_kernel(const unsigned char* __restrict__ in0, const float* __restrict__ in1, float* __restrict__ out0, unsigned short* __restrict__ out1) {
  {
    const ix tile = blockIdx.x;
    PlVec<unsigned char, 4> r0[4];
    PlVec<float, 4> r1[4];
    #pragma unroll
    for (int u = 0; u < 4; ++u) {
      const ix q = tile * 2048 + u * 512 + (int)threadIdx.x;
      if (q < 117) {
        const ix d1 = (q % 13) * 4;
        const ix d0 = (q / 13);
        pl_load<0, 4>(r0[u], in0 + (52 * d0 + d1));
        pl_load<0, 4>(r1[u], in1 + (52 * d0 + d1));
      }
    }
    #pragma unroll
    for (int u = 0; u < 4; ++u) {
      const ix q = tile * 2048 + u * 512 + (int)threadIdx.x;
      if (q < 117) {
        const ix d1 = (q % 13) * 4;
        const ix d0 = (q / 13);
        PlVec<float, 4> o0;
        PlVec<unsigned short, 4> o1;
        const float v2 = (-0x1p+0f);
        #pragma unroll
        for (int j = 0; j < 4; ++j) {
          const bool v0 = (r0[u].x[j] != 0);
          const float v1 = r1[u].x[j];
          const float v3 = (v0 ? v1 : v2);
          o0.x[j] = v3;
          o1.x[j] = pl_to_bf16(v3);
        }
        pl_store<0, 4>(out0 + (52 * d0 + d1), o0);
        pl_store<0, 4>(out1 + (52 * d0 + d1), o1);
      }
    }
  }
}
