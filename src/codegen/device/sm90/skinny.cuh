#pragma once
// Products of a few rows with a large matrix: y[m, n] = store(Σ_k operand(m, k) · weight(part, n)[k]), 1 to 32 rows m.
// The weights' bytes are all that costs: each is read once, in place, row-major, into a ring that a thread fills for
// itself. No thread waits for another but at the end of a pass, and the ring is full before the launches before this
// one have ended (programmatic dependent launch). Tensor cores multiply whatever m is: weights are the operand with 16
// rows, x the one with 8 columns, and the order of k within 32 is what 16 neighbouring bytes make it, for both.
//
// A policy P says:
//   constexpr int rows, depth, count;  n, k (a multiple of 8) and m
//   constexpr int parts;               products of the same x, summed beside each other: parts of one result
//   constexpr int tiles, warps, stages, resident;           16-row tiles of a part a pass; steps under way; blocks of a
//                                                           multiprocessor
//   constexpr bool bf16;               else f16
//   constexpr bool ring_shared;        the ring lies in shared memory, else in registers
//   constexpr bool x_shared;           x is computed once a block, else at every step
//   constexpr bool chained;            may be launched with the programmatic attribute
//   constexpr int statistics;          sums along rows of x that come before, each of which may need the ones before it
//   struct Args                        pointers
//   void touch(args, first, last)                       brings what x is made of into the L2 cache, and what rows
//                                                       from `first` to before `last` have beside their sums
//   constexpr SkinnyCode code;         how weights are stored: code_none in 16 bits, else see codes.cuh
//   constexpr int bits;                of a weight
//   constexpr u32 order;               of eight neighbours along k as weights are multiplied, a digit each
//   constexpr SkinnyScale scaling;     what a scale belongs to
//   constexpr bool flipped, zeroed;    nibbles of two's complement; a zero point is taken off each code
//   constexpr int zero;                and this
//   constexpr bool across;             16 bytes are words of four neighbouring rows; tiles is even, rows four times a
//                                      number
//   constexpr bool turned;             16 bytes are words at one k, each of eight neighbouring rows' nibbles; tiles is
//                                      even, rows 32 times a number, and the ring shared
//   constexpr u32 rows_of_word;        which of the eight each nibble is of, a digit each, then
//   constexpr long long pitch;         bytes from a row's word to its next, across or turned
//   const void* weight(args, part, row)                 where the row begins, a multiple of 16
//   constexpr bool table;              scales and zero points of a block's rows wait in shared memory
//   constexpr int table_pieces;        pieces that have them in common: 1, the 4 of a warp's step, or 0, those of a row
//   constexpr int blocks;              that share the rows
//   void touch_row(args, part, row, line)               brings a line of its scales and zero points into the L2 cache
//   float scale(args, part, row, piece)                 a piece: 16 bytes of a row
//   float zero_point(args, part, row, piece)
//   uint4 weights(args, part, row, piece, raw, chunk)   8 of a piece, where they are computed
//   struct Held                                         what is loaded of 8 elements of x
//   Held held<of>(args, m, k)                           from k on: for the sum `of`, for x (`statistics`), or for all
//   uint4 operand(held, args, m, k, statistics)         8 elements of x from k on, in 16 bits
//   float statistic<s>(held, args, m, k, statistics)    8 terms of the sum s, added
//   void store(args, m, row, sums, statistics)          sums[parts], statistics[s * count + m]

#include "sm90/codes.cuh"
#include "sm90/ptx.cuh"

template <class P>
struct SkinnyLayout {
  static constexpr int threads = P::warps * 32;
  static constexpr int groups = P::tiles * P::parts;  ///< 16-row tiles of a pass
  static constexpr int vectors = 2 * groups;          ///< 16-byte pieces a lane has of a step
  static constexpr int columns = (P::count + 7) / 8;
  static constexpr int piece = 128 / P::bits;  ///< weights of 16 bytes
  static constexpr int chunks = piece / 8;
  static constexpr int pieces = P::depth / piece;    ///< of a row
  static constexpr int step = 4 * piece * P::warps;  ///< of k
  static constexpr int steps = (P::depth + step - 1) / step;
  static constexpr bool whole_steps = P::depth % step == 0;
  static constexpr bool paired = P::across || P::turned;               ///< two tiles have 32 rows between them
  static constexpr int together = P::turned ? 32 : P::across ? 4 : 1;  ///< rows that one block has

