#pragma once
// Attention of many queries in fp32: out = epilogue(softmax(score(q · kᵀ)) · v), a block's rows of queries at a time,
// by FlashAttention's online softmax. Factors are packed before, each as two parts in fp16 with a power of two for a
// row (a column of v), and products are three: high · high and both of high · low, summed in fp32. Weights are times
// 2^weight_bits, so that both of their parts are fp16 numbers that matter. One producer thread brings tiles by bulk
// copies; consumer warpgroups have 64 rows each. The low parts of weights and values are times 2^11: a row that is one
// value, however small it is beside its column, is that value to fp32's last places.
//
// A row whose sums are not finite is computed again, element by element as the definition says: pairs of fp16 do not
// say where an infinity times a negative number, or times a part that vanished, belongs.
//
// Policy (all constexpr):
//   int features, columns           of packed rows, up to whole instructions; of a block's results
//   int depth, value_columns        of rows of q and k, and of v, as they are
//   int rows, key_count             queries and keys of a batch
//   int keys, consumers, stages     keys of a tile; warpgroups that multiply; places for a tile of keys and of values
//   int row_blocks, column_blocks   blocks of a batch; those that share rows, each with its columns of values
//   int key_tiles                   tiles of all keys
//   int exchange                    columns that a warp's lanes hand each other at once before the epilogue
//   bool batched_queries, batched_keys, batched_values   they differ from batch to batch
//   bool shares                     registers go from the producer to consumers: these have
//   int producer_registers, consumer_registers
//
// Functors F (values; what one needs of memory it holds as pointers):
//   multiply_scores(d, a, b, keep), multiply_values(d, a0 … a3, b, keep)   the two products' instructions
//   tiles(row)                          tiles of keys that count for the block's rows from `row` on
//   score(batch, row, key, product), query(batch, row, k), key(batch, key, k), value(batch, key, column)
//   shift(batch, row, maximum), divisor(batch, row, maximum, total)  of the softmax's definition
//   store<rows, columns, all>(batch, row, column, end, lane, sums)         the epilogue (contraction/main_loop.h)

#include "sm90/pipeline.cuh"
#include "sm90/ptx.cuh"
#include "sm90/wgmma.cuh"
#include "softmax.cuh"
#include "sums.cuh"

/// Both parts of each factor, and the exponents of their rows.
struct SplitOperands {
  const char *queries[2], *keys[2], *values[2];
  const int *query_exponents, *key_exponents, *value_exponents;
};

/// Where things lie in shared memory, in bytes from a multiple of 128. A part lies in groups of 8 rows, of each 16
/// bytes of all of them and then the next 16.
template <typename P>
struct SplitLayout {
  static constexpr int weight_bits = 12;
  static constexpr int rows = 64 * P::consumers;
  static constexpr int packed_rows = P::row_blocks * rows, packed_keys = P::key_tiles * P::keys;
  static constexpr int packed_columns = P::columns * P::column_blocks;
  static constexpr int query_bytes = rows * P::features * 2;  ///< of one part
  static constexpr int key_bytes = P::keys * P::features * 2;
  static constexpr int value_bytes = P::keys * P::columns * 2;
  static constexpr int stage_bytes = 2 * (key_bytes + value_bytes);
  static constexpr int stages_at = 2 * query_bytes;
  static constexpr int barriers_at = stages_at + P::stages * stage_bytes;
  static constexpr int exchange_at = barriers_at + (8 + 32 * P::stages + 15) / 16 * 16;
  static constexpr int exchange_pitch = P::exchange + 8;
};

/// Barriers of a block, at shared addresses.
template <typename P>
struct SplitBarriers {
  u32 base;
  PL_DEVICE u32 queries() const { return base; }
  PL_DEVICE u32 keys_in(int stage) const { return base + 8 + 8 * stage; }
  PL_DEVICE u32 keys_out(int stage) const { return base + 8 + 8 * (P::stages + stage); }
  PL_DEVICE u32 values_in(int stage) const { return base + 8 + 8 * (2 * P::stages + stage); }
  PL_DEVICE u32 values_out(int stage) const { return base + 8 + 8 * (3 * P::stages + stage); }

