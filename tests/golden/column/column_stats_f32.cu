// genome: fast=1 grid_split=1 hints=0 min_blocks=1 online=0 residency=0 reverse=0 split=16 threads=512 unroll=8 vector=8
// launch: grid 5x1x1 block 512x1x1 cluster 1x1x1 shared 0
// arguments: input0 output0 output1
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
extern "C" __global__ void __launch_bounds__(512, 1) planish_kernel(const float* __restrict__ in0, float* __restrict__ out0, float* __restrict__ out1) {
  const int tid = (int)threadIdx.x;
  const int x = tid % 32, y = tid / 32;
  const ix group = (ix)(blockIdx.x % 5);
  const int slice = 0, from = 0, upto = 67;
  __shared__ double pl_meeting[512];
  const ix own = group * 32 + x;
  const bool live = own < 135;
  const ix row = live ? own : 134;
  const ix d1 = row % 45;
  const ix d0 = (row / 45);
  float a0[1] = {0x0p+0f};
  float a1[1] = {(-PL_INF_F32)};
  #pragma unroll 1
  for (int k0 = 0; k0 < 5; k0 += 8) {
    PlVec<float, 1> r0[8];
    #pragma unroll
    for (int u = 0; u < 8; ++u) {
      const ix t = from + y + (k0 + u) * 16;
      if (t < upto) {
        const ix d2 = t;
        pl_load<0, 1>(r0[u], in0 + (3015 * d0 + d1 + 45 * d2));
      }
    }
    #pragma unroll
    for (int u = 0; u < 8; ++u) {
      const ix t = from + y + (k0 + u) * 16;
      if (t < upto) {
        const ix d2 = t;
        #pragma unroll
        for (int j = 0; j < 1; ++j) {
          const float v0 = r0[u].x[j];
          const float v1 = pl_fast_exp(v0);
          a0[j] = (a0[j] + v1);
          a1[j] = pl_max(a1[j], v0);
        }
      }
    }
  }
  {
    float* const h0 = (float*)((unsigned char*)pl_meeting + 0);
    float* const h1 = (float*)((unsigned char*)pl_meeting + 2048);
    #pragma unroll
    for (int j = 0; j < 1; ++j) {
      h0[(y * 1 + j) * 32 + x] = a0[j];
      h1[(y * 1 + j) * 32 + x] = a1[j];
    }
    #pragma unroll 1
    for (int h = 8; h > 0; h /= 2) {
      __syncthreads();
      if (y < h) {
        #pragma unroll
        for (int j = 0; j < 1; ++j) {
          a0[j] = (a0[j] + h0[((y + h) * 1 + j) * 32 + x]);
          a1[j] = pl_max(a1[j], h1[((y + h) * 1 + j) * 32 + x]);
          h0[(y * 1 + j) * 32 + x] = a0[j];
          h1[(y * 1 + j) * 32 + x] = a1[j];
        }
      }
    }
    __syncthreads();
    #pragma unroll
    for (int j = 0; j < 1; ++j) {
      a0[j] = h0[(0 * 1 + j) * 32 + x];
      a1[j] = h1[(0 * 1 + j) * 32 + x];
    }
  }
  float red0[1];
  float red1[1];
  #pragma unroll
  for (int j = 0; j < 1; ++j) {
    red0[j] = a0[j];
    red1[j] = a1[j];
  }
  if (live && y == 0 && slice == 0) {
    PlVec<float, 1> o0;
    PlVec<float, 1> o1;
    #pragma unroll
    for (int j = 0; j < 1; ++j) {
      const float v2 = red0[j];
      const float v3 = pl_fast_sqrt(v2);
      const float v4 = red1[j];
      o0.x[j] = v3;
      o1.x[j] = v4;
    }
    pl_store<0, 1>(out0 + (45 * d0 + d1), o0);
    pl_store<0, 1>(out1 + (45 * d0 + d1), o1);
  }
}
