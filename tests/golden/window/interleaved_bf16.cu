// genome: fast=0 hints=2 persistent=0 predication=0 threads=128 unroll=2 vector=16
// launch: grid 13824x1x1 block 128x1x1 cluster 1x1x1 shared 0
// arguments: input0 input1 input2 input3 output0
// ---- tests/golden/shared/expression_prelude_cuda.cu ----
// ---- tests/golden/shared/cuda_memory_prelude.cu ----
typedef int ix;
extern "C" __global__ void __launch_bounds__(128, 1) planish_kernel(const unsigned short* __restrict__ in0, const unsigned short* __restrict__ in1, const float* __restrict__ in2, const float* __restrict__ in3, unsigned short* __restrict__ out0) {
  {
    const ix tile = blockIdx.x;
    PlVec<float, 4> r3[2];
    PlVec<unsigned short, 4> r4[2];
    PlVec<unsigned short, 4> r6[2];
    PlVec<float, 4> r25[2];
    #pragma unroll
    for (int u = 0; u < 2; ++u) {
      const ix q = tile * 256 + u * 128 + (int)threadIdx.x;
      {
        const ix d2 = (q % 32) * 4;
        const ix d1 = (q / 32) % 24;
        const ix d0 = (q / 768);
        pl_load<0, 4>(r3[u], in2 + (128 * d0 + d2));
        if ((d0) < 512) pl_load<0, 4>(r4[u], in0 + (3072 * d0 + 128 * d1 + d2));
        if ((d0) >= 512) pl_load<0, 4>(r6[u], in1 + (3072 * d0 + 128 * d1 + d2 - 1572864));
        pl_load<0, 4>(r25[u], in3 + (128 * d0 + d2));
      }
    }
    #pragma unroll
    for (int u = 0; u < 2; ++u) {
      const ix q = tile * 256 + u * 128 + (int)threadIdx.x;
      {
        const ix d2 = (q % 32) * 4;
        const ix d1 = (q / 32) % 24;
        const ix d0 = (q / 768);
        PlVec<unsigned short, 4> o0;
        const long long v0 = (long long)(d0);
        const long long v1 = 512LL;
        const bool v2 = (v0 < v1);
        const long long v11 = 1LL;
        #pragma unroll
        for (int j = 0; j < 4; ++j) {
          const float v3 = r3[u].x[j];
          const float v4 = ((d0) < 512 ? pl_lane_bf16(r4[u], j) : 0x0p+0f);
          const float v5 = v4;
          const float v6 = ((d0) >= 512 ? pl_lane_bf16(r6[u], j) : 0x0p+0f);
          const float v7 = v6;
          const float v8 = (v2 ? v5 : v7);
          const float v9 = (v8 * v3);
          const long long v10 = (long long)((((d2 + j)) % 2));
          const bool v12 = (v10 < v11);
          const float v13 = (((((d2 + j)) % 2)) < 1 && (d0) < 512 ? pl_lane_bf16(r4[u], (int)(0x301ull >> 4 * j & 15)) : 0x0p+0f);
          const float v14 = v13;
          const float v15 = (((((d2 + j)) % 2)) < 1 && (d0) >= 512 ? pl_lane_bf16(r6[u], (int)(0x301ull >> 4 * j & 15)) : 0x0p+0f);
          const float v16 = v15;
          const float v17 = (v2 ? v14 : v16);
          const float v18 = (-v17);
          const float v19 = (((((d2 + j)) % 2)) >= 1 && (d0) < 512 ? pl_lane_bf16(r4[u], (int)(0x2000ull >> 4 * j & 15)) : 0x0p+0f);
          const float v20 = v19;
          const float v21 = (((((d2 + j)) % 2)) >= 1 && (d0) >= 512 ? pl_lane_bf16(r6[u], (int)(0x2000ull >> 4 * j & 15)) : 0x0p+0f);
          const float v22 = v21;
          const float v23 = (v2 ? v20 : v22);
          const float v24 = (v12 ? v18 : v23);
          const float v25 = r25[u].x[j];
          const float v26 = (v24 * v25);
          const float v27 = (v9 + v26);
          o0.x[j] = pl_to_bf16(v27);
        }
        pl_store<1, 4>(out0 + (3072 * d0 + 128 * d1 + d2), o0);
      }
    }
  }
}
