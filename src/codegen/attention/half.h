#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "codegen/attention/attention.h"
#include "codegen/attention/packing.h"
#include "codegen/kernel.h"

/// Attention whose q, k and v are 16-bit tensors: the device file `sm90/attention.cuh` reads them by tensor maps where
/// they lie. Pure; thread-safe.
namespace planish::codegen::attention {

/// Where keys, or values, lie that are kept in pages: `size` of them one after the other, a page where a look-up says.
struct Pages {
  int load = -1;  ///< node: of an element, at a place that one looked-up number moves
  std::int64_t size = 0;
  std::int64_t count = 0;   ///< pages that there are
  std::int64_t stride = 1;  ///< elements from one to the next, a multiple of 8
};

/// q, k or v as the tensor that a map describes: memory runs along `line`, and rows are `row_stride` apart.
struct MappedOperand {
  struct Step {
    int variable = -1;
    std::int64_t stride = 1;  ///< elements, a multiple of 8
  };
  int input = -1;          ///< of the kernel
  std::int64_t begin = 0;  ///< element of the input where coordinates 0 lie
  int line = -1, row = -1;
  std::int64_t row_stride = 1;
  std::vector<Step> units;  ///< the unit's variables that it moves with: at most three, in pages two
  std::optional<Pages> pages;
};

struct HalfAttention {
  DType element = DType::bf16;
  MappedOperand queries, keys, values;
  std::vector<int> units;    ///< variables that number softmaxes besides `row`: those that share k and v vary fastest
  std::int64_t sharing = 1;  ///< so many neighbours read the same masks and biases
  std::int64_t grouped = 1;  ///< so many neighbours share k and v
  int row = -1, key = -1, feature = -1, column = -1;  ///< variables
  int page = -1;      ///< variable that numbers pages of keys; `key` then numbers those of a page
  int sequence = -1;  ///< of packed sequences whose keys lie in pages: variable that numbers tables
  std::int64_t unit_count = 1, rows = 1, key_count = 1, features = 1, columns = 1;
  std::vector<PlaceTest> tests;    ///< a key that fails one counts nothing for the query
  std::optional<Packing> packing;  ///< sequences, in which `tests` count places; nothing else is looked up then
  int score = -1;                  ///< node: the score of one that passes them all
  bool plain = false;              ///< it is q · k times `factor`
  double factor = 1;               ///< otherwise what q · k is times where `score` reads it
  std::vector<int> ahead;          ///< loads that scores of neighbouring keys read as neighbours, in aligned pairs
};

/// Keys and values lie in pages.
inline bool in_pages(const HalfAttention& attention) {
  return attention.keys.pages.has_value();
}

/// Error kind `unsupported`, saying why, where a factor is not such a tensor.
Result<HalfAttention> half_attention_of(const Kernel& kernel, const Attention& attention);

/// How it is cut into tiles.
struct HalfTiling {
  int consumers = 2;  ///< warpgroups that multiply, 64 queries each; one more feeds them
  int keys = 128;     ///< of a tile
  int stages = 2;     ///< places for a tile of k and for one of v
  bool overlap = true;
  bool ping_pong = true;
  int section = 1;     ///< units whose blocks run side by side
  bool deals = false;  ///< of packed sequences: blocks ask for their next rows, so that long ones hold up none
};

/// Keys that one copy brings, of a page.
std::int64_t box_of(const HalfAttention& attention, const HalfTiling& plan);

/// Columns that a warp's lanes hand each other at once before the epilogue: whole lines of results where there is room.
int exchange_of(const HalfAttention& attention, const HalfTiling& plan, std::int64_t shared_limit);

/// Bytes of a block's shared memory, what aligns them included.
std::int64_t shared_bytes(const HalfAttention& attention, const HalfTiling& plan, int exchange);
/// Blocks of rows that a unit has, at most.
std::int64_t blocks_of_unit(const HalfAttention& attention, const HalfTiling& plan);

/// A test without what is known on the device: as if the last query saw all keys.
PlaceTest as_guessed(const HalfAttention& attention, const PlaceTest& test);

/// Tiles of keys that a block of rows from `row` on walks through: from the first to the one behind the last. Of packed
/// sequences, whose lengths are not known, as if they were equal.
struct KeyTiles {
  std::int64_t begin = 0, end = 0;
};
KeyTiles key_tiles(const HalfAttention& attention, const HalfTiling& plan, std::int64_t row);

/// `illegal_plan`, saying why, where the plan does not fit.
Status check(const HalfAttention& attention, const HalfTiling& plan, std::int64_t shared_limit);

}  // namespace planish::codegen::attention
