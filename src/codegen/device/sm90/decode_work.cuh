#pragma once
// Attention of a few queries: which tiles a block has, and how a warp asks for its own. The policy is that of
// sm90/decode_attention.cuh.

#include "sm90/decode_warp.cuh"

/// A barrier of the threads that attend, which may be some of the block's.
template <class P>
PL_DEVICE void decode_barrier() {
  named_barrier_wait(1, P::warps * 32);
}

/// A block's tiles: those of a unit from `first` to `last`; or, of the tiles of all units in a row, so many from
/// `first` on, `unit` being that of the first. A unit without keys has a tile of none.
template <class P, class W>
struct DecodeWork {
  using L = DecodeLayout<P, W>;
  int unit = 0, first = 0, last = 0;
  int end = 0;   ///< of the unit's keys
  int each = 1;  ///< tiles of a block, where they are those of all units
  unsigned char* shared;
  u32 memory;

  PL_DEVICE explicit DecodeWork(unsigned char* shared)
      : unit(L::streams ? 0 : blockIdx.x / L::sharing), shared(shared), memory(shared_address(shared)) {}

  static PL_DEVICE int end_of(const typename P::Args& args, int unit) {
    return max(min(P::end(args, unit), P::keys), 0);
  }
  PL_DEVICE int* begins() const { return (int*)(shared + L::list_at); }  ///< of units in tiles, and where all end
  PL_DEVICE int* ends() const { return begins() + P::units + 1; }        ///< of units, in keys
  /// Of the units before this one: warps that have left their sums, and units whose sums were taken up.
  PL_DEVICE u32 come() const { return memory + L::list_at + (2 * P::units + 1) * 4; }
  PL_DEVICE u32 taken() const { return come() + 4; }

  /// Where keys end is read. All threads of the block call it.
  PL_DEVICE void cut(const typename P::Args& args) {
    if constexpr (L::streams) {
      list(args);
      const int total = begins()[P::units];
      each = (total + P::blocks - 1) / P::blocks;
      first = min((int)blockIdx.x * each, total), last = min(first + each, total);
      int low = 0, high = P::units - 1;
      while (low < high) {
        const int middle = (low + high + 1) / 2;
        if (begins()[middle] <= first) {
          low = middle;
        } else {
          high = middle - 1;
        }
      }
      unit = low;
    } else {
      end = end_of(args, unit);
      const int tiles = (end + L::tile - 1) / L::tile, split = blockIdx.x % L::sharing;
      first = (int)((long long)tiles * split / L::sharing), last = (int)((long long)tiles * (split + 1) / L::sharing);
    }
  }

  // Of a unit that has tiles of the block: its own first tile, its keys, and behind which of the block's tiles it ends.
  PL_DEVICE int begin_of(int unit) const { return L::streams ? begins()[unit] : 0; }
  PL_DEVICE int keys_of(int unit) const { return L::streams ? ends()[unit] : end; }
  PL_DEVICE int stop_of(int unit) const { return L::streams ? min(begins()[unit + 1], last) : last; }
  /// The unit of a tile that is none of a unit before this one.
  PL_DEVICE int unit_at(int tile, int unit) const {
    if constexpr (L::streams) {
      while (begins()[unit + 1] <= tile) ++unit;
    }
    return unit;
  }

  // Blocks whose sums are a unit's, which of them this one is, and where the sums of each lie.
  PL_DEVICE int sharing(int unit) const {
    if constexpr (L::streams) return (begins()[unit + 1] - 1) / each - begins()[unit] / each + 1;
    return L::sharing;
  }
  PL_DEVICE int place(int unit, int split) const {
    if constexpr (!L::streams) return unit * L::sharing + split;
    // A block shares at most its first unit and its last; of the latter it has the beginning.
    return 2 * (begins()[unit] / each + split) + (split == 0 ? 1 : 0);
  }
  PL_DEVICE int split_of(int unit) const {
    return L::streams ? (int)blockIdx.x - begins()[unit] / each : (int)blockIdx.x % L::sharing;
  }

