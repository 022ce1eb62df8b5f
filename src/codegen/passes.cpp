#include "codegen/passes.h"

namespace planish::codegen {

std::optional<DType> half_type(const Kernel& kernel, int factor) {
  const Node* node = &kernel.nodes[static_cast<std::size_t>(factor)];
  if (node->op == Op::cast && !node->rounds) node = &kernel.nodes[static_cast<std::size_t>(node->args[0])];
  if (is_half(node->dtype) && (node->op == Op::load || (node->op == Op::cast && node->rounds))) return node->dtype;
  return std::nullopt;
}

int contraction_passes(const Kernel& kernel) {
  const Node& product = kernel.nodes[static_cast<std::size_t>(kernel.reductions[0].arg)];
  const auto first = half_type(kernel, product.args[0]);
  return first && first == half_type(kernel, product.args[1]) ? 1 : 3;
}

bool rounds_factors(const Genome& genome) {
  return gene(genome, "passes", 3) == 1;
}

bool may_round(const Kernel& kernel) {
  return kernel.nodes[static_cast<std::size_t>(kernel.reductions[0].arg)].rounds;
}

}  // namespace planish::codegen
