#pragma once
// Keys and values of attention of a few queries: how they lie in memory and in a tile, where a look-up says that they
// lie, and the copies that bring them. The policy is that of sm90/decode_attention.cuh.

#include "sm90/codes.cuh"
#include "sm90/ptx.cuh"

/// What is read where a look-up names no place: no number of 16 bits, nor of 8.
static __device__ const __align__(16) u32 decode_nowhere[4] = {~0u, ~0u, ~0u, ~0u};

/// Keys as they lie in memory and in a tile, in bytes. A quarter of a warp reads 64 bytes of each of two keys, or half
/// of one 32 bytes of each of four: these lie in different banks.
template <class P>
struct DecodeKeys {
  static constexpr SkinnyCode code = P::key_code;
  static constexpr int size = code == code_none ? 2 : 1, together = P::key_together, tile = P::tile;
  static constexpr int bytes = P::features * size;
  static constexpr int pitch = size == 2 ? bytes + 64 : bytes % 64 == 0 ? bytes + 32 : bytes;
  static constexpr long long stride = P::key_stride * size;
  static constexpr bool wide = bytes % 256 == 0 || stride == bytes;  ///< what follows in 256 bytes is read, too
  /// Codes are multiplied in f16, in which every code of 8 bits is exact: it costs a third of what bf16 does.
  static constexpr bool bf16 = P::bf16 && code == code_none;
  static PL_DEVICE const char* begin(const typename P::Args& args, int unit) { return (const char*)P::key(args, unit); }
  static PL_DEVICE const char* at(const typename P::Args& args, int unit, int key) {
    return (const char*)P::key_at(args, unit, key);
  }
};
/// Values. A quarter of a warp reads 32 bytes of each of four, two keys apart.
template <class P>
struct DecodeValues {
  static constexpr SkinnyCode code = P::value_code;
  static constexpr int size = code == code_none ? 2 : 1, together = P::value_together, tile = P::tile;
  static constexpr int bytes = P::columns * size, pitch = bytes + 16;
  static constexpr long long stride = P::value_stride * size;
  static constexpr bool wide = bytes % 256 == 0 || stride == bytes;
  /// As keys. A weight times a scale has the range of bf16, though.
  static constexpr bool bf16 = P::bf16 && (code == code_none || P::weighs);
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
template <class R>
PL_DEVICE uint4 decode_eight(u32 row, int first) {
  if constexpr (R::code == code_none) {
    return shared_load_16(row + first * 2);
  } else {
    const uint2 raw = shared_load_8(row + first);
    uint4 v;
    code_bytes<R::code, R::bf16>(raw.x, 0, v.x, v.y);
    code_bytes<R::code, R::bf16>(raw.y, 0, v.z, v.w);
    return v;
  }
}

/// What a lane knows of where a tile's keys, or values, lie: key 0 of the unit, where they lie without a look-up; else
/// the tile's first, or that of the lane's own number in it. Null: nowhere. There is a key before `end`, or nothing
/// is looked up.
template <class R, class Args>
PL_DEVICE const char* decode_find(const Args& args, int unit, int first, int end, int lane) {
  if constexpr (R::together == 0) {
    return R::begin(args, unit);
  } else {
    const int key = R::together % R::tile == 0 ? first : first + lane % R::tile;
    return end > 0 ? R::at(args, unit, min(key, end - 1)) : nullptr;
  }
}

PL_DEVICE const char* decode_of_lane(const char* p, int lane) {
  return (const char*)__shfl_sync(0xffffffffu, (u64)p, lane);
}

/// A tile of keys or values from `first` on, found by decode_find(). Neighbouring lanes ask for neighbouring bytes.
/// What lies beyond the end is zeros: nothing is read there, wherever its address is. All of the warp calls it.
template <class R>
PL_DEVICE void decode_ask(u32 to, const char* found, int first, int end, int lane) {
  constexpr int lanes = R::bytes / 16;  ///< of a key; others have the next keys
  constexpr int beside = 32 / lanes;    ///< keys
  static_assert(lanes <= 32, "a key has at most 512 bytes");
  const int own = lane / lanes, piece = lane % lanes * 16;
  constexpr bool each = R::together % R::tile != 0;
  const bool nowhere = R::together > 0 && found == nullptr;
  const char* from = nowhere ? (const char*)decode_nowhere
                             : found + (long long)((R::together == 0 ? first : 0) + own) * R::stride + piece;
  const long long step = nowhere ? 0 : R::stride;
  to += own * R::pitch + piece;
#pragma unroll
  for (int k = 0; k < R::tile; k += beside) {
    if constexpr (each) {
      const char* const row = decode_of_lane(found, (k + own) % R::tile);
      from = row == nullptr ? (const char*)decode_nowhere : row + piece;
    }
    if (own >= beside || k + own >= R::tile) continue;
    const char* const at = each ? from : from + k * step;
    const int bytes = first + k + own < end ? 16 : 0;
    if constexpr (R::wide) {
      cp_async_16(to + k * R::pitch, at, bytes);
    } else {
      cp_async_16_alone(to + k * R::pitch, at, bytes);
    }
  }
}

/// Brings a block's first keys, or values, into the L2 cache: of all that may count, where nothing on the device says
/// less.
template <class P, class R>
PL_DEVICE void decode_touch(const char* from, int split) {
  constexpr int lines = (R::bytes + 127) / 128;
  constexpr int tiles = (P::keys + P::tile - 1) / P::tile;
  const int first = (int)((long long)tiles * split / P::splits) * P::tile;
  const int last = min((int)((long long)tiles * (split + 1) / P::splits) * P::tile, P::keys);
  const int count = min(last - first, P::ahead) * lines;
  for (int i = threadIdx.x; i < count; i += P::warps * 32)
    prefetch_line(from + (first + i / lines) * R::stride + i % lines * 128);
}