  PL_DEVICE void init() const {
    barrier_init(queries(), 1);
    for (int i = 0; i < P::stages; ++i) {
      barrier_init(keys_in(i), 1);
      barrier_init(values_in(i), 1);
      barrier_init(keys_out(i), 4 * P::consumers);
      barrier_init(values_out(i), 4 * P::consumers);
    }
    barrier_init_fence();
  }
};

/// What a block has. The last rows first: where keys are masked by their place these have the most.
template <typename P>
struct SplitPlace {
  int part, batch, row;
  PL_DEVICE SplitPlace() {
    part = blockIdx.x % P::column_blocks;
    batch = blockIdx.x / P::column_blocks / P::row_blocks;
    row = (P::row_blocks - 1 - (int)(blockIdx.x / P::column_blocks % P::row_blocks)) * SplitLayout<P>::rows;
  }
};

/// One thread: asks for all that the consumers will read.
template <typename P>
PL_DEVICE void split_produce(const SplitOperands& operands, const SplitPlace<P>& at, int tiles, u32 base) {
  using L = SplitLayout<P>;
  const SplitBarriers<P> barriers{base + L::barriers_at};
  const long long q = ((long long)(P::batched_queries ? at.batch : 0) * L::packed_rows + at.row) * (P::features * 2);
  const long long k = (long long)(P::batched_keys ? at.batch : 0) * ((long long)L::packed_keys * P::features * 2);
  const long long v =
      (long long)(P::batched_values ? at.batch : 0) * ((long long)L::packed_keys * L::packed_columns * 2) +
      at.part * L::value_bytes;
  constexpr long long value_step = (long long)P::keys * L::packed_columns * 2;
  barrier_expect(barriers.queries(), 2 * L::query_bytes);
#pragma unroll
  for (int part = 0; part < 2; ++part)
    bulk_load(base + part * L::query_bytes, operands.queries[part] + q, L::query_bytes, barriers.queries());
  PipelinePlace<P::stages> place;
  for (int tile = 0; tile < tiles; ++tile) {
    const u32 to = base + L::stages_at + place.stage * L::stage_bytes;
    barrier_wait(barriers.keys_out(place.stage), place.parity ^ 1);
    barrier_expect(barriers.keys_in(place.stage), 2 * L::key_bytes);
#pragma unroll
    for (int part = 0; part < 2; ++part)
      bulk_load(to + part * L::key_bytes, operands.keys[part] + k + tile * (long long)L::key_bytes, L::key_bytes,
                barriers.keys_in(place.stage));
    barrier_wait(barriers.values_out(place.stage), place.parity ^ 1);
    barrier_expect(barriers.values_in(place.stage), 2 * L::value_bytes);
#pragma unroll
    for (int part = 0; part < 2; ++part)
      bulk_load(to + 2 * L::key_bytes + part * L::value_bytes, operands.values[part] + v + tile * value_step,
                L::value_bytes, barriers.values_in(place.stage));
    place.step();
  }
}

/// 2^e: beyond what a float holds, its last.
PL_DEVICE float power_or_last(int e) {
  return __int_as_float((min(max(e, -126), 127) + 127) << 23);
}
/// Over the four lanes that have the same rows.
PL_DEVICE float most_of_four(float v) {
  v = fmaxf(v, __shfl_xor_sync(~0u, v, 1));
  return fmaxf(v, __shfl_xor_sync(~0u, v, 2));
}
PL_DEVICE float sum_of_four(float v) {
  v += __shfl_xor_sync(~0u, v, 1);
  return v + __shfl_xor_sync(~0u, v, 2);
}
/// What is left of two numbers whose high parts these are, times 2^11.
PL_DEVICE u32 pack_left(float a, float b, u32 high) {
  float x, y;
  unpack_f16(x, y, high);
  return pack_f16((a - x) * 2048.0f, (b - y) * 2048.0f);
}
PL_DEVICE float larger_or_nan(float a, float b) {
  return a != a || b != b ? a + b : fmaxf(b, a);
}

template <typename P, typename F>
class SplitConsumer {
  using L = SplitLayout<P>;
  static constexpr int steps_of_scores = P::features / 16, steps_of_values = P::keys / 16;

