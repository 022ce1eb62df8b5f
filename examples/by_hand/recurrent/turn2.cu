// Each thread keeps a column of its matrix in registers for all steps. A block has four rows of the batch: 128
// threads multiply the next step's input while 128 others multiply this step's state, so a step waits for one
// barrier. The input after that is on its way meanwhile.
//@ kernel cuda
constexpr int steps = 64, width = 128, rows = 4;

// Four rows times a column that lies in registers.
__device__ __forceinline__ void multiply(const float (*from)[width], const float (&column)[width], float (&sum)[rows]) {
#pragma unroll
  for (int k = 0; k < width; k += 4) {
#pragma unroll
    for (int r = 0; r < rows; ++r) {
      const float4 four = *reinterpret_cast<const float4*>(&from[r][k]);
      sum[r] = fmaf(four.x, column[k], sum[r]);
      sum[r] = fmaf(four.y, column[k + 1], sum[r]);
      sum[r] = fmaf(four.z, column[k + 2], sum[r]);
      sum[r] = fmaf(four.w, column[k + 3], sum[r]);
    }
  }
}

extern "C" __global__ void __launch_bounds__(256, 1)
    recur(const float* __restrict__ inward, const float* __restrict__ onward, const float* __restrict__ bias,
          const float* __restrict__ x, float* __restrict__ out) {
  __shared__ __align__(16) float given[2][rows][width];  // x of the steps t + 1 and t + 2
  __shared__ __align__(16) float state[2][rows][width];
  __shared__ float product[2][rows][width];  // x W + b of the steps t and t + 1
  const int j = threadIdx.x % width;
  const bool inputs = threadIdx.x < width;
  const float* matrix = inputs ? inward : onward;
  float column[width];
#pragma unroll
  for (int k = 0; k < width; ++k) column[k] = matrix[k * width + j];
  const float add = inputs ? bias[j] : 0.0f;
  // Of 128 threads each brings four elements a step.
  const int row = j / 32, four = j % 32 * 4;
  const float* from = x + (static_cast<long long>(blockIdx.x) * rows + row) * steps * width + four;
  if (inputs) {
    *reinterpret_cast<float4*>(&given[0][row][four]) = *reinterpret_cast<const float4*>(from);
    *reinterpret_cast<float4*>(&given[1][row][four]) = *reinterpret_cast<const float4*>(from + width);
  } else {
#pragma unroll
    for (int r = 0; r < rows; ++r) state[0][r][j] = 0;
  }
  __syncthreads();
  if (inputs) {
    float sum[rows] = {};
    multiply(given[0], column, sum);
#pragma unroll
    for (int r = 0; r < rows; ++r) product[0][r][j] = sum[r] + add;
  }
  __syncthreads();
  float last[rows] = {};
  for (int t = 0; t < steps; ++t) {
    float sum[rows] = {};
    if (inputs) {
      float4 ahead = {};
      if (t + 2 < steps) ahead = *reinterpret_cast<const float4*>(from + (t + 2) * width);
      if (t + 1 < steps) {
        multiply(given[(t + 1) % 2], column, sum);
#pragma unroll
        for (int r = 0; r < rows; ++r) product[(t + 1) % 2][r][j] = sum[r] + add;
      }
      // x of step t lay there: it was read before the barrier behind us.
      *reinterpret_cast<float4*>(&given[t % 2][row][four]) = ahead;
    } else {
      multiply(state[t % 2], column, sum);
#pragma unroll
      for (int r = 0; r < rows; ++r) {
        last[r] = tanhf(product[t % 2][r][j] + sum[r]);
        state[(t + 1) % 2][r][j] = last[r];
      }
    }
    __syncthreads();
  }
  if (inputs) return;
#pragma unroll
  for (int r = 0; r < rows; ++r) out[(blockIdx.x * rows + r) * width + j] = last[r];
}
//@ launch recur grid=128 block=256 args=in0, in1, in2, in3, out0
