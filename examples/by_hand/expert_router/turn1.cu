// One warp a row, eight values a lane; eight times the largest that is left, by shuffles.
//@ kernel cuda
constexpr int rows = 65536, experts = 256, taken = 8, each = experts / 32;

extern "C" __global__ void __launch_bounds__(256) route(const float* logits, float* weights, long long* chosen) {
  const int lane = threadIdx.x % 32, row = blockIdx.x * 8 + threadIdx.x / 32;
  if (row >= rows) return;
  float value[each];
  bool gone[each];
  for (int s = 0; s < each; ++s) {
    value[s] = logits[row * experts + s * 32 + lane];
    gone[s] = false;
  }
  float mine = 0;
  int expert = 0;
  for (int round = 0; round < taken; ++round) {
    float best = 0;
    int slot = -1;
    for (int s = 0; s < each; ++s) {
      // NaN counts as the largest, as torch has it.
      if (!gone[s] && (slot < 0 || value[s] > best || (value[s] != value[s] && best == best))) {
        best = value[s];
        slot = s;
      }
    }
    int at = slot < 0 ? -1 : slot * 32 + lane;
    for (int step = 16; step > 0; step /= 2) {
      const float other = __shfl_xor_sync(0xffffffffu, best, step);
      const int there = __shfl_xor_sync(0xffffffffu, at, step);
      if (there < 0) continue;
      const bool equal = other == best || (other != other && best != best);
      if (at < 0 || other > best || (other != other && best == best) || (equal && there < at)) {
        best = other;
        at = there;
      }
    }
    for (int s = 0; s < each; ++s) gone[s] = gone[s] || at == s * 32 + lane;
    if (lane == round) {
      mine = best;
      expert = at;
    }
  }
  const float most = __shfl_sync(0xffffffffu, mine, 0);
  const float part = lane < taken ? expf(mine - most) : 0.0f;
  float sum = part;
  for (int step = 4; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
  if (lane < taken) {
    weights[row * taken + lane] = part / sum;
    chosen[row * taken + lane] = expert;
  }
}
//@ launch route grid=8192 block=256 args=in0, out0, out1