 public:
  PL_DEVICE SplitConsumer(const F& functors, const SplitOperands& packed, const SplitPlace<P>& block, u32 shared,
                          int warpgroup)
      : f(functors), operands(packed), at(block), base(shared), barriers{shared + L::barriers_at}, group(warpgroup) {
    lane = threadIdx.x % 32;
    rows = at.row + group * 64 + threadIdx.x % 128 / 32 * 16;
    row[0] = min(rows + lane / 4, P::rows - 1), row[1] = min(rows + lane / 4 + 8, P::rows - 1);
    const int* const exponents =
        operands.query_exponents + (P::batched_queries ? (long long)at.batch * L::packed_rows : 0) + rows + lane / 4;
    up[0] = power_or_last(exponents[0]), up[1] = power_or_last(exponents[8]);
    top[0] = top[1] = no_score();
    base_of[0] = base_of[1] = sum[0] = sum[1] = 0.0f;
#pragma unroll
    for (int i = 0; i < P::columns / 2; ++i) o[i] = 0.0f;
  }

  PL_DEVICE void run(int tiles, unsigned char* shared) {
    barrier_wait(barriers.queries(), 0);
#pragma unroll 1
    for (int tile = 0; tile < tiles; ++tile) {
      float s[P::keys / 2];
      multiply_keys(s);
      soften(s, tile);
      multiply_values(s);
      place.step();
    }
    finish();
    store(shared);
    again();
  }

 private:
  PL_DEVICE void leave(u32 barrier) {
    if (lane == 0) barrier_arrive(barrier);
  }
  PL_DEVICE u64 stage() const { return (u64)((base + L::stages_at + place.stage * L::stage_bytes) >> 4); }

  /// Small products come first, while sums are small.
  PL_DEVICE void multiply_keys(float (&s)[P::keys / 2]) {
    constexpr u64 form = wgmma_unswizzled(128, P::features * 16);
    barrier_wait(barriers.keys_in(place.stage), place.parity);
    const u64 a = form + (u64)((base + group * (64 * P::features * 2)) >> 4), b = form + stage();
    const auto step = [&](int a_part, int b_part, int k, bool keep) {
      f.multiply_scores(s, a + a_part * (L::query_bytes / 16) + k * 16, b + b_part * (L::key_bytes / 16) + k * 16,
                        keep);
    };
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < steps_of_scores; ++k) step(0, 1, k, k != 0), step(1, 0, k, true);
#pragma unroll
    for (int k = 0; k < steps_of_scores; ++k) step(0, 0, k, true);
    wgmma_commit();
    wgmma_wait<0>();
    wgmma_hold(s);
    leave(barriers.keys_out(place.stage));
  }

  /// Products become scores, and those weights, of the maximum so far.
  PL_DEVICE void soften(float (&s)[P::keys / 2], int tile) {
    constexpr float log2e = 0x1.715476p+0f;
    const int first = tile * P::keys;
    const float before[2] = {top[0], top[1]};
    float now[2] = {top[0], top[1]};
    const int* const exponents = operands.key_exponents + (P::batched_keys ? (long long)at.batch * L::packed_keys : 0);
#pragma unroll
    for (int j = 0; j < P::keys / 8; ++j) {
      const int key = first + j * 8 + lane % 4 * 2;
      const int2 e = *(const int2*)(exponents + key);
      const float down[2] = {power_or_last(e.x), power_or_last(e.y)};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        constexpr bool ragged = P::key_count % P::keys != 0;
        const int own = ragged ? min(key + i % 2, P::key_count - 1) : key + i % 2;
        float x = f.score(at.batch, row[i / 2], own, s[j * 4 + i] * down[i % 2] * up[i / 2]);
        if (ragged && key + i % 2 > P::key_count - 1) x = no_score();
        s[j * 4 + i] = x;
      }
#pragma unroll
      for (int h = 0; h < 2; ++h) now[h] = fmaxf(now[h], fmaxf(s[j * 4 + 2 * h], s[j * 4 + 2 * h + 1]));
    }
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      top[h] = most_of_four(now[h]);
      // A row of which every key so far counts nothing has no maximum yet, and no sums.
      const bool vast = is_vast(top[h]);  // a row that a mask covers whole, so far
      const float next = fmaf(vast || top[h] == no_score() ? 0.0f : top[h], log2e, -(float)L::weight_bits);
      const bool nothing = before[h] == no_score() || (before[h] != top[h] && is_vast(before[h]));
      less[h] = nothing ? 0.0f : exp2_full(base_of[h] - next);
      if (vast) {
#pragma unroll
        for (int j = 0; j < P::keys / 8; ++j) s[j * 4 + 2 * h] -= top[h], s[j * 4 + 2 * h + 1] -= top[h];
      }
      base_of[h] = next;
      sum[h] *= less[h];
    }
