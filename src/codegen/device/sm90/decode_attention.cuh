#pragma once
// Attention of a few queries over many keys: softmax(score(q · kᵀ)) · v for 1 to 16 rows of q, which all see the same
// keys (the query heads of a group, and queries beside each other). The bytes of keys and values are all that costs:
// each is read once, in place, into a ring that a warp fills for itself, so that no warp waits for another while keys
// pass. A warp takes 16 keys at a time. Tensor cores multiply whatever the rows are: q is the operand with 16 rows, and
// the order of features within 32, and of columns, is what 16 neighbouring bytes make it.
//
// Blocks share the keys of a unit (a setting of the batch, heads of keys among it): each leaves its sums relative to
// its own maximum, and the last that arrives puts them together, in their order. A block without keys leaves sums of
// nothing.
//
// Policy P (all constexpr, but for what it declares):
//   int rows, features, columns                     of q; features a multiple of 32, columns of 64
//   int units, keys                                 keys at most
//   int warps, stages, splits                       of a block; tiles under way of a warp; blocks that share a unit
//   long long key_stride, value_stride              elements from one key to the next, multiples of 16 bytes
//   SkinnyCode key_code, value_code                 how they are stored where they are no numbers of 16 bits
//   bool bf16                                       else f16: what is multiplied
//   int key_together, value_together                keys that lie so, by one look-up each; 0: all do, without a look-up
//   bool computed                                   queries are made by the block, once
//   bool chained                                    may be launched with the programmatic attribute
//   int ahead                                       keys of a block that are brought into the L2 cache before the wait
//   struct Args                                     pointers
//   int end(args, unit)                             keys from here on count for no row; any number
//   const void* key(args, unit), value(args, unit)  where those of key 0 begin, multiples of 16 bytes; without look-ups
//   const void* key_at(args, unit, key), value_at(args, unit, key)
//                                                   where a look-up says that a key's begins; null: nowhere, it is NaN
//   uint4 query(args, unit, row, feature)           8 features from one on, where they are not computed
//   u16 element(args, unit, row, feature)           one, where they are
//   struct Given, given(args, unit, row, key)       what a score needs beside the product, read ahead
//   float score(product, given, args, unit, row, key)
//   bool weighs                                     values are times a number that moves with the key,
//   float weight(given, args, unit, key)            which is this
//   float shift(args, unit, row, maximum)           what is taken from a row's scores,
//   float divisor(args, unit, row, maximum, total)  and what its sums are divided by
//   void store(args, unit, row, column, value)
//
// Keys and values that the same launch writes (a step's own, into the cache that it reads) are what W says:
//   int rows                                        of each unit, at most; 0: none
//   struct Args                                     pointers
//   long long key_place(args, unit, row), value_place(…)     the key that it is; what is no key is dropped
//   u16 key(args, unit, row, feature), value(args, unit, row, column)
// All others lie there since before the launches that this one waits for, so that they are asked for before the wait.

#include "sm90/codes.cuh"
#include "sm90/ptx.cuh"
#include "softmax.cuh"

/// Nothing is written but results.
struct NoneWritten {
  static constexpr int rows = 0;
  struct Args {};
};

/// What is read where a look-up names no place: no number of 16 bits, nor of 8.
static __device__ const __align__(16) u32 decode_nowhere[4] = {~0u, ~0u, ~0u, ~0u};

/// Keys as they lie in memory and in a tile, in bytes. A quarter of a warp reads 64 bytes of each of two keys, or half
/// of one 32 bytes of each of four: these lie in different banks.
template <class P>
struct DecodeKeys {
  static constexpr SkinnyCode code = P::key_code;
  static constexpr int size = code == code_none ? 2 : 1, together = P::key_together;
  static constexpr int bytes = P::features * size;
  static constexpr int pitch = size == 2 ? bytes + 64 : bytes % 64 == 0 ? bytes + 32 : bytes;
  static constexpr long long stride = P::key_stride * size;
  static PL_DEVICE const char* begin(const typename P::Args& args, int unit) { return (const char*)P::key(args, unit); }
  static PL_DEVICE const char* at(const typename P::Args& args, int unit, int key) {
    return (const char*)P::key_at(args, unit, key);
  }
};
/// Values. A quarter of a warp reads 32 bytes of each of four, two keys apart.
template <class P>
struct DecodeValues {
  static constexpr SkinnyCode code = P::value_code;
  static constexpr int size = code == code_none ? 2 : 1, together = P::value_together;
  static constexpr int bytes = P::columns * size, pitch = bytes + 16;
  static constexpr long long stride = P::value_stride * size;
  static PL_DEVICE const char* begin(const typename P::Args& args, int unit) {
    return (const char*)P::value(args, unit);
  }
  static PL_DEVICE const char* at(const typename P::Args& args, int unit, int key) {
    return (const char*)P::value_at(args, unit, key);
  }
};