  /// Of a lane in the first or second half of a tile, from the first row of the pass on. Rows of the sums are in this
  /// order too, whatever lies where. Across, a lane has four neighbours; turned, those of half a word.
  static PL_DEVICE int row(int tile, int half) {
    const int lane = threadIdx.x % 32;
    if constexpr (P::turned)
      return tile / 2 * 32 + lane / 4 % 4 * 8 +
             (int)(P::rows_of_word >> (lane / 16 * 16 + tile % 2 * 8 + half * 4) & 7);
    if constexpr (P::across) return tile / 2 * 32 + lane / 4 * 4 + tile % 2 * 2 + half;
    return tile * 16 + lane / 4 + half * 8;
  }

  /// Sums along rows of x: warps that share a row, and vectors of it that a thread has. Few are kept for x itself.
  static constexpr int rows_at_once = P::count < P::warps ? P::count : P::warps;
  static constexpr int sharing = P::warps / rows_at_once;
  static constexpr int row_vectors = (P::depth + sharing * 256 - 1) / (sharing * 256);
  static constexpr bool keeps = P::statistics > 0 && P::x_shared&& P::count <= P::warps&& row_vectors <= 2;

  static constexpr int stage_bytes = vectors * threads * 16;
  static constexpr int ring_bytes = P::ring_shared ? P::stages * stage_bytes : 0;
  /// Of x, 16 bytes for each of the four pieces of a warp's step lie side by side, and after them the next 16 of each.
  /// So a quarter of a warp reads 64 bytes of each of two rows: these lie in different banks.
  static constexpr int x_run = 4 * piece;  ///< elements
  static constexpr int x_pitch = ((P::depth + x_run - 1) / x_run * x_run * 2 + 127) / 128 * 128 + 64;
  static PL_DEVICE int x_place(int k) { return k / x_run * (x_run * 2) + k % piece / 8 * 64 + k % x_run / piece * 16; }
  static constexpr int x_bytes = P::x_shared ? P::count * x_pitch : 0;
  /// Scales and zero points by part, row of the block and run of pieces. Eight rows that a warp reads at once lie in
  /// different banks.
  static constexpr bool scales = P::scaling == scale_step || P::scaling == scale_piece;
  static constexpr int table_kinds = P::table ? (scales ? 1 : 0) + (P::zeroed ? 1 : 0) : 0;
  static constexpr int table_run = P::table_pieces == 0 ? steps * P::warps * 4 : P::table_pieces;  ///< pieces
  static constexpr int table_units = steps * P::warps * 4 / table_run;
  static constexpr int table_pitch = (table_units + 31) / 32 * 32 + 4;
  static constexpr int block_rows = (P::rows / together + P::blocks - 1) / P::blocks * together;
  static constexpr int table_rows = (block_rows + 16 * P::tiles - 1) / (16 * P::tiles) * (16 * P::tiles);
  static constexpr int table_words = P::parts * table_rows * table_pitch;  ///< of scales; and of zero points
  static constexpr int table_bytes = table_kinds * table_words * 4;

  static constexpr int sums_floats = P::warps * 16 * groups * P::count;
  /// Two places in turn, where that is little: who stores the sums of one pass is met before these are written again.
  static constexpr int sums_places = P::count <= 8 ? 2 : 1;
  static constexpr int statistics_floats = (P::statistics * P::count + 3) / 4 * 4 + (P::statistics > 0 ? P::warps : 0);
  static constexpr int shared_bytes =
      ring_bytes + x_bytes + table_bytes + sums_places * sums_floats * 4 + statistics_floats * 4;
};

/// The steps that lie ahead of the one at hand: a lane's pieces of each, all passes of a block in a row.
template <class P>
struct SkinnyRing {
  using L = SkinnyLayout<P>;
  static constexpr int slots = P::ring_shared ? 1 : P::stages;
  static_assert(!P::turned || P::ring_shared);