#pragma unroll
    for (int j = 0; j < P::keys / 8; ++j) {
#pragma unroll
      for (int i = 0; i < 4; ++i) s[j * 4 + i] = exp2_full(fmaf(s[j * 4 + i], log2e, -base_of[i / 2]));
#pragma unroll
      for (int h = 0; h < 2; ++h) sum[h] += s[j * 4 + 2 * h] + s[j * 4 + 2 * h + 1];
    }
  }

  /// Weights times a tile's values, added to what there is.
  PL_DEVICE void multiply_values(const float (&s)[P::keys / 2]) {
    constexpr u64 form = wgmma_unswizzled(128, P::keys * 16);
    u32 high[P::keys / 16][4], low[P::keys / 16][4];
#pragma unroll
    for (int i = 0; i < P::keys / 16; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        high[i][j] = pack_f16(s[i * 8 + j * 2], s[i * 8 + j * 2 + 1]);
        low[i][j] = pack_left(s[i * 8 + j * 2], s[i * 8 + j * 2 + 1], high[i][j]);
      }
    }
    barrier_wait(barriers.values_in(place.stage), place.parity);
    float t[P::columns / 2];
    const u64 b = form + stage() + 2 * L::key_bytes / 16;
    const auto step = [&](const u32(&a)[4], int b_part, int k, bool keep) {
      f.multiply_values(t, a[0], a[1], a[2], a[3], b + b_part * (L::value_bytes / 16) + k * 16, keep);
    };
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < steps_of_values; ++k) step(high[k], 1, k, k != 0), step(low[k], 0, k, true);
    wgmma_commit();
    wgmma_wait<0>();
    wgmma_hold(t);
#pragma unroll
    for (int i = 0; i < P::columns / 2; ++i) t[i] *= 0x1p-11f;
    wgmma_hold(t);
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < steps_of_values; ++k) step(high[k], 0, k, true);
    wgmma_commit();
    wgmma_wait<0>();
    wgmma_hold(t);
    leave(barriers.values_out(place.stage));
#pragma unroll
    for (int i = 0; i < P::columns / 2; ++i) o[i] = fmaf(o[i], less[i % 4 / 2], t[i]);
  }

  /// What sums are multiplied by, and whether a row has to be computed again.
  PL_DEVICE void finish() {
    constexpr float one = 1.0f / (1 << L::weight_bits);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      sum[h] = sum_of_four(sum[h]);
      // The exponentials' own base, against what the definition takes from the scores.
      const float scale = one * softmax_rebase(top[h], f.shift(at.batch, row[h], top[h]));
      factor[h] = scale / f.divisor(at.batch, row[h], top[h], sum[h] * scale);
      odd[h] = !is_finite(sum[h]);
    }
