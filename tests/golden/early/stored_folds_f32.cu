// genome: fast=0 grid_split=1 hints=0 min_blocks=1 online=0 residency=0 reverse=0 split=256 threads=512 unroll=4 vector=16
// launch: grid 125x1x1 block 512x1x1 cluster 1x1x1 shared 0
// arguments: input0 input1 output0 output1 output2
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
extern "C" __global__ void __launch_bounds__(512, 1) planish_kernel(const float* __restrict__ in0, const float* __restrict__ in1, float* __restrict__ out0, float* __restrict__ out1, float* __restrict__ out2) {
  const int tid = (int)threadIdx.x;
  const int x = tid % 2, y = tid / 2;
  const ix group = (ix)(blockIdx.x % 125);
  const int slice = 0, from = 0, upto = 300;
  __shared__ double pl_meeting[2048];
  const ix own = group * 2 + x;
  const bool live = own < 250;
  const ix row = live ? own : 249;
  const ix d1 = (row % 250) * 4;
  const ix d0 = (row / 250);
  float a0[4] = {0x0p+0f, 0x0p+0f, 0x0p+0f, 0x0p+0f};
  float a1[4] = {(-PL_INF_F32), (-PL_INF_F32), (-PL_INF_F32), (-PL_INF_F32)};
  #pragma unroll 1
  for (int k0 = 0; k0 < 2; k0 += 4) {
    PlVec<float, 4> r0[4];
    #pragma unroll
    for (int u = 0; u < 4; ++u) {
      const ix t = from + y + (k0 + u) * 256;
      if (t < upto) {
        const ix d2 = t;
        pl_load<0, 4>(r0[u], in0 + (300000 * d0 + d1 + 1000 * d2));
      }
    }
    #pragma unroll
    for (int u = 0; u < 4; ++u) {
      const ix t = from + y + (k0 + u) * 256;
      if (t < upto) {
        const ix d2 = t;
        PlVec<float, 4> o0;
        #pragma unroll
        for (int j = 0; j < 4; ++j) {
          const float v0 = r0[u].x[j];
          const float v1 = pl_ldg(in1 + ((d1 + j)));
          const float v2 = (v0 + v1);
          const float v3 = pl_max(v2, 0x0p+0f);
          a0[j] = (a0[j] + v3);
          a1[j] = pl_max(a1[j], v3);
          o0.x[j] = v3;
        }
        if (live) {
          pl_store<0, 4>(out0 + (300000 * d0 + d1 + 1000 * d2), o0);
        }
      }
    }
  }
  {
    float* const h0 = (float*)((unsigned char*)pl_meeting + 0);
    float* const h1 = (float*)((unsigned char*)pl_meeting + 8192);
    #pragma unroll
    for (int j = 0; j < 4; ++j) {
      h0[(y * 4 + j) * 2 + x] = a0[j];
      h1[(y * 4 + j) * 2 + x] = a1[j];
    }
    #pragma unroll 1
    for (int h = 128; h > 0; h /= 2) {
      __syncthreads();
      if (y < h) {
        #pragma unroll
        for (int j = 0; j < 4; ++j) {
          a0[j] = (a0[j] + h0[((y + h) * 4 + j) * 2 + x]);
          a1[j] = pl_max(a1[j], h1[((y + h) * 4 + j) * 2 + x]);
          h0[(y * 4 + j) * 2 + x] = a0[j];
          h1[(y * 4 + j) * 2 + x] = a1[j];
        }
      }
    }
    __syncthreads();
    #pragma unroll
    for (int j = 0; j < 4; ++j) {
      a0[j] = h0[(0 * 4 + j) * 2 + x];
      a1[j] = h1[(0 * 4 + j) * 2 + x];
    }
  }
  float red0[4];
  float red1[4];
  #pragma unroll
  for (int j = 0; j < 4; ++j) {
    red0[j] = a0[j];
    red1[j] = a1[j];
  }
  if (live && y == 0 && slice == 0) {
    PlVec<float, 4> o1;
    PlVec<float, 4> o2;
    #pragma unroll
    for (int j = 0; j < 4; ++j) {
      const float v4 = red0[j];
      const float v5 = red1[j];
      o1.x[j] = v4;
      o2.x[j] = v5;
    }
    pl_store<0, 4>(out1 + (1000 * d0 + d1), o1);
    pl_store<0, 4>(out2 + (1000 * d0 + d1), o2);
  }
}
