// genome: across=8 blocks=2 fast=0 hints=0 min_blocks=1 threads=512 trips=2 unroll=1 vector=16
// launch: grid 1x1x1 block 512x1x1 cluster 1x1x1 shared 0
// arguments: input0 output0 scratch0
// ---- tests/golden/shared/expression_prelude_cuda.cu ----
// ---- tests/golden/shared/cuda_memory_prelude.cu ----
typedef int ix;
extern "C" __global__ void __launch_bounds__(512, 1) planish_kernel(const float* __restrict__ in0, float* __restrict__ out0, float* __restrict__ part0) {
  const int tid = (int)threadIdx.x;
  const int first = tid % 8, side = tid / 8;
  const int from = 0;
  const int run = (int)blockIdx.x;
  const int chunk = run % 1, common = run / 1;
  const int begin = chunk * 64, end = begin + 64 < 37 ? begin + 64 : 37;
  float c1[2][4];
  #pragma unroll
  for (int k = 0; k < 2; ++k) {
    #pragma unroll
    for (int j = 0; j < 4; ++j) c1[k][j] = 0x0p+0f;
  }
  #pragma unroll 1
  for (int i0 = begin; i0 < end; i0 += 64) {
    PlVec<float, 4> r0[2];
    #pragma unroll
    for (int g = 0; g < 1; ++g) {
      const int at = i0 + g * 64 + side;
      const bool live = at < end;
      const int row = live ? at : end - 1;
      const ix d0 = row;
      #pragma unroll
      for (int k = 0; k < 2; ++k) {
        const int t = from + first + k * 8;
        {
          const ix d1 = (t) * 4;
          const int u = g * 2 + k;
          pl_load<0, 4>(r0[u], in0 + (64 * d0 + d1));
        }
      }
    }
    float R0[1];
    #pragma unroll
    for (int g = 0; g < 1; ++g) {
      const int at = i0 + g * 64 + side;
      const bool live = at < end;
      const int row = live ? at : end - 1;
      const ix d0 = row;
      float a0[4] = {0x0p+0f, 0x0p+0f, 0x0p+0f, 0x0p+0f};
      #pragma unroll
      for (int k = 0; k < 2; ++k) {
        const int t = from + first + k * 8;
        {
          const ix d1 = (t) * 4;
          const int u = g * 2 + k;
          #pragma unroll
          for (int j = 0; j < 4; ++j) {
            const float v0 = r0[u].x[j];
            a0[j] = (a0[j] + v0);
          }
        }
      }
      R0[g] = ((a0[0] + a0[1]) + (a0[2] + a0[3]));
    }
    #pragma unroll
    for (int g = 0; g < 1; ++g) {
      R0[g] = (R0[g] + pl_xor(R0[g], 4));
      R0[g] = (R0[g] + pl_xor(R0[g], 2));
      R0[g] = (R0[g] + pl_xor(R0[g], 1));
    }
    if (first == 0) {
      #pragma unroll
      for (int g = 0; g < 1; ++g) {
        const int at = i0 + g * 64 + side;
        const bool live = at < end;
        const int row = live ? at : end - 1;
        const ix d0 = row;
        if (live) {
          const float red0 = R0[g];
          const float v1 = red0;
          out0[d0] = v1;
        }
      }
    }
    #pragma unroll
    for (int g = 0; g < 1; ++g) {
      const int at = i0 + g * 64 + side;
      const bool live = at < end;
      const int row = live ? at : end - 1;
      const ix d0 = row;
      if (live) {
        #pragma unroll
        for (int k = 0; k < 2; ++k) {
          const int t = from + first + k * 8;
          {
            const ix d1 = (t) * 4;
            const int u = g * 2 + k;
            #pragma unroll
            for (int j = 0; j < 4; ++j) {
              const float v0 = r0[u].x[j];
              c1[k][j] = (c1[k][j] + v0);
            }
          }
        }
      }
    }
  }
  __shared__ float hc1[2048];
  #pragma unroll
  for (int k = 0; k < 2; ++k) {
    #pragma unroll
    for (int j = 0; j < 4; ++j) {
      hc1[(side * 4 + j) * 8 + first] = c1[k][j];
    }
    __syncthreads();
    #pragma unroll 1
    for (int h = 32; h > 0; h /= 2) {
      if (side < h) {
        #pragma unroll
        for (int j = 0; j < 4; ++j) {
          c1[k][j] = (c1[k][j] + hc1[((side + h) * 4 + j) * 8 + first]);
        }
        #pragma unroll
        for (int j = 0; j < 4; ++j) {
          hc1[(side * 4 + j) * 8 + first] = c1[k][j];
        }
      }
      __syncthreads();
    }
    const int t = from + first + k * 8;
    if (side == 0 && t < 16) {
      PlVec<float, 4> o0;
      #pragma unroll
      for (int j = 0; j < 4; ++j) {
        o0.x[j] = c1[k][j];
      }
      pl_store<0, 4>(part0 + chunk * 64LL + common * 64LL + t * 4LL, o0);
    }
  }
}

// launch: grid 1x1x1 block 64x1x1 cluster 1x1x1 shared 0
// arguments: scratch0 output1
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
extern "C" __global__ void __launch_bounds__(64, 1) planish_kernel(const float* __restrict__ in0, float* __restrict__ out0) {
  const int tid = (int)threadIdx.x;
  const int x = tid % 64, y = tid / 64;
  const ix group = (ix)(blockIdx.x % 1);
  const int slice = 0, from = 0, upto = 1;
  const ix own = group * 64 + x;
  const bool live = own < 64;
  const ix row = live ? own : 63;
  const ix d0 = row;
  float a0[1] = {0x0p+0f};
  #pragma unroll 1
  for (int k0 = 0; k0 < 1; k0 += 1) {
    PlVec<float, 1> r0[1];
    #pragma unroll
    for (int u = 0; u < 1; ++u) {
      const ix t = from + y + (k0 + u) * 1;
      {
        const ix d1 = t;
        pl_load<0, 1>(r0[u], in0 + (d0 + 64 * d1));
      }
    }
    #pragma unroll
    for (int u = 0; u < 1; ++u) {
      const ix t = from + y + (k0 + u) * 1;
      {
        const ix d1 = t;
        #pragma unroll
        for (int j = 0; j < 1; ++j) {
          const float v0 = r0[u].x[j];
          a0[j] = (a0[j] + v0);
        }
      }
    }
  }
  float red0[1];
  #pragma unroll
  for (int j = 0; j < 1; ++j) {
    red0[j] = a0[j];
  }
  if (live && y == 0 && slice == 0) {
    PlVec<float, 1> o0;
    #pragma unroll
    for (int j = 0; j < 1; ++j) {
      const float v1 = red0[j];
      o0.x[j] = v1;
    }
    pl_store<0, 1>(out0 + (d0), o0);
  }
}
