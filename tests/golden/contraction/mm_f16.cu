// genome: direct=2 min_blocks=1 pingpong=0 raster=8 split=1 stages=8 stationary=0 swap_operands=0 tile_k=64 tile_m=64 tile_n=16
// launch: grid 5x1x1 block 256x1x1 cluster 1x1x1 shared 0 packs
// arguments: input1 scratch0
// ---- tests/golden/shared/place_prelude.cu ----
// ---- tests/golden/shared/machine_text.cu ----
template <typename T> TC_FN T pl_ldg(const T* p) { return __ldg(p); }
template <int UNIT, typename T> TC_FN void tc_read(T (&d)[8], const T* p) {
#pragma unroll
  for (int i = 0; i < 8; i += UNIT) {
    if (UNIT * sizeof(T) == 16) *(uint4*)&d[i] = __ldg((const uint4*)(p + i));
    else if (UNIT * sizeof(T) == 8) *(uint2*)&d[i] = __ldg((const uint2*)(p + i));
    else if (UNIT * sizeof(T) == 4) *(unsigned*)&d[i] = __ldg((const unsigned*)(p + i));
    else for (int j = 0; j < UNIT; ++j) d[i + j] = __ldg(p + i + j);
  }
}
TC_FN float tc_most(float v, int apart) { return fmaxf(v, __shfl_xor_sync(~0u, v, apart)); }
TC_FN void tc_come() { asm volatile("barrier.cluster.arrive;" ::: "memory"); }
TC_FN void tc_await() { asm volatile("barrier.cluster.wait;" ::: "memory"); }
TC_FN float tc_remote(const float* p, int block) {
  float v;
  asm volatile("{.reg .b32 a; mapa.shared::cluster.u32 a, %1, %2; ld.shared::cluster.f32 %0, [a];}"
               : "=f"(v) : "r"(tc_shared(p)), "r"(block) : "memory");
  return v;
}
TC_FN float tc_power(int e) { return __int_as_float((127 + e) << 23); }
struct __align__(16) TcChunk { unsigned short x[8]; };
TC_FN void tc_put(unsigned char* p, const TcChunk& c) { *(uint4*)p = *(const uint4*)&c; }
// The pairs of a chunk, each into a chunk of its own.
TC_FN void tc_put_pairs(unsigned char* p, const TcChunk& c) {
#pragma unroll
  for (int i = 0; i < 4; ++i) *(unsigned*)(p + i * 128) = ((const unsigned*)&c)[i];
}
// ---- kernel ----
TC_FN void tc_values(float (&v)[8], const unsigned short* __restrict__ in1, int batch, int row, int k) {
  if (row >= 66 || k >= 96) {
    #pragma unroll
    for (int j = 0; j < 8; ++j) v[j] = 0.0f;
    return;
  }
  const int d1 = (unsigned)(row);
  float r2[8];
  #pragma unroll
  for (int j = 0; j < 8; ++j) {
    const int d2 = (unsigned)(k + j);
    r2[j] = pl_from_f16(pl_ldg(in1 + (d1 + 66 * d2)));
  }
  #pragma unroll
  for (int j = 0; j < 8; ++j) {
    const int d2 = (unsigned)(k + j);
    const float v2 = r2[j];
    const float v3 = v2;
    v[j] = v3;
  }
}
extern "C" __global__ void __launch_bounds__(256) planish_kernel(const unsigned short* __restrict__ in1, unsigned char* __restrict__ out0) {
  const int r = threadIdx.x % 8;
  const int part = 0, whole = blockIdx.x * 2 + threadIdx.x / 128;
  const int batch = whole / 10, row = whole % 10 * 8 + r;
  float v[1][8];
  for (int at = 0; at < 1; at += 1) {
    #pragma unroll
    for (int i = 0; i < 1; ++i) {
      const int own = (int)threadIdx.x % 128 / 8 + (at + i) * 16, chunk = part * 16 + own;
      tc_values(v[i], in1, batch, row, chunk * 8);
    }
    #pragma unroll
    for (int i = 0; i < 1; ++i) {
      const int own = (int)threadIdx.x % 128 / 8 + (at + i) * 16, chunk = part * 16 + own;
      TcChunk hi;
      #pragma unroll
      for (int j = 0; j < 8; ++j) hi.x[j] = pl_to_f16(v[i][j]);
      const long long place = batch * 20480ll + chunk / 8 * 10240ll + row / 8 * 1024ll + chunk % 8 * 128 + r * 16;
      tc_put(out0 + place, hi);
    }
  }
}

