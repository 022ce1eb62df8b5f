// genome: across=16 blocks=2 fast=0 hints=0 min_blocks=1 threads=512 trips=1 unroll=1 vector=16
// launch: grid 3x1x1 block 512x1x1 cluster 1x1x1 shared 0
// arguments: input0 input1 input2 output0 output1 output2 scratch0 scratch1 scratch2
// ---- tests/golden/shared/expression_prelude_cuda.cu ----
// ---- tests/golden/shared/cuda_memory_prelude.cu ----
typedef int ix;
extern "C" __global__ void __launch_bounds__(512, 1) planish_kernel(const float* __restrict__ in0, const float* __restrict__ in1, const float* __restrict__ in2, float* __restrict__ out0, float* __restrict__ out1, unsigned char* __restrict__ out2, float* __restrict__ part0, float* __restrict__ part1, unsigned char* __restrict__ part2) {
  const int tid = (int)threadIdx.x;
  const int first = tid % 16, side = tid / 16;
  const int from = 0;
  const int run = (int)blockIdx.x;
  const int chunk = run % 1, common = run / 1;
  const ix d0 = common;
  const int begin = chunk * 32, end = begin + 32 < 21 ? begin + 32 : 21;
  float c2[1][4];
  #pragma unroll
  for (int k = 0; k < 1; ++k) {
    #pragma unroll
    for (int j = 0; j < 4; ++j) c2[k][j] = 0x0p+0f;
  }
  float c3[1][4];
  #pragma unroll
  for (int k = 0; k < 1; ++k) {
    #pragma unroll
    for (int j = 0; j < 4; ++j) c3[k][j] = PL_INF_F32;
  }
  bool c4[1][4];
  #pragma unroll
  for (int k = 0; k < 1; ++k) {
    #pragma unroll
    for (int j = 0; j < 4; ++j) c4[k][j] = true;
  }
  PlVec<float, 4> H1[1];
  PlVec<float, 4> H9[1];
  #pragma unroll
  for (int k = 0; k < 1; ++k) {
    const int t = from + first + k * 16;
    {
      const ix d2 = (t) * 4;
      const int u = 0;
      PlVec<float, 4> r1[1];
      pl_load<0, 4>(r1[u], in1 + (d2));
      H1[k] = r1[0];
      PlVec<float, 4> r9[1];
      pl_load<0, 4>(r9[u], in2 + (64 * d0 + d2));
      H9[k] = r9[0];
    }
  }
  #pragma unroll 1
  for (int i0 = begin; i0 < end; i0 += 32) {
    PlVec<float, 4> r0[1];
    #pragma unroll
    for (int g = 0; g < 1; ++g) {
      const int at = i0 + g * 32 + side;
      const bool live = at < end;
      const int row = live ? at : end - 1;
      const ix d1 = row;
      #pragma unroll
      for (int k = 0; k < 1; ++k) {
        const int t = from + first + k * 16;
        {
          const ix d2 = (t) * 4;
          const int u = g * 1 + k;
          pl_load<0, 4>(r0[u], in0 + (1344 * d0 + 64 * d1 + d2));
        }
      }
    }
    float R0[1];
    bool R1[1];
    #pragma unroll
    for (int g = 0; g < 1; ++g) {
      const int at = i0 + g * 32 + side;
      const bool live = at < end;
      const int row = live ? at : end - 1;
      const ix d1 = row;
      const float v5 = 0x1.4p+1f;
      float a0[4] = {(-PL_INF_F32), (-PL_INF_F32), (-PL_INF_F32), (-PL_INF_F32)};
      bool a1[4] = {false, false, false, false};
      #pragma unroll
      for (int k = 0; k < 1; ++k) {
        const int t = from + first + k * 16;
        {
          const ix d2 = (t) * 4;
          const int u = g * 1 + k;
          #pragma unroll
          for (int j = 0; j < 4; ++j) {
            const float v0 = r0[u].x[j];
            const float v1 = H1[k].x[j];
            const float v2 = (v0 + v1);
            const float v3 = pl_max(v2, 0x0p+0f);
            const bool v6 = (v0 > v5);
            a0[j] = pl_max(a0[j], v3);
            a1[j] = (bool)((a1[j] != 0) | (v6 != 0));
          }
        }
      }
      R0[g] = pl_max(pl_max(a0[0], a0[1]), pl_max(a0[2], a0[3]));
      R1[g] = (bool)(((bool)((a1[0] != 0) | (a1[1] != 0)) != 0) | ((bool)((a1[2] != 0) | (a1[3] != 0)) != 0));
    }
    #pragma unroll
    for (int g = 0; g < 1; ++g) {
      R0[g] = pl_max(R0[g], pl_xor(R0[g], 8));
      R1[g] = (bool)((R1[g] != 0) | (pl_xor(R1[g], 8) != 0));
      R0[g] = pl_max(R0[g], pl_xor(R0[g], 4));
      R1[g] = (bool)((R1[g] != 0) | (pl_xor(R1[g], 4) != 0));
      R0[g] = pl_max(R0[g], pl_xor(R0[g], 2));
      R1[g] = (bool)((R1[g] != 0) | (pl_xor(R1[g], 2) != 0));
      R0[g] = pl_max(R0[g], pl_xor(R0[g], 1));
      R1[g] = (bool)((R1[g] != 0) | (pl_xor(R1[g], 1) != 0));
    }
    if (first == 0) {
      #pragma unroll
      for (int g = 0; g < 1; ++g) {
        const int at = i0 + g * 32 + side;
        const bool live = at < end;
        const int row = live ? at : end - 1;
        const ix d1 = row;
        if (live) {
          const float red0 = R0[g];
          const bool red1 = R1[g];
          const float v4 = red0;
          const bool v7 = red1;
          out1[21 * d0 + d1] = v4;
          out2[21 * d0 + d1] = (unsigned char)v7;
        }
      }
    }
    #pragma unroll
    for (int g = 0; g < 1; ++g) {
      const int at = i0 + g * 32 + side;
      const bool live = at < end;
      const int row = live ? at : end - 1;
      const ix d1 = row;
      if (live) {
        const float v13 = 0x1p+2f;
        #pragma unroll
        for (int k = 0; k < 1; ++k) {
          const int t = from + first + k * 16;
          {
            const ix d2 = (t) * 4;
            const int u = g * 1 + k;
            PlVec<float, 4> o0;
            #pragma unroll
            for (int j = 0; j < 4; ++j) {
              const float v0 = r0[u].x[j];
              const float v1 = H1[k].x[j];
              const float v2 = (v0 + v1);
              const float v3 = pl_max(v2, 0x0p+0f);
              const bool v14 = (v0 < v13);
              c2[k][j] = (c2[k][j] + v3);
              c3[k][j] = pl_min(c3[k][j], v0);
              c4[k][j] = (bool)((c4[k][j] != 0) & (v14 != 0));
              o0.x[j] = v3;
            }
            pl_store<0, 4>(out0 + (1344 * d0 + 64 * d1 + d2), o0);
          }
        }
      }
    }
  }
  __shared__ float hc2[2048];
  __shared__ float hc3[2048];
  __shared__ bool hc4[2048];
  #pragma unroll
  for (int k = 0; k < 1; ++k) {
    #pragma unroll
    for (int j = 0; j < 4; ++j) {
      hc2[(side * 4 + j) * 16 + first] = c2[k][j];
      hc3[(side * 4 + j) * 16 + first] = c3[k][j];
      hc4[(side * 4 + j) * 16 + first] = c4[k][j];
    }
    __syncthreads();
    #pragma unroll 1
    for (int h = 16; h > 0; h /= 2) {
      if (side < h) {
        #pragma unroll
        for (int j = 0; j < 4; ++j) {
          c2[k][j] = (c2[k][j] + hc2[((side + h) * 4 + j) * 16 + first]);
          c3[k][j] = pl_min(c3[k][j], hc3[((side + h) * 4 + j) * 16 + first]);
          c4[k][j] = (bool)((c4[k][j] != 0) & (hc4[((side + h) * 4 + j) * 16 + first] != 0));
        }
        #pragma unroll
        for (int j = 0; j < 4; ++j) {
          hc2[(side * 4 + j) * 16 + first] = c2[k][j];
          hc3[(side * 4 + j) * 16 + first] = c3[k][j];
          hc4[(side * 4 + j) * 16 + first] = c4[k][j];
        }
      }
      __syncthreads();
    }
    const int t = from + first + k * 16;
    if (side == 0 && t < 16) {
      PlVec<float, 4> o0;
      #pragma unroll
      for (int j = 0; j < 4; ++j) {
        o0.x[j] = c2[k][j];
      }
      pl_store<0, 4>(part0 + chunk * 192LL + common * 64LL + t * 4LL, o0);
      PlVec<float, 4> o1;
      #pragma unroll
      for (int j = 0; j < 4; ++j) {
        o1.x[j] = c3[k][j];
      }
      pl_store<0, 4>(part1 + chunk * 192LL + common * 64LL + t * 4LL, o1);
      PlVec<unsigned char, 4> o2;
      #pragma unroll
      for (int j = 0; j < 4; ++j) {
        o2.x[j] = c4[k][j];
      }
      pl_store<0, 4>(part2 + chunk * 192LL + common * 64LL + t * 4LL, o2);
    }
  }
}