/// Whether a word of code_bytes() has every second code instead of two neighbours.
PL_DEVICE constexpr bool decode_skips(SkinnyCode code) {
  return code == code_i8 || code == code_u8;
}

/// Eight neighbours of a row in a tile as pairs, in the order that decode_skips() says.
template <class R, bool bf16>
PL_DEVICE uint4 decode_eight(u32 row, int first) {
  if constexpr (R::code == code_none) {
    return shared_load_16(row + first * 2);
  } else {
    const uint2 raw = shared_load_8(row + first);
    uint4 v;
    code_bytes<R::code, bf16>(raw.x, 0, v.x, v.y);
    code_bytes<R::code, bf16>(raw.y, 0, v.z, v.w);
    return v;
  }
}

template <class P, class W = NoneWritten>
struct DecodeLayout {
  static constexpr int threads = P::warps * 32;
  static constexpr int tile = 16;                      ///< keys
  static constexpr int key_pieces = P::features / 32;  ///< of 16 bytes that a lane has of a key
  static constexpr int value_pieces = P::columns / 64;
  static constexpr int key_pitch = DecodeKeys<P>::pitch, value_pitch = DecodeValues<P>::pitch;
  static constexpr int stage_bytes = tile * (key_pitch + value_pitch);
  static constexpr int ring_bytes = P::stages * stage_bytes;  ///< of a warp
  static constexpr int query_bytes = P::computed ? P::rows * P::features * 2 : 0;
  static constexpr int written_pitch = (P::features + P::columns) * 2;                    ///< of a key and its value
  static constexpr int written_bytes = W::rows * written_pitch + (W::rows + 1) / 2 * 16;  ///< and where they go
  static constexpr int sums = P::rows * (P::columns + 2);  ///< floats that a block leaves
  /// Floats that a warp leaves. Four lie apart after each 32 columns, so that eight lanes of two rows, whose 16 columns
  /// follow each other, write to different banks.
  static constexpr int left_row = P::columns + P::columns / 32 * 4 + (P::columns / 32 % 4 == 0 ? 8 : 0);
  static constexpr int left_tops = P::rows * left_row, left_totals = left_tops + P::rows;
  static constexpr int left = left_tops + (2 * P::rows + 3) / 4 * 4;
  static PL_DEVICE int left_place(int row, int column) { return row * left_row + column + column / 32 * 4; }
  static constexpr int shares = P::rows * (P::splits + 1);  ///< floats of whoever puts the blocks' sums together
  static constexpr int words = shares + 1;                  ///< and how many blocks have come
  static constexpr int left_bytes = P::warps * left > words ? P::warps* left * 4 : words * 4;
  static constexpr int fill_bytes = query_bytes + written_bytes + P::warps * ring_bytes;
  static constexpr int shared_bytes = fill_bytes > left_bytes ? fill_bytes : left_bytes;
};

/// What sums relative to `own` are worth relative to `top`, in powers of two.
PL_DEVICE float decode_share(float own, float top) {
  return own == top ? 1.0f : exp2_fast(own - top);
}

/// softmax_rebase() of sums of powers of two: `top` is times log2(e).
PL_DEVICE float decode_scale(float top, float shift) {
  const float own = top == no_score() ? 0.0f : top, its = shift * 1.44269504088896340736f;
  const bool nothing = top == no_score() && fabsf(shift) < -no_score();
  return nothing || own == its ? 1.0f : exp2_fast(own - its);
}

