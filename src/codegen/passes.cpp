#include "codegen/passes.h"

namespace planish::codegen {

int contraction_passes(const Kernel& kernel) {
  const auto is_half = [&](int id) {
    const Node* node = &kernel.nodes[static_cast<std::size_t>(id)];
    while (node->op == Op::cast) node = &kernel.nodes[static_cast<std::size_t>(node->args[0])];
    return node->op == Op::load && (node->dtype == DType::f16 || node->dtype == DType::bf16);
  };
  const Node& product = kernel.nodes[static_cast<std::size_t>(kernel.reductions[0].arg)];
  return is_half(product.args[0]) && is_half(product.args[1]) ? 1 : 3;
}

}  // namespace planish::codegen
