// Two rows a warp at once: the chains of shuffles and reductions of one hide behind the other's. Equal keys within a
// lane are told apart by their slot alone, so nothing is kept of what was taken but a key of 0.
//@ kernel cuda
constexpr int experts = 256, taken = 8, each = experts / 32, both = 2;

// NaN above everything, as torch has it; -0 is 0. No value has the key 0: that of -Inf is 0x007fffff.
__device__ unsigned ordered(float value) {
  if (value != value) return 0xffffffffu;
  const unsigned bits = __float_as_uint(value + 0.0f);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

__device__ float value_of(unsigned key) {
  return __uint_as_float(key & 0x80000000u ? key & 0x7fffffffu : ~key);
}

extern "C" __global__ void __launch_bounds__(128) route(const float* __restrict__ logits, float* __restrict__ weights,
                                                        long long* __restrict__ chosen) {
  const int lane = threadIdx.x % 32, first = (blockIdx.x * 4 + threadIdx.x / 32) * both;
  unsigned key[both][each], mine[both] = {};
  int expert[both] = {};
#pragma unroll
  for (int b = 0; b < both; ++b) {
    const float4* from = reinterpret_cast<const float4*>(logits + static_cast<long long>(first + b) * experts);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float4 four = __ldcs(from + half * 32 + lane);
      key[b][half * 4 + 0] = ordered(four.x);
      key[b][half * 4 + 1] = ordered(four.y);
      key[b][half * 4 + 2] = ordered(four.z);
      key[b][half * 4 + 3] = ordered(four.w);
    }
  }
#pragma unroll
  for (int round = 0; round < taken; ++round) {
#pragma unroll
    for (int b = 0; b < both; ++b) {
      unsigned best = 0;
#pragma unroll
      for (int s = 0; s < each; ++s) best = max(best, key[b][s]);
      const unsigned most = __reduce_max_sync(0xffffffffu, best);
      const int owner = __ffs(static_cast<int>(__ballot_sync(0xffffffffu, best == most))) - 1;
      int slot = 0;
#pragma unroll
      for (int s = each - 1; s >= 0; --s) slot = key[b][s] == most ? s : slot;
#pragma unroll
      for (int s = 0; s < each; ++s) key[b][s] = lane == owner && s == slot ? 0u : key[b][s];
      const int at = __shfl_sync(0xffffffffu, slot, owner);
      if (lane == round) {
        mine[b] = most;
        expert[b] = (at / 4) * 128 + owner * 4 + at % 4;
      }
    }
  }
#pragma unroll
  for (int b = 0; b < both; ++b) {
    const float value = value_of(mine[b]);
    const float most = __shfl_sync(0xffffffffu, value, 0);
    const float part = lane < taken ? expf(value - most) : 0.0f;
    float sum = part;
#pragma unroll
    for (int step = 4; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (lane < taken) {
      weights[(first + b) * taken + lane] = part / sum;
      chosen[(first + b) * taken + lane] = expert[b];
    }
  }
}
//@ launch route grid=8192 block=128 args=in0, out0, out1