/// Eight elements: 0 and 2, 1 and 3, 4 and 6, 5 and 7.
PL_DEVICE uint4 every_second(const uint4& v) {
  return make_uint4(byte_permute(v.x, v.y, 0x5410), byte_permute(v.x, v.y, 0x7632), byte_permute(v.z, v.w, 0x5410),
                    byte_permute(v.z, v.w, 0x7632));
}

/// The state of a warp. Scores are times log2(e). Lane l has, with g = l / 4 and t = l % 4, rows g and g + 8; of a tile
/// keys 2t, 2t + 1, 2t + 8 and 2t + 9 of these scores, and the columns 8 (2t + 8 j) to 8 (2t + 8 j) + 15.
template <class P>
struct DecodeWarp {
  using L = DecodeLayout<P>;  // of what does not hang on what is written
  static constexpr int halves = P::rows > 8 ? 2 : 1;

  float top[halves], total[halves];
  float sums[L::value_pieces * 8][4];
  u32 q[L::key_pieces * 2][4];

  /// Eight features: computed ones lie at the shared address.
  static PL_DEVICE uint4 query(const typename P::Args& args, int unit, u32 computed, int row, int feature) {
    if constexpr (P::computed) {
      return shared_load_16(computed + (row * P::features + feature) * 2);
    } else {
      return P::query(args, unit, row, feature);
    }
  }

  PL_DEVICE void begin(const typename P::Args& args, int unit, u32 computed, int g, int t) {
#pragma unroll
    for (int h = 0; h < halves; ++h) top[h] = no_score(), total[h] = 0.0f;
#pragma unroll
    for (int i = 0; i < L::value_pieces * 8; ++i) sums[i][0] = sums[i][1] = sums[i][2] = sums[i][3] = 0.0f;
#pragma unroll
    for (int c = 0; c < L::key_pieces; ++c) {
      uint4 low = make_uint4(0, 0, 0, 0), high = low;
      if (g < P::rows) low = query(args, unit, computed, g, 8 * (t + 4 * c));
      if (halves > 1 && g + 8 < P::rows) high = query(args, unit, computed, g + 8, 8 * (t + 4 * c));
      if constexpr (decode_skips(P::key_code)) low = every_second(low), high = every_second(high);
      q[2 * c][0] = low.x, q[2 * c][1] = high.x, q[2 * c][2] = low.y, q[2 * c][3] = high.y;
      q[2 * c + 1][0] = low.z, q[2 * c + 1][1] = high.z, q[2 * c + 1][2] = low.w, q[2 * c + 1][3] = high.w;
    }
  }

  /// A row's four scores of a tile become weights in 16 bits, of the maximum so far; what was summed before is scaled.
  PL_DEVICE void soften(int h, float (&x)[4], const float (&times)[4], u32 (&weights)[4]) {
    float most = fmaxf(fmaxf(x[0], x[1]), fmaxf(x[2], x[3]));
    most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 1));
    most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 2));
    most = fmaxf(most, top[h]);
    if (__any_sync(0xffffffffu, most > top[h])) {
      const float less = decode_share(top[h], most);
      total[h] *= less;
#pragma unroll
      for (int i = 0; i < L::value_pieces * 8; ++i) sums[i][2 * h] *= less, sums[i][2 * h + 1] *= less;
      top[h] = most;
    }
    const float base = most == no_score() ? 0.0f : most;
#pragma unroll
    for (int i = 0; i < 4; ++i) x[i] = exp2_fast(x[i] - base);
    total[h] += (x[0] + x[1]) + (x[2] + x[3]);
    if constexpr (P::weighs) {
#pragma unroll
      for (int i = 0; i < 4; ++i) x[i] *= times[i];
    }
    weights[h] = P::bf16 ? pack_bf16(x[0], x[1]) : pack_f16(x[0], x[1]);
    weights[2 + h] = P::bf16 ? pack_bf16(x[2], x[3]) : pack_f16(x[2], x[3]);
  }

  /// `at`: the tile in shared memory.
  PL_DEVICE void take(u32 at, const typename P::Given (&given)[halves][4], const typename P::Args& args, int unit,
                      int g, int t, int first, int end) {
    float products[2][4] = {};
#pragma unroll
    for (int c = 0; c < L::key_pieces; ++c) {
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        const uint4 key = decode_eight<DecodeKeys<P>, P::bf16>(at + (g + k * 8) * L::key_pitch, 8 * (t + 4 * c));
        mma_16x8x16<P::bf16>(products[k], q[2 * c][0], q[2 * c][1], q[2 * c][2], q[2 * c][3], key.x, key.y);
        mma_16x8x16<P::bf16>(products[k], q[2 * c + 1][0], q[2 * c + 1][1], q[2 * c + 1][2], q[2 * c + 1][3], key.z,
                             key.w);
      }
    }
    u32 weights[4] = {0, 0, 0, 0};
