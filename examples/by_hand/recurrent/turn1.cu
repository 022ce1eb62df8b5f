// All steps in one launch: a block has one row of the batch, a thread one element of its state. Weights come from
// the caches at every step.
//@ kernel cuda
constexpr int steps = 64, width = 128;

extern "C" __global__ void recur(const float* inward, const float* onward, const float* bias, const float* x, float* out) {
  __shared__ float given[width], state[width];
  const int j = threadIdx.x;
  const float* row = x + static_cast<long long>(blockIdx.x) * steps * width;
  state[j] = 0;
  float next = 0;
  for (int t = 0; t < steps; ++t) {
    given[j] = row[t * width + j];
    __syncthreads();
    float in = 0, on = 0;
    for (int k = 0; k < width; ++k) {
      in = fmaf(given[k], inward[k * width + j], in);
      on = fmaf(state[k], onward[k * width + j], on);
    }
    next = tanhf(in + bias[j] + on);
    __syncthreads();
    state[j] = next;
  }
  out[blockIdx.x * width + j] = next;
}
//@ launch recur grid=512 block=128 args=in0, in1, in2, in3, out0
