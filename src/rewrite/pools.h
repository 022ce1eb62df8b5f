#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "rewrite/editor.h"

/// Private to rewrite: what rules ask of average pools.
namespace planish::rewrite {

/// So many times fewer places, or more, behind a pool that moves: else the convolution has about as much to do.
inline constexpr std::int64_t least_fewer = 2;

/// avg_pool1d to 3d, however windows lie.
bool is_average_pool(const ir::GraphNode& node);

/// Averages of windows that lie within the data, one image and channel at a time: the average of a constant is it.
struct AveragePool {
  int of = -1;
  std::vector<std::int64_t> window, stride;  ///< by dim

  std::size_t dims() const { return window.size(); }
};
/// Nothing for other nodes, and for windows that reach over an end, have another divisor or move nowhere.
std::optional<AveragePool> average_pool(const Editor& editor, const ir::GraphNode& node);
/// A new node.
int add(Editor& editor, const AveragePool& pool);

/// Whether another pool is about to take the one at node `index` in (pool_of_pool()): what the first would be moved
/// through has no place for the second.
bool is_pooled_again(const Editor& editor, int index);

/// Elements an image and channel has.
std::int64_t places(const ir::Value& value);

/// The value with so many zeros before and behind it, by dim behind the channels, or fewer elements where that is
/// negative; itself where nothing changes.
int padded(Editor& editor, int x, const std::vector<std::int64_t>& before, const std::vector<std::int64_t>& behind);

/// What every rule asks that moves a pool: data of one dtype, f32 or f64.
bool one_dtype(const Editor& editor, std::initializer_list<int> ids);

}  // namespace planish::rewrite
