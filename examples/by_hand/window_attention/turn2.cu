// A block has 64 queries of a head; the 95 keys and values that they see lie in shared memory, read from device
// memory once. Rows of keys are a float longer than they need to be, so that 32 lanes find 32 rows in 32 banks.
//@ kernel cuda
constexpr int length = 2048, depth = 64, window = 32, queries = 64, rows = queries + window - 1, wide = depth + 1;

extern "C" __global__ void __launch_bounds__(256) attend(const float* __restrict__ query, const float* __restrict__ key,
                                                         const float* __restrict__ value, float* __restrict__ out) {
  extern __shared__ float shared[];
  float* keys = shared;
  float* values = keys + rows * wide;
  float* asked = values + rows * depth;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int start = blockIdx.x * queries, before = start - (window - 1);
  const long long head = static_cast<long long>(blockIdx.y) * length * depth;
  for (int i = threadIdx.x; i < rows * depth; i += 256) {
    const int r = i / depth, d = i % depth;
    const bool there = before + r >= 0;
    keys[r * wide + d] = there ? key[head + (before + r) * depth + d] : 0.0f;
    values[i] = there ? value[head + (before + r) * depth + d] : 0.0f;
  }
  for (int i = threadIdx.x; i < queries * depth; i += 256) asked[i] = query[head + start * depth + i];
  __syncthreads();
  for (int q = warp; q < queries; q += 8) {
    const bool seen = before + q + lane >= 0;
    float score = 0;
#pragma unroll 16
    for (int d = 0; d < depth; ++d) score = fmaf(asked[q * depth + d], keys[(q + lane) * wide + d], score);
    score *= 0.125f;
    float most = seen ? score : -__int_as_float(0x7f800000);
#pragma unroll
    for (int step = 16; step > 0; step /= 2) most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, step));
    float weight = seen ? expf(score - most) : 0.0f, sum = weight;
#pragma unroll
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    weight /= sum;
    float first = 0, second = 0;
#pragma unroll 8
    for (int w = 0; w < window; ++w) {
      const float share = __shfl_sync(0xffffffffu, weight, w);
      first = fmaf(share, values[(q + w) * depth + lane], first);
      second = fmaf(share, values[(q + w) * depth + lane + 32], second);
    }
    out[head + (start + q) * depth + lane] = first;
    out[head + (start + q) * depth + lane + 32] = second;
  }
}
//@ launch attend grid=32,64 block=256 shared=65404 args=in0, in1, in2, out0
