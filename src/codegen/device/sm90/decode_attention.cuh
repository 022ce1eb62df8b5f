#pragma once
// Attention of a few queries over many keys: softmax(score(q · kᵀ)) · v for 1 to 16 rows of q, which all see the same
// keys (the query heads of a group, and queries beside each other). The bytes of keys and values are all that costs:
// each is read once, in place, into a ring that a warp fills for itself, so that no warp waits for another while keys
// pass. A warp takes a tile of 16 or 32 keys at a time. Tensor cores multiply whatever the rows are: q is the operand
// with 16 rows, and the order of features within 32, and of columns, is what 16 neighbouring bytes make it.
//
// Blocks share the keys of a unit (a setting of the batch, heads of keys among it): each leaves its sums relative to
// its own maximum, and the last that arrives puts them together, in their order. A block without keys leaves sums of
// nothing.
//
// Policy P (all constexpr, but for what it declares):
//   int rows, features, columns                     of q; features a multiple of 32, columns of 64
//   int units, keys                                 keys at most
//   int warps, stages, splits                       of a block; tiles under way of a warp; blocks that share a unit
//   int tile                                        keys of a tile: 16 or 32
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
//   struct Found, found(args, unit, row, key)       what is looked up for what a score needs beside the product,
//   struct Given, given(found, args, unit, row, key)    which is this
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

#include "sm90/decode_sums.cuh"

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
    const char *const of_keys = DecodeKeys<P>::begin(args, share.unit), *const of_values =
                                                                            DecodeValues<P>::begin(args, share.unit);
    for (int row = 0; row < W::rows; ++row) {
      for (int i = threadIdx.x; i < pieces; i += L::threads) {
        const bool key = i < P::features / 8;
        const int place = places[2 * row + (key ? 0 : 1)];
        const int at = key ? i : i - P::features / 8;
        char* const to =
            (char*)(key ? of_keys : of_values) + place * (key ? P::key_stride * 2 : P::value_stride * 2) + at * 16;
        if (place >= 0) *(uint4*)to = shared_load_16(share.memory + L::query_bytes + row * L::written_pitch + i * 16);
      }
    }
  }
}

/// In a tile of keys from `first` on, what this launch writes takes the place of what was there before.
template <class P, class W>
PL_DEVICE void decode_renew(const DecodeShare<P, W>& share, u32 at, int first) {
  using L = DecodeLayout<P, W>;
  const u32 fresh = share.memory + L::query_bytes;
  const int* const places = (const int*)(share.shared + L::query_bytes + W::rows * L::written_pitch);
  const int lane = threadIdx.x % 32;
  for (int row = 0; row < W::rows; ++row) {
    constexpr int pieces = (P::features + P::columns) / 8;
    for (int i = lane; i < pieces; i += 32) {
      const bool key = i < P::features / 8;
      const int place = places[2 * row + (key ? 0 : 1)], in = place - first;
      if (in < 0 || in >= L::tile || place >= share.end) continue;
      const u32 to = key ? at + in * L::key_pitch + i * 16
                         : at + L::tile * L::key_pitch + in * L::value_pitch + (i - P::features / 8) * 16;
      shared_store_16(to, shared_load_16(fresh + row * L::written_pitch + i * 16));
    }
    __syncwarp();
  }
}

/// Behind the wait, and with the first tiles asked for.
template <class P, class W>
PL_DEVICE void decode_unit(const typename P::Args& args, const typename W::Args& writes, const DecodeShare<P, W>& share,
                           DecodeFeed<P, W>& feed, float* partial, u32* arrived) {
  using L = DecodeLayout<P, W>;
  using S = DecodeWarp<P>;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, unit = share.unit;
  typename P::Found found[S::halves][S::scores];
  typename P::Given given[S::halves][S::scores];
  // Of a tile, or of keys that there are, without a branch: what a score needs is looked up two turns ahead, and read
  // one.
  const auto find = [&](int tile) {
#pragma unroll
    for (int h = 0; h < S::halves; ++h) {
#pragma unroll
      for (int i = 0; i < S::scores; ++i)
        found[h][i] = P::found(args, unit, S::row(h, i, t), min(tile * L::tile + S::key(i, g), P::keys - 1));
    }
  };
  const auto read = [&](int tile) {
#pragma unroll
    for (int h = 0; h < S::halves; ++h) {
#pragma unroll
      for (int i = 0; i < S::scores; ++i)
        given[h][i] =
            P::given(found[h][i], args, unit, S::row(h, i, t), min(tile * L::tile + S::key(i, g), P::keys - 1));
    }
  };
  find(share.first + warp);
  read(share.first + warp);
  find(share.first + warp + P::warps);
  decode_compute<P, W>(args, writes, share);
  S mine;
  mine.begin(args, unit, share.memory, g, t);
  int stage = 0;
#pragma unroll 1
  for (int tile = share.first + warp; tile < share.last; tile += P::warps) {
    feed.look(args, share);
    cp_async_wait<P::stages - 1>();
    __syncwarp();  // all lanes' pieces are there
    const u32 at = feed.ring + stage * L::stage_bytes;
    if constexpr (W::rows > 0) decode_renew<P, W>(share, at, tile * L::tile);
    typename P::Given now[S::halves][S::scores];
#pragma unroll
    for (int h = 0; h < S::halves; ++h) {
#pragma unroll
      for (int i = 0; i < S::scores; ++i) now[h][i] = given[h][i];
    }
    read(tile + P::warps);
    find(tile + 2 * P::warps);
    mine.take(at, now, args, unit, g, t, tile * L::tile, share.end);
    __syncwarp();  // all lanes have read it
    feed.refill(share, stage);
    stage = stage == P::stages - 1 ? 0 : stage + 1;
  }
  // The warps' sums are put together in shared memory, those of the blocks in global memory.
  decode_barrier<P>();
  mine.leave((float*)share.shared + warp * L::left, g, t);
  decode_barrier<P>();
  decode_sum<P, W>(args, share, partial, arrived);
}

/// There may be more blocks than share the units: they keep their places. `early`: keys and values, and what says which
/// count and where they lie, are there before the launches that this one waits for have ended.
template <class P, class W = NoneWritten, bool early = false>
PL_DEVICE void decode_attention(const typename P::Args& args, const typename W::Args& writes, float* partial,
                                u32* arrived, unsigned char* shared) {
  if (blockIdx.x / P::splits >= P::units) {
    if constexpr (P::chained) {
      dependency_launch();
      dependency_wait();
      dependency_stay();
    }
    return;
  }
  DecodeShare<P, W> share(shared, blockIdx.x);
  DecodeFeed<P, W> feed(share);
  if constexpr (early) {
    share.cut(args);
    feed.begin(args, share);
  } else if constexpr (P::chained && P::ahead > 0) {
    decode_touch<P, DecodeKeys<P>>(DecodeKeys<P>::begin(args, share.unit), share.split);
    decode_touch<P, DecodeValues<P>>(DecodeValues<P>::begin(args, share.unit), share.split);
  }
  if constexpr (P::chained) {
    dependency_launch();
    dependency_wait();
  }
  if constexpr (!early) {
    share.cut(args);
    feed.begin(args, share);
  }
  decode_unit<P, W>(args, writes, share, feed, partial, arrived);
}
