#include "codegen/templates/attention/attention_cost.h"

#include <algorithm>
#include <vector>

#include "codegen/attention/attention.h"
#include "codegen/attention/packing.h"
#include "codegen/cost.h"
#include "codegen/variables.h"

namespace planish::codegen {

Cost attention_cost(const Kernel& kernel) {
  Cost total;
  total.bytes = least_bytes(kernel);
  const auto variables = variables_of(kernel);
  const Reduction& product = *std::ranges::find_if(kernel.reductions, &Reduction::part);
  const Reduction& weighted = *std::ranges::max_element(kernel.reductions, {}, &Reduction::phase);
  const auto is_column = [&](std::size_t v) {
    return v + static_cast<std::size_t>(kernel.inner) < kernel.space.extents.size() &&
           !variables[static_cast<std::size_t>(product.arg)][v];
  };
  std::vector<bool> of_columns;  // by node: of something read for a column, or of the results
  const auto times = [&](std::size_t n) {
    double out = 1;
    for (std::size_t v = 0; v < kernel.space.extents.size(); ++v) {
      if (variables[n][v] && (of_columns[n] || !is_column(v))) out *= static_cast<double>(kernel.space.extents[v]);
    }
    return out;
  };
  for (std::size_t n = 0; n < kernel.nodes.size(); ++n) {
    const Node& node = kernel.nodes[n];
    bool mine = node.op == Op::reduced && &kernel.reductions[static_cast<std::size_t>(node.reduction)] == &weighted;
    for (std::size_t v = 0; v < kernel.space.extents.size(); ++v)
      mine = mine || (is_column(v) && node.op != Op::reduced && node.args.empty() && variables[n][v]);
    for (const int a : node.args) mine = mine || of_columns[static_cast<std::size_t>(a)];
    of_columns.push_back(mine);
    const auto id = static_cast<int>(n);
    if (id != product.arg && id != weighted.arg) total.flops += weight(info(node.op).cost) * times(n);
  }
  for (const Reduction& reduction : kernel.reductions) {
    const double each = times(static_cast<std::size_t>(reduction.arg));
    const bool multiplies = &reduction == &product || &reduction == &weighted;
    total.flops += (multiplies ? 2 : 1) * each;
    if (multiplies) total.products += 2 * each;
  }
  // A query sees the keys of its own sequence. How long these are is not known: as if they were equal, which is the
  // least that sequences of as many queries as keys may have.
  if (const auto parts = attention_of(kernel)) {
    if (const auto packing = attention::packing_of(kernel, *parts)) {
      total.flops /= static_cast<double>(packing->count);
      total.products /= static_cast<double>(packing->count);
    }
  }
  total.tensor_flops = 3 * total.products;
  return total;
}

}  // namespace planish::codegen
