// genome: cluster=1 exchange=0 fast=1 hints=0 lines=0 min_blocks=4 online=0 operand_residency=0 partial_residency=0 persistent_rows=0 predication=0 raster=0 realign=0 residency=1 reverse=0 rows=8 stages=0 threads=256 unroll=4 vector=16
// launch: grid 1x1x1 block 256x1x1 cluster 1x1x1 shared 0
// arguments: input0 input1 input2 scratch0
// ---- tests/golden/shared/expression_prelude_cuda.cu ----
// ---- tests/golden/shared/cuda_memory_prelude.cu ----
typedef int ix;
extern "C" __global__ void __launch_bounds__(256, 4) planish_kernel(const float* __restrict__ in0, const float* __restrict__ in1, const float* __restrict__ in2, float* __restrict__ out0) {
  const int tid = (int)threadIdx.x;
  const int first = tid % 32;
  const ix own = (ix)blockIdx.x * 8 + tid / 32;
  const bool live = own < 6;
  const ix row = live ? own : 5;
  const ix d1 = row % 3;
  const ix d0 = (row / 3);
  PlVec<float, 4> R0[8];
  const float v3 = 0x1p+10f;
  const float v10 = 0x1.4f8b58p-17f;
  #pragma unroll
  for (int k0 = 0; k0 < 8; k0 += 4) {
    #pragma unroll
    for (int u = 0; u < 4; ++u) {
      const int t = first + (k0 + u) * 32;
      {
        const ix d3 = (t % 64) * 4;
        const ix d2 = (t / 64);
        pl_load<0, 4>(R0[k0 + u], in0 + (3072 * d0 + 1024 * d1 + 256 * d2 + d3));
      }
    }
  }
  float acc0[4] = {0x0p+0f, 0x0p+0f, 0x0p+0f, 0x0p+0f};
  #pragma unroll
  for (int k0 = 0; k0 < 8; k0 += 4) {
    #pragma unroll
    for (int u = 0; u < 4; ++u) {
      const int t = first + (k0 + u) * 32;
      {
        const ix d3 = (t % 64) * 4;
        const ix d2 = (t / 64);
        #pragma unroll
        for (int j = 0; j < 4; ++j) {
          const float v0 = R0[k0 + u].x[j];
          acc0[j] = (acc0[j] + v0);
        }
      }
    }
  }
  float red0 = ((acc0[0] + acc0[1]) + (acc0[2] + acc0[3]));
  red0 = (red0 + pl_xor(red0, 16));
  red0 = (red0 + pl_xor(red0, 8));
  red0 = (red0 + pl_xor(red0, 4));
  red0 = (red0 + pl_xor(red0, 2));
  red0 = (red0 + pl_xor(red0, 1));
  const float v4 = red0;
  const float v5 = (v4 * (1.0f / v3));
  float acc1[4] = {0x0p+0f, 0x0p+0f, 0x0p+0f, 0x0p+0f};
  #pragma unroll
  for (int k0 = 0; k0 < 8; k0 += 4) {
    #pragma unroll
    for (int u = 0; u < 4; ++u) {
      const int t = first + (k0 + u) * 32;
      {
        const ix d3 = (t % 64) * 4;
        const ix d2 = (t / 64);
        #pragma unroll
        for (int j = 0; j < 4; ++j) {
          const float v0 = R0[k0 + u].x[j];
          const float v6 = (v0 - v5);
          const float v7 = (v6 * v6);
          acc1[j] = (acc1[j] + v7);
        }
      }
    }
  }
  float red1 = ((acc1[0] + acc1[1]) + (acc1[2] + acc1[3]));
  red1 = (red1 + pl_xor(red1, 16));
  red1 = (red1 + pl_xor(red1, 8));
  red1 = (red1 + pl_xor(red1, 4));
  red1 = (red1 + pl_xor(red1, 2));
  red1 = (red1 + pl_xor(red1, 1));
  const float v8 = red1;
  const float v9 = (v8 * (1.0f / v3));
  const float v11 = (v9 + v10);
  const float v12 = pl_rsqrt(v11);
  float piece0 = 0x0p+0f;
  #pragma unroll
  for (int k0 = 0; k0 < 8; k0 += 4) {
    PlVec<float, 1> r1[4];
    PlVec<float, 1> r2[4];
    #pragma unroll
    for (int u = 0; u < 4; ++u) {
      const int t = first + (k0 + u) * 32;
      {
        const ix d3 = (t % 64) * 4;
        const ix d2 = (t / 64);
        pl_load<0, 1>(r1[u], in1 + (4 * d1 + d2));
        pl_load<0, 1>(r2[u], in2 + (4 * d1 + d2));
      }
    }
    #pragma unroll
    for (int u = 0; u < 4; ++u) {
      const int t = first + (k0 + u) * 32;
      {
        const ix d3 = (t % 64) * 4;
        const ix d2 = (t / 64);
        PlVec<float, 4> o0;
        const float v1 = r1[u].x[0];
        const float v2 = r2[u].x[0];
        #pragma unroll
        for (int j = 0; j < 4; ++j) {
          const float v0 = R0[k0 + u].x[j];
          const float v6 = (v0 - v5);
          const float v13 = (v6 * v12);
          const float v14 = (v13 * v1);
          const float v15 = (v14 + v2);
          const float v16 = pl_fast_sigmoid(v15);
          const float v17 = (v15 * v16);
          o0.x[j] = v17;
        }
        if (live) {
          piece0 = (piece0 + ((o0.x[0] + o0.x[1]) + (o0.x[2] + o0.x[3])));
          if ((u + 1) % 2 == 0) {
            float fold = piece0;
            fold = (fold + pl_xor(fold, 16));
            fold = (fold + pl_xor(fold, 8));
            fold = (fold + pl_xor(fold, 4));
            fold = (fold + pl_xor(fold, 2));
            fold = (fold + pl_xor(fold, 1));
            if (tid % 32 == 0) out0[(3 * d0 + d1) * 4 + (ix)((unsigned)t / 64u * 1u + (unsigned)t % 32u / 32u)] = fold;
            piece0 = 0x0p+0f;
          }
        }
      }
    }
  }
}

