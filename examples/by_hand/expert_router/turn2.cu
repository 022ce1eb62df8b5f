// Values become integers of the same order, so that a warp's largest is one instruction (redux), and who has it one
// ballot. Loads are of 16 bytes.
//@ kernel cuda
constexpr int experts = 256, taken = 8, each = experts / 32;

// NaN above everything, as torch has it; -0 is 0.
__device__ unsigned ordered(float value) {
  if (value != value) return 0xffffffffu;
  const unsigned bits = __float_as_uint(value + 0.0f);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

__device__ float value_of(unsigned key) {
  return __uint_as_float(key & 0x80000000u ? key & 0x7fffffffu : ~key);
}

extern "C" __global__ void __launch_bounds__(256) route(const float* __restrict__ logits, float* __restrict__ weights,
                                                        long long* __restrict__ chosen) {
  const int lane = threadIdx.x % 32, row = blockIdx.x * 8 + threadIdx.x / 32;
  const float4* from = reinterpret_cast<const float4*>(logits + static_cast<long long>(row) * experts);
  const float4 low = __ldcs(from + lane), high = __ldcs(from + 32 + lane);
  unsigned key[each] = {ordered(low.x),  ordered(low.y),  ordered(low.z),  ordered(low.w),
                        ordered(high.x), ordered(high.y), ordered(high.z), ordered(high.w)};
  unsigned left = 0xffu;  // slots that were not taken
  unsigned mine = 0;
  int expert = 0;
#pragma unroll
  for (int round = 0; round < taken; ++round) {
    unsigned best = 0;
#pragma unroll
    for (int s = 0; s < each; ++s) best = max(best, key[s]);
    // A lane whose slots are all taken has nothing but zeros: the key of no value is 0, since -Inf is 0x007fffff.
    const unsigned most = __reduce_max_sync(0xffffffffu, best);
    const int owner = __ffs(static_cast<int>(__ballot_sync(0xffffffffu, best == most && left != 0))) - 1;
    int slot = 0;
#pragma unroll
    for (int s = each - 1; s >= 0; --s) slot = key[s] == most ? s : slot;
    if (lane == owner) {
      left &= ~(1u << slot);
#pragma unroll
      for (int s = 0; s < each; ++s) key[s] = s == slot ? 0u : key[s];
    }
    const int at = __shfl_sync(0xffffffffu, slot, owner);
    if (lane == round) {
      mine = most;
      expert = (at / 4) * 128 + owner * 4 + at % 4;
    }
  }
  // NaN's key is 0x7fffffff as a value: NaN again.
  const float value = value_of(mine);
  const float most = __shfl_sync(0xffffffffu, value, 0);
  const float part = lane < taken ? expf(value - most) : 0.0f;
  float sum = part;
#pragma unroll
  for (int step = 4; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
  if (lane < taken) {
    weights[row * taken + lane] = part / sum;
    chosen[row * taken + lane] = expert;
  }
}
//@ launch route grid=8192 block=256 args=in0, out0, out1
