#include "search/focus.h"

#include <initializer_list>

namespace planish::search {
namespace {

using codegen::GeneKind;
using Kinds = std::array<double, gene_slots>;

/// 4 for what the focus is about, 1 for all else.
constexpr Kinds mostly(std::initializer_list<GeneKind> kinds) {
  Kinds out{};
  out.fill(1);
  for (const GeneKind kind : kinds) out[static_cast<std::size_t>(kind)] = 4;
  return out;
}

constexpr std::array<std::string_view, operators> operator_names{"mutate",     "step", "follow", "cross",
                                                                 "transplant", "seed", "restart"};

constexpr std::array<Focus, focuses> table{{
    // mutate, step, follow, cross, transplant, seed, restart
    {"tensor cores", {2, 2, 2, 1, 1, 1, 1}, mostly({GeneKind::tensor, GeneKind::tile})},
    {"vector access", {2, 3, 2, 1, 1, 1, 1}, mostly({GeneKind::vector, GeneKind::cache})},
    {"register blocking", {2, 3, 2, 1, 1, 1, 1}, mostly({GeneKind::registers, GeneKind::tile})},
    {"shared-memory tiling", {2, 2, 2, 1, 1, 1, 1}, mostly({GeneKind::residency, GeneKind::tile})},
    {"fusion", {1, 1, 2, 3, 2, 1, 1}, mostly({GeneKind::residency, GeneKind::algorithm})},
    {"parallel decomposition", {2, 2, 2, 1, 1, 1, 2}, mostly({GeneKind::split, GeneKind::tile})},
    {"latency hiding", {2, 2, 2, 1, 1, 1, 1}, mostly({GeneKind::pipeline, GeneKind::registers})},
    {"algorithm", {1, 1, 1, 2, 2, 1, 3}, mostly({GeneKind::algorithm, GeneKind::split})},
}};

}  // namespace

int slot_of_gene(std::string_view name) {
  const codegen::GeneInfo* const info = codegen::find_gene(name);
  return info == nullptr ? codegen::gene_kinds : static_cast<int>(info->kind);
}

std::string_view name(Operator one) {
  return operator_names[static_cast<std::size_t>(one)];
}

const std::array<Focus, focuses>& all_focuses() {
  return table;
}

}  // namespace planish::search