// launch: grid 1x1x1 block 1024x1x1 cluster 1x1x1 shared 0
// arguments: scratch0 output0
// ---- tests/golden/shared/expression_prelude_cuda.cu ----
// ---- tests/golden/shared/cuda_memory_prelude.cu ----
typedef int ix;
extern "C" __global__ void __launch_bounds__(1024, 1) planish_kernel(const float* __restrict__ in0, float* __restrict__ out0) {
  const int tid = (int)threadIdx.x;
  const int first = tid % 32;
  const ix own = (ix)blockIdx.x * 32 + tid / 32;
  const bool live = own < 24;
  const ix row = live ? own : 23;
  const ix d2 = row % 4;
  const ix d1 = (row / 4) % 3;
  const ix d0 = (row / 12);
  const float v2 = 0x1p+8f;
  float acc0[4] = {0x0p+0f, 0x0p+0f, 0x0p+0f, 0x0p+0f};
  #pragma unroll 1
  for (int k0 = 0; k0 < 1; k0 += 1) {
    PlVec<float, 4> r0[1];
    #pragma unroll
    for (int u = 0; u < 1; ++u) {
      const int t = first + (k0 + u) * 32;
      if (t < 1) {
        const int e0 = t * 4;
        if (e0 + 4 <= 1) {
          #pragma unroll
          for (int j = 0; j < 4; ++j) {
            const ix e = e0 + j;
            const ix l3 = e;
            r0[u].x[j] = pl_ldg(in0 + (12 * d0 + 4 * d1 + d2 + l3));
          }
        } else {
          #pragma unroll
          for (int j = 0; j < 4; ++j) {
            const ix e = e0 + j;
            const ix l3 = e;
            if ((unsigned)(e0 + j) < 1u) r0[u].x[j] = pl_ldg(in0 + (12 * d0 + 4 * d1 + d2 + l3));
          }
        }
      }
    }
    #pragma unroll
    for (int u = 0; u < 1; ++u) {
      const int t = first + (k0 + u) * 32;
      if (t < 1) {
        const int e0 = t * 4;
        #pragma unroll
        for (int j = 0; j < 4; ++j) {
          const ix e = e0 + j;
          const ix l3 = e;
          const float v0 = r0[u].x[j];
          if ((unsigned)(e0 + j) < 1u) acc0[j] = (acc0[j] + v0);
        }
      }
    }
  }
  float red0 = ((acc0[0] + acc0[1]) + (acc0[2] + acc0[3]));
  red0 = (red0 + pl_xor(red0, 16));
  red0 = (red0 + pl_xor(red0, 8));
  red0 = (red0 + pl_xor(red0, 4));
  red0 = (red0 + pl_xor(red0, 2));
  red0 = (red0 + pl_xor(red0, 1));
  const float v1 = red0;
  const float v3 = (v1 * (1.0f / v2));
  if (live && first == 0) {
    out0[12 * d0 + 4 * d1 + d2] = v3;
  }
}
