#include "codegen/templates/attention/attention_cost.h"

#include <algorithm>
#include <vector>

#include "base/rounding.h"
#include "codegen/attention/attention.h"
#include "codegen/attention/half.h"
#include "codegen/cost.h"
#include "codegen/variables.h"

namespace planish::codegen {
namespace {

/// Of all pairs of a query and a key those that pass the tests of their places.
double share_that_counts(const attention::HalfAttention& half) {
  double pairs = 0;
  for (std::int64_t row = 0; row < half.rows; ++row) {
    std::int64_t begin = 0, end = half.key_count;
    for (const attention::PlaceTest& each : half.tests) {
      const attention::PlaceTest test = attention::as_guessed(half, each);
      const std::int64_t rest = test.row * row + test.constant;  // key · k + rest ≥ 0
      if (test.key > 0) begin = std::max(begin, -floor_div(rest, test.key));
      if (test.key < 0) end = std::min(end, floor_div(rest, -test.key) + 1);
      if (test.key == 0 && rest < 0) end = 0;
    }
    pairs += static_cast<double>(std::max<std::int64_t>(end - begin, 0));
  }
  return std::max(pairs, 1.0) / (static_cast<double>(half.rows) * static_cast<double>(half.key_count));
}

/// What part of the products counts: of keys that a query's place hides nothing. Sequences that lie packed see their
/// own keys; how long these are is not known: as if they were equal, which is the least that sequences of as many
/// queries as keys may have.
double share_of_products(const Kernel& kernel) {
  const auto parts = attention_of(kernel);
  if (!parts) return 1;
  const auto half = attention::half_attention_of(kernel, *parts);
  if (!half) return 1;
  return half->packing ? 1 / static_cast<double>(half->packing->count) : share_that_counts(*half);
}

}  // namespace

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
  const double share = share_of_products(kernel);
  total.flops *= share;
  total.products *= share;
  total.tensor_flops = 3 * total.products;
  return total;
}

}  // namespace planish::codegen
