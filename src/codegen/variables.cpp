#include "codegen/variables.h"

#include <cstddef>

namespace planish::codegen {

std::vector<std::vector<bool>> variables_of(const Kernel& kernel) {
  const std::size_t count = kernel.space.extents.size();
  std::vector<std::vector<bool>> all;
  for (const Node& node : kernel.nodes) {
    std::vector<bool> mine(count, false);
    // Windows over sums of products: what these are sums over is none of theirs.
    if (kernel.anchor == Anchor::contraction && node.op == Op::reduced &&
        kernel.reductions[static_cast<std::size_t>(node.reduction)].across) {
      mine = all[static_cast<std::size_t>(kernel.reductions[static_cast<std::size_t>(node.reduction)].arg)];
      const std::size_t results = count - static_cast<std::size_t>(kernel.inner + kernel.across);
      for (std::size_t v = results; v + static_cast<std::size_t>(kernel.inner) < count; ++v) mine[v] = false;
      all.push_back(std::move(mine));
      continue;
    }
    for (std::size_t v = 0; v < count; ++v) {
      const bool outer = v + static_cast<std::size_t>(kernel.inner) < count;
      const Reduction* fold =
          node.op == Op::reduced ? &kernel.reductions[static_cast<std::size_t>(node.reduction)] : nullptr;
      const bool folded = fold != nullptr && fold->across
                              ? outer && v + static_cast<std::size_t>(kernel.inner + kernel.across) >= count
                          : fold != nullptr && fold->part ? v + static_cast<std::size_t>(kernel.parts) >= count
                                                          : !outer;
      mine[v] =
          node.index.depends_on(static_cast<int>(v)) || (node.op == Op::reduced && !folded) || node.op == Op::scanned;
      for (const auto& bound : node.where) mine[v] = mine[v] || bound.e.depends_on(static_cast<int>(v));
      for (const int a : node.args) mine[v] = mine[v] || all[static_cast<std::size_t>(a)][v];
    }
    all.push_back(std::move(mine));
  }
  return all;
}

}  // namespace planish::codegen
