#pragma once
// Elements of rows by their rank on a processor, a row a thread at a time, behind vector_prelude(). A few ranks are
// looked for by walking along the row with those found so far in order; a whole row is put in order by the digits of
// its keys, least first, and a short one by merging.
//
// Policy (all constexpr):
//   i64 length, first, count    of a row; the ranks that are stored are [first, first + count)
//   i64 rows
//   type Item
// and functions: Item item(i64 place), store(i64 rank − first, i64 place) of the row that begin(i64 row) named.

typedef unsigned u32;
#define ORDER_FN FN
#include "shared/order_keys.h"

/// Digit `d` of an item's key, eight bits each.
FN u32 order_digit(u64 item, int d) {
  return item >> (32 + 8 * d) & 255;
}
FN u32 order_digit(const WideItem& item, int d) {
  return item.key >> (8 * d) & 255;
}

/// A fold of a row, of `none` and what `element(place)` gives: in lanes, which compilers make vectors of.
template <i64 length, class T, class Element, class Join>
FN T order_fold(T none, const Element& element, const Join& join) {
  constexpr i64 lanes = 16;
  T own[lanes];
  for (i64 l = 0; l < lanes; ++l) own[l] = none;
  i64 place = 0;
  for (; place + lanes <= length; place += lanes)
    for (i64 l = 0; l < lanes; ++l) own[l] = join(own[l], (T)element(place + l));
  for (i64 l = 0; place < length; ++place, ++l) own[l] = join(own[l], (T)element(place));
  for (i64 half = lanes / 2; half > 0; half /= 2)
    for (i64 l = 0; l < half; ++l) own[l] = join(own[l], own[l + half]);
  return own[0];
}

template <class P>
struct OrderRow {
  typedef typename P::Item Item;
  static constexpr i64 wanted = P::first + P::count;
  static constexpr i64 insertion = 24, merging = 256;           ///< rows as short as these
  static constexpr i64 room = P::few ? wanted : 2 * P::length;  ///< items of a thread

  static void insert(Item* x, i64 count) {
    for (i64 i = 1; i < count; ++i) {
      const Item moved = x[i];
      i64 to = i;
      for (; to > 0 && comes_before(moved, x[to - 1]); --to) x[to] = x[to - 1];
      x[to] = moved;
    }
  }

  /// Sorted runs of `insertion` items, then twice as long ones; which of the two has the result.
  static Item* merge(Item* x, Item* other) {
    for (i64 at = 0; at < P::length; at += insertion)
      insert(x + at, P::length - at < insertion ? P::length - at : insertion);
    for (i64 run = insertion; run < P::length; run *= 2) {
      for (i64 at = 0; at < P::length; at += 2 * run) {
        const i64 middle = at + run < P::length ? at + run : P::length;
        const i64 end = middle + run < P::length ? middle + run : P::length;
        i64 a = at, b = middle;
        for (i64 to = at; to < end; ++to) {
          const bool second = a == middle || (b < end && comes_before(x[b], x[a]));
          other[to] = x[second ? b++ : a++];
        }
      }
      Item* const swapped = x;
      x = other;
      other = swapped;
    }
    return x;
  }

  static Item* by_digits(Item* x, Item* other) {
    constexpr int digits = sizeof(Item) == 8 ? 4 : 8;
    u32 counts[digits][256] = {};
    for (i64 i = 0; i < P::length; ++i)
      for (int d = 0; d < digits; ++d) ++counts[d][order_digit(x[i], d)];
    for (int d = 0; d < digits; ++d) {
      u32* const begin = counts[d];
      if (begin[order_digit(x[0], d)] == (u32)P::length) continue;  // all have the same
      u32 before = 0;
      for (int v = 0; v < 256; ++v) {
        const u32 now = begin[v];
        begin[v] = before;
        before += now;
      }
      for (i64 i = 0; i < P::length; ++i) other[begin[order_digit(x[i], d)]++] = x[i];
      Item* const swapped = x;
      x = other;
      other = swapped;
    }
    return x;
  }

  /// The first `wanted` of the row.
  static Item* find_first(const P& p, Item* found) {
    for (i64 i = 0; i < wanted; ++i) found[i] = last_item<Item>();
    constexpr i64 step = 16;
    const auto take = [&](const Item& item) {
      if (!comes_before(item, found[wanted - 1])) return;
      i64 to = wanted - 1;
      for (; to > 0 && comes_before(item, found[to - 1]); --to) found[to] = found[to - 1];
      found[to] = item;
    };
    i64 place = 0;
    for (; place + step <= P::length; place += step) {
      Item some[step];
      bool any = false;
      const Item limit = found[wanted - 1];
      for (i64 i = 0; i < step; ++i) some[i] = p.item(place + i);
      for (i64 i = 0; i < step; ++i) any |= comes_before(some[i], limit);
      if (any)
        for (i64 i = 0; i < step; ++i) take(some[i]);
    }
    for (; place < P::length; ++place) take(p.item(place));
    return found;
  }

  static Item* all(const P& p, Item* x) {
    for (i64 i = 0; i < P::length; ++i) x[i] = p.item(i);
    return P::length <= merging ? merge(x, x + P::length) : by_digits(x, x + P::length);
  }
};

/// The rows of thread `tid` of `team`. `room`: OrderRow<P>::room items of each thread.
template <class P>
FN void order_rows(P p, typename P::Item* room, i64 tid, i64 team) {
  typedef OrderRow<P> Row;
  typename P::Item* const own = room + tid * Row::room;
  const i64 end = P::rows * (tid + 1) / team;
  for (i64 row = P::rows * tid / team; row < end; ++row) {
    p.begin(row);
    typename P::Item* found;
    if constexpr (P::few)
      found = Row::find_first(p, own);
    else
      found = Row::all(p, own);
    for (i64 rank = 0; rank < P::count; ++rank) p.store(rank, place_of(found[P::first + rank]));
  }
}
