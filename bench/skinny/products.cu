// Skinny products of src/codegen/device/sm90/skinny.cuh, timed and compared with sums in float64; one JSON object a
// line. products.py writes cases.h and runs it: test<P<n, k, m, parts, norm, tiles, warps, stages, blocks, resident,
// ring, kept, chained, form>>("name"). Forms: 0 is bf16; 1 int8, 2 e4m3, with a scale a row; 3 int4, with a scale for
// each 128 of k. A graph of launches goes through weights of 4 GB, so that none of them lie in
// the cache.
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "sm90/skinny.cuh"

#define CHECK(call)                                                                         \
  do {                                                                                      \
    const cudaError_t code = (call);                                                        \
    if (code != cudaSuccess) {                                                              \
      std::fprintf(stderr, "%s, line %d: %s\n", #call, __LINE__, cudaGetErrorString(code)); \
      std::exit(1);                                                                         \
    }                                                                                       \
  } while (0)

constexpr double rate = 4370;  // GB/s that an H200 reads at

PL_DEVICE float of_bf16(u32 v) {
  return __uint_as_float(v << 16);
}
PL_DEVICE u32 to_bf16(float v) {
  const u32 u = __float_as_uint(v);
  if ((u & 0x7fffffff) > 0x7f800000) return 0x7fc0;
  return (u + 0x7fff + (u >> 16 & 1)) >> 16;
}

struct Args {
  const u16* x;
  const char *first, *second;
  const u16 *scale, *gain, *residual;
  u16* y;
};
constexpr int bits_of(int form) {
  return form == 0 ? 16 : form < 3 ? 8 : 4;
}

/// x, or its RMS norm; results with a residual, or SiLU of one product times the other.
template <int N, int K, int M, int PARTS, int NORM, int TILES, int WARPS, int STAGES, int BLOCKS, int RESIDENT,
          int RING, int KEPT, int CHAINED, int FORM>
struct P {
  static constexpr int form = FORM, bits = bits_of(FORM), zero = FORM == 3 ? 8 : 0;
  static constexpr SkinnyCode code = FORM == 0 ? code_none : FORM == 1 ? code_i8 : FORM == 2 ? code_e4m3 : code_nibbles;
  static constexpr SkinnyScale scaling = FORM == 0 ? scale_none : FORM < 3 ? scale_row : scale_step;
  static constexpr bool flipped = false, zeroed = false, across = false, turned = false;
  static constexpr u32 order = FORM == 1   ? 0x75643120u
                               : FORM == 3 ? 0x73625140u
                                           : 0x76543210u,
                       rows_of_word = 0x76543210u;
  static constexpr long long pitch = 0;
  static constexpr bool table = FORM == 3;
  static constexpr int table_pieces = 4;
  static PL_DEVICE void touch_row(const ::Args& a, int part, int row, int at) {
    if (FORM == 3 && at * 128 < K / 128 * 2) prefetch_line((const char*)a.scale + (long long)row * (K / 64) + at * 128);
  }
  static PL_DEVICE float scale(const ::Args& a, int part, int row, int piece) {
    if (FORM < 3) return of_bf16(__ldg(a.scale + row));
    return of_bf16(__ldg(a.scale + (long long)row * (K / 128) + piece / 4));
  }
  static PL_DEVICE float zero_point(const ::Args&, int, int, int) { return 0; }
  static PL_DEVICE uint4 weights(const ::Args&, int, int, int, const uint4& raw, int) { return raw; }
  static constexpr int rows = N, depth = K, count = M, parts = PARTS, statistics = NORM;
  static constexpr int tiles = TILES, warps = WARPS, stages = STAGES, blocks = BLOCKS, resident = RESIDENT;
  static constexpr bool bf16 = true, ring_shared = RING != 0, x_shared = KEPT != 0, chained = CHAINED != 0;
  using Args = ::Args;
  static PL_DEVICE void touch(const Args&, int, int) {}
  static PL_DEVICE const void* weight(const Args& a, int part, int row) {
    return (part ? a.second : a.first) + (long long)row * K * bits / 8;
  }
  struct Held {
    uint4 x, gain;
  };
  template <int of>
  static PL_DEVICE Held held(const Args& a, int m, int k) {
    Held out;
    out.x = load_visible_16(a.x + m * K + k);
    if constexpr (of > 0) out.gain = *(const uint4*)(a.gain + k);
    return out;
  }
  static PL_DEVICE uint4 operand(const Held& held, const Args&, int m, int k, const float* statistics) {
    uint4 v = held.x;
    if constexpr (NORM != 0) {
      const uint4 g = held.gain;
      const float factor = rsqrtf(statistics[m] / K + 1e-5f);
      u32* const x = (u32*)&v;
      const u32* const gain = (const u32*)&g;
#pragma unroll
      for (int i = 0; i < 4; ++i)
        x[i] = to_bf16(of_bf16(x[i] & 0xffff) * factor * of_bf16(gain[i] & 0xffff)) |
               to_bf16(of_bf16(x[i] >> 16) * factor * of_bf16(gain[i] >> 16)) << 16;
    }
    return v;
  }
  template <int s>
  static PL_DEVICE float statistic(const Held& held, const Args&, int m, int k, const float*) {
    const u32* const x = (const u32*)&held.x;
    float sum = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float low = of_bf16(x[i] & 0xffff), high = of_bf16(x[i] >> 16);
      sum += low * low + high * high;
    }
    return sum;
  }
  static PL_DEVICE void store(const Args& a, int m, int row, const float (&sums)[PARTS], const float*) {
    float v = sums[0];
    if constexpr (PARTS == 2) v = v / (1 + __expf(-v)) * sums[1];
    if (PARTS == 1 && NORM == 0) v += of_bf16(__ldcg(a.residual + m * N + row));
    a.y[m * N + row] = (u16)to_bf16(v);
  }
};

