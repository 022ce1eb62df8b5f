#pragma once
// Attention of many queries in 16 bits: out = epilogue(softmax(score(q · kᵀ)) · v), a block's rows of queries at a
// time, by FlashAttention's online softmax. One producer thread brings tiles by tensor maps from where q, k and v lie;
// consumer warpgroups have 64 rows each. Scores and sums stay in fp32 registers, weights are rounded once to be the
// first operand of the second product, and results once where they are stored.
//
// Policy (all constexpr):
//   int features, columns       of a row of q and k; of a row of v
//   int rows, keys, units       of queries a unit (a head of a batch); of keys; how many units
//   int tile_keys               keys of a tile: a multiple of 16, at most 256
//   int consumers, stages       warpgroups that multiply; places of the rings of k and of v
//   bool overlap                the next tile's scores are multiplied while this one's become weights
//   bool ping_pong              consumers take turns: one multiplies while others do softmax
//   int section                 units whose blocks run side by side, longest first, so that their k and v stay in L2
//   int exchange                columns that a warp's lanes hand each other at once before the epilogue
//   bool bf16                   instead of fp16
//   bool plain                  scores are q · k times a number, but for those that visible() masks
//   bool masks                  visible() is false somewhere
//   bool packed                 rows and keys are those of sequences, one after the other, whose offsets are known at
//                               run time
//   int sequences               how many these are
//   bool deals                  blocks ask for their next tile: what sequences make of work is as long as it is
//   float scale                 of what is in `s` before the exponential, for a power of two
//   float natural               of what is in `s`, for scores as the definition has them
//   float slack                 by how much a power of two may grow before sums are rescaled: 0 keeps the largest
//                               weight of a row at 1, which rounding leaves alone
//
// Functors F (values; what one needs of memory it holds as pointers):
//   scores(d, a, b, keep), values(d, a0 … a3, b, keep)   the two products' instructions
//   map_queries(map), map_keys(map), map_values(map)     fill in tensor maps at shared addresses
//   load_queries(to, map, barrier, unit, row, column), load_keys(…, unit, key, column), load_values(likewise)
//   tiles(first_row, last_row) -> AttentionSpan          tiles of keys that count, and those of them wholly visible
//   visible(row, key)                                    by place alone; of packed sequences places count as in
//                                                        AttentionPart, and both take the number of keys as well
//   rows_begin(n), rows_end(n), keys_begin(n), keys_end(n)   of packed sequences, whatever the offsets: inside of what
//                                                        there is; the last number is of the rows behind all
//   Ahead, ask(ahead, unit, row0, row1, first)           what scores of a thread's fragment load, and its loading
//   score(unit, row, key, product, ahead, i)             what is not plain, of the fragment's element i
//   shift(unit, row, maximum), divisor(unit, row, maximum, total)  of the softmax's definition
//   store<pitch, width>(unit, row, valid, column, lane, exchange)   the epilogue of `valid` ≤ 8 rows

#include "sm90/pipeline.cuh"
#include "sm90/ptx.cuh"
#include "sm90/wgmma.cuh"
// Behind the instructions, which it calls by name.
#include "attention_rows.cuh"

/// Where things lie in shared memory, in bytes from a multiple of 1024.
template <typename P>
struct AttentionLayout {
  static constexpr int rows = 64 * P::consumers;
  static constexpr int feature_steps = (P::features + 15) / 16;  // of 16
  static constexpr int feature_lines = (P::features + 63) / 64;  // of 128 bytes
  static constexpr int column_lines = (P::columns + 63) / 64;
  static constexpr int columns = (P::columns + 7) / 8 * 8;
  static constexpr int query_bytes = feature_lines * rows * 128;
  static constexpr int key_bytes = feature_lines * P::tile_keys * 128;
  static constexpr int value_bytes = column_lines * P::tile_keys * 128;
  static constexpr int keys_at = query_bytes;
  static constexpr int values_at = keys_at + P::stages * key_bytes;
  static constexpr int barriers_at = values_at + P::stages * value_bytes;
  static constexpr int exchange_at = barriers_at + 128;
  static constexpr int exchange_pitch = P::exchange + 8;
  static constexpr int before_at = exchange_at + 4 * P::consumers * 8 * exchange_pitch * 4;
  static constexpr int deal_at = before_at + (P::packed ? ((P::sequences + 2) * 4 + 15) / 16 * 16 : 0);
  static constexpr int bytes = deal_at + (P::packed ? 48 : 0);
  static constexpr int threads = 128 * (P::consumers + 1);
  static constexpr int blocks = (P::rows + rows - 1) / rows;  // of a unit
  static constexpr int tiles = blocks * P::units;
  static constexpr int maps_bytes = 384;  // of a block
};