  const typename P::Args& args;
  u64 policy;
  int first, last;       ///< rows of the block
  int left;              ///< steps that are not asked for yet
  int pass = 0, at = 0;  ///< the next of them
  u32 to;                ///< of the lane, in the ring
  const char* from[L::vectors];
  u32 there = 0;  ///< a bit a piece
  uint4 held[slots][L::vectors];

  PL_DEVICE SkinnyRing(const typename P::Args& args, u32 ring, int first, int last, int passes)
      : args(args), policy(policy_evict_first()), first(first), last(last), left(passes * L::steps) {
    to = own_register(ring + threadIdx.x * 16);
  }

  PL_DEVICE void find_rows(int own_piece) {
    const int lane = threadIdx.x % 32;
    there = 0;
#pragma unroll
    for (int v = 0; v < L::vectors; ++v) {
      // Across, four pieces are four words of each of the lane's rows in two tiles. Turned, they are four words at
      // places of k that are eight apart, and the lanes that share a piece of k have the places between.
      const int group = L::paired ? v / 4 : v / 2, part = group % P::parts;
      const int tile = L::paired ? group / P::parts * 2 : group / P::parts, half = L::paired ? 0 : v % 2;
      const int row = first + pass * P::tiles * 16 + (P::turned ? tile * 16 : L::row(tile, half));
      const bool live = row < last;
      from[v] = (const char*)P::weight(args, part, live ? row : first);
      from[v] += P::turned   ? (own_piece * 32 + v % 4 * 8 + lane / 4) * P::pitch
                 : P::across ? (own_piece * 4 + v % 4) * P::pitch
                             : own_piece * 16;
      there |= (u32)live << v;
      if constexpr ((P::scaling == scale_row || ((L::scales || P::zeroed) && !P::table)) && !L::paired)
        if (live) P::touch_row(args, part, row, lane % 4);
    }
  }

  /// Asks for the next step into a slot. Always ends a group, so that groups count steps.
  PL_DEVICE void ask(int slot) {
    if constexpr (P::turned) __syncwarp();  // all have read what lies there
    if (left > 0) {
      const int own_piece = (int)(threadIdx.x / 32) * 4 + (int)(threadIdx.x % 4);
      if (at == 0) find_rows(own_piece);
      const u32 live = L::whole_steps || at * 4 * P::warps + own_piece < L::pieces ? there : 0;
#pragma unroll
      for (int v = 0; v < L::vectors; ++v) {
        const long long step = P::turned   ? 128 * P::warps * P::pitch
                               : P::across ? 16 * P::warps * P::pitch
                                           : 64 * P::warps;
        const char* const place = from[v] + at * step;  // nothing is read where nothing is live
        if constexpr (P::ring_shared) {
          cp_async_16(to + slot * L::stage_bytes + v * L::threads * 16, place, live >> v & 1 ? 16 : 0, policy);
        } else {
          held[slot][v] = load_once_16(place, live >> v & 1, policy);
        }
      }
      --left;
      if (++at == L::steps) at = 0, ++pass;
    }
    if constexpr (P::ring_shared) cp_async_commit();
  }

  PL_DEVICE void arrived() {
    if constexpr (P::ring_shared) cp_async_wait<P::stages - 1>();
    if constexpr (P::turned) __syncwarp();
  }

