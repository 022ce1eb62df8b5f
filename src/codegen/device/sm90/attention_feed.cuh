#pragma once
// How the producer of sm90/attention.cuh asks for tiles of keys and of values, whose policy and functors these are.
// Where rows lie one after the other, one thread asks for a tile by a copy for each 64 columns. In pages a warp does:
// each lane has so many of the tile's keys as lie together, and has looked up where before it waits for a place to
// bring them to, so that no copy waits for a table.

#include "attention_rows.cuh"
#include "sm90/ptx.cuh"

/// Keys of a tile that one copy brings: as many as lie in one page wherever the tile begins.
template <typename P>
PL_DEVICE constexpr int attention_box() {
  int a = P::tile_keys, b = attention_page<P>(0);
  while (b != 0) {
    const int rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

/// Whether a thread is the one that speaks for all that produce.
template <typename P>
PL_DEVICE bool attention_leads() {
  return attention_page<P>(0) == 0 || (int)threadIdx.x % 32 == 0;
}

/// Bytes that copies of all who produce will bring.
template <typename P>
PL_DEVICE void attention_expect(u32 barrier, int bytes) {
  if (attention_leads<P>()) barrier_expect(barrier, bytes);
  if (attention_page<P>(0) > 0) __syncwarp();
}

/// Of keys, or of values.
template <typename P, bool values>
class AttentionFeed {
  static constexpr int page = attention_page<P>(0), box = attention_box<P>(), boxes = P::tile_keys / box,
                       lines = ((values ? P::columns : P::features) + 63) / 64;
  static_assert(boxes <= 32, "each lane has at most one box of a tile");

 public:
  /// Finds the pages of a tile. Behind the last key that counts is that one's page once more: what a table says of
  /// others is never looked at.
  template <typename F>
  PL_DEVICE void look(const F& f, const AttentionPart<P>& part, const AttentionSpan& span, int tile) {
    if constexpr (page > 0) {
      const int lane = (int)threadIdx.x % 32;
      if (tile < span.begin || lane >= boxes) return;
      const int key = min(tile * P::tile_keys + lane * box, span.last);
      found = values ? f.page_of_values(part.unit, key) : f.page_of_keys(part.unit, key);
    }
  }

  /// Asks for a tile, the last one that was looked for.
  template <typename F>
  PL_DEVICE void ask(const F& f, u32 to, const char* maps, u32 barrier, const AttentionPart<P>& part, int tile) const {
    if constexpr (page > 0) {
      const int lane = (int)threadIdx.x % 32;
      if (lane >= boxes) return;
      const int row = (tile * P::tile_keys + lane * box) % page;
#pragma unroll
      for (int i = 0; i < lines; ++i) {
        const u32 at = to + i * (P::tile_keys * 128) + lane * (box * 128);
        if constexpr (values)
          f.load_values(at, maps + 256, barrier, part.unit, row, i * 64, found);
        else
          f.load_keys(at, maps + 128, barrier, part.unit, row, i * 64, found);
      }
    } else {
#pragma unroll
      for (int i = 0; i < lines; ++i) {
        const u32 at = to + i * (P::tile_keys * 128);
        if constexpr (values)
          f.load_values(at, maps + 256, barrier, part.unit, part.key(tile), i * 64);
        else
          f.load_keys(at, maps + 128, barrier, part.unit, part.key(tile), i * 64);
      }
    }
  }

 private:
  int found = 0;  ///< the page of this lane's keys
};
