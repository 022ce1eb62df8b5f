#pragma once
// Attention of a few queries: which tiles a block has, and how a warp asks for its own. The policy is that of
// sm90/decode_attention.cuh.

#include "sm90/decode_warp.cuh"

/// A barrier of the threads that attend, which may be some of the block's.
template <class P>
PL_DEVICE void decode_barrier() {
  named_barrier_wait(1, P::warps * 32);
}

/// The keys of one of the blocks that share a unit's, in tiles.
template <class P, class W>
struct DecodeShare {
  using L = DecodeLayout<P, W>;
  int unit, split, end = 0, first = 0, last = 0;
  unsigned char* shared;
  u32 memory;

  PL_DEVICE DecodeShare(unsigned char* shared, int block)
      : unit(block / P::splits), split(block % P::splits), shared(shared), memory(shared_address(shared)) {}

  /// Where keys end is read.
  PL_DEVICE void cut(const typename P::Args& args) {
    end = max(min(P::end(args, unit), P::keys), 0);
    const int tiles = (end + L::tile - 1) / L::tile;
    first = (int)((long long)tiles * split / P::splits), last = (int)((long long)tiles * (split + 1) / P::splits);
  }
};

/// What a warp asks for: its tiles one after the other. Where one lies is looked up before another is worked on, and it
/// is asked for afterwards.
template <class P, class W>
struct DecodeFeed {
  using L = DecodeLayout<P, W>;
  u32 ring;
  int tile;  ///< the next
  const char *keys = nullptr, *values = nullptr;

  PL_DEVICE explicit DecodeFeed(const DecodeShare<P, W>& share)
      : ring(share.memory + L::query_bytes + L::written_bytes + threadIdx.x / 32 * L::ring_bytes) {}

  /// What there is room for.
  PL_DEVICE void begin(const typename P::Args& args, const DecodeShare<P, W>& share) {
    const int first = share.first + (int)threadIdx.x / 32;
    const char *keys_of[P::stages], *values_of[P::stages];
#pragma unroll
    for (int s = 0; s < P::stages; ++s) {
      tile = first + s * P::warps;
      if (tile < share.last) find(args, share, tile);
      keys_of[s] = keys, values_of[s] = values;
    }
    tile = first;
#pragma unroll
    for (int s = 0; s < P::stages; ++s) {
      keys = keys_of[s], values = values_of[s];
      refill(share, s);
    }
  }
  /// Where the next tile lies; of the block's last, where there is none. Without a branch: what it loads is under way
  /// until refill().
  PL_DEVICE void look(const typename P::Args& args, const DecodeShare<P, W>& share) {
    find(args, share, min(tile, share.last - 1));
  }
  /// The next, if there is one, to where a tile has been read; a group in each case.
  PL_DEVICE void refill(const DecodeShare<P, W>& share, int stage) {
    if (tile < share.last) {
      const u32 to = ring + stage * L::stage_bytes;
      const int lane = threadIdx.x % 32;
      decode_ask<DecodeKeys<P>>(to, keys, tile * L::tile, share.end, lane);
      decode_ask<DecodeValues<P>>(to + L::tile * L::key_pitch, values, tile * L::tile, share.end, lane);
    }
    cp_async_commit();
    tile += P::warps;
  }

 private:
  PL_DEVICE void find(const typename P::Args& args, const DecodeShare<P, W>& share, int at) {
    const int lane = threadIdx.x % 32;
    keys = decode_find<DecodeKeys<P>>(args, share.unit, at * L::tile, share.end, lane);
    values = decode_find<DecodeValues<P>>(args, share.unit, at * L::tile, share.end, lane);
  }
};