  /// Turned: of the two tiles that `group` is the first of, the lane's four rows, each with 32 codes along k.
  PL_DEVICE void turn(int slot, int group, u32 (&rows)[4][4]) {
    const int lane = threadIdx.x % 32, pair = group / P::parts / 2 * P::parts + group % P::parts;
    const u32 from = to + slot * L::stage_bytes + pair * 4 * L::threads * 16 - lane / 4 * 64 + lane / 4 % 4 * 4;
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      u32 words[8];
#pragma unroll
      for (int k = 0; k < 8; ++k) words[k] = __float_as_uint(shared_load(from + e * L::threads * 16 + k * 64));
      code_turned(words, lane / 16, e, rows);
    }
  }

  /// 16 bytes of the row of the lane in a tile's half.
  PL_DEVICE uint4 take(int slot, int group, int half) {
    if constexpr (P::across) {
      const int part = group % P::parts, tile = group / P::parts, pair = (tile / 2 * P::parts + part) * 4;
      const int own = tile % 2 * 2 + half;
      return make_uint4(word(slot, pair, own), word(slot, pair + 1, own), word(slot, pair + 2, own),
                        word(slot, pair + 3, own));
    } else {
      return piece(slot, 2 * group + half);
    }
  }

 private:
  PL_DEVICE u32 word(int slot, int v, int own) {
    const uint4 four = piece(slot, v);
    return own == 0 ? four.x : own == 1 ? four.y : own == 2 ? four.z : four.w;
  }
  PL_DEVICE uint4 piece(int slot, int v) {
    if constexpr (P::ring_shared) {
      return shared_load_16(to + slot * L::stage_bytes + v * L::threads * 16);
    } else {
      return held[slot][v];
    }
  }
};

/// Vectors of x that a thread keeps, those at `m` and at k, k + sharing * 256, ….
template <class P>
struct SkinnyKept {
  using L = SkinnyLayout<P>;
  typename P::Held vectors[L::keeps ? L::row_vectors : 1];

  static PL_DEVICE int row() { return (int)threadIdx.x / 32 / L::sharing; }
  static PL_DEVICE int place(int i) {
    return ((int)threadIdx.x / 32 % L::sharing * 32 + (int)threadIdx.x % 32) * 8 + i * L::sharing * 256;
  }
  static PL_DEVICE bool is_there(int i) {
    return (int)threadIdx.x / 32 < L::rows_at_once * L::sharing && place(i) < P::depth;
  }

  PL_DEVICE void load(const typename P::Args& args) {
#pragma unroll
    for (int i = 0; i < L::row_vectors; ++i)
      if (is_there(i)) vectors[i] = P::template held<P::statistics + 1>(args, row(), place(i));
  }

  /// x goes to shared memory.
  PL_DEVICE void store(const typename P::Args& args, u32 x, const float* statistics) const {
#pragma unroll
    for (int i = 0; i < L::row_vectors; ++i)
      if (is_there(i))
        shared_store_16(x + row() * L::x_pitch + L::x_place(place(i)),
                        skinny_ordered<P>(P::operand(vectors[i], args, row(), place(i), statistics)));
  }
};

/// Sums along the rows of x, in the same order in every block: some warps have a row, so that all rows are read at
/// once.
template <class P, int s>
PL_DEVICE void skinny_statistics(const typename P::Args& args, const SkinnyKept<P>& kept, float* statistics,
                                 float* of_warps) {
  using L = SkinnyLayout<P>;
  if constexpr (s < P::statistics) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (int m0 = 0; m0 < P::count; m0 += L::rows_at_once) {
      const int m = m0 + warp / L::sharing;
      if (warp < L::rows_at_once * L::sharing && m < P::count) {
        float sum = 0;
        if constexpr (L::keeps) {
#pragma unroll
          for (int i = 0; i < L::row_vectors; ++i)
            if (kept.is_there(i)) sum += P::template statistic<s>(kept.vectors[i], args, m, kept.place(i), statistics);
        } else {
#pragma unroll 4
          for (int k = (warp % L::sharing * 32 + lane) * 8; k < P::depth; k += L::sharing * 256)
            sum += P::template statistic<s>(P::template held<s>(args, m, k), args, m, k, statistics);
        }
        sum = warp_sum(sum);
        if (lane == 0) of_warps[warp] = sum;
      }
      __syncthreads();
      const int mine = m0 + (int)threadIdx.x;
      if (threadIdx.x < L::rows_at_once && mine < P::count) {
        float sum = 0;
        for (int w = 0; w < L::sharing; ++w) sum += of_warps[threadIdx.x * L::sharing + w];
        statistics[s * P::count + mine] = sum;
      }
      __syncthreads();
    }
    skinny_statistics<P, s + 1>(args, kept, statistics, of_warps);
  }
}

