#pragma once
// Elements of rows by their rank on a GPU. A team of threads puts a row in order by a bitonic network whose items stay
// in registers: neighbours within a thread first, then threads of a warp by shuffles, then all of a block through
// shared memory. Of a row that is longer than a block holds, the first few of the order are looked for: what comes
// behind the last of those known so far is left out as it is read, and the rest is put in order whenever a buffer is
// full. Blocks may share such a row (slices); another launch puts their candidates in order.
//
// Policy (all constexpr):
//   int length, first, count    of a row; the ranks that are stored are [first, first + count)
//   int rows, team, each        team: threads of a row, a power of two; each: items of a thread, a power of two
//   int threads                 of a block: one team, or teams of at most a warp
//   int slices                  blocks that share a row
//   type Item
// and functions: Item item(int row, int place), store(int row, int rank − first, int place),
// template <class Team> fold(int row, const Team&), which computes what elements need of the whole row.

#include "types.cuh"

#define ORDER_FN PL_DEVICE
#include "shared/order_keys.h"

PL_DEVICE u64 from_lane(u64 item, int mask) {
  return __shfl_xor_sync(~0u, item, mask);
}
PL_DEVICE WideItem from_lane(const WideItem& item, int mask) {
  return {__shfl_xor_sync(~0u, item.key, mask), __shfl_xor_sync(~0u, item.place, mask)};
}

/// Threads that share a row: some of a warp, or all of a block.
template <int size>
struct OrderTeam {
  static constexpr int count = size;
  int thread;      ///< in the team
  void* exchange;  ///< shared memory for eight bytes a warp, of those of more than one

  /// Folds what threads hold, in an order that is always the same; every thread gets the result.
  template <class T, class Join>
  PL_DEVICE T fold(T own, T none, Join join) const {
#pragma unroll
    for (int mask = 1; mask < (size < 32 ? size : 32); mask *= 2) own = join(own, __shfl_xor_sync(~0u, own, mask));
    if constexpr (size > 32) {
      T* const of_warps = (T*)exchange;
      __syncthreads();
      if (thread % 32 == 0) of_warps[thread / 32] = own;
      __syncthreads();
      own = none;
      for (int w = 0; w < size / 32; ++w) own = join(own, of_warps[w]);
    }
    return own;
  }
};

/// Puts `each` items of every thread of a team in order: thread t gets those of ranks t * each, t * each + 1, …
/// `exchange` has room for all of a team's items where that is more than a warp.
template <int team, int each, class Item>
PL_DEVICE void put_in_order(Item (&x)[each], Item* exchange, int thread) {
  // Keeps the one of two that belongs here: the former where `former` says so.
  const auto keep = [](Item& own, const Item& other, bool former) {
    if (comes_before(other, own) == former) own = other;
  };
  for (int size = 2; size <= team * each; size *= 2) {
    int stride = size / 2;
    if constexpr (team > 32) {
      for (; stride >= 32 * each; stride /= 2) {
        const int mask = stride / each;
        const bool rising = (thread * each & size) == 0, former = ((thread & mask) == 0) == rising;
        __syncthreads();
#pragma unroll
        for (int e = 0; e < each; ++e) exchange[e * team + thread] = x[e];
        __syncthreads();
#pragma unroll
        for (int e = 0; e < each; ++e) keep(x[e], exchange[e * team + (thread ^ mask)], former);
      }
    }
    for (; stride >= each; stride /= 2) {
      const int mask = stride / each;
      const bool rising = (thread * each & size) == 0, former = ((thread & mask) == 0) == rising;
#pragma unroll
      for (int e = 0; e < each; ++e) keep(x[e], from_lane(x[e], mask), former);
    }
#pragma unroll
    for (int near = each / 2; near > 0; near /= 2) {
      if (near >= size) continue;
#pragma unroll
      for (int e = 0; e < each; ++e) {
        if (e & near) continue;
        const bool rising = ((thread * each + e) & size) == 0;
        if (comes_before(x[e + near], x[e]) == rising) {
          const Item moved = x[e];
          x[e] = x[e + near];
          x[e + near] = moved;
        }
      }
    }
  }
}

