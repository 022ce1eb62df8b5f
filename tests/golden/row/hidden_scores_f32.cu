// genome: cluster=1 exchange=0 fast=1 hints=0 lines=0 min_blocks=2 online=0 operand_residency=0 partial_residency=0 persistent_rows=0 predication=1 raster=0 realign=0 residency=1 reverse=0 rows=16 stages=0 threads=512 unroll=2 vector=32
// launch: grid 30x1x1 block 512x1x1 cluster 1x1x1 shared 0
// arguments: input0 input1 input2 output0
// ---- tests/golden/shared/expression_prelude_cuda.cu ----
// ---- tests/golden/shared/cuda_memory_prelude.cu ----
typedef int ix;
extern "C" __global__ void __launch_bounds__(512, 2) planish_kernel(const float* __restrict__ in0, const unsigned char* __restrict__ in1, const long long* __restrict__ in2, float* __restrict__ out0) {
  const int tid = (int)threadIdx.x;
  const int first = tid % 32;
  const ix own = (ix)blockIdx.x * 16 + tid / 32;
  const bool live = own < 480;
  const ix row = live ? own : 479;
  const ix d1 = row % 96;
  const ix d0 = (row / 96);
  PlVec<float, 8> R0[2];
  PlVec<unsigned char, 8> R1[2];
  const long long v2 = pl_ldg(in2 + (d0));
  const float v5 = (-0x1.dcd65p+29f);
  const float v6 = 0x1p-3f;
  #pragma unroll
  for (int k0 = 0; k0 < 1; k0 += 2) {
    #pragma unroll
    for (int u = 0; u < 1; ++u) {
      const int t = first + (k0 + u) * 32;
      if (t < 12) {
        const ix d2 = (t) * 8;
        pl_load<0, 8>(R1[k0 + u], in1 + (96 * d1 + d2));
      }
    }
    #pragma unroll
    for (int u = 0; u < 1; ++u) {
      const int t = first + (k0 + u) * 32;
      if (t < 12) {
        const ix d2 = (t) * 8;
        bool n0 = false;
        #pragma unroll
        for (int j = 0; j < 8; ++j) {
          const bool v1 = (R1[k0 + u].x[j] != 0);
          const long long v2 = pl_ldg(in2 + (d0));
          const long long v3 = (long long)((d2 + j));
          const bool v4 = (v3 >= v2);
          n0 = n0 || (!v4 && !v1);
        }
        if (n0) pl_load<0, 4>(R0[k0 + u], in0 + (9216 * d0 + 96 * d1 + d2));
      }
    }
  }
  float acc0[8] = {(-PL_INF_F32), (-PL_INF_F32), (-PL_INF_F32), (-PL_INF_F32), (-PL_INF_F32), (-PL_INF_F32), (-PL_INF_F32), (-PL_INF_F32)};
  #pragma unroll
  for (int k0 = 0; k0 < 1; k0 += 2) {
    #pragma unroll
    for (int u = 0; u < 1; ++u) {
      const int t = first + (k0 + u) * 32;
      if (t < 12) {
        const ix d2 = (t) * 8;
        #pragma unroll
        for (int j = 0; j < 8; ++j) {
          const float v0 = R0[k0 + u].x[j];
          const bool v1 = (R1[k0 + u].x[j] != 0);
          const long long v3 = (long long)((d2 + j));
          const bool v4 = (v3 >= v2);
          const float v7 = (v0 * v6);
          const float v8 = (v1 ? v5 : v7);
          const float v9 = (v4 ? v5 : v8);
          acc0[j] = pl_max(acc0[j], v9);
        }
      }
    }
  }
  float red0 = pl_max(pl_max(pl_max(acc0[0], acc0[1]), pl_max(acc0[2], acc0[3])), pl_max(pl_max(acc0[4], acc0[5]), pl_max(acc0[6], acc0[7])));
  red0 = pl_max(red0, pl_xor(red0, 16));
  red0 = pl_max(red0, pl_xor(red0, 8));
  red0 = pl_max(red0, pl_xor(red0, 4));
  red0 = pl_max(red0, pl_xor(red0, 2));
  red0 = pl_max(red0, pl_xor(red0, 1));
  const float v10 = red0;
  float acc1[8] = {0x0p+0f, 0x0p+0f, 0x0p+0f, 0x0p+0f, 0x0p+0f, 0x0p+0f, 0x0p+0f, 0x0p+0f};
  #pragma unroll
  for (int k0 = 0; k0 < 1; k0 += 2) {
    #pragma unroll
    for (int u = 0; u < 1; ++u) {
      const int t = first + (k0 + u) * 32;
      if (t < 12) {
        const ix d2 = (t) * 8;
        #pragma unroll
        for (int j = 0; j < 8; ++j) {
          const float v0 = R0[k0 + u].x[j];
          const bool v1 = (R1[k0 + u].x[j] != 0);
          const long long v3 = (long long)((d2 + j));
          const bool v4 = (v3 >= v2);
          const float v7 = (v0 * v6);
          const float v8 = (v1 ? v5 : v7);
          const float v9 = (v4 ? v5 : v8);
          const float v11 = (v9 - v10);
          const float v12 = pl_fast_exp(v11);
          acc1[j] = (acc1[j] + v12);
        }
      }
    }
  }
  float red1 = (((acc1[0] + acc1[1]) + (acc1[2] + acc1[3])) + ((acc1[4] + acc1[5]) + (acc1[6] + acc1[7])));
  red1 = (red1 + pl_xor(red1, 16));
  red1 = (red1 + pl_xor(red1, 8));
  red1 = (red1 + pl_xor(red1, 4));
  red1 = (red1 + pl_xor(red1, 2));
  red1 = (red1 + pl_xor(red1, 1));
  const float v13 = red1;
  #pragma unroll
  for (int k0 = 0; k0 < 1; k0 += 2) {
    #pragma unroll
    for (int u = 0; u < 1; ++u) {
      const int t = first + (k0 + u) * 32;
      if (t < 12) {
        const ix d2 = (t) * 8;
        PlVec<float, 8> o0;
        #pragma unroll
        for (int j = 0; j < 8; ++j) {
          const float v0 = R0[k0 + u].x[j];
          const bool v1 = (R1[k0 + u].x[j] != 0);
          const long long v3 = (long long)((d2 + j));
          const bool v4 = (v3 >= v2);
          const float v7 = (v0 * v6);
          const float v8 = (v1 ? v5 : v7);
          const float v9 = (v4 ? v5 : v8);
          const float v11 = (v9 - v10);
          const float v12 = pl_fast_exp(v11);
          const float v14 = (v12 * (1.0f / v13));
          o0.x[j] = v14;
        }
        if (live) {
          pl_store<0, 4>(out0 + (9216 * d0 + 96 * d1 + d2), o0);
        }
      }
    }
  }
}