template <class P>
PL_DEVICE uint4 skinny_x(const typename P::Args& args, int m, int k, const float* statistics) {
  return skinny_ordered<P>(P::operand(P::template held<P::statistics>(args, m, k), args, m, k, statistics));
}

/// What a lane multiplies weights with at k, for columns 8c + lane / 4: from shared memory, or computed.
template <class P>
PL_DEVICE void skinny_operand(const typename P::Args& args, u32 x, const float* statistics, int k,
                              uint4 (&out)[SkinnyLayout<P>::chunks][SkinnyLayout<P>::columns]) {
  using L = SkinnyLayout<P>;
#pragma unroll
  for (int c = 0; c < L::columns; ++c) {
    const int lane = threadIdx.x % 32, m = c * 8 + lane / 4;
    const bool there = (P::count % 8 == 0 || m < P::count) && (L::whole_steps || k < P::depth);
#pragma unroll
    for (int e = 0; e < L::chunks; ++e) {
      out[e][c] = make_uint4(0, 0, 0, 0);
      if (there) {
        if constexpr (P::x_shared) {
          out[e][c] = shared_load_16(x + m * L::x_pitch + k / L::x_run * (L::x_run * 2) + e * 64 + lane % 4 * 16);
        } else {
          out[e][c] = skinny_x<P>(args, m, k + 8 * e, statistics);
        }
      }
    }
  }
}

/// Scales and zero points that a lane needs of a step, by its pieces: out of the table; else asked for a step ahead, in
/// lines that came into the cache with the row.
template <class P>
struct SkinnyScales {
  using L = SkinnyLayout<P>;
  u32 scale[L::scales ? L::vectors : 1];       ///< for sums of a step, a float; for pieces, twice in 16 bits
  u32 zero_point[P::zeroed ? L::vectors : 1];  ///< as skinny_zero() has it

  static PL_DEVICE u32 scale_of(const typename P::Args& args, int part, int row, int piece) {
    const float v = P::scale(args, part, row, piece);
    return P::scaling == scale_step ? __float_as_uint(v) : code_twice<P::bf16>(v);
  }

  PL_DEVICE void read(u32 table, int pass, int at) {
    if constexpr (P::table) {
      const int own = ((at * P::warps + (int)threadIdx.x / 32) * 4 + (int)threadIdx.x % 4) / L::table_run;
      const u32 from = table + ((pass * P::tiles * 16 + L::row(0, 0)) * L::table_pitch + own) * 4;
#pragma unroll
      for (int v = 0; v < L::vectors; ++v) {
        const int group = v / 2, part = group % P::parts, tile = group / P::parts;
        const u32 place = from + (part * L::table_rows + L::row(tile, v % 2) - L::row(0, 0)) * L::table_pitch * 4;
        if constexpr (L::scales) scale[v] = __float_as_uint(shared_load(place));
        if constexpr (P::zeroed)
          zero_point[v] = __float_as_uint(shared_load(place + (L::table_kinds - 1) * L::table_words * 4));
      }
    }
  }

  PL_DEVICE void load(const typename P::Args& args, int first, int last, int pass, int at) {
    if constexpr ((L::scales || P::zeroed) && !P::table) {
      const int lane = threadIdx.x % 32, begin = (at * P::warps + (int)threadIdx.x / 32) * 4;
      const int own = begin + lane % 4 < L::pieces ? begin + lane % 4 : L::pieces - 1;
#pragma unroll
      for (int v = 0; v < L::vectors; ++v) {
        const int group = v / 2, part = group % P::parts, tile = group / P::parts;
        int row = first + pass * P::tiles * 16 + L::row(tile, v % 2);
        row = row < last ? row : first;
        // Behind the row's end all products are zeros, and stay it.
        if constexpr (P::scaling == scale_step) scale[v] = begin < L::pieces ? scale_of(args, part, row, begin) : 0u;
        if constexpr (P::scaling == scale_piece) scale[v] = scale_of(args, part, row, own);
        if constexpr (P::zeroed) zero_point[v] = skinny_zero<P>(P::zero_point(args, part, row, own));
      }
    }
  }
  PL_DEVICE u32 scale_pair(int v) const {
    if constexpr (P::scaling == scale_piece) return scale[v];
    return 0;
  }
  PL_DEVICE u32 zero_pair(int v) const {
    if constexpr (P::zeroed) return zero_point[v];
    return 0;
  }
};