/// Rows that a team holds as a whole. `exchange`: shared memory for all items of a block whose team is it.
template <class P>
PL_DEVICE void order_rows(P& p, typename P::Item* exchange) {
  using Item = typename P::Item;
  constexpr int team = P::team, each = P::each;
  const int row = (int)blockIdx.x * (P::threads / team) + (int)threadIdx.x / team, thread = (int)threadIdx.x % team;
  // A team without a row goes along: warps shuffle and blocks wait as a whole.
  const int read = row < P::rows ? row : P::rows - 1;
  p.fold(read, OrderTeam<team>{thread, exchange});
  Item x[each];
#pragma unroll
  for (int e = 0; e < each; ++e) {
    const int place = e * team + thread;
    x[e] = place < P::length ? p.item(read, place) : last_item<Item>();
  }
  put_in_order<team>(x, exchange, thread);
  if (row >= P::rows) return;
#pragma unroll
  for (int e = 0; e < each; ++e) {
    const int rank = thread * each + e - P::first;
    if (rank >= 0 && rank < P::count) p.store(row, rank, (int)place_of(x[e]));
  }
}

/// What blocks of long rows share.
template <class P>
struct Candidates {
  static constexpr int room = P::threads * P::each;
  typename P::Item items[room];
  int held;
};

/// The first `wanted` of the items [begin, end) of a source, in order, in `found.items`; the rest are last_item().
template <class P, int wanted, class Source>
PL_DEVICE void find_first(const Source& source, int begin, int end, Candidates<P>& found) {
  using Item = typename P::Item;
  constexpr int threads = P::threads, each = P::each, room = threads * each, step = room / 2;
  static_assert(wanted <= step, "what is found leaves room for a step");
  const int thread = (int)threadIdx.x, lane = thread % 32;
  if (thread == 0) found.held = 0;
  __syncthreads();
  Item limit = last_item<Item>();
  for (int at = begin;; at += step) {
    Item read[each / 2];
#pragma unroll
    for (int e = 0; e < each / 2; ++e) {
      const int place = at + e * threads + thread;
      read[e] = place < end ? source(place) : last_item<Item>();
    }
#pragma unroll
    for (int e = 0; e < each / 2; ++e) {
      const bool keeps = comes_before(read[e], limit);
      const u32 all = __ballot_sync(~0u, keeps);
      if (all == 0) continue;
      int base = 0;
      if (lane == 0) base = atomicAdd(&found.held, __popc(all));
      base = __shfl_sync(~0u, base, 0);
      if (keeps) found.items[base + __popc(all & ((1u << lane) - 1))] = read[e];
    }
    __syncthreads();
    const int held = found.held;
    const bool ends = at + step >= end;
    if (held > room - step || ends) {
      Item x[each];
#pragma unroll
      for (int e = 0; e < each; ++e) {
        const int place = e * threads + thread;
        x[e] = place < held ? found.items[place] : last_item<Item>();
      }
      put_in_order<threads>(x, found.items, thread);
      __syncthreads();
#pragma unroll
      for (int e = 0; e < each; ++e) {
        if (thread * each + e < wanted) found.items[thread * each + e] = x[e];
      }
      if (thread == 0) found.held = held < wanted ? held : wanted;
      __syncthreads();
      if (ends) return;
      limit = found.items[wanted - 1];
      if (held < wanted) limit = last_item<Item>();
    }
    // Nobody adds to what others still count.
    __syncthreads();
  }
}

/// A slice of a long row: its candidates go to `candidates`, or where a row has one slice, to where results are.
template <class P>
PL_DEVICE void order_slices(P& p, Candidates<P>& found, typename P::Item* candidates) {
  constexpr int wanted = P::first + P::count, span = (P::length + P::slices - 1) / P::slices;
  const int row = (int)blockIdx.x / P::slices, slice = (int)blockIdx.x % P::slices;
  const int begin = slice * span, end = begin + span < P::length ? begin + span : P::length;
  find_first<P, wanted>([&](int place) { return p.item(row, place); }, begin, end, found);
  for (int rank = (int)threadIdx.x; rank < wanted; rank += P::threads) {
    if (P::slices > 1)
      candidates[(u64)blockIdx.x * wanted + rank] = found.items[rank];
    else if (rank >= P::first)
      p.store(row, rank - P::first, (int)place_of(found.items[rank]));
  }
}

/// The candidates of a row's slices in order.
template <class P>
PL_DEVICE void order_candidates(P& p, Candidates<P>& found, const typename P::Item* candidates) {
  constexpr int wanted = P::first + P::count, all = P::slices * wanted;
  const int row = (int)blockIdx.x;
  find_first<P, wanted>([&](int place) { return candidates[(u64)row * all + place]; }, 0, all, found);
  for (int rank = P::first + (int)threadIdx.x; rank < wanted; rank += P::threads)
    p.store(row, rank - P::first, (int)place_of(found.items[rank]));
}