template <class T>
__global__ void __launch_bounds__(T::warps * 32, T::resident) product(const Args args) {
  extern __shared__ __align__(128) unsigned char memory[];
  skinny_product<T>(args, memory, blockIdx.x, gridDim.x);
}

__global__ void fill(u16* p, size_t n, float scale, u32 seed) {
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x) {
    u32 h = (u32)(i * 2654435761u) ^ seed ^ (u32)(i >> 32) * 97;
    h = (h ^ h >> 16) * 0x85ebca6b;
    h = (h ^ h >> 13) * 0xc2b2ae35;
    h ^= h >> 16;
    p[i] = (u16)to_bf16(((h & 0xffff) / 65536.0f + (h >> 16) / 65536.0f - 1) * scale);
  }
}
/// Bytes that e4m3 has no number for become others.
__global__ void without_nan(u32* p, size_t n) {
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x)
    for (int b = 0; b < 32; b += 8)
      if ((p[i] >> b & 0x7f) == 0x7f) p[i] ^= 1u << b;
}
__global__ void exact_operand(const u16* x, const u16* gain, double* out, int k, bool norm) {
  __shared__ double sum;
  const size_t row = (size_t)blockIdx.x * k;
  if (threadIdx.x == 0) {
    sum = 0;
    for (int i = 0; i < k; ++i) sum += (double)of_bf16(x[row + i]) * of_bf16(x[row + i]);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < k; i += blockDim.x)
    out[row + i] = of_bf16(x[row + i]) * (norm ? of_bf16(gain[i]) / sqrt(sum / k + 1e-5) : 1.0);
}
PL_DEVICE double weight_of(const Args& a, const char* w, int form, int row, int i, int k) {
  const size_t at = (size_t)row * k + i;
  if (form == 0) return of_bf16(((const u16*)w)[at]);
  if (form == 1) return (double)((const signed char*)w)[at] * of_bf16(a.scale[row]);
  if (form == 2) {
    const u32 c = ((const unsigned char*)w)[at], e = c >> 3 & 15, f = c & 7;
    const double v = e == 0 ? f / 8.0 / 64 : (1 + f / 8.0) * exp2((double)e - 7);
    return (c & 128 ? -v : v) * of_bf16(a.scale[row]);
  }
  const int q = (((const unsigned char*)w)[at / 2] >> (at % 2 * 4)) & 15;
  return (q - 8) * (double)of_bf16(a.scale[(size_t)row * (k / 128) + i / 128]);
}
__global__ void exact(const double* x, Args a, double* y, int n, int k, int parts, bool norm, int form) {
  const int row = blockIdx.x, m = blockIdx.y;
  double sums[2] = {0, 0};
  for (int i = threadIdx.x; i < k; i += 32) {
    sums[0] += x[(size_t)m * k + i] * weight_of(a, a.first, form, row, i, k);
    if (parts == 2) sums[1] += x[(size_t)m * k + i] * weight_of(a, a.second, form, row, i, k);
  }
  for (int mask = 16; mask > 0; mask /= 2)
    for (double& sum : sums) sum += __shfl_xor_sync(~0u, sum, mask);
  if (threadIdx.x != 0) return;
  double v = sums[0];
  if (parts == 2) v = v / (1 + exp(-v)) * sums[1];
  if (parts == 1 && !norm) v += of_bf16(a.residual[(size_t)m * n + row]);
  y[(size_t)m * n + row] = v;
}

cudaStream_t stream;
char* pool;
u16 *scale, *x, *gain, *residual, *y;
double *exact_x, *exact_y;
constexpr size_t pool_bytes = 4200000000ull, most_k = 20000, most_n = 160000, most_m = 16;

template <class T>
void launch(const Args& args) {
  cudaLaunchAttribute attribute;
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = T::chained;
  cudaLaunchConfig_t config{};
  config.gridDim = T::blocks;
  config.blockDim = T::warps * 32;
  config.dynamicSmemBytes = SkinnyLayout<T>::shared_bytes;
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  CHECK(cudaLaunchKernelEx(&config, product<T>, args));
}

