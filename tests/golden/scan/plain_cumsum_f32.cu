// genome: fast=0 grid_split=1 hints=0 min_blocks=1 pipeline_depth=0 split=128 threads=1024 unroll=4 vector=16
// launch: grid 1x1x1 block 1024x1x1 cluster 1x1x1 shared 0
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
// Running values: `pl_join` of the state of earlier elements and that of later ones, `pl_value` of what they hold.
template <typename T> PL_FN T pl_plus(T a, T b) { return a + b; }
PL_FN long long pl_plus(long long a, long long b) { return (long long)((unsigned long long)a + (unsigned long long)b); }
template <typename T> PL_FN T pl_times(T a, T b) { return a * b; }
PL_FN long long pl_times(long long a, long long b) { return (long long)((unsigned long long)a * (unsigned long long)b); }
template <int HOW, typename T> PL_FN T pl_moved(T v, int a) {
  if constexpr (HOW == 0) return pl_up(v, a); else if constexpr (HOW == 1) return pl_from_lane(v, a); else return pl_xor(v, a);
}
template <typename T> struct PlRunSum { T v; };
template <int HOW, typename T> PL_FN PlRunSum<T> pl_each(PlRunSum<T> s, int a) { return {pl_moved<HOW>(s.v, a)}; }
template <typename T> PL_FN PlRunSum<T> pl_join(PlRunSum<T> a, PlRunSum<T> b) { return {pl_plus(a.v, b.v)}; }
template <typename T> PL_FN T pl_value(PlRunSum<T> s) { return s.v; }
template <typename T> struct PlRunProduct { T v; };
template <int HOW, typename T> PL_FN PlRunProduct<T> pl_each(PlRunProduct<T> s, int a) { return {pl_moved<HOW>(s.v, a)}; }
template <typename T> PL_FN PlRunProduct<T> pl_join(PlRunProduct<T> a, PlRunProduct<T> b) { return {pl_times(a.v, b.v)}; }
template <typename T> PL_FN T pl_value(PlRunProduct<T> s) { return s.v; }
template <bool MAX, typename T> struct PlRunExtreme { T v; };
template <int HOW, bool MAX, typename T> PL_FN PlRunExtreme<MAX, T> pl_each(PlRunExtreme<MAX, T> s, int a) { return {pl_moved<HOW>(s.v, a)}; }
template <bool MAX, typename T> PL_FN PlRunExtreme<MAX, T> pl_join(PlRunExtreme<MAX, T> a, PlRunExtreme<MAX, T> b) {
  return {((MAX ? a.v > b.v : a.v < b.v) | (a.v != a.v)) ? a.v : b.v};
}
template <bool MAX, typename T> PL_FN T pl_value(PlRunExtreme<MAX, T> s) { return s.v; }
// The last NaN, else the extreme value with the largest position.
template <bool MAX, typename T, typename I> struct PlRunAt { T v; I i; };
template <int HOW, bool MAX, typename T, typename I> PL_FN PlRunAt<MAX, T, I> pl_each(PlRunAt<MAX, T, I> s, int a) { return {pl_moved<HOW>(s.v, a), pl_moved<HOW>(s.i, a)}; }
template <bool MAX, typename T, typename I> PL_FN PlRunAt<MAX, T, I> pl_join(PlRunAt<MAX, T, I> a, PlRunAt<MAX, T, I> b) {
  const bool odd = b.v != b.v, none = a.v != a.v, later = b.i > a.i;
  const bool beyond = MAX ? b.v > a.v : b.v < a.v;
  return (none ? odd & later : odd | beyond | ((b.v == a.v) & later)) ? b : a;
}
template <bool MAX, typename T, typename I> PL_FN T pl_value(PlRunAt<MAX, T, I> s) { return s.v; }
template <bool MAX, typename T, typename I> PL_FN I pl_place(PlRunAt<MAX, T, I> s) { return s.i; }
// The sum of exp(x - m), m the largest x: m is finite unless some x is +Inf or NaN, which then decides alone.
template <typename T, bool FAST> struct PlRunExps { T m, s; };
template <int HOW, typename T, bool FAST> PL_FN PlRunExps<T, FAST> pl_each(PlRunExps<T, FAST> s, int a) { return {pl_moved<HOW>(s.m, a), pl_moved<HOW>(s.s, a)}; }
template <bool FAST> PL_FN float pl_run_exp(float x) { return FAST ? pl_fast_exp(x) : expf(x); }
template <bool FAST> PL_FN double pl_run_exp(double x) { return exp(x); }
PL_FN float pl_run_log(float x) { return logf(x); }
PL_FN double pl_run_log(double x) { return log(x); }
template <typename S, typename T> PL_FN S pl_exps_of(T x, S none) {
  return {x < none.m ? none.m : x, x < none.m ? (T)0 : (T)1};
}
template <typename T, bool FAST> PL_FN PlRunExps<T, FAST> pl_join(PlRunExps<T, FAST> a, PlRunExps<T, FAST> b) {
  const T m = ((a.m > b.m) | (a.m != a.m)) ? a.m : b.m;
  return {m, a.s * pl_run_exp<FAST>(a.m - m) + b.s * pl_run_exp<FAST>(b.m - m)};
}
template <typename T, bool FAST> PL_FN T pl_value(PlRunExps<T, FAST> s) {
  return (s.m - s.m == 0) | (s.m != s.m) ? s.m + pl_run_log(s.s) : s.m;
}
// The state that the lane d before this one holds, the one at `lane`, the one at the other side of bit m.
template <typename S> PL_FN S pl_state_up(S s, int d) { return pl_each<0>(s, d); }
template <typename S> PL_FN S pl_state_at(S s, int lane) { return pl_each<1>(s, lane); }
template <typename S> PL_FN S pl_state_xor(S s, int m) { return pl_each<2>(s, m); }
typedef int ix;
extern "C" __global__ void __launch_bounds__(1024, 1) planish_kernel(const float* __restrict__ in0, float* __restrict__ out0) {
  const int tid = (int)threadIdx.x;
  const int x = tid / 128, y = tid % 128;
  const ix group = (ix)(blockIdx.x % 1);
  const int slice = 0, from = 0, upto = 512;
  const ix own = group * 8 + x;
  const bool live = own < 6;
  const ix row = live ? own : 5;
  const ix d0 = row;
  __shared__ double pl_totals[64];
  PlRunSum<double>* const h0 = (PlRunSum<double>*)((unsigned char*)pl_totals + 0);
  const int lane = y % 32, part = y / 32;
  PlRunSum<double> c0 = PlRunSum<double>{0};
  PlVec<float, 4> r0[4];
  {
    const int k = 0;
    #pragma unroll
    for (int u = 0; u < 4; ++u) {
      const int i = k * 512 + part * 128 + u * 32 + lane;
      const ix t = upto - 1 - i;
      {
        const ix d1 = (t) * 4;
        pl_load<0, 4>(r0[u], in0 + (2048 * d0 + d1));
      }
    }
    PlRunSum<float> T0[4];
    PlRunSum<float> L0[4][4];
    #pragma unroll
    for (int u = 0; u < 4; ++u) {
      T0[u] = PlRunSum<float>{0};
    }
    #pragma unroll
    for (int u = 0; u < 4; ++u) {
      const int i = k * 512 + part * 128 + u * 32 + lane;
      const ix t = upto - 1 - i;
      {
        const ix d1 = (t) * 4;
        #pragma unroll
        for (int j = 3; j >= 0; --j) {
          const float v0 = r0[u].x[j];
          T0[u] = pl_join(T0[u], PlRunSum<float>{v0});
          L0[u][j] = T0[u];
        }
      }
    }
    PlRunSum<float> B0[4];
    #pragma unroll
    for (int u = 0; u < 4; ++u) {
      { const PlRunSum<float> z = pl_state_up(T0[u], 1); if (lane >= 1) T0[u] = pl_join(z, T0[u]); }
      { const PlRunSum<float> z = pl_state_up(T0[u], 2); if (lane >= 2) T0[u] = pl_join(z, T0[u]); }
      { const PlRunSum<float> z = pl_state_up(T0[u], 4); if (lane >= 4) T0[u] = pl_join(z, T0[u]); }
      { const PlRunSum<float> z = pl_state_up(T0[u], 8); if (lane >= 8) T0[u] = pl_join(z, T0[u]); }
      { const PlRunSum<float> z = pl_state_up(T0[u], 16); if (lane >= 16) T0[u] = pl_join(z, T0[u]); }
      B0[u] = pl_state_up(T0[u], 1);
      if (lane == 0) B0[u] = PlRunSum<float>{0};
      T0[u] = pl_state_at(T0[u], 31);
    }
    PlRunSum<float> all0 = T0[0];
    #pragma unroll
    for (int u = 1; u < 4; ++u) all0 = pl_join(all0, T0[u]);
    const int turn = 0;
    if (lane == 31) {
      h0[turn + tid / 32] = PlRunSum<double>{(double)all0.v};
    }
    __syncthreads();
    PlRunSum<double> sum0 = c0, before0 = c0;
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (i == part) before0 = sum0;
      sum0 = pl_join(sum0, h0[turn + tid / 128 * 4 + i]);
    }
    PlRunSum<float> start0 = PlRunSum<float>{(float)before0.v};
    c0 = sum0;
    #pragma unroll
    for (int u = 0; u < 4; ++u) {
      B0[u] = pl_join(start0, B0[u]);
      start0 = pl_join(start0, T0[u]);
    }
    #pragma unroll
    for (int u = 0; u < 4; ++u) {
      const int i = k * 512 + part * 128 + u * 32 + lane;
      const ix t = upto - 1 - i;
      {
        const ix d1 = (t) * 4;
        PlVec<float, 4> o0;
        #pragma unroll
        for (int j = 3; j >= 0; --j) {
          const float v1 = pl_value(pl_join(B0[u], L0[u][j]));
          o0.x[j] = v1;
        }
        if (live) {
          pl_store<0, 4>(out0 + (2048 * d0 + d1), o0);
        }
      }
    }
  }
}
