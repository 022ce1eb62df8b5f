// genome: fast=1 grid_split=1 hints=0 min_blocks=1 online=1 residency=1 reverse=0 split=4 threads=512 unroll=4 vector=8
// launch: grid 1x1x1 block 512x1x1 cluster 1x1x1 shared 0
// arguments: input0 output0
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
extern "C" __global__ void __launch_bounds__(512, 1) planish_kernel(const float* __restrict__ in0, float* __restrict__ out0) {
  const int tid = (int)threadIdx.x;
  const int x = tid % 128, y = tid / 128;
  const ix group = (ix)(blockIdx.x % 1);
  const int slice = 0, from = 0, upto = 37;
  __shared__ double pl_meeting[1024];
  const ix own = group * 128 + x;
  const bool live = own < 75;
  const ix row = live ? own : 74;
  const ix d0 = (row) * 2;
  PlVec<float, 2> R0[12];
  #pragma unroll
  for (int k0 = 0; k0 < 10; k0 += 4) {
    #pragma unroll
    for (int u = 0; u < 4; ++u) {
      const ix t = from + y + (k0 + u) * 4;
      if (t < upto) {
        const ix d1 = t;
        pl_load<0, 2>(R0[k0 + u], in0 + (d0 + 150 * d1));
      }
    }
  }
  float a0m[2] = {(-0x1.fffffep+127f), (-0x1.fffffep+127f)};
  float a0s[2] = {0.0f, 0.0f};
  #pragma unroll
  for (int k0 = 0; k0 < 10; k0 += 4) {
    float top0[2] = {(-0x1.fffffep+127f), (-0x1.fffffep+127f)};
    #pragma unroll
    for (int u = 0; u < 4; ++u) {
      const ix t = from + y + (k0 + u) * 4;
      if (t < upto) {
        const ix d1 = t;
        #pragma unroll
        for (int j = 0; j < 2; ++j) {
          const float v0 = R0[k0 + u].x[j];
          top0[j] = pl_max(top0[j], v0);
        }
      }
    }
    #pragma unroll
    for (int j = 0; j < 2; ++j) {
      const float next0 = pl_max(a0m[j], top0[j]);
      a0s[j] *= pl_fast_exp(a0m[j] - next0);
      a0m[j] = next0;
    }
    #pragma unroll
    for (int u = 0; u < 4; ++u) {
      const ix t = from + y + (k0 + u) * 4;
      if (t < upto) {
        const ix d1 = t;
        #pragma unroll
        for (int j = 0; j < 2; ++j) {
          const float v0 = R0[k0 + u].x[j];
          a0s[j] += pl_fast_exp(v0 - a0m[j]);
        }
      }
    }
  }
  {
    float* const h0m = (float*)((unsigned char*)pl_meeting + 0);
    float* const h0s = (float*)((unsigned char*)pl_meeting + 4096);
    #pragma unroll
    for (int j = 0; j < 2; ++j) {
      h0m[(y * 2 + j) * 128 + x] = a0m[j];
      h0s[(y * 2 + j) * 128 + x] = a0s[j];
    }
    #pragma unroll 1
    for (int h = 2; h > 0; h /= 2) {
      __syncthreads();
      if (y < h) {
        #pragma unroll
        for (int j = 0; j < 2; ++j) {
          { const float top = pl_max(a0m[j], h0m[((y + h) * 2 + j) * 128 + x]); a0s[j] = a0s[j] * pl_fast_exp(a0m[j] - top) + h0s[((y + h) * 2 + j) * 128 + x] * pl_fast_exp(h0m[((y + h) * 2 + j) * 128 + x] - top); a0m[j] = top; }
          h0m[(y * 2 + j) * 128 + x] = a0m[j];
          h0s[(y * 2 + j) * 128 + x] = a0s[j];
        }
      }
    }
    __syncthreads();
    #pragma unroll
    for (int j = 0; j < 2; ++j) {
      a0m[j] = h0m[(0 * 2 + j) * 128 + x];
      a0s[j] = h0s[(0 * 2 + j) * 128 + x];
    }
  }
  float red0[2];
  float red1[2];
  #pragma unroll
  for (int j = 0; j < 2; ++j) {
    red0[j] = a0s[j] == 0.0f ? -PL_INF_F32 : a0m[j];
    red1[j] = a0s[j];
  }
  #pragma unroll
  for (int j = 0; j < 2; ++j) {
    if (!(fabsf(red0[j]) < PL_INF_F32)) red1[j] = PL_NAN_F32;
  }
  #pragma unroll
  for (int k0 = 0; k0 < 10; k0 += 4) {
    #pragma unroll
    for (int u = 0; u < 4; ++u) {
      const ix t = from + y + (k0 + u) * 4;
      if (t < upto) {
        const ix d1 = t;
        PlVec<float, 2> o0;
        #pragma unroll
        for (int j = 0; j < 2; ++j) {
          const float v0 = R0[k0 + u].x[j];
          const float v1 = red0[j];
          const float v2 = (v0 - v1);
          const float v3 = pl_fast_exp(v2);
          const float v4 = red1[j];
          const float v5 = pl_fast_div(v3, v4);
          o0.x[j] = v5;
        }
        if (live) {
          pl_store<0, 2>(out0 + (d0 + 150 * d1), o0);
        }
      }
    }
  }
}
