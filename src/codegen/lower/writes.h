#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "codegen/lower/lowering.h"

/// Private to codegen/lower: values that are another one but at some places, of which a kernel writes these alone.
namespace planish::codegen {

struct Write {
  int node = -1;                    ///< of the graph
  int base = -1;                    ///< the value that it is elsewhere; -1: zeros, or nothing in particular
  std::vector<std::int64_t> shape;  ///< of what is written
};

/// Whether operators of this name overwrite places that are known at run time: they have no other form.
bool overwrites(std::string_view name);

/// How a value that the nodes inside make, and that is not given, is written over another one: by such an operator, or
/// by one that overwrites a part known before the run of what the caller finds changed. Nothing for other values.
std::optional<Write> write_inside(const ir::Graph& graph, const std::vector<bool>& inside, std::span<const int> given,
                                  int value);

/// The output for a point of what is written: the value stored there, and its place.
Result<Output> lower_write(Lowering& low, const Write& write, int value, const Coords& at);

bool writes_places(const Kernel& kernel);

/// A pointwise kernel some of whose outputs are written so gets its anchor, and its variables their order. Error kind
/// `unsupported` where it reads what it overwrites, or folds. A value that the caller does not find changed is copied,
/// and its copy overwritten: that one may be read.
Status become_scatter(Kernel& kernel, const ir::Graph& graph);

}  // namespace planish::codegen