#pragma unroll
    for (int i = 0; i < P::columns / 2; ++i) odd[i % 4 / 2] = odd[i % 4 / 2] | !is_finite(o[i]);
  }

  PL_DEVICE int end() const { return min(at.part * P::columns + P::columns, P::value_columns); }

  /// Sums, divided, go through shared memory to the epilogue.
  PL_DEVICE void store(unsigned char* shared) {
    const int warp = threadIdx.x % 128 / 32;
    float* const exchange = (float*)(shared + L::exchange_at) + (group * 4 + warp) * (8 * L::exchange_pitch);
    float* const mine = exchange + lane / 4 * L::exchange_pitch + lane % 4 * 2;
    const int* const exponents = operands.value_exponents +
                                 (P::batched_values ? (long long)at.batch * L::packed_columns : 0) +
                                 at.part * P::columns;
#pragma unroll
    for (int begin = 0; begin < P::columns; begin += P::exchange) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        __syncwarp();
#pragma unroll
        for (int j = begin; j < min(begin + P::exchange, P::columns); j += 8) {
          const int2 e = *(const int2*)(exponents + j + lane % 4 * 2);
          *(float2*)(mine + j - begin) = make_float2(scale_by_power(o[j / 2 + h * 2], e.x) * factor[h],
                                                     scale_by_power(o[j / 2 + h * 2 + 1], e.y) * factor[h]);
        }
        __syncwarp();
        f.template store<8, P::exchange, L::packed_rows == P::rows>(
            at.batch, rows + h * 8, at.part * P::columns + begin, end(), lane, Exchange<L::exchange_pitch>{exchange});
      }
    }
  }

  PL_DEVICE float exact_score(int y, int key) const {
    float product = 0.0f;
#pragma unroll 1
    for (int k = 0; k < P::depth; ++k) product = fmaf(f.query(at.batch, y, k), f.key(at.batch, key, k), product);
    return f.score(at.batch, y, key, product);
  }

  /// Rows that hold what is not finite, by the definition: a warp a row, a lane a key.
  PL_DEVICE void again() {
    const unsigned both[2] = {__ballot_sync(~0u, odd[0]), __ballot_sync(~0u, odd[1])};
    if ((both[0] | both[1]) == 0) return;
    __syncwarp();
#pragma unroll 1
    for (int r = 0; r < 16; ++r) {
      const unsigned mask = 15u << r % 8 * 4;
      if (((r < 8 ? both[0] : both[1]) & mask) != 0 && rows + r < P::rows) again(rows + r);
    }
  }

  PL_DEVICE void again(int y) {
    float most = no_score();
#pragma unroll 1
    for (int key = lane; key < P::key_count; key += 32) most = larger_or_nan(exact_score(y, key), most);
#pragma unroll
    for (int apart = 1; apart < 32; apart *= 2) most = larger_or_nan(__shfl_xor_sync(~0u, most, apart), most);
    const float shift = f.shift(at.batch, y, most);
    constexpr int each = (P::columns + 31) / 32;
    float total = 0.0f, z[each];
#pragma unroll
    for (int c = 0; c < each; ++c) z[c] = 0.0f;
#pragma unroll 1
    for (int first = 0; first < P::key_count; first += 32) {
      const bool there = first + lane < P::key_count;
      const float w = there ? expf(exact_score(y, min(first + lane, P::key_count - 1)) - shift) : 0.0f;
      total += w;
#pragma unroll 1
      for (int key = first; key < min(first + 32, P::key_count); ++key) {
        const float by = __shfl_sync(~0u, w, key - first);
#pragma unroll
        for (int c = 0; c < each; ++c) {
          const int column = at.part * P::columns + c * 32 + lane;
          if (column < P::value_columns) z[c] = fmaf(by, f.value(at.batch, key, column), z[c]);
        }
      }
    }
#pragma unroll
    for (int apart = 1; apart < 32; apart *= 2) total += __shfl_xor_sync(~0u, total, apart);
    const float divisor = f.divisor(at.batch, y, most, total);
#pragma unroll
    for (int c = 0; c < each; ++c) {
      const float result = z[c] / divisor;
      f.template store<1, 32, true>(at.batch, y, at.part * P::columns + c * 32, end(), lane,
                                    [&](int, int) { return result; });
    }
  }

  const F& f;
  const SplitOperands& operands;
  const SplitPlace<P>& at;
  const u32 base;
  const SplitBarriers<P> barriers;
  const int group;
  int lane, rows, row[2];  ///< the warp's first row, and the thread's two
  PipelinePlace<P::stages> place;
  /// Of the two rows: of queries' scale; the largest score; what exponents are taken from; shares of the exponentials;
  /// what earlier sums are multiplied by in this tile, and sums in the end.
  float up[2], top[2], base_of[2], sum[2], less[2], factor[2];
  bool odd[2];
  float o[P::columns / 2];
};

/// `shared`: SplitLayout::exchange_at bytes and the exchanges, from a multiple of 128.
template <typename P, typename F>
PL_DEVICE void split_attention(const F& f, const SplitOperands& operands, unsigned char* shared) {
  const u32 base = shared_address(shared);
  const int group = warpgroup_number();
  if (threadIdx.x == 0) SplitBarriers<P>{base + SplitLayout<P>::barriers_at}.init();
  __syncthreads();
  const SplitPlace<P> at;
  const int tiles = f.tiles(at.row);
  if (group == 0) {
    if (P::shares) registers_decrease<P::producer_registers>();
    if (threadIdx.x == 0) split_produce<P>(operands, at, tiles, base);
  } else {
    if (P::shares) registers_increase<P::consumer_registers>();
    SplitConsumer<P, F>(f, operands, at, base, group - 1).run(tiles, shared);
  }
}
