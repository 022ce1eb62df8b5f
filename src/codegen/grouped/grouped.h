#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "codegen/kernel.h"

/// What holds in a product of rows that belong to groups, each with a matrix of its own: the experts of a mixture.
///
/// It is a contraction kernel, or one of rows, whose one reduction is a sum of products of two factors. The second one
/// gathers: which matrix it reads is the group of the row at hand, which a binary search among the groups' ends finds
/// (what lowering makes of `_grouped_mm`). It may be times a scale, which gathers by the same search. So any emitter
/// can emit it, reading a matrix once for each row; schedules of its own walk through the groups. Pure; thread-safe.
namespace planish::codegen {

/// A value that says how many of `count` ends, which do not fall, are at most `row`.
struct EndSearch {
  int input = -1;                      ///< of the ends, i32 or i64
  std::int64_t first = 0, stride = 1;  ///< where the first one lies, and how far apart they are
  std::int64_t count = 0;
  ir::IndexExpr row;
};
/// Nothing where the node is no such value, of so many ends.
std::optional<EndSearch> end_search_of(const Kernel& kernel, int node, std::int64_t count);

/// A load of what each group has its own of: a factor's scale.
struct GroupLoad {
  int node = -1;
  std::int64_t stride = 0;  ///< elements from one group's to the next one's
};

struct Grouped {
  EndSearch ends;
  int weights = -1;               ///< node: the load of the second factor
  std::int64_t stride = 0;        ///< elements from one matrix to the next
  std::vector<GroupLoad> others;  ///< loads beside it whose place is moved by the row's group
  std::int64_t rows = 0;          ///< of all groups
  /// The same product with what the first group has for all rows: an ordinary contraction, whose nodes have the same
  /// places.
  Kernel plain;
};

/// Error kind `unsupported` where the kernel is not one; the message says why not.
Result<Grouped> grouped_of(const Kernel& kernel);

}  // namespace planish::codegen