#pragma unroll
    for (int h = 0; h < halves; ++h) {
      const int row = min(g + 8 * h, P::rows - 1);
      float x[4], times[4] = {};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int key = first + 2 * t + i % 2 + i / 2 * 8;
        const float score = P::score(products[i / 2][2 * h + i % 2], given[h][i], args, unit, row, key);
        x[i] = key < end ? score * 1.44269504088896340736f : no_score();
        if constexpr (P::weighs) times[i] = key < end ? P::weight(given[h][i], args, unit, key) : 0.0f;
      }
      soften(h, x, times, weights);
    }
    const u32 from = at + L::tile * L::key_pitch + 2 * t * L::value_pitch;
#pragma unroll
    for (int j = 0; j < L::value_pieces; ++j) {
      uint4 v[4];
#pragma unroll
      for (int k = 0; k < 4; ++k)
        v[k] = decode_eight<DecodeValues<P>, P::bf16>(from + (k % 2 + k / 2 * 8) * L::value_pitch, 8 * (g + 8 * j));
      const u32(*words)[4] = (const u32(*)[4])v;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int part = 0; part < 2; ++part) {
          const u32 pick = part == 0 ? 0x5410 : 0x7632;
          const int column = decode_skips(P::value_code) ? i / 2 * 4 + i % 2 + 2 * part : 2 * i + part;
          mma_16x8x16<P::bf16>(sums[j * 8 + column], weights[0], weights[1], weights[2], weights[3],
                               __byte_perm(words[0][i], words[1][i], pick),
                               __byte_perm(words[2][i], words[3][i], pick));
        }
      }
    }
  }

  /// Sums, maxima and totals of all rows to `to`, as DecodeLayout has them.
  PL_DEVICE void leave(float* to, int g, int t) {
#pragma unroll
    for (int h = 0; h < halves; ++h) {
      float all = total[h] + __shfl_xor_sync(0xffffffffu, total[h], 1);
      all += __shfl_xor_sync(0xffffffffu, all, 2);
      const int row = g + 8 * h;
      if (row >= P::rows) continue;
      if (t == 0) to[L::left_tops + row] = top[h], to[L::left_totals + row] = all;
#pragma unroll
      for (int j = 0; j < L::value_pieces; ++j) {
        float4* const mine = (float4*)(to + L::left_place(row, 16 * t + 64 * j));
        const float(*of)[4] = sums + j * 8;
        const int low = 2 * h, high = 2 * h + 1;
        mine[0] = make_float4(of[0][low], of[1][low], of[2][low], of[3][low]);
        mine[1] = make_float4(of[4][low], of[5][low], of[6][low], of[7][low]);
        mine[2] = make_float4(of[0][high], of[1][high], of[2][high], of[3][high]);
        mine[3] = make_float4(of[4][high], of[5][high], of[6][high], of[7][high]);
      }
    }
  }
};

/// A tile of keys or values from `first` on, one that counts; `from`: where those of key 0 are, without look-ups.
/// Neighbouring lanes ask for neighbouring bytes. What lies beyond the end is zeros.
template <class R, class Args>
PL_DEVICE void decode_ask(u32 to, const char* from, const Args& args, int unit, int first, int end, int lane) {
  constexpr int lanes = R::bytes / 16;          ///< of a key; others have the next keys
  constexpr bool once = R::together % 16 == 0;  ///< a tile lies together
  if constexpr (R::together > 0 && once) from = R::at(args, unit, first);
  const auto ask = [&](int k, int piece) {
    const int key = first + k;
    const bool there = key < end;
    const char* row = from;
    if constexpr (R::together == 0) {
      row += (there ? key : 0) * R::stride;
    } else if constexpr (once) {
      if (row != nullptr) row += (there ? k : 0) * R::stride;
    } else {
      row = there ? R::at(args, unit, key) : nullptr;
    }
    const bool nowhere = R::together > 0 && row == nullptr;
    cp_async_16(to + k * R::pitch + piece, nowhere ? (const char*)decode_nowhere : row + piece, there ? 16 : 0);
  };
  constexpr int beside = 32 / lanes;  ///< keys
  static_assert(lanes <= 32, "a key has at most 512 bytes");
  const int own = lane / lanes, piece = lane % lanes * 16;
  if (own >= beside) return;
#pragma unroll
  for (int k = 0; k < 16; k += beside) {
    if (16 % beside != 0 && k + own >= 16) continue;
    ask(k + own, piece);
  }
}

