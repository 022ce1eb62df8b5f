#pragma once

#include <string>
#include <vector>

#include "codegen/kernel.h"

/// What holds in a kernel of the `cross` anchor, which reads its data once and folds them along rows and across them.
///
/// Its variables are, in this order: common ones, those that `across` reductions fold (Kernel::across of them), and the
/// inner ones. A row is a setting of the first two groups, a column one of the first and the last. An ordinary
/// reduction gives a value a row, an `across` reduction one a column. The argument of either is made of loads, places
/// and the rows' results; nothing inside the kernel needs a column's result, but for
///  - the column's own outputs, which are made of results of columns, constants, places and loads that are one for the
///    whole column, and of nothing that belongs to a row;
///  - the second reduction of a RowColumnPair.
/// Kinds are sum, product, max, min, any and all, both ways. Pure; thread-safe.
namespace planish::codegen {

/// A maximum of x, and a sum of exp(x - base) whose base is made of that maximum alone: one sweep finds both.
struct RowColumnPair {
  int leader = 0, follower = 0;  ///< positions in Kernel::reductions, both across or both along rows
  int x = 0;                     ///< node that both look at
  int base = 0;                  ///< node subtracted from it
};

/// What a node's value depends on.
struct RowColumnLevel {
  bool common = false, across = false, inner = false;  ///< the variables of each group
  bool of_row = false;                                 ///< results of rows
  bool of_column = false;                              ///< results of columns
};
/// One for each node.
std::vector<RowColumnLevel> row_column_levels(const Kernel& kernel);

/// Pairs along rows, or across them. One follower a leader.
std::vector<RowColumnPair> row_column_pairs(const Kernel& kernel, bool across);

/// True where what is stored or folded across the rows needs a row's result, or rows are folded in phases that no pair
/// explains: a row must then be known as a whole before its elements are done with.
bool needs_whole_rows(const Kernel& kernel);

/// Words of 32 bits that the running values of one column take.
int column_words(const Kernel& kernel);
/// The same of what is loaded for one element.
int element_words(const Kernel& kernel);

/// Of all columns together: what one thread can surely keep in memory.
inline constexpr std::int64_t most_column_words = std::int64_t{1} << 25;

/// Elements of a row that a thread of the largest block may own: what a row that must be known as a whole is cut into.
inline constexpr int row_shares[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32};
inline constexpr int most_row_threads = 1024, row_registers = 64, plain_registers = 20;

/// Empty if the above holds, memory runs along the rows, and the kernel can be emitted on every device; else why not.
std::string row_column_broken(const Kernel& kernel);

}  // namespace planish::codegen
