#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "codegen/attention/attention.h"

/// Attention over sequences that lie packed one after the other: which keys count for a query is said by offsets that
/// are tensors. Pure; thread-safe.
namespace planish::codegen::attention {

/// row · r + key · k + constant ≥ 0, of a query r and a key k by their places.
struct PlaceTest {
  std::int64_t row = 0, key = 0, constant = 0;
  /// Integer nodes, each so many times, that `constant` grows by on the device: a sequence's length, say.
  std::vector<std::pair<int, std::int64_t>> known = {};
  bool by_row = false;  ///< they move with the query: its own place, say
};

/// Where sequences begin, and the last one ends: integers of an input, so many elements apart.
struct Offsets {
  int input = -1;
  std::int64_t first = 0, stride = 1;
};

/// Sequences, `count` of them: a query sees keys of its own alone, and of these those that pass all tests. Keys' places
/// are counted from the sequence's first key; a query's is that of the key as far before the sequence's last one as the
/// query is before the last query. The kernel's row variable numbers all queries.
struct Packing {
  Offsets queries, keys;
  /// Keys are those of all entries of a table, which each sequence has a row of pages in; `keys` says how many of its
  /// own count, and the kernel's first key variable numbers sequences.
  bool in_pages = false;
  std::int64_t count = 0;
  int row = -1;  ///< variable
  std::vector<PlaceTest> tests;
  int score = -1;  ///< node: of a key that counts
};

/// The sequences that a kernel's score speaks of: a choice of -inf for keys that are none of the query's. Nothing where
/// it says something else, or the kernel looks up more than that.
std::optional<Packing> packing_of(const Kernel& kernel, const Attention& attention);

}  // namespace planish::codegen::attention