/// The table of a block's rows, 0 where there is no row, or no piece. It is asked for before the ring, behind which its
/// loads would wait, and as many at once as registers hold: all products wait for it.
template <class P>
struct SkinnyTable {
  using L = SkinnyLayout<P>;
  static constexpr int entries = P::table ? L::table_rows * L::table_units : 0;  ///< of a part
  static constexpr int each = (entries + L::threads - 1) / L::threads;           ///< of a thread
  static constexpr int kinds = L::table_kinds > 0 ? L::table_kinds : 1;
  static constexpr int most = 8192 / L::threads / kinds / P::parts;
  static constexpr int ahead = each < 1 ? 1 : each < most ? each : most;
  u32 held[kinds][P::parts][ahead];

  const typename P::Args& args;
  int first, last;

  PL_DEVICE SkinnyTable(const typename P::Args& args, int first, int last) : args(args), first(first), last(last) {
    load(0);
  }

  PL_DEVICE void store(u32 table) {
#pragma unroll 1
    for (int from = 0; from < each; from += ahead) {
      if (from > 0) load(from);
#pragma unroll
      for (int i = 0; i < ahead; ++i) {
        const int entry = (from + i) * L::threads + (int)threadIdx.x;
        if (entry >= entries) continue;
        const u32 to = table + (row(entry) * L::table_pitch + unit(entry)) * 4;
#pragma unroll
        for (int part = 0; part < P::parts; ++part)
#pragma unroll
          for (int kind = 0; kind < L::table_kinds; ++kind)
            shared_store(to + (kind * L::table_words + part * L::table_rows * L::table_pitch) * 4,
                         __uint_as_float(held[kind][part][i]));
      }
    }
  }

 private:
  /// Neighbouring threads read what lies side by side: words of several rows have the scales of these there.
  static PL_DEVICE int row(int entry) { return L::paired ? entry % L::table_rows : entry / L::table_units; }
  static PL_DEVICE int unit(int entry) { return L::paired ? entry / L::table_rows : entry % L::table_units; }

  /// Parts may have pointers of their own: a branch for each load would have one wait for the other.
  PL_DEVICE void load(int from) {
    if constexpr (P::table) {
#pragma unroll
      for (int part = 0; part < P::parts; ++part) {
#pragma unroll
        for (int i = 0; i < ahead; ++i) {
          const int entry = (from + i) * L::threads + (int)threadIdx.x, at = first + row(entry);
          const int piece = unit(entry) * L::table_run;
          const bool there = entry < entries && at < last && piece < L::pieces;
          if constexpr (L::scales) held[0][part][i] = there ? SkinnyScales<P>::scale_of(args, part, at, piece) : 0u;
          if constexpr (P::zeroed)
            held[kinds - 1][part][i] = there ? skinny_zero<P>(P::zero_point(args, part, at, piece)) : 0u;
        }
      }
    }
  }
};

/// The products of one step and 16-row tile.
template <class P>
PL_DEVICE void skinny_multiply(const typename P::Args& args, const uint4& low, const uint4& high, int part, int row,
                               int row_high, int piece, const SkinnyScales<P>& scales, int v,
                               const uint4 (&x)[SkinnyLayout<P>::chunks][SkinnyLayout<P>::columns],
                               float (&sums)[SkinnyLayout<P>::columns][4]) {
  using L = SkinnyLayout<P>;
  const u32 zeros[2] = {scales.zero_pair(v), scales.zero_pair(v + 1)};
  const u32 factors[2] = {scales.scale_pair(v), scales.scale_pair(v + 1)};
#pragma unroll
  for (int e = 0; e < L::chunks; ++e) {
    u32 a[4], b[4];
    skinny_weights<P>(args, part, row, piece, low, e, zeros[0], factors[0], a);
    skinny_weights<P>(args, part, row_high, piece, high, e, zeros[1], factors[1], b);
#pragma unroll
    for (int c = 0; c < L::columns; ++c) {
      mma_16x8x16<P::bf16>(sums[c], a[0], b[0], a[1], b[1], x[e][c].x, x[e][c].y);
      mma_16x8x16<P::bf16>(sums[c], a[2], b[2], a[3], b[3], x[e][c].z, x[e][c].w);
    }
  }
}