/// Brings a block's first keys, or values, into the L2 cache: of all that may count, where nothing on the device says
/// less.
template <class P, class R>
PL_DEVICE void decode_touch(const char* from, int split) {
  constexpr int lines = (R::bytes + 127) / 128;
  constexpr int tiles = (P::keys + 15) / 16;
  const int first = (int)((long long)tiles * split / P::splits) * 16;
  const int last = min((int)((long long)tiles * (split + 1) / P::splits) * 16, P::keys);
  const int count = min(last - first, P::ahead) * lines;
  for (int i = threadIdx.x; i < count; i += P::warps * 32)
    prefetch_line(from + (first + i / lines) * R::stride + i % lines * 128);
}

/// The keys of one of the blocks that share a unit's, in tiles.
template <class P, class W>
struct DecodeShare {
  using L = DecodeLayout<P, W>;
  int unit, split, end, first, last;
  const char *keys = nullptr, *values = nullptr;  ///< of key 0, where no look-up says where keys lie
  unsigned char* shared;
  u32 memory, ring;  ///< of the block, and of the warp

  PL_DEVICE DecodeShare(const typename P::Args& args, unsigned char* shared, int block)
      : unit(block / P::splits), split(block % P::splits), shared(shared), memory(shared_address(shared)) {
    if constexpr (P::key_together == 0) keys = DecodeKeys<P>::begin(args, unit);
    if constexpr (P::value_together == 0) values = DecodeValues<P>::begin(args, unit);
    ring = memory + L::query_bytes + L::written_bytes + (threadIdx.x / 32) * L::ring_bytes;
  }
  PL_DEVICE void cut(const typename P::Args& args) {
    end = max(min(P::end(args, unit), P::keys), 0);
    const int tiles = (end + L::tile - 1) / L::tile;
    first = (int)((long long)tiles * split / P::splits), last = (int)((long long)tiles * (split + 1) / P::splits);
  }
  PL_DEVICE void ask(const typename P::Args& args, int stage, int tile) const {
    const u32 to = ring + stage * L::stage_bytes;
    const int lane = threadIdx.x % 32;
    decode_ask<DecodeKeys<P>>(to, keys, args, unit, tile * L::tile, end, lane);
    decode_ask<DecodeValues<P>>(to + L::tile * L::key_pitch, values, args, unit, tile * L::tile, end, lane);
  }
  /// What a warp has room for. `counted`: as a group each.
  template <bool counted>
  PL_DEVICE void ask_first(const typename P::Args& args) const {
#pragma unroll
    for (int s = 0; s < P::stages; ++s) {
      const int ahead = first + (int)threadIdx.x / 32 + s * P::warps;
      if (ahead < last) ask(args, s, ahead);
      if constexpr (counted) cp_async_commit();
    }
  }
};

/// A barrier of the threads that attend, which may be some of the block's.
template <class P>
PL_DEVICE void decode_barrier() {
  named_barrier_wait(1, P::warps * 32);
}

