// A warp a query, a lane a key: the window is as wide as a warp. Everything comes from the caches.
//@ kernel cuda
constexpr int heads = 64, length = 2048, depth = 64, window = 32;

extern "C" __global__ void attend(const float* query, const float* key, const float* value, float* out) {
  const int lane = threadIdx.x % 32;
  const long long at = static_cast<long long>(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32;
  if (at >= static_cast<long long>(heads) * length) return;
  const int place = static_cast<int>(at % length), seen = place - (window - 1) + lane;
  const float* q = query + at * depth;
  const float* k = key + (at - (window - 1) + lane) * depth;
  float score = 0;
  if (seen >= 0) {
    for (int d = 0; d < depth; ++d) score = fmaf(q[d], k[d], score);
    score *= 0.125f;
  }
  float most = seen >= 0 ? score : -__int_as_float(0x7f800000);
  for (int step = 16; step > 0; step /= 2) most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, step));
  float weight = seen >= 0 ? expf(score - most) : 0.0f, sum = weight;
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
  weight /= sum;
  float first = 0, second = 0;
  for (int w = 0; w < window; ++w) {
    const float share = __shfl_sync(0xffffffffu, weight, w);
    if (place - (window - 1) + w < 0) continue;
    const float* v = value + (at - (window - 1) + w) * depth;
    first = fmaf(share, v[lane], first);
    second = fmaf(share, v[lane + 32], second);
  }
  out[at * depth + lane] = first;
  out[at * depth + lane + 32] = second;
}
//@ launch attend grid=16384 block=256 args=in0, in1, in2, out0