/// Adds the warps' sums of a pass in order, and stores.
template <class P>
PL_DEVICE void skinny_store(const typename P::Args& args, const float* sums, const float* statistics, int first,
                            int last) {
  using L = SkinnyLayout<P>;
  constexpr int rows = 16 * P::tiles;
  for (int i = threadIdx.x; i < rows * P::count; i += L::threads) {
    const int r = i % rows, m = i / rows;
    if (first + r >= last) continue;
    float total[P::parts];
#pragma unroll
    for (int part = 0; part < P::parts; ++part) {
      const float* const from = sums + (r / 16 * P::parts + part) * 16 + r % 16 + m * 16 * L::groups;
      total[part] = 0;
#pragma unroll
      for (int w = 0; w < P::warps; ++w) total[part] += from[w * 16 * L::groups * P::count];
      if constexpr (P::scaling == scale_row) total[part] *= P::scale(args, part, first + r, 0);
    }
    P::store(args, m, first + r, total, statistics);
  }
}

/// `block` of `blocks` that share the rows.
template <class P>
PL_DEVICE void skinny_product(const typename P::Args& args, unsigned char* memory, int block, int blocks) {
  using L = SkinnyLayout<P>;
  const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
  const u32 ring_at = shared_address(memory), x_at = ring_at + L::ring_bytes;
  const u32 table_at = x_at + L::x_bytes;
  float* const sums = (float*)(memory + L::ring_bytes + L::x_bytes + L::table_bytes);
  float* const statistics = sums + L::sums_places * L::sums_floats;
  constexpr long long shared_out = P::rows / L::together;
  const int first = (int)(shared_out * block / blocks) * L::together;
  const int last = (int)(shared_out * (block + 1) / blocks) * L::together;
  const int passes = (last - first + 16 * P::tiles - 1) / (16 * P::tiles);

  SkinnyTable<P> table(args, first, last);
  SkinnyRing<P> ring(args, ring_at, first, last, passes);
#pragma unroll
  for (int s = 0; s < P::stages; ++s) ring.ask(s);
  P::touch(args, first, last);
  // At once: the launch after then finds each multiprocessor with one block of this one, and shares it evenly.
  if constexpr (P::chained) dependency_launch();
  table.store(table_at);
  if constexpr (P::chained) dependency_wait();
  SkinnyKept<P> kept;
  if constexpr (L::keeps) kept.load(args);
  if constexpr (P::statistics > 0)
    skinny_statistics<P, 0>(args, kept, statistics, statistics + (P::statistics * P::count + 3) / 4 * 4);
  if constexpr (L::keeps) {
    kept.store(args, x_at, statistics);
    __syncthreads();
  } else if constexpr (P::x_shared) {
#pragma unroll 4
    for (int i = thread; i < P::count * (P::depth / 8); i += L::threads) {
      const int m = i / (P::depth / 8), k = i % (P::depth / 8) * 8;
      shared_store_16(x_at + m * L::x_pitch + L::x_place(k), skinny_x<P>(args, m, k, statistics));
    }
    __syncthreads();
  } else if constexpr (P::table) {
    __syncthreads();
  }

  const int begin = (warp * 4 + lane % 4) * L::piece;
  constexpr int unroll = P::ring_shared ? 1 : P::stages;
  uint4 x[L::chunks][L::columns], next[P::x_shared ? 1 : L::chunks][L::columns];
  SkinnyScales<P> scales, scales_next;
  scales_next.load(args, first, last, 0, 0);
  if constexpr (!P::x_shared) skinny_operand<P>(args, x_at, statistics, begin, next);
  int slot = 0;
  for (int pass = 0; pass < passes; ++pass) {
    float acc[L::groups][L::columns][4];
#pragma unroll
    for (int i = 0; i < L::groups; ++i) {
#pragma unroll
      for (int c = 0; c < L::columns; ++c) acc[i][c][0] = acc[i][c][1] = acc[i][c][2] = acc[i][c][3] = 0;
    }
    for (int j0 = 0; j0 < L::steps; j0 += unroll) {
#pragma unroll
      for (int u = 0; u < unroll; ++u) {
        const int j = j0 + u;
        if constexpr (P::x_shared) {
          skinny_operand<P>(args, x_at, statistics, begin + j * L::step, x);
        } else {
#pragma unroll
          for (int e = 0; e < L::chunks; ++e)
#pragma unroll
            for (int c = 0; c < L::columns; ++c) x[e][c] = next[e][c];
          skinny_operand<P>(args, x_at, statistics, begin + (j + 1 == L::steps ? 0 : j + 1) * L::step, next);
        }
        if constexpr (P::table) {
          scales.read(table_at, pass, j);
        } else {
          scales = scales_next;
          if (j + 1 < L::steps) scales_next.load(args, first, last, pass, j + 1);
        }
        const int place = P::ring_shared ? slot : u;
        const int piece = (j * P::warps + warp) * 4 + lane % 4;
        ring.arrived();
        u32 turned[P::turned ? P::parts : 1][4][4];
#pragma unroll
        for (int i = 0; i < L::groups; ++i) {
          const int part = i % P::parts, tile = i / P::parts, begin_row = first + pass * P::tiles * 16;
          uint4 low, high;
          if constexpr (P::turned) {
            if (tile % 2 == 0) ring.turn(place, i, turned[part]);
            const u32(&a)[4] = turned[part][tile % 2 * 2], (&b)[4] = turned[part][tile % 2 * 2 + 1];
            low = make_uint4(a[0], a[1], a[2], a[3]), high = make_uint4(b[0], b[1], b[2], b[3]);
          } else {
            low = ring.take(place, i, 0), high = ring.take(place, i, 1);
          }
          const int row = begin_row + L::row(tile, 0), row_high = begin_row + L::row(tile, 1);
          if constexpr (P::scaling == scale_step) {
            float sums[L::columns][4];
#pragma unroll
            for (int c = 0; c < L::columns; ++c) sums[c][0] = sums[c][1] = sums[c][2] = sums[c][3] = 0;
            skinny_multiply<P>(args, low, high, part, row, row_high, piece, scales, 2 * i, x, sums);
#pragma unroll
            for (int c = 0; c < L::columns; ++c) {
#pragma unroll
              for (int e = 0; e < 4; ++e) acc[i][c][e] += __uint_as_float(scales.scale[2 * i + e / 2]) * sums[c][e];
            }
          } else {
            skinny_multiply<P>(args, low, high, part, row, row_high, piece, scales, 2 * i, x, acc[i]);
          }
        }
        ring.ask(place);
        if constexpr (P::ring_shared) slot = slot + 1 == P::stages ? 0 : slot + 1;
      }
    }
    if (pass + 1 < passes) scales_next.load(args, first, last, pass + 1, 0);
    if constexpr (L::sums_places == 1) {
      if (pass > 0) __syncthreads();
    }
    float* const mine = sums + pass % L::sums_places * L::sums_floats;
#pragma unroll
    for (int i = 0; i < L::groups; ++i) {
#pragma unroll
      for (int c = 0; c < L::columns; ++c) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int m = c * 8 + lane % 4 * 2 + e % 2, r = L::row(i / P::parts, e / 2);
          if (P::count % 8 == 0 || m < P::count)
            mine[(warp * P::count + m) * 16 * L::groups + (r / 16 * P::parts + i % P::parts) * 16 + r % 16] =
                acc[i][c][e] * skinny_worth<P>;
        }
      }
    }
    __syncthreads();
    const int row = first + pass * 16 * P::tiles;
    skinny_store<P>(args, mine, statistics, row, last);
  }
  if constexpr (P::chained) {
    if (passes == 0) dependency_stay();
  }
}
