// genome: cluster=1 exchange=0 fast=0 hints=0 lines=0 min_blocks=1 online=0 operand_residency=0 partial_residency=0 persistent_rows=0 predication=0 raster=0 realign=0 residency=2 reverse=0 rows=2 stages=0 threads=512 unroll=1 vector=8
// launch: grid 20x1x1 block 512x1x1 cluster 1x1x1 shared 8192
// arguments: input0 input1 input2 output0
// ---- tests/golden/shared/expression_prelude_cuda.cu ----
// ---- tests/golden/shared/cuda_memory_prelude.cu ----
typedef int ix;
extern "C" __global__ void __launch_bounds__(512, 1) planish_kernel(const long long* __restrict__ in0, const float* __restrict__ in1, const float* __restrict__ in2, float* __restrict__ out0) {
  const int tid = (int)threadIdx.x;
  const int first = tid % 256;
  extern __shared__ __align__(16) unsigned char pl_smem[];
  const ix own = (ix)blockIdx.x * 2 + tid / 256;
  const bool live = own < 40;
  const ix row = live ? own : 39;
  const ix d0 = row;
  PlVec<float, 2>* const S1 = (PlVec<float, 2>*)(pl_smem + 0) + tid;
  PlVec<float, 2>* const S2 = (PlVec<float, 2>*)(pl_smem + 4096) + tid;
  const long long v0 = pl_ldg(in0 + (d0));
  const float v6 = 0x1p-9f;
  const float v8 = 0x1.0c6f7ap-20f;
  #pragma unroll 1
  for (int k0 = 0; k0 < 1; k0 += 1) {
    #pragma unroll
    for (int u = 0; u < 1; ++u) {
      const int t = first + (k0 + u) * 256;
      {
        const ix d1 = (t) * 2;
        {
          const long long v0 = pl_ldg(in0 + (d0));
          if ((unsigned long long)v0 < 60ULL) pl_copy_async<2>(&S1[(k0 + u) * 512], in1 + (d1) + v0 * 512LL);
        }
        pl_copy_async<2>(&S2[(k0 + u) * 512], in2 + (512 * d0 + d1));
      }
    }
  }
  pl_copy_commit();
  float acc0[2] = {0x0p+0f, 0x0p+0f};
  pl_copy_wait<0>();
  #pragma unroll 1
  for (int k0 = 0; k0 < 1; k0 += 1) {
    #pragma unroll
    for (int u = 0; u < 1; ++u) {
      const int t = first + (k0 + u) * 256;
      {
        const ix d1 = (t) * 2;
        PlVec<float, 2> s1;
        pl_get(s1, &S1[(k0 + u) * 512]);
        PlVec<float, 2> s2;
        pl_get(s2, &S2[(k0 + u) * 512]);
        #pragma unroll
        for (int j = 0; j < 2; ++j) {
          const float v1 = ((unsigned long long)v0 < 60ULL ? s1.x[j] : PL_NAN_F32);
          const float v2 = s2.x[j];
          const float v3 = (v1 + v2);
          const float v4 = (v3 * v3);
          acc0[j] = (acc0[j] + v4);
        }
      }
    }
  }
  float red0 = (acc0[0] + acc0[1]);
  red0 = (red0 + pl_xor(red0, 16));
  red0 = (red0 + pl_xor(red0, 8));
  red0 = (red0 + pl_xor(red0, 4));
  red0 = (red0 + pl_xor(red0, 2));
  red0 = (red0 + pl_xor(red0, 1));
  __shared__ float sh0[16];
  if (tid % 32 == 0) sh0[tid / 32] = red0;
  __syncthreads();
  red0 = tid % 32 < 8 ? sh0[tid / 256 * 8 + tid % 32] : 0x0p+0f;
  red0 = (red0 + pl_xor(red0, 16));
  red0 = (red0 + pl_xor(red0, 8));
  red0 = (red0 + pl_xor(red0, 4));
  red0 = (red0 + pl_xor(red0, 2));
  red0 = (red0 + pl_xor(red0, 1));
  const float v5 = red0;
  const float v7 = (v5 * v6);
  const float v9 = (v7 + v8);
  const float v10 = pl_rsqrt(v9);
  #pragma unroll 1
  for (int k0 = 0; k0 < 1; k0 += 1) {
    #pragma unroll
    for (int u = 0; u < 1; ++u) {
      const int t = first + (k0 + u) * 256;
      {
        const ix d1 = (t) * 2;
        PlVec<float, 2> s1;
        pl_get(s1, &S1[(k0 + u) * 512]);
        PlVec<float, 2> s2;
        pl_get(s2, &S2[(k0 + u) * 512]);
        PlVec<float, 2> o0;
        #pragma unroll
        for (int j = 0; j < 2; ++j) {
          const float v1 = ((unsigned long long)v0 < 60ULL ? s1.x[j] : PL_NAN_F32);
          const float v2 = s2.x[j];
          const float v3 = (v1 + v2);
          const float v11 = (v3 * v10);
          o0.x[j] = v11;
        }
        if (live) {
          pl_store<0, 2>(out0 + (512 * d0 + d1), o0);
        }
      }
    }
  }
}