template <class T>
double error_of(const Args& args) {
  CHECK(cudaMemsetAsync(y, 0xff, (size_t)T::count * T::rows * 2, stream));
  launch<T>(args);
  exact_operand<<<T::count, 256, 0, stream>>>(x, gain, exact_x, T::depth, T::statistics > 0);
  exact<<<dim3(T::rows, T::count), 32, 0, stream>>>(exact_x, args, exact_y, T::rows, T::depth, T::parts,
                                                    T::statistics > 0, T::form);
  std::vector<u16> got((size_t)T::count * T::rows);
  std::vector<double> wanted(got.size());
  CHECK(cudaMemcpyAsync(got.data(), y, got.size() * 2, cudaMemcpyDeviceToHost, stream));
  CHECK(cudaMemcpyAsync(wanted.data(), exact_y, wanted.size() * 8, cudaMemcpyDeviceToHost, stream));
  CHECK(cudaStreamSynchronize(stream));
  double wrong = 0, all = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const u32 bits = (u32)got[i] << 16;
    float v;
    std::memcpy(&v, &bits, 4);
    wrong += (v - wanted[i]) * (v - wanted[i]);
    all += wanted[i] * wanted[i];
  }
  return std::sqrt(wrong / all);
}

template <class T>
void test(const char* name) {
  if (SkinnyLayout<T>::shared_bytes > 232448) return;
  CHECK(cudaFuncSetAttribute(product<T>, cudaFuncAttributeMaxDynamicSharedMemorySize, SkinnyLayout<T>::shared_bytes));
  const size_t each = (size_t)T::rows * T::depth * T::bits / 8, bytes = each * T::parts;
  const size_t scales = T::form == 0 ? 0 : T::form < 3 ? T::rows * 2 : (size_t)T::rows * T::depth / 64;
  const auto args = [&](int i) {
    const char* const from = pool + (size_t)i % (pool_bytes / bytes) * bytes;
    return Args{x, from, from + each, scale + (size_t)i % (100000000 / (scales + 2)) * scales / 2, gain, residual, y};
  };
  const double error = error_of<T>(args(0));
  const int count = (int)std::clamp<size_t>((size_t)(3e9 / (double)bytes), 4, 96);
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  for (int i = 0; i < count; ++i) launch<T>(args(i));
  CHECK(cudaStreamEndCapture(stream, &graph));
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  cudaEvent_t begin, end;
  CHECK(cudaEventCreate(&begin));
  CHECK(cudaEventCreate(&end));
  std::vector<float> times;
  for (int i = 0; i < 9; ++i) {
    float ms = 0;
    CHECK(cudaEventRecord(begin, stream));
    CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaEventRecord(end, stream));
    CHECK(cudaEventSynchronize(end));
    CHECK(cudaEventElapsedTime(&ms, begin, end));
    if (i > 0) times.push_back(ms);
  }
  std::sort(times.begin(), times.end());
  const double us = times[times.size() / 2] * 1e3 / count;
  std::printf(
      "{\"shape\": \"%s\", \"form\": %d, \"m\": %d, \"by\": \"tiles %d warps %d stages %d blocks %d resident %d ring "
      "%d kept %d "
      "chained "
      "%d\", \"us\": %.2f, \"share\": %.3f, \"error\": %.2e}\n",
      name, T::form, T::count, T::tiles, T::warps, T::stages, T::blocks, T::resident, T::ring_shared, T::x_shared,
      T::chained, us, (double)(bytes + scales) / us / 1e3 / rate, error);
  std::fflush(stdout);
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroy(graph));
}

int main() {
  CHECK(cudaStreamCreate(&stream));
  CHECK(cudaMalloc(&pool, pool_bytes));
  CHECK(cudaMalloc(&x, most_m * most_k * 2));
  CHECK(cudaMalloc(&gain, most_k * 2));
  CHECK(cudaMalloc(&residual, most_m * most_n * 2));
  CHECK(cudaMalloc(&y, most_m * most_n * 2));
  CHECK(cudaMalloc(&exact_x, most_m * most_k * 8));
  CHECK(cudaMalloc(&exact_y, most_m * most_n * 8));
  CHECK(cudaMalloc(&scale, 100000000));
  fill<<<2048, 256, 0, stream>>>((u16*)pool, pool_bytes / 2, 0.03f, 1);
  fill<<<2048, 256, 0, stream>>>(scale, 50000000, 0.03f, 5);
  fill<<<64, 256, 0, stream>>>(x, most_m * most_k, 1.0f, 2);
  fill<<<64, 256, 0, stream>>>(gain, most_k, 1.0f, 3);
  fill<<<64, 256, 0, stream>>>(residual, most_m * most_n, 1.0f, 4);
  without_nan<<<2048, 256, 0, stream>>>((u32*)pool, pool_bytes / 4);
  CHECK(cudaStreamSynchronize(stream));
#include "cases.h"
}