// launch: grid 15x1x1 block 256x1x1 cluster 1x1x1 shared 88192
// arguments: input0 scratch0 output0 scratch1
// ---- tests/golden/shared/machine_text.cu ----
// Fields of a tensor map, whose 128 bytes are in shared memory.
TC_FN void tc_map_begin(u32 map, const void* from) {
  asm volatile("tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%0], %1;" :: "l"((u64)map), "l"(from) : "memory");
}
// Rows of 128 bytes swizzled, zeros outside.
template <int rank, int type> TC_FN void tc_map_type(u32 map) {
  asm volatile("tensormap.replace.tile.rank.shared::cta.b1024.b32 [%0], %1;" :: "l"((u64)map), "n"(rank) : "memory");
  asm volatile("tensormap.replace.tile.elemtype.shared::cta.b1024.b32 [%0], %1;" :: "l"((u64)map), "n"(type) : "memory");
  asm volatile("tensormap.replace.tile.interleave_layout.shared::cta.b1024.b32 [%0], 0;" :: "l"((u64)map) : "memory");
  asm volatile("tensormap.replace.tile.swizzle_mode.shared::cta.b1024.b32 [%0], 3;" :: "l"((u64)map) : "memory");
  asm volatile("tensormap.replace.tile.fill_mode.shared::cta.b1024.b32 [%0], 0;" :: "l"((u64)map) : "memory");
}
template <int d> TC_FN void tc_map_dim(u32 map, int extent, int box, int step) {
  asm volatile("tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%0], %1, %2;" :: "l"((u64)map), "n"(d), "r"(extent) : "memory");
  asm volatile("tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%0], %1, %2;" :: "l"((u64)map), "n"(d), "r"(box) : "memory");
  asm volatile("tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [%0], %1, %2;" :: "l"((u64)map), "n"(d), "r"(step) : "memory");
}
template <int d> TC_FN void tc_map_stride(u32 map, u64 bytes) {
  asm volatile("tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [%0], %1, %2;" :: "l"((u64)map), "n"(d), "l"(bytes) : "memory");
}
// All of a warp: the map goes where the copy engine reads it.
TC_FN void tc_publish(void* to, u32 map) {
  asm volatile("tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%0], [%1], 128;"
               :: "l"(to), "l"((u64)map) : "memory");
}
TC_FN void tc_acquire(const void* map) {
  asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" :: "l"(map) : "memory");
}
TC_FN void tc_fetch(u32 to, const void* map, u32 barrier, int x0, int x1) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" :: "r"(to), "l"(map), "r"(barrier), "r"(x0), "r"(x1) : "memory");
}
TC_FN void tc_fetch(u32 to, const void* map, u32 barrier, int x0, int x1, int x2) {
  asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2];" :: "r"(to), "l"(map), "r"(barrier), "r"(x0), "r"(x1), "r"(x2) : "memory");
}
TC_FN void tc_fetch(u32 to, const void* map, u32 barrier, int x0, int x1, int x2, int x3) {
  asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], [%2];" :: "r"(to), "l"(map), "r"(barrier), "r"(x0), "r"(x1), "r"(x2), "r"(x3) : "memory");
}
TC_FN void tc_fetch(u32 to, const void* map, u32 barrier, int x0, int x1, int x2, int x3, int x4) {
  asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6, %7}], [%2];" :: "r"(to), "l"(map), "r"(barrier), "r"(x0), "r"(x1), "r"(x2), "r"(x3), "r"(x4) : "memory");
}
TC_FN void tc_product(float (&d)[8], u64 a, u64 b, int keep) {
  asm volatile("{.reg .pred p; setp.ne.b32 p, %10, 0; wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7}, %8, %9, p, 1, 1, 0, 0;}" :
  "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]) : "l"(a), "l"(b), "r"(keep) : "memory");
}
TC_FN void tc_poll(u32 barrier, u32 parity) {
  while (!tc_poll_once(barrier, parity)) { }
}
// ---- tests/golden/shared/place_prelude.cu ----
template <typename T> TC_FN T pl_ldg(const T* p) { return __ldg(p); }
template <int count, typename Sums> TC_FN void tc_neighbours(const Sums& sums, int r, int c, float (&v)[count]) {
#pragma unroll
  for (int i = 0; i < count; ++i) v[i] = sums(r, c + i);
}
template <bool streaming, typename Word>
TC_FN void tc_put_word(void* to, Word word) {
  if (streaming) __stcs((Word*)to, word);
  else *(Word*)to = word;
}
template <bool streaming> TC_FN void tc_put(float* to, const float (&v)[4]) {
  tc_put_word<streaming>(to, make_float4(v[0], v[1], v[2], v[3]));
}
template <bool streaming> TC_FN void tc_put(float* to, const float (&v)[2]) {
  tc_put_word<streaming>(to, make_float2(v[0], v[1]));
}
template <bool streaming> TC_FN void tc_put(unsigned short* to, const unsigned short (&v)[2]) {
  tc_put_word<streaming>(to, (unsigned)v[0] | (unsigned)v[1] << 16);
}
template <int rows, int columns, bool all, typename Sums>
TC_FN void tc_store(unsigned short* __restrict__ out0, int batch, int y, int x, int end, int lane, Sums sums) {
  constexpr int weave = 1, step = 32;
  if constexpr (columns >= 2) {
    constexpr int beside = 2;
    #pragma unroll 4
    for (int r = 0; r < rows; ++r) {
      const int row = y + r;
      if (!all && row >= 130) break;
      const int d0 = (unsigned)(row);
      #pragma unroll
      for (int j = 0; j < columns; j += 32 * beside) {
        const bool inside = columns % (32 * beside) == 0 || j + lane * beside < columns;
        const int at = x + j + lane * beside;
        const int d1 = (unsigned)(at);
        const bool ok = inside & (at < end);
        float sum[beside];
        tc_neighbours(sums, r, inside ? j + lane * beside : 0, sum);
        unsigned short got0[beside];
        auto* const to0 = out0 + (66 * d0 + d1);
        const int first = d1;
        #pragma unroll
        for (int i = 0; i < beside; ++i) {
          const int d1 = first + i;
          const float folded = sum[i];
          const float v5 = folded;
          got0[i] = pl_to_f16(v5);
        }
        if (ok) {
          tc_put<false>(to0, got0);
        }
      }
    }
  }
  else {
    #pragma unroll 2
    for (int r = 0; r < rows; r += weave) {
      const int row = y + r;
      if (!all && row >= 130) break;
      const int d0 = (unsigned)(row);
      #pragma unroll
      for (int j = 0; j < columns; j += step) {
        const int at = x + j + lane / weave;
        const int d1 = (unsigned)(at);
        const bool there = (at < end);
        const bool ok = there;
        const float folded = sums(r + lane % weave, j + lane / weave);
        const float v5 = folded;
        if (ok) {
          out0[66 * d0 + d1] = pl_to_f16(v5);
        }
      }
    }
  }
}
TC_FN void tc_map_a(u32 map, const char* from) {
  tc_map_begin(map, from + 0ll);
  tc_map_type<1, 6>(map);
  tc_map_dim<0>(map, 96, 64, 1);
  tc_map_dim<1>(map, 130, 64, 1);
  tc_map_stride<0>(map, 192ull);
}
TC_FN void tc_fetch_a(u32 to, const void* map, int product, int row, int k, u32 barrier) {
  #pragma unroll
  for (int i = 0; i < 1; ++i) tc_fetch(to + i * 8192, map, barrier, k + i * 64, row);
}
// ---- kernel ----
extern "C" __global__ void __launch_bounds__(256, 1) planish_kernel(const char* __restrict__ a0, const char* __restrict__ b0, unsigned short* __restrict__ out0, char* __restrict__ maps) {
  extern __shared__ __align__(16) unsigned char pl_smem[];
  const u32 base = (tc_shared(pl_smem) + 1023u) & ~1023u;
  const u32 full = base + 81920, empty = full + 64;
  const int group = tc_group();
  if (threadIdx.x == 0) {
    for (int i = 0; i < 8; ++i) {
      tc_init(full + i * 8, 1);
      tc_init(empty + i * 8, 4);
    }
    tc_ready();
  }
  char* const map = maps + blockIdx.x * 256;
  if (threadIdx.x < 32) {
    if (threadIdx.x < 16) tc_clear(base + threadIdx.x * 16);
    __syncwarp();
    if (threadIdx.x == 0) tc_map_a(base + 0, a0);
    __syncwarp();
    tc_publish(map + 0, base + 0);
    if (threadIdx.x == 0) {
      tc_acquire(map + 0);
      tc_ready();
    }
  }
  __syncthreads();
  int stage = 0;
  u32 parity = 0;
  if (group == 0) {
    if (threadIdx.x == 0) {
      for (int tile = blockIdx.x; tile < 15; tile += gridDim.x) {
        const int band = tile / 40 * 8, within = tile % 40;
        const int height = min(8, 3 - band);
        const int row = (band + within % height) * 64;
        const int column = within / height * 16;
        const long long from_b = column * 128ll;
        const int begin = 0;
        for (int k = 0; k < 2; ++k) {
          tc_poll(empty + stage * 8, parity ^ 1);
          const u32 at = base + stage * 10240;
          tc_expect(full + stage * 8, 10240);
          tc_copy(at + 8192, b0 + from_b + k * 10240ll, 2048, full + stage * 8);
          tc_fetch_a(at + 0, map + 0, 0, row, begin + k * 64, full + stage * 8);
          if (++stage == 8) {
            stage = 0;
            parity ^= 1;
          }
        }
      }
    }
  } else {
    const int lane = threadIdx.x % 32;
    for (int tile = blockIdx.x; tile < 15; tile += gridDim.x) {
      const int band = tile / 40 * 8, within = tile % 40;
      const int height = min(8, 3 - band);
      const int row = (band + within % height) * 64;
      const int column = within / height * 16;
      const int warp = threadIdx.x % 128 / 32;
      const int m = row + (group - 1) * 64 + warp * 16;
      float high[8];
      #pragma unroll 1
      for (int k = 0; k < 2; k += 1) {
        {
          tc_poll(full + stage * 8, parity);
          const u64 at = (u64)((base + stage * 10240) >> 4);
          const u64 at_a = at + (group - 1) * 512;
          tc_begin();
          tc_product(high, 4611686293305360384ull + at_a + 0, 274878431232ull + at + 512, k > 0);
          tc_product(high, 4611686293305360384ull + at_a + 2, 274878431232ull + at + 528, 1);
          tc_product(high, 4611686293305360384ull + at_a + 4, 274878431232ull + at + 544, 1);
          tc_product(high, 4611686293305360384ull + at_a + 6, 274878431232ull + at + 560, 1);
          tc_commit();
          tc_finish<1>();
          if (k > 0 && lane == 0) tc_leave(empty + (stage == 0 ? 7 : stage - 1) * 8);
          if (++stage == 8) {
            stage = 0;
            parity ^= 1;
          }
        }
      }
      tc_finish<0>();
      tc_hold(high);
      if (lane == 0) tc_leave(empty + (stage == 0 ? 7 : stage - 1) * 8);
      float* const exchange = (float*)(pl_smem + (base - tc_shared(pl_smem)) + 82048) + ((group - 1) * 4 + warp) * 320;
      float* const mine = exchange + lane / 4 * 40 + lane % 4 * 2;
      #pragma unroll
      for (int part = 0; part < 16; part += 32) {
        #pragma unroll
        for (int h = 0; h < 2; ++h) {
          __syncwarp();
          #pragma unroll
          for (int j = part; j < min(part + 32, 16); j += 8) {
            const float left = high[j / 2 + h * 2];
            const float right = high[j / 2 + h * 2 + 1];
            *(float2*)(mine + j - part) = make_float2(left, right);
          }
          __syncwarp();
          tc_store<8, 32, false>(out0, 0, m + h * 8, column + part, min(column + 16, 66), lane, TcExchange<40>{exchange});
        }
      }
    }
  }
}
