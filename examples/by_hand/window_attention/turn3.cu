// A warp has eight queries that follow one another: each key that it reads serves all of them (two passes of 32 keys
// over the 39 that they see), and each value too. Shares go through shared memory, eight of a key side by side.
//@ kernel cuda
constexpr int length = 2048, depth = 64, window = 32, queries = 64, rows = queries + window - 1, wide = depth + 1, group = 8,
              span = group + window - 1;

extern "C" __global__ void __launch_bounds__(256) attend(const float* __restrict__ query, const float* __restrict__ key,
                                                         const float* __restrict__ value, float* __restrict__ out) {
  extern __shared__ float4 shared[];
  float4* asked = shared;                                                        // [warp][depth][group] as two float4
  float4* shares = asked + queries * depth / 4;                                  // [warp][span][group] as two float4
  float2* values = reinterpret_cast<float2*>(shares + 8 * span * group / 4);     // [rows][depth]
  float* keys = reinterpret_cast<float*>(values + rows * depth / 2);             // [rows][wide]
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int start = blockIdx.x * queries, before = start - (window - 1);
  const long long head = static_cast<long long>(blockIdx.y) * length * depth;
  for (int i = threadIdx.x; i < rows * depth / 4; i += 256) {
    const int r = i / (depth / 4), d = i % (depth / 4) * 4;
    float4 k = {}, v = {};
    if (before + r >= 0) {
      k = *reinterpret_cast<const float4*>(key + head + (before + r) * depth + d);
      v = *reinterpret_cast<const float4*>(value + head + (before + r) * depth + d);
    }
    keys[r * wide + d] = k.x;
    keys[r * wide + d + 1] = k.y;
    keys[r * wide + d + 2] = k.z;
    keys[r * wide + d + 3] = k.w;
    reinterpret_cast<float4*>(values)[i] = v;
  }
  // Queries of a group side by side: one load gives an element of four.
  for (int i = threadIdx.x; i < queries * depth; i += 256) {
    const int q = i / depth, d = i % depth;
    reinterpret_cast<float*>(asked)[(q / group * depth + d) * group + q % group] = query[head + start * depth + i];
  }
  __syncthreads();
  const int base = warp * group;  // of its queries, and of the first key that they see
  const bool second = lane < span - 32;
  float score[2][group] = {};
  const float* near = keys + (base + lane) * wide;
  const float* far = keys + (base + (second ? 32 + lane : 0)) * wide;
#pragma unroll 8
  for (int d = 0; d < depth; ++d) {
    const float4 low = asked[(warp * depth + d) * 2], high = asked[(warp * depth + d) * 2 + 1];
    const float of[group] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
    const float k[2] = {near[d], far[d]};
#pragma unroll
    for (int p = 0; p < 2; ++p) {
#pragma unroll
      for (int q = 0; q < group; ++q) score[p][q] = fmaf(of[q], k[p], score[p][q]);
    }
  }
  float share[2][group];
#pragma unroll
  for (int q = 0; q < group; ++q) {
    // Key base + lane is in the window of query base + q from lane q on, and of the second pass up to 32 + lane < q + 32.
    const bool one = lane >= q && before + base + lane >= 0, two = second && lane < q;
    float most = fmaxf(one ? score[0][q] : -__int_as_float(0x7f800000), two ? score[1][q] : -__int_as_float(0x7f800000));
#pragma unroll
    for (int step = 16; step > 0; step /= 2) most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, step));
    share[0][q] = one ? expf((score[0][q] - most) * 0.125f) : 0.0f;
    share[1][q] = two ? expf((score[1][q] - most) * 0.125f) : 0.0f;
    float sum = share[0][q] + share[1][q];
#pragma unroll
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    share[0][q] /= sum;
    share[1][q] /= sum;
  }
  float4* own = shares + warp * span * 2;
  own[lane * 2] = make_float4(share[0][0], share[0][1], share[0][2], share[0][3]);
  own[lane * 2 + 1] = make_float4(share[0][4], share[0][5], share[0][6], share[0][7]);
  if (second) {
    own[(32 + lane) * 2] = make_float4(share[1][0], share[1][1], share[1][2], share[1][3]);
    own[(32 + lane) * 2 + 1] = make_float4(share[1][4], share[1][5], share[1][6], share[1][7]);
  }
  __syncwarp();
  float2 result[group] = {};
#pragma unroll 4
  for (int w = 0; w < span; ++w) {
    const float4 low = own[w * 2], high = own[w * 2 + 1];
    const float of[group] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
    const float2 v = values[(base + w) * (depth / 2) + lane];
#pragma unroll
    for (int q = 0; q < group; ++q) {
      result[q].x = fmaf(of[q], v.x, result[q].x);
      result[q].y = fmaf(of[q], v.y, result[q].y);
    }
  }
#pragma unroll
  for (int q = 0; q < group; ++q)
    reinterpret_cast<float2*>(out + head + (start + base + q) * depth)[lane] = result[q];
}
//@ launch attend grid=32,64 block=256 shared=75388 args=in0, in1, in2, out0