/// Queries and new keys and values to shared memory, and these to where they are kept.
template <class P, class W>
PL_DEVICE void decode_compute(const typename P::Args& args, const typename W::Args& writes,
                              const DecodeShare<P, W>& share) {
  using L = DecodeLayout<P, W>;
  constexpr int elements = P::computed ? P::rows * P::features : 0, line = P::features + P::columns;
  constexpr int key_elements = W::rows * P::features, value_elements = W::rows * P::columns;
  u16* const fresh = (u16*)(share.shared + L::query_bytes);
  int* const places = (int*)(share.shared + L::query_bytes + W::rows * L::written_pitch);
  // All loads, without a branch between them, then all stores: what they are made of is waited for once. Threads that
  // have nothing to make make the last again.
  constexpr auto turns = [](int count) { return count == 0 ? 1 : (count + L::threads - 1) / L::threads; };
  u16 queries[turns(elements)], keys[turns(key_elements)], values[turns(value_elements)];
  int own_place = -1;
  if constexpr (W::rows > 0) {
    const int row = min((int)threadIdx.x / 2, W::rows - 1);
    const long long of_key = W::key_place(writes, share.unit, row), of_value = W::value_place(writes, share.unit, row);
    const long long place = threadIdx.x % 2 == 0 ? of_key : of_value;
    if (place >= 0 && place < P::keys) own_place = (int)place;
#pragma unroll
    for (int i = 0; i < turns(key_elements); ++i) {
      const int e = min(i * L::threads + (int)threadIdx.x, key_elements - 1);
      keys[i] = W::key(writes, share.unit, e / P::features, e % P::features);
    }
#pragma unroll
    for (int i = 0; i < turns(value_elements); ++i) {
      const int e = min(i * L::threads + (int)threadIdx.x, value_elements - 1);
      values[i] = W::value(writes, share.unit, e / P::columns, e % P::columns);
    }
  }
  if constexpr (P::computed) {
#pragma unroll
    for (int i = 0; i < turns(elements); ++i) {
      const int e = min(i * L::threads + (int)threadIdx.x, elements - 1);
      queries[i] = P::element(args, share.unit, e / P::features, e % P::features);
    }
#pragma unroll
    for (int i = 0; i < turns(elements); ++i) {
      const int e = i * L::threads + threadIdx.x;
      if (e < elements) ((u16*)share.shared)[e] = queries[i];
    }
  }
  if constexpr (W::rows > 0) {
#pragma unroll
    for (int i = 0; i < turns(key_elements); ++i) {
      const int e = i * L::threads + threadIdx.x;
      if (e < key_elements) fresh[e / P::features * line + e % P::features] = keys[i];
    }
#pragma unroll
    for (int i = 0; i < turns(value_elements); ++i) {
      const int e = i * L::threads + threadIdx.x;
      if (e < value_elements) fresh[e / P::columns * line + P::features + e % P::columns] = values[i];
    }
    if (threadIdx.x < 2 * W::rows) places[threadIdx.x] = own_place;
  }
  if constexpr (P::computed || W::rows > 0) decode_barrier<P>();
  if constexpr (W::rows > 0) {
    constexpr int pieces = line / 8;
    if (share.split != 0) return;
    for (int row = 0; row < W::rows; ++row) {
      for (int i = threadIdx.x; i < pieces; i += L::threads) {
        const bool key = i < P::features / 8;
        const int place = places[2 * row + (key ? 0 : 1)];
        const int at = key ? i : i - P::features / 8;
        char* const to = (char*)(key ? share.keys : share.values) +
                         place * (key ? P::key_stride * 2 : P::value_stride * 2) + at * 16;
        if (place >= 0) *(uint4*)to = shared_load_16(share.memory + L::query_bytes + row * L::written_pitch + i * 16);
      }
    }
  }
}

/// In a tile, what this launch writes takes the place of what was there before.
template <class P, class W>
PL_DEVICE void decode_renew(const DecodeShare<P, W>& share, u32 at, int tile) {
  using L = DecodeLayout<P, W>;
  const u32 fresh = share.memory + L::query_bytes;
  const int* const places = (const int*)(share.shared + L::query_bytes + W::rows * L::written_pitch);
  const int lane = threadIdx.x % 32;
  for (int row = 0; row < W::rows; ++row) {
    constexpr int pieces = (P::features + P::columns) / 8;
    for (int i = lane; i < pieces; i += 32) {
      const bool key = i < P::features / 8;
      const int place = places[2 * row + (key ? 0 : 1)], in = place - tile * L::tile;
      if (in < 0 || in >= L::tile || place >= share.end) continue;
      const u32 to = key ? at + in * L::key_pitch + i * 16
                         : at + L::tile * L::key_pitch + in * L::value_pitch + (i - P::features / 8) * 16;
      shared_store_16(to, shared_load_16(fresh + row * L::written_pitch + i * 16));
    }
    __syncwarp();
  }
}

