#pragma once

#include <cstdint>

#include "base/result.h"
#include "codegen/attention/attention.h"
#include "codegen/contraction/plan.h"

/// How attention is cut into tiles on Hopper's tensor cores. A block has some rows of queries and walks over tiles of
/// keys: their scores leave the tensor core, become weights in registers, which are the first factor of the product
/// with the values; that product is added to what was there, multiplied by how much the maximum has grown, in fp32. All
/// factors are pairs of fp16: of queries and keys as contraction::Scheme::joint, whose scores are sums, of weights and
/// values as Scheme::chosen, since a weight of one gives a value itself. Pure; thread-safe.
namespace planish::codegen::attention {

struct Tiling {
  int consumers = 2;  ///< warpgroups that multiply, 64 queries each; one more feeds them
  int keys = 64;      ///< of a tile
  int stages = 2;     ///< places for a tile of keys and of values
  int blocks = 1;     ///< of a multiprocessor at once
};

/// Lengths and places that follow. In shared memory: queries, the stages (keys, then values), barriers, exchanges.
struct Layout {
  contraction::TilePlan scores;                         ///< how queries and keys are packed: all features are one slab
  contraction::TilePlan values;                         ///< how values are: slabs of a tile's keys
  std::int64_t rows = 0;                                ///< of queries, up to whole blocks
  std::int64_t keys = 0;                                ///< up to whole tiles
  int features = 0;                                     ///< up to whole instructions
  int columns = 0;                                      ///< of a block's results
  int column_blocks = 1;                                ///< blocks that share rows, each with its columns of values
  int query_bytes = 0, key_bytes = 0, value_bytes = 0;  ///< of one part: of a block, of a tile
  int stages_at = 0, barriers_at = 0, exchange_at = 0, shared_bytes = 0;
  int exchange = 32;  ///< columns that a warp's threads hand each other at once

  int stage_bytes() const { return 2 * (key_bytes + value_bytes); }
  /// How the tensor core reads 16 k from `k` on of a factor's part: of all queries of the block, from the block's
  /// shared memory; of a tile's keys and values, from their stage.
  contraction::Descriptor queries_of(int part, int k) const { return of(part * query_bytes, k, features); }
  contraction::Descriptor keys_of(int part, int k) const { return of(part * key_bytes, k, features); }
  contraction::Descriptor values_of(int part, int k) const {
    return of(2 * key_bytes + part * value_bytes, k, values.bk);
  }
  int exchange_pitch() const { return exchange + 8; }

 private:
  static contraction::Descriptor of(int at, int k, int depth) { return {at + k / 8 * 128, 128, depth * 16}; }
};
Layout layout_of(const Attention& attention, const Tiling& plan);

/// `illegal_plan`, saying why, where the plan does not fit.
Status check(const Attention& attention, const Tiling& plan, std::int64_t shared_limit);

}  // namespace planish::codegen::attention
