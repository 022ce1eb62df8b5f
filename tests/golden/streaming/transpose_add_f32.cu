// genome: fast=0 hints=0 persistent=0 predication=0 threads=1024 tile=64 unroll=1 vector=4
// launch: grid 2x1x1 block 1024x1x1 cluster 1x1x1 shared 0
// arguments: input0 input1 output0
// ---- tests/golden/shared/expression_prelude_cuda.cu ----
// ---- tests/golden/shared/cuda_memory_prelude.cu ----
typedef int ix;
extern "C" __global__ void __launch_bounds__(1024, 1) planish_kernel(const float* __restrict__ in0, const float* __restrict__ in1, float* __restrict__ out0) {
  const int x = (int)threadIdx.x % 64, y = (int)threadIdx.x / 64;
  const ix block = blockIdx.x;
  const ix first1 = (block % 2) * 64;
  const ix first0 = ((block / 2) % 1) * 64;
  const ix others = block / 2;
  __shared__ float t0[4160];
  PlVec<float, 1> r1[4];
  #pragma unroll
  for (int u = 0; u < 4; ++u) {
    const int yu = y + u * 16;
    const ix d1 = first1 + x, d0 = first0 + yu;
    if (d1 < 72 && d0 < 40) {
      pl_load<0, 1>(r1[u], in1 + (72 * d0 + d1));
    }
  }
  #pragma unroll
  for (int u = 0; u < 4; ++u) {
    const int yu = y + u * 16;
    const ix d0 = first0 + x, d1 = first1 + yu;
    if (d0 < 40 && d1 < 72) {
      t0[yu * 65 + x] = pl_ldg(in0 + (d0 + 40 * d1));
    }
  }
  __syncthreads();
  #pragma unroll
  for (int u = 0; u < 4; ++u) {
    const int yu = y + u * 16;
    const ix d1 = first1 + x, d0 = first0 + yu;
    if (d1 < 72 && d0 < 40) {
      PlVec<float, 1> o0;
      #pragma unroll
      for (int j = 0; j < 1; ++j) {
        const float v0 = t0[x * 65 + yu];
        const float v1 = r1[u].x[j];
        const float v2 = (v0 + v1);
        o0.x[j] = v2;
      }
      pl_store<0, 1>(out0 + (72 * d0 + d1), o0);
    }
  }
}
