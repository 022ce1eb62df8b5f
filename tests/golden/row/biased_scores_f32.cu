// genome: cluster=1 exchange=0 fast=1 hints=0 lines=1 min_blocks=2 online=0 operand_residency=0 partial_residency=0 persistent_rows=0 predication=2 raster=0 realign=0 residency=1 reverse=0 rows=16 stages=0 threads=512 unroll=2 vector=16
// launch: grid 17x1x1 block 512x1x1 cluster 1x1x1 shared 0
// arguments: input0 input1 output0
// ---- tests/golden/shared/expression_prelude_cuda.cu ----
// ---- tests/golden/shared/cuda_memory_prelude.cu ----
typedef int ix;
extern "C" __global__ void __launch_bounds__(512, 2) planish_kernel(const float* __restrict__ in0, const float* __restrict__ in1, float* __restrict__ out0) {
  const int tid = (int)threadIdx.x;
  const int first = tid % 32;
  const ix own = (ix)blockIdx.x * 16 + tid / 32;
  const bool live = own < 264;
  const ix row = live ? own : 263;
  const ix d2 = row % 44;
  const ix d1 = (row / 44) % 2;
  const ix d0 = (row / 88);
  const int shift = (int)((3872 * d0 + 1936 * d1 + 44 * d2) & 31);
  PlVec<float, 4> R0[2];
  PlVec<float, 4> R1[2];
  const long long v3 = 0LL;
  const float v6 = (-PL_INF_F32);
  const float v7 = 0x1p-3f;
  #pragma unroll
  for (int k0 = 0; k0 < 1; k0 += 2) {
    #pragma unroll
    for (int u = 0; u < 1; ++u) {
      const int t = first + (k0 + u) * 32;
      if (t < 18) {
        const int e0 = (t < 2 ? t + 7 : t < 9 ? t - 2 : t) * 4 - shift;
        const int own = e0 / 4;
        const ix d3 = (own) * 4;
        bool n0 = false;
        #pragma unroll
        for (int j = 0; j < 4; ++j) {
          const long long v2 = (long long)(d2 - (d3 + j));
          const long long v3 = 0LL;
          const bool v4 = (v2 >= v3);
          const bool v5 = (v4 == 0);
          n0 = n0 || (!v5);
        }
        if (e0 >= 0 && e0 + 4 <= 44) {
          if (n0) pl_load<0, 4>(R0[k0 + u], in0 + (3872 * d0 + 1936 * d1 + 44 * d2 + d3));
          if (n0) pl_load<0, 4>(R1[k0 + u], in1 + (1936 * d1 + 44 * d2 + d3));
        } else {
          #pragma unroll
          for (int j = 0; j < 4; ++j) {
            if ((unsigned)(e0 + j) < 44u) R0[k0 + u].x[j] = pl_ldg(in0 + (3872 * d0 + 1936 * d1 + 44 * d2 + (d3 + j)));
          }
          #pragma unroll
          for (int j = 0; j < 4; ++j) {
            if ((unsigned)(e0 + j) < 44u) R1[k0 + u].x[j] = pl_ldg(in1 + (1936 * d1 + 44 * d2 + (d3 + j)));
          }
        }
      }
    }
  }
  float acc0[4] = {(-PL_INF_F32), (-PL_INF_F32), (-PL_INF_F32), (-PL_INF_F32)};
  #pragma unroll
  for (int k0 = 0; k0 < 1; k0 += 2) {
    #pragma unroll
    for (int u = 0; u < 1; ++u) {
      const int t = first + (k0 + u) * 32;
      if (t < 18) {
        const int e0 = (t < 2 ? t + 7 : t < 9 ? t - 2 : t) * 4 - shift;
        const int own = e0 / 4;
        const ix d3 = (own) * 4;
        bool n0 = false;
        #pragma unroll
        for (int j = 0; j < 4; ++j) {
          const long long v2 = (long long)(d2 - (d3 + j));
          const long long v3 = 0LL;
          const bool v4 = (v2 >= v3);
          const bool v5 = (v4 == 0);
          n0 = n0 || (!v5);
        }
        if (n0) {
          #pragma unroll
          for (int j = 0; j < 4; ++j) {
            const float v0 = R0[k0 + u].x[j];
            const float v1 = R1[k0 + u].x[j];
            const long long v2 = (long long)(d2 - (d3 + j));
            const bool v4 = (v2 >= v3);
            const bool v5 = (v4 == 0);
            const float v8 = (v0 * v7);
            const float v9 = (v8 + v1);
            const float v10 = (v5 ? v6 : v9);
            if ((unsigned)(e0 + j) < 44u) acc0[j] = pl_max(acc0[j], v10);
          }
        } else {
          const float v10 = v6;
          #pragma unroll
          for (int j = 0; j < 4; ++j) {
            if ((unsigned)(e0 + j) < 44u) acc0[j] = pl_max(acc0[j], v10);
          }
        }
      }
    }
  }
  float red0 = pl_max(pl_max(acc0[0], acc0[1]), pl_max(acc0[2], acc0[3]));
  red0 = pl_max(red0, pl_xor(red0, 16));
  red0 = pl_max(red0, pl_xor(red0, 8));
  red0 = pl_max(red0, pl_xor(red0, 4));
  red0 = pl_max(red0, pl_xor(red0, 2));
  red0 = pl_max(red0, pl_xor(red0, 1));
  const float v11 = red0;
  float acc1[4] = {0x0p+0f, 0x0p+0f, 0x0p+0f, 0x0p+0f};
  #pragma unroll
  for (int k0 = 0; k0 < 1; k0 += 2) {
    #pragma unroll
    for (int u = 0; u < 1; ++u) {
      const int t = first + (k0 + u) * 32;
      if (t < 18) {
        const int e0 = (t < 2 ? t + 7 : t < 9 ? t - 2 : t) * 4 - shift;
        const int own = e0 / 4;
        const ix d3 = (own) * 4;
        bool n0 = false;
        #pragma unroll
        for (int j = 0; j < 4; ++j) {
          const long long v2 = (long long)(d2 - (d3 + j));
          const long long v3 = 0LL;
          const bool v4 = (v2 >= v3);
          const bool v5 = (v4 == 0);
          n0 = n0 || (!v5);
        }
        if (n0) {
          #pragma unroll
          for (int j = 0; j < 4; ++j) {
            const float v0 = R0[k0 + u].x[j];
            const float v1 = R1[k0 + u].x[j];
            const long long v2 = (long long)(d2 - (d3 + j));
            const bool v4 = (v2 >= v3);
            const bool v5 = (v4 == 0);
            const float v8 = (v0 * v7);
            const float v9 = (v8 + v1);
            const float v10 = (v5 ? v6 : v9);
            const float v12 = (v10 - v11);
            const float v13 = pl_fast_exp(v12);
            if ((unsigned)(e0 + j) < 44u) acc1[j] = (acc1[j] + v13);
          }
        } else {
          const float v10 = v6;
          #pragma unroll
          for (int j = 0; j < 4; ++j) {
            const float v12 = (v10 - v11);
            const float v13 = pl_fast_exp(v12);
            if ((unsigned)(e0 + j) < 44u) acc1[j] = (acc1[j] + v13);
          }
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
  const float v14 = red1;
  #pragma unroll
  for (int k0 = 0; k0 < 1; k0 += 2) {
    #pragma unroll
    for (int u = 0; u < 1; ++u) {
      const int t = first + (k0 + u) * 32;
      if (t < 18) {
        const int e0 = (t < 2 ? t + 7 : t < 9 ? t - 2 : t) * 4 - shift;
        const int own = e0 / 4;
        const ix d3 = (own) * 4;
        PlVec<float, 4> o0;
        bool n0 = false;
        #pragma unroll
        for (int j = 0; j < 4; ++j) {
          const long long v2 = (long long)(d2 - (d3 + j));
          const long long v3 = 0LL;
          const bool v4 = (v2 >= v3);
          const bool v5 = (v4 == 0);
          n0 = n0 || (!v5);
        }
        if (n0) {
          #pragma unroll
          for (int j = 0; j < 4; ++j) {
            const float v0 = R0[k0 + u].x[j];
            const float v1 = R1[k0 + u].x[j];
            const long long v2 = (long long)(d2 - (d3 + j));
            const bool v4 = (v2 >= v3);
            const bool v5 = (v4 == 0);
            const float v8 = (v0 * v7);
            const float v9 = (v8 + v1);
            const float v10 = (v5 ? v6 : v9);
            const float v12 = (v10 - v11);
            const float v13 = pl_fast_exp(v12);
            const float v15 = (v13 * (1.0f / v14));
            o0.x[j] = v15;
          }
        } else {
          const float v10 = v6;
          #pragma unroll
          for (int j = 0; j < 4; ++j) {
            const float v12 = (v10 - v11);
            const float v13 = pl_fast_exp(v12);
            const float v15 = (v13 * (1.0f / v14));
            o0.x[j] = v15;
          }
        }
        if (live) {
          if (e0 >= 0 && e0 + 4 <= 44) {
            pl_store<0, 4>(out0 + (3872 * d0 + 1936 * d1 + 44 * d2 + d3), o0);
          } else {
            #pragma unroll
            for (int j = 0; j < 4; ++j) {
              if ((unsigned)(e0 + j) < 44u) out0[3872 * d0 + 1936 * d1 + 44 * d2 + (d3 + j)] = o0.x[j];
            }
          }
        }
      }
    }
  }
}