/// Behind the wait, and with the first tiles asked for. `counted`: each is a group, and more may follow them; else all
/// of the block's are there. `partial`: DecodeLayout::sums floats for each block. `arrived`: a zero for each unit.
template <class P, class W, bool counted>
PL_DEVICE void decode_finish(const typename P::Args& args, const typename W::Args& writes,
                             const DecodeShare<P, W>& share, float* partial, u32* arrived, unsigned char* shared,
                             int block) {
  using L = DecodeLayout<P, W>;
  using S = DecodeWarp<P>;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const int unit = share.unit, first = share.first, last = share.last;
  typename P::Given given[S::halves][4];
  const auto read_ahead = [&](int tile) {
#pragma unroll
    for (int h = 0; h < S::halves; ++h) {
#pragma unroll
      for (int i = 0; i < 4; ++i)
        given[h][i] = P::given(args, unit, min(g + 8 * h, P::rows - 1),
                               min(tile * L::tile + 2 * t + i % 2 + i / 2 * 8, P::keys - 1));
    }
  };
  read_ahead(first + warp);  // without a branch, as decode_compute() loads; of no tile where there is none
  decode_compute<P, W>(args, writes, share);
  S mine;
  mine.begin(args, unit, share.memory, g, t);
  int stage = 0;
#pragma unroll 1
  for (int tile = first + warp; tile < last; tile += P::warps) {
    if constexpr (counted) cp_async_wait<P::stages - 1>();
    __syncwarp();  // all lanes' pieces are there
    const u32 at = share.ring + stage * L::stage_bytes;
    if constexpr (W::rows > 0) decode_renew<P, W>(share, at, tile);
    typename P::Given now[S::halves][4];
#pragma unroll
    for (int h = 0; h < S::halves; ++h) {
#pragma unroll
      for (int i = 0; i < 4; ++i) now[h][i] = given[h][i];
    }
    if (tile + P::warps < last) read_ahead(tile + P::warps);
    mine.take(at, now, args, unit, g, t, tile * L::tile, share.end);
    if constexpr (counted) {
      __syncwarp();  // all lanes have read it
      const int ahead = tile + P::stages * P::warps;
      if (ahead < last) share.ask(args, stage, ahead);
      cp_async_commit();
    }
    stage = stage == P::stages - 1 ? 0 : stage + 1;
  }

  // The warps' sums are put together in shared memory, those of the blocks in global memory.
  decode_barrier<P>();
  float* const left = (float*)shared;
  mine.leave(left + warp * L::left, g, t);
  decode_barrier<P>();
  float* const own = partial + (long long)block * L::sums;
  constexpr float log2e = 1.44269504088896340736f;
  const auto store = [&](int row, int column, float top, float total, float sum) {
    const float maximum = top / log2e, shift = P::shift(args, unit, row, maximum), scale = decode_scale(top, shift);
    P::store(args, unit, row, column, sum * scale / P::divisor(args, unit, row, maximum, total * scale));
  };
  constexpr int tops = P::rows * P::columns, totals = tops + P::rows;
  constexpr int pairs = P::rows * P::columns / 2;
  for (int e = threadIdx.x; e < pairs; e += L::threads) {
    const int row = 2 * e / P::columns, column = 2 * e % P::columns;
    float top = no_score(), total = 0.0f;
    float2 sum = make_float2(0.0f, 0.0f);
#pragma unroll
    for (int w = 0; w < P::warps; ++w) top = fmaxf(top, left[w * L::left + L::left_tops + row]);
#pragma unroll
    for (int w = 0; w < P::warps; ++w) {
      const float share = decode_share(left[w * L::left + L::left_tops + row], top);
      const float2 one = *(const float2*)(left + w * L::left + L::left_place(row, column));
      total = fmaf(left[w * L::left + L::left_totals + row], share, total);
      sum.x = fmaf(one.x, share, sum.x), sum.y = fmaf(one.y, share, sum.y);
    }
    if constexpr (P::splits == 1) {
      store(row, column, top, total, sum.x);
      store(row, column + 1, top, total, sum.y);
    } else {
      ((float2*)own)[e] = sum;
      if (column == 0) own[tops + row] = top, own[totals + row] = total;
    }
  }
  if constexpr (P::splits > 1) {
    decode_barrier<P>();
    u32* const order = (u32*)(left + L::shares);
    if (threadIdx.x == 0) *order = count_in(arrived + unit);
    decode_barrier<P>();
    if (*order != P::splits - 1) return;
    if (threadIdx.x == 0) arrived[unit] = 0;  // for whoever launches it again
    // Of each row: what each block's sums are worth, then the total. The same order whoever is last.
    const float* const all = partial + (long long)unit * P::splits * L::sums;
    float* const shares = left;
    const auto pair = [&](int s, int e) { return __ldcg((const float2*)(all + s * L::sums + 2 * e)); };
    // A thread's first sums are on their way while the shares are computed, where they are few.
    constexpr int held = P::splits <= 16 ? P::splits : 0;
    float2 first_sums[held > 0 ? held : 1];
    if (threadIdx.x < pairs) {
#pragma unroll
      for (int s = 0; s < held; ++s) first_sums[s] = pair(s, threadIdx.x);
    }
    for (int row = warp; row < P::rows; row += P::warps) {
      const auto top_of = [&](int s) { return __ldcg(all + s * L::sums + tops + row); };
      const float own_top = lane < P::splits ? top_of(lane) : no_score();
      const float own_total = lane < P::splits ? __ldcg(all + lane * L::sums + totals + row) : 0.0f;
      float top = own_top, total = 0.0f;
      for (int s = lane + 32; s < P::splits; s += 32) top = fmaxf(top, top_of(s));
#pragma unroll
      for (int apart = 16; apart > 0; apart /= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, apart));
      for (int s = lane; s < P::splits; s += 32) {
        const float share = decode_share(s < 32 ? own_top : top_of(s), top);
        shares[row * P::splits + s] = share;
        total = fmaf(s < 32 ? own_total : __ldcg(all + s * L::sums + totals + row), share, total);
      }
#pragma unroll
      for (int apart = 16; apart > 0; apart /= 2) total += __shfl_xor_sync(0xffffffffu, total, apart);
      const float maximum = top / log2e, shift = P::shift(args, unit, row, maximum), scale = decode_scale(top, shift);
      if (lane == 0) shares[P::rows * P::splits + row] = scale / P::divisor(args, unit, row, maximum, total * scale);
    }
    decode_barrier<P>();
    for (int e = threadIdx.x; e < pairs; e += L::threads) {
      const int row = 2 * e / P::columns, column = 2 * e % P::columns;
      float2 sum = make_float2(0.0f, 0.0f);
#pragma unroll 16
      for (int s = 0; s < P::splits; ++s) {
        const float2 one = held > 0 && e == (int)threadIdx.x ? first_sums[held > 0 ? s : 0] : pair(s, e);
        const float share = shares[row * P::splits + s];
        sum.x = fmaf(one.x, share, sum.x), sum.y = fmaf(one.y, share, sum.y);
      }
      const float factor = shares[P::rows * P::splits + row];
      P::store(args, unit, row, column, sum.x * factor);
      P::store(args, unit, row, column + 1, sum.y * factor);
    }
  }
}

/// There may be more blocks than share the units: they do nothing. `early`: where keys end is known before the wait.
template <class P, class W = NoneWritten, bool early = false>
PL_DEVICE void decode_attention(const typename P::Args& args, const typename W::Args& writes, float* partial,
                                u32* arrived, unsigned char* shared) {
  if (blockIdx.x / P::splits >= P::units) {
    if constexpr (P::chained) {
      dependency_launch();
      dependency_wait();
    }
    return;
  }
  DecodeShare<P, W> share(args, shared, blockIdx.x);
  if constexpr (early) {
    share.cut(args);
    share.template ask_first<true>(args);
  } else if constexpr (P::chained && P::ahead > 0) {
    decode_touch<P, DecodeKeys<P>>(share.keys, share.split);
    decode_touch<P, DecodeValues<P>>(share.values, share.split);
  }
  if constexpr (P::chained) {
    dependency_launch();
    dependency_wait();
  }
  if constexpr (!early) {
    share.cut(args);
    share.template ask_first<true>(args);
  }
  decode_finish<P, W, true>(args, writes, share, partial, arrived, shared, blockIdx.x);
}