/// Barriers of a block, at shared addresses.
template <typename P>
struct AttentionBarriers {
  u32 base;
  PL_DEVICE u32 queries_in() const { return base; }
  PL_DEVICE u32 queries_out() const { return base + 8; }
  PL_DEVICE u32 keys_in(int stage) const { return base + 16 + 8 * stage; }
  PL_DEVICE u32 keys_out(int stage) const { return base + 16 + 8 * (P::stages + stage); }
  PL_DEVICE u32 values_in(int stage) const { return base + 16 + 8 * (2 * P::stages + stage); }
  PL_DEVICE u32 values_out(int stage) const { return base + 16 + 8 * (3 * P::stages + stage); }
};

/// Tiles in the order in which blocks ask for them: the producer asks ahead, and tells the consumers. `counters`, in
/// global memory: how many have been asked for, and how many blocks have ended; they are zeros before and behind.
template <typename P>
class AttentionDeal {
 public:
  PL_DEVICE AttentionDeal(u32 shared, int* told, unsigned* global)
      : barriers(shared), tiles(told), counters(global), ahead((int)blockIdx.x) {}

  PL_DEVICE static void init(u32 shared) {
    for (int i = 0; i < 2; ++i) {
      barrier_init(shared + 8 * i, 1);
      barrier_init(shared + 16 + 8 * i, 4 * P::consumers);
    }
  }
  PL_DEVICE int ask() {
    const int tile = ahead;
    ahead = (int)(gridDim.x + atomicAdd(counters, 1u));
    barrier_wait(barriers + 16 + 8 * place.stage, place.parity ^ 1);
    tiles[place.stage] = tile;
    barrier_arrive(barriers + 8 * place.stage);
    place.step();
    return tile;
  }
  PL_DEVICE int take(int lane) {
    barrier_wait(barriers + 8 * place.stage, place.parity);
    const int tile = __shfl_sync(~0u, tiles[place.stage], 0);
    if (lane == 0) barrier_arrive(barriers + 16 + 8 * place.stage);
    place.step();
    return tile;
  }
  PL_DEVICE void end() {
    __threadfence();
    if (atomicAdd(counters + 1, 1u) != (unsigned)gridDim.x - 1) return;
    counters[0] = 0;
    counters[1] = 0;
  }

 private:
  const u32 barriers;
  int* const tiles;
  unsigned* const counters;
  int ahead;
  PipelinePlace<2> place;
};

// ---- keys and values in pages ----
//
// Where rows lie one after the other, one thread asks for a tile of keys, or of values, by a copy for each 64 columns.
// In pages that a table names a warp does: each lane has so many of the tile's keys as lie together, and has looked up
// where before it waits for a place to bring them to, so that no copy waits for a table. A policy then has
//   int page                    keys of a page, a multiple of 8
//   int bounds, row_bounds      numbers of a block's rows that say which keys count; of each row
// and functors are, besides or with more arguments,
//   load_keys(to, map, barrier, unit, row, column, page), load_values(likewise)   a row of the page; one that there is
//                                                        not is filled with what is no number
//   page_of_keys(unit, key), page_of_values(unit, key)   what the table says; of packed sequences the sequence's number
//                                                        is between the two, and keys_begin() is 0
//   bound(unit, first_row, last_row, bounds), row_bound(unit, row, own)   fill in these numbers, a warp at once; where
//                                                        there are none they are not needed
//   tiles(first_row, last_row, bounds), visible(row, key, bounds, own)   where there are any

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

