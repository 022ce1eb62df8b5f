#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "codegen/lower/lowering.h"

/// Private to codegen/lower: places that the values of integer tensors name, to be read or written.
namespace planish::codegen {

/// The index tensor's element at the coordinates (the last ones, where it has fewer dims), as a coordinate of a dim of
/// this extent. `wraps`: negative ones count from the end.
Result<ir::IndexExpr> indexed_place(Lowering& low, int index, const Coords& at, std::int64_t extent, bool wraps);

/// Where numbers would stand in a sequence that is in order (search.cpp).
Result<int> searchsorted(const Site& s);
Result<int> bucketize(const Site& s);

/// The tensors of x[i, :, j], which are broadcast together. Their dims stand in the result where the first of them was,
/// or in front where something else lies between them.
struct IndexList {
  std::vector<std::optional<int>> ids;  ///< by dim of x
  std::size_t count = 0;                ///< of them that are there
  std::size_t rank = 0;                 ///< of what they are broadcast to
  std::size_t front = 0;                ///< the first of its dims in the result

  /// Where in x, of this shape, an element of the result lies.
  Result<Coords> coords(Lowering& low, std::span<const std::int64_t> shape, const Coords& result) const;
};

/// That of a node's argument `indices`, for a tensor of so many dims. Error kind `unsupported`: there is none, or a
/// mask is among them.
Result<IndexList> index_list(const ir::Graph& graph, const ir::GraphNode& node, std::size_t dims);

}  // namespace planish::codegen