 private:
  PL_DEVICE void list(const typename P::Args& args) {
    constexpr int turns = (P::units + L::threads - 1) / L::threads;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int keys[turns], tiles = 0;
#pragma unroll
    for (int i = 0; i < turns; ++i) keys[i] = end_of(args, min((int)threadIdx.x * turns + i, P::units - 1));
#pragma unroll
    for (int i = 0; i < turns; ++i)
      if ((int)threadIdx.x * turns + i < P::units) tiles += tiles_of(keys[i]);
    int all = tiles;
#pragma unroll
    for (int apart = 1; apart < 32; apart *= 2) {
      const int other = __shfl_up_sync(0xffffffffu, all, apart);
      if (lane >= apart) all += other;
    }
    int* const of_warps = (int*)(shared + L::left_at);
    if (lane == 31) of_warps[warp] = all;
    if (threadIdx.x == 0) ends()[P::units] = ends()[P::units + 1] = 0;  // come() and taken()
    decode_barrier<P>();
    int begin = all - tiles;
    for (int w = 0; w < warp; ++w) begin += of_warps[w];
#pragma unroll
    for (int i = 0; i < turns; ++i) {
      const int at = threadIdx.x * turns + i;
      if (at >= P::units) continue;
      begins()[at] = begin, ends()[at] = keys[i];
      begin += tiles_of(keys[i]);
      if (at == P::units - 1) begins()[P::units] = begin;
    }
    decode_barrier<P>();
  }
  static PL_DEVICE int tiles_of(int keys) { return max((keys + L::tile - 1) / L::tile, 1); }
};

/// What a warp asks for: its tiles one after the other. Where one lies is looked up before another is worked on, and it
/// is asked for afterwards.
template <class P, class W>
struct DecodeFeed {
  using L = DecodeLayout<P, W>;
  u32 ring;
  int unit, tile;  ///< the next
  const char *keys = nullptr, *values = nullptr;

  PL_DEVICE explicit DecodeFeed(const DecodeWork<P, W>& work)
      : ring(work.memory + L::ring_at + threadIdx.x / 32 * L::ring_bytes) {}

  /// What there is room for.
  PL_DEVICE void begin(const typename P::Args& args, const DecodeWork<P, W>& work) {
    unit = work.unit, tile = work.first + (int)threadIdx.x / 32;
    int units[P::stages];
    const char *keys_of[P::stages], *values_of[P::stages];
#pragma unroll
    for (int s = 0; s < P::stages; ++s) {
      if (tile < work.last) find(args, work, tile);
      units[s] = unit, keys_of[s] = keys, values_of[s] = values;
      tile += P::warps;
    }
    const int next = tile, unit_of_next = unit;
#pragma unroll
    for (int s = 0; s < P::stages; ++s) {
      unit = units[s], tile = next + (s - P::stages) * P::warps, keys = keys_of[s], values = values_of[s];
      refill(work, s);
    }
    tile = next, unit = unit_of_next;
  }
  /// Where the next tile lies; of the block's last, where there is none. Without a branch: what it loads is under way
  /// until refill().
  PL_DEVICE void look(const typename P::Args& args, const DecodeWork<P, W>& work) {
    find(args, work, min(tile, work.last - 1));
  }
  /// The next, if there is one, to where a tile has been read; a group in each case.
  PL_DEVICE void refill(const DecodeWork<P, W>& work, int stage) {
    if (tile < work.last) {
      const u32 to = ring + stage * L::stage_bytes;
      const int first = (tile - work.begin_of(unit)) * L::tile, end = work.keys_of(unit), lane = threadIdx.x % 32;
      decode_ask<DecodeKeys<P>>(to, keys, first, end, lane);
      decode_ask<DecodeValues<P>>(to + L::tile * L::key_pitch, values, first, end, lane);
    }
    cp_async_commit();
    tile += P::warps;
  }

 private:
  PL_DEVICE void find(const typename P::Args& args, const DecodeWork<P, W>& work, int at) {
    unit = work.unit_at(at, unit);
    const int first = (at - work.begin_of(unit)) * L::tile, end = work.keys_of(unit), lane = threadIdx.x % 32;
    keys = decode_find<DecodeKeys<P>>(args, unit, first, end, lane);
    values = decode_find<DecodeValues<P>>(args, unit, first, end, lane);
  }
};