// launch: grid 3x1x1 block 64x1x1 cluster 1x1x1 shared 0
// arguments: scratch0 scratch1 scratch2 input1 input2 output3 output4 output5
// ---- tests/golden/shared/expression_prelude_cuda.cu ----
// ---- tests/golden/shared/cuda_memory_prelude.cu ----
// The first NaN, else the extreme value with the smallest position.
template <bool MAX, typename T, typename I> PL_FN void pl_extreme(T& best, I& at, T x, I i) {
  const bool odd = x != x, none = best != best;
  const bool beyond = MAX ? x > best : x < best;
  if (none ? odd & (i < at) : odd | beyond | ((x == best) & (i < at))) {
    best = x;
    at = i;
  }
}
// The same where what comes lies behind all that came before. What is not beyond the start is not taken.
template <bool MAX, typename T, typename I> PL_FN void pl_later(T& best, I& at, T x, I i) {
  const bool beyond = MAX ? !(x <= best) : !(x >= best);
  if (beyond & (best == best)) {
    best = x;
    at = i;
  }
}
// Chan's merge of counts, sums and squared deviations from the mean.
PL_FN void pl_deviations(float& n, float& t, float& q, float m, float u, float r) {
  const float both = n + m;
  const float gap = n > 0.0f && m > 0.0f ? u / m - t / n : 0.0f;
  q += r + gap * gap * (both > 0.0f ? n * (m / both) : 0.0f);
  t += u;
  n = both;
}
typedef int ix;
extern "C" __global__ void __launch_bounds__(64, 1) planish_kernel(const float* __restrict__ in0, const float* __restrict__ in1, const unsigned char* __restrict__ in2, const float* __restrict__ in3, const float* __restrict__ in4, float* __restrict__ out0, float* __restrict__ out1, unsigned char* __restrict__ out2) {
  const int tid = (int)threadIdx.x;
  const int x = tid % 64, y = tid / 64;
  const ix group = (ix)(blockIdx.x % 3);
  const int slice = 0, from = 0, upto = 1;
  const ix own = group * 64 + x;
  const bool live = own < 192;
  const ix row = live ? own : 191;
  const ix d1 = row % 64;
  const ix d0 = (row / 64);
  float a0[1] = {0x0p+0f};
  float a1[1] = {PL_INF_F32};
  bool a2[1] = {true};
  #pragma unroll 1
  for (int k0 = 0; k0 < 1; k0 += 1) {
    PlVec<float, 1> r0[1];
    PlVec<float, 1> r2[1];
    PlVec<unsigned char, 1> r4[1];
    #pragma unroll
    for (int u = 0; u < 1; ++u) {
      const ix t = from + y + (k0 + u) * 1;
      {
        const ix d2 = t;
        pl_load<0, 1>(r0[u], in0 + (64 * d0 + d1 + 192 * d2));
        pl_load<0, 1>(r2[u], in1 + (64 * d0 + d1 + 192 * d2));
        pl_load<0, 1>(r4[u], in2 + (64 * d0 + d1 + 192 * d2));
      }
    }
    #pragma unroll
    for (int u = 0; u < 1; ++u) {
      const ix t = from + y + (k0 + u) * 1;
      {
        const ix d2 = t;
        #pragma unroll
        for (int j = 0; j < 1; ++j) {
          const float v0 = r0[u].x[j];
          const float v2 = r2[u].x[j];
          const bool v4 = (r4[u].x[j] != 0);
          a0[j] = (a0[j] + v0);
          a1[j] = pl_min(a1[j], v2);
          a2[j] = (bool)((a2[j] != 0) & (v4 != 0));
        }
      }
    }
  }
  float red0[1];
  float red1[1];
  bool red2[1];
  #pragma unroll
  for (int j = 0; j < 1; ++j) {
    red0[j] = a0[j];
    red1[j] = a1[j];
    red2[j] = a2[j];
  }
  if (live && y == 0 && slice == 0) {
    PlVec<float, 1> o0;
    PlVec<float, 1> o1;
    PlVec<unsigned char, 1> o2;
    #pragma unroll
    for (int j = 0; j < 1; ++j) {
      const float v1 = red0[j];
      const float v3 = red1[j];
      const bool v5 = red2[j];
      const float v6 = pl_ldg(in3 + (d1));
      const float v7 = (v1 * v6);
      const float v8 = pl_ldg(in4 + (64 * d0 + d1));
      const float v9 = (v7 + v8);
      o0.x[j] = v9;
      o1.x[j] = v3;
      o2.x[j] = (unsigned char)v5;
    }
    pl_store<0, 1>(out0 + (64 * d0 + d1), o0);
    pl_store<0, 1>(out1 + (64 * d0 + d1), o1);
    pl_store<0, 1>(out2 + (64 * d0 + d1), o2);
  }
}