/// The next tile, told to all who produce.
template <typename P>
PL_DEVICE int attention_ask(AttentionDeal<P>& deal) {
  if constexpr (attention_page<P>(0) == 0) {
    return deal.ask();
  } else {
    return __shfl_sync(~0u, attention_leads<P>() ? deal.ask() : 0, 0);
  }
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
      if constexpr (P::packed)
        found =
            values ? f.page_of_values(part.unit, part.sequence, key) : f.page_of_keys(part.unit, part.sequence, key);
      else
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

/// One thread, or one warp (see AttentionFeed): asks for all that the consumers will read.
template <typename P, typename F>
PL_DEVICE void attention_produce(const F& f, u32 base, const char* maps, const int* before, AttentionDeal<P>& deal) {
  using L = AttentionLayout<P>;
  const AttentionBarriers<P> barriers{base + L::barriers_at};
  PipelinePlace<P::stages> keys, values;
  AttentionFeed<P, false> of_keys;
  AttentionFeed<P, true> of_values;
  u32 parity = 0;  // of queries
  AttentionPart<P> part;
  for (int turn = 0; attention_turn<P, L>(f, before, P::deals ? attention_ask<P>(deal) : attention_tile(turn), part);
       ++turn) {
    const AttentionSpan span = attention_span<P, L>(f, part);
    if (span.begin >= span.end) continue;
    const auto bring_keys = [&](int tile) {
      barrier_wait(barriers.keys_out(keys.stage), keys.parity ^ 1);
      attention_expect<P>(barriers.keys_in(keys.stage), L::key_bytes);
      of_keys.ask(f, base + L::keys_at + keys.stage * L::key_bytes, maps, barriers.keys_in(keys.stage), part, tile);
      keys.step();
      of_keys.look(f, part, span, tile - 1);
    };
    of_keys.look(f, part, span, span.end - 1);
    of_values.look(f, part, span, span.end - 1);
    barrier_wait(barriers.queries_out(), parity ^ 1);
    if (attention_leads<P>()) {
      barrier_expect(barriers.queries_in(), L::query_bytes);
#pragma unroll
      for (int i = 0; i < L::feature_lines; ++i)
        f.load_queries(base + i * (L::rows * 128), maps, barriers.queries_in(), part.unit, part.row, i * 64);
    }
    parity ^= 1;
    bring_keys(span.end - 1);
#pragma unroll 1
    for (int tile = span.end - 1; tile >= span.begin; --tile) {
      if (tile > span.begin) bring_keys(tile - 1);
      barrier_wait(barriers.values_out(values.stage), values.parity ^ 1);
      attention_expect<P>(barriers.values_in(values.stage), L::value_bytes);
      of_values.ask(f, base + L::values_at + values.stage * L::value_bytes, maps, barriers.values_in(values.stage),
                    part, tile);
      values.step();
      of_values.look(f, part, span, tile - 1);
    }
  }
  if (P::deals && attention_leads<P>()) deal.end();
}

template <typename P, typename F>
class AttentionConsumer {
  using L = AttentionLayout<P>;

 public:
  PL_DEVICE AttentionConsumer(const F& functors, u32 shared, int warpgroup)
      : f(functors), base(shared), barriers{shared + L::barriers_at}, group(warpgroup) {
    lane = (int)threadIdx.x % 32;
    warp = (int)threadIdx.x % 128 / 32;
  }

  PL_DEVICE void run(float* exchange, const int* before, AttentionDeal<P>& deal) {
    if (P::ping_pong && group == P::consumers - 1) hand_on();
    u32 parity = 0;
    for (int turn = 0; attention_turn<P, L>(f, before, P::deals ? deal.take(lane) : attention_tile(turn), part);
         ++turn) {
      own_row = part.row + group * 64 + warp * 16;
      row0 = min(own_row + lane / 4, part.rows_end() - 1);
      row1 = min(own_row + lane / 4 + 8, part.rows_end() - 1);
      if constexpr (attention_row_bounds<P>(0) > 0) {
        f.row_bound(part.unit, row0, part.own[0]);
        f.row_bound(part.unit, row1, part.own[1]);
      }
      rows = {{no_score(), no_score()}, {0.0f, 0.0f}, {1.0f, 1.0f}};
      const AttentionSpan span = attention_span<P, L>(f, part);
      float o[L::columns / 2];
      if (span.begin < span.end) {
        barrier_wait(barriers.queries_in(), parity);
        parity ^= 1;
        P::overlap ? walk_overlapped(span, o) : walk(span, o);
      } else {
#pragma unroll
        for (int i = 0; i < L::columns / 2; ++i) o[i] = 0.0f;
      }
      attention_store<P, L>(f, o, rows, part, own_row, row0, row1, exchange);
    }
  }

 private:
  /// Each consumer has a named barrier, at which it and the one before it meet.
  PL_DEVICE void hand_on() { named_barrier_arrive(1 + (group + 1) % P::consumers, 256); }
  PL_DEVICE void take_turn() {
    if (P::ping_pong) named_barrier_wait(1 + group, 256);
  }
  PL_DEVICE void end_turn() {
    if (P::ping_pong) hand_on();
  }
  PL_DEVICE void leave(u32 barrier) {
    if (lane == 0) barrier_arrive(barrier);
  }

  PL_DEVICE void multiply_keys(float (&s)[P::tile_keys / 2]) {
    constexpr u64 form = wgmma_swizzled(16, 1024);
    const u64 a = form + wgmma_address(base + group * 8192),
              b = form + wgmma_address(base + L::keys_at + keys.stage * L::key_bytes);
#pragma unroll
    for (int k = 0; k < L::feature_steps; ++k)
      f.scores(s, a + (k / 4 * (L::rows * 128) + k % 4 * 32) / 16, b + (k / 4 * (P::tile_keys * 128) + k % 4 * 32) / 16,
               k != 0);
    wgmma_commit();
  }

  PL_DEVICE void multiply_values(float (&o)[L::columns / 2], const u32 (&p)[P::tile_keys / 4], bool keep) {
    constexpr u64 form = wgmma_swizzled(P::tile_keys * 128, 1024);
    const u64 b = form + wgmma_address(base + L::values_at + values.stage * L::value_bytes);
#pragma unroll
    for (int k = 0; k < P::tile_keys / 16; ++k)
      f.values(o, p[4 * k], p[4 * k + 1], p[4 * k + 2], p[4 * k + 3], b + k * 128, k != 0 || keep);
    wgmma_commit();
  }

  /// What scores of a tile need besides products is under way while these are.
  PL_DEVICE void ask(typename F::Ahead& ahead, int tile) {
    if (!P::plain) f.ask(ahead, part.unit, row0, row1, tile * P::tile_keys + lane % 4 * 2);
  }

  /// What follows a sequence's last key is another's: weights there are zero, values may be anything, Inf and NaN too.
  PL_DEVICE void clear_values(int tile) {
    if constexpr (P::packed) {
      const int kept = max(part.keys - tile * P::tile_keys, 0);
      if (kept >= P::tile_keys) return;
      barrier_wait(barriers.values_in(values.stage), values.parity);
      const u32 first = base + L::values_at + values.stage * L::value_bytes + kept * 128;
      for (int i = 0; i < L::column_lines; ++i)
        for (int at = (int)threadIdx.x % 128 * 16; at < (P::tile_keys - kept) * 128; at += 128 * 16)
          shared_clear(first + i * (P::tile_keys * 128) + at);
      fence_shared_copies();
      named_barrier_wait(1 + P::consumers + group, 128);
    }
  }

  PL_DEVICE void rescale(float (&o)[L::columns / 2]) {
#pragma unroll
    for (int i = 0; i < L::columns / 2; ++i) o[i] *= rows.less[i % 4 / 2];
  }

  /// While the tensor core multiplies a tile's scores and the one before's weights with its values, this one's scores
  /// become weights.
  PL_DEVICE void walk_overlapped(const AttentionSpan& span, float (&o)[L::columns / 2]) {
    float s[P::tile_keys / 2];
    u32 p[P::tile_keys / 4];
    int tile = span.end - 1;
    barrier_wait(barriers.keys_in(keys.stage), keys.parity);
    take_turn();
    wgmma_fence();
    multiply_keys(s);
    end_turn();
    typename F::Ahead ahead;
    ask(ahead, tile);
    wgmma_wait<0>();
    wgmma_hold(s);
    leave(barriers.keys_out(keys.stage));
    keys.step();
    attention_score<P>(f, s, ahead, tile, span, part, row0, row1);
    attention_soften<P>(s, rows);
    attention_round<P::bf16>(s, p);
    clear_values(tile);
    bool keep = false;
#pragma unroll 1
    for (--tile; tile >= span.begin; --tile) {
      barrier_wait(barriers.keys_in(keys.stage), keys.parity);
      take_turn();
      wgmma_hold(s);
      wgmma_hold(o);
      wgmma_fence();
      multiply_keys(s);
      barrier_wait(barriers.values_in(values.stage), values.parity);
      multiply_values(o, p, keep);
      keep = true;
      end_turn();
      ask(ahead, tile);
      wgmma_wait<1>();
      wgmma_hold(s);
      leave(barriers.keys_out(keys.stage));
      keys.step();
      attention_score<P>(f, s, ahead, tile, span, part, row0, row1);
      const bool changed = attention_soften<P>(s, rows);
      wgmma_wait<0>();
      wgmma_hold(o);
      leave(barriers.values_out(values.stage));
      values.step();
      if (changed) rescale(o);
      attention_round<P::bf16>(s, p);
    }
    leave(barriers.queries_out());
    barrier_wait(barriers.values_in(values.stage), values.parity);
    wgmma_hold(o);
    wgmma_fence();
    multiply_values(o, p, keep);
    wgmma_wait<0>();
    wgmma_hold(o);
    leave(barriers.values_out(values.stage));
    values.step();
  }

  /// The same one after the other, with fewer registers.
  PL_DEVICE void walk(const AttentionSpan& span, float (&o)[L::columns / 2]) {
    bool keep = false;
#pragma unroll 1
    for (int tile = span.end - 1; tile >= span.begin; --tile) {
      float s[P::tile_keys / 2];
      u32 p[P::tile_keys / 4];
      barrier_wait(barriers.keys_in(keys.stage), keys.parity);
      take_turn();
      wgmma_fence();
      multiply_keys(s);
      typename F::Ahead ahead;
      ask(ahead, tile);
      wgmma_wait<0>();
      wgmma_hold(s);
      end_turn();
      leave(barriers.keys_out(keys.stage));
      keys.step();
      attention_score<P>(f, s, ahead, tile, span, part, row0, row1);
      if (attention_soften<P>(s, rows) && keep) rescale(o);
      attention_round<P::bf16>(s, p);
      barrier_wait(barriers.values_in(values.stage), values.parity);
      if (!keep) clear_values(tile);
      wgmma_hold(o);
      wgmma_fence();
      multiply_values(o, p, keep);
      keep = true;
      wgmma_wait<0>();
      wgmma_hold(o);
      leave(barriers.values_out(values.stage));
      values.step();
    }
    leave(barriers.queries_out());
  }

  const F& f;
  const u32 base;
  const AttentionBarriers<P> barriers;
  const int group;
  int lane, warp, own_row, row0, row1;
  AttentionPart<P> part;
  PipelinePlace<P::stages> keys, values;
  AttentionRows rows;
};

/// The registers that a thread of a consumer may have, and one of the producer's warpgroup: more where it looks up
/// pages, and again where it finds what a block's rows have known of them.
PL_DEVICE constexpr int attention_consumer_registers(int consumers, bool in_pages, bool by_row) {
  if (consumers == 3) return by_row ? 152 : 160;
  return by_row ? 224 : in_pages ? 232 : 240;
}
PL_DEVICE constexpr int attention_producer_registers(int consumers, bool in_pages, bool by_row) {
  if (consumers == 3) return by_row ? 48 : 32;
  return by_row ? 56 : in_pages ? 40 : 24;
}
/// Whether they are there: a warpgroup that asks for more than others gave back waits for ever.
PL_DEVICE constexpr bool attention_registers_suffice(int consumers, bool in_pages, bool by_row) {
  const int begin = 65536 / (128 * (consumers + 1)) / 8 * 8;  // what a thread has when the kernel begins
  return attention_producer_registers(consumers, in_pages, by_row) +
             consumers * attention_consumer_registers(consumers, in_pages, by_row) <=
         begin * (consumers + 1);
}

/// All of a kernel of AttentionLayout<P>::threads threads a block, at most one block a multiprocessor, with `bytes` +
/// 1024 of dynamic shared memory at `memory`, and maps_bytes of global memory a block at `maps`. Any number of blocks.
/// `counters`: two zeros, where P::deals.
template <typename P, typename F>
PL_DEVICE void attention(const F& f, unsigned char* memory, char* maps, unsigned* counters = nullptr) {
  using L = AttentionLayout<P>;
  const u32 base = (shared_address(memory) + 1023u) & ~1023u;
  const AttentionBarriers<P> barriers{base + L::barriers_at};
  const int group = __shfl_sync(~0u, (int)threadIdx.x / 128, 0);
  constexpr bool in_pages = attention_page<P>(0) > 0, by_row = attention_row_bounds<P>(0) > 0;
  static_assert(P::consumers == 1 || attention_registers_suffice(P::consumers, in_pages, by_row));
  char* const own_maps = maps + (int)blockIdx.x * L::maps_bytes;
  if (threadIdx.x == 0) {
    barrier_init(barriers.queries_in(), 1);
    barrier_init(barriers.queries_out(), 4 * P::consumers);
    for (int i = 0; i < P::stages; ++i) {
      barrier_init(barriers.keys_in(i), 1);
      barrier_init(barriers.values_in(i), 1);
      barrier_init(barriers.keys_out(i), 4 * P::consumers);
      barrier_init(barriers.values_out(i), 4 * P::consumers);
    }
    if (P::deals) AttentionDeal<P>::init(base + L::deal_at);
    barrier_init_fence();
  }
  if (threadIdx.x < 32) {
    if (threadIdx.x < 24) shared_clear(base + threadIdx.x * 16);
    __syncwarp();
    if (threadIdx.x == 0) {
      f.map_queries(base);
      f.map_keys(base + 128);
      f.map_values(base + 256);
    }
    __syncwarp();
    for (int i = 0; i < 3; ++i) tensor_map_publish(own_maps + i * 128, base + i * 128);
    if (in_pages || threadIdx.x == 0) {  // whoever copies
      for (int i = 0; i < 3; ++i) tensor_map_acquire(own_maps + i * 128);
      barrier_init_fence();
    }
  }
  int* const before = (int*)(memory + (base - shared_address(memory)) + L::before_at);
  AttentionDeal<P> deal(base + L::deal_at, before + (L::deal_at + 32 - L::before_at) / 4, counters);
  if constexpr (P::packed) {
    if (threadIdx.x / 32 == 1) attention_count<P, L>(f, before);
  }
  __syncthreads();
  if (group == 0) {
    if (P::consumers > 1) registers_decrease<attention_producer_registers(P::consumers, in_pages, by_row)>();
    if (threadIdx.x < (in_pages ? 32 : 1)) attention_produce<P>(f, base, own_maps, before, deal);
  } else {
    if (P::consumers > 1) registers_increase<attention_consumer_registers(P::consumers, in_pages, by_row)>();
    unsigned char* const exchange = memory + (base - shared_address(memory)) + L::exchange_at;
    AttentionConsumer<P, F> consumer(f, base, group - 1);
    consumer.run((float*)exchange + ((group - 1) * 4 + (int)threadIdx.x % 128 / 32) * (8 * L::exchange_pitch), before,
                 deal);
  }
}
