#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "codegen/kernel.h"

/// What holds in a kernel of the `parts` anchor, which knows whole rows and folds parts of them as well: a norm over
/// the channels of a group, then the mean of each channel.
///
/// Its variables are, in this order: outer ones, those that say which part of a row it is, and those within a part
/// (Kernel::parts of them). An ordinary reduction gives a value a row, a `part` reduction one a part. The argument of a
/// `part` reduction may need the rows' results. Nothing in the kernel needs a part's result but the part's own outputs,
/// which are made of results of parts, constants, places and loads that are one for the whole part, and of nothing that
/// belongs to the row. Kinds of `part` reductions are sum, product, max and min. Pure; thread-safe.
namespace planish::codegen {

/// What a node's value depends on.
struct SegmentLevel {
  bool outer = false, head = false, within = false;  ///< the variables of each group
  bool of_row = false;                               ///< results of rows
  bool of_part = false;                              ///< results of parts
};
/// One for each node.
std::vector<SegmentLevel> segment_levels(const Kernel& kernel);

/// Elements of a part, and how many parts a row has.
std::int64_t part_length(const Kernel& kernel);
std::int64_t parts_of_row(const Kernel& kernel);

/// Elements of which at least one piece consists, whose fold is put aside for the next launch: what is put aside is
/// then a 64th of what is read. A part has a multiple of so many. 0 where no load moves along the parts.
std::int64_t least_piece(const Kernel& kernel);

/// Empty if the above holds, memory runs along the parts, and the kernel can be emitted on every device; else why not.
std::string segments_broken(const Kernel& kernel);

}  // namespace planish::codegen
