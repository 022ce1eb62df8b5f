#include "codegen/passes.h"

namespace planish::codegen {

std::optional<DType> half_type(const Kernel& kernel, int factor) {
  const Node* node = &kernel.nodes[static_cast<std::size_t>(factor)];
  if (node->op == Op::cast && !node->rounds) node = &kernel.nodes[static_cast<std::size_t>(node->args[0])];
  if (is_half(node->dtype) && (node->op == Op::load || (node->op == Op::cast && node->rounds))) return node->dtype;
  return std::nullopt;
}

bool has_eight_bits(const Kernel& kernel, int factor) {
  const Node* node = &kernel.nodes[static_cast<std::size_t>(factor)];
  while (node->op == Op::cast && (node->dtype == DType::f32 || is_half(node->dtype)))
    node = &kernel.nodes[static_cast<std::size_t>(node->args[0])];
  if (node->op == Op::cast) return is_float8(node->dtype);
  return node->op == Op::load && (is_float8(node->dtype) || node->dtype == DType::i8 || node->dtype == DType::u8);
}

std::optional<DType> common_half_type(const Kernel& kernel, int first, int second) {
  const auto a = half_type(kernel, first), b = half_type(kernel, second);
  if (a && b) return a == b ? a : std::nullopt;
  if (a) return has_eight_bits(kernel, second) ? a : std::nullopt;
  if (!has_eight_bits(kernel, first)) return std::nullopt;
  return b ? b : has_eight_bits(kernel, second) ? std::optional(DType::bf16) : std::nullopt;
}

int contraction_passes(const Kernel& kernel) {
  const Node& product = kernel.nodes[static_cast<std::size_t>(kernel.reductions[0].arg)];
  return common_half_type(kernel, product.args[0], product.args[1]) ? 1 : 3;
}

bool rounds_factors(const Genome& genome) {
  return gene(genome, "passes", 3) == 1;
}

bool may_round(const Kernel& kernel) {
  return kernel.nodes[static_cast<std::size_t>(kernel.reductions[0].arg)].rounds;
}

}  // namespace planish::codegen
