#include "search/focus.h"

#include <algorithm>
#include <initializer_list>
#include <utility>

namespace planish::search {
namespace {

using Kinds = std::array<double, gene_kinds>;

/// 4 for what the focus is about, 1 for all else.
constexpr Kinds mostly(std::initializer_list<GeneKind> kinds) {
  Kinds out{};
  out.fill(1);
  for (const GeneKind kind : kinds) out[static_cast<std::size_t>(kind)] = 4;
  return out;
}

struct Word {
  std::string_view part;
  GeneKind kind;
};

/// The first word that occurs in a gene's name decides; longer ones first, so that `warp_tile` is no `warp`.
constexpr std::array words{Word{"precision", GeneKind::tensor},
                           Word{"scheme", GeneKind::tensor},
                           Word{"mma", GeneKind::tensor},
                           Word{"tensor", GeneKind::tensor},
                           Word{"min_blocks", GeneKind::registers},
                           Word{"unroll", GeneKind::registers},
                           Word{"thread_tile", GeneKind::registers},
                           Word{"residency", GeneKind::residency},
                           Word{"resident", GeneKind::residency},
                           Word{"buffer", GeneKind::residency},
                           Word{"shared", GeneKind::residency},
                           Word{"split", GeneKind::split},
                           Word{"cluster", GeneKind::split},
                           Word{"persistent", GeneKind::split},
                           Word{"raster", GeneKind::split},
                           Word{"stage", GeneKind::pipeline},
                           Word{"pipeline", GeneKind::pipeline},
                           Word{"prefetch", GeneKind::pipeline},
                           Word{"async", GeneKind::pipeline},
                           Word{"walk", GeneKind::pipeline},
                           Word{"hint", GeneKind::cache},
                           Word{"nt", GeneKind::cache},
                           Word{"stream", GeneKind::cache},
                           Word{"exchange", GeneKind::residency},
                           Word{"online", GeneKind::algorithm},
                           Word{"fast", GeneKind::algorithm},
                           Word{"vary", GeneKind::algorithm},
                           Word{"algo", GeneKind::algorithm},
                           Word{"vector", GeneKind::vector},
                           Word{"width", GeneKind::vector},
                           Word{"bits", GeneKind::vector},
                           Word{"layout", GeneKind::vector},
                           Word{"tile", GeneKind::tile},
                           Word{"block", GeneKind::tile},
                           Word{"warp", GeneKind::tile},
                           Word{"thread", GeneKind::tile},
                           Word{"rows", GeneKind::tile},
                           Word{"chunk", GeneKind::tile}};

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

GeneKind kind_of_gene(std::string_view name) {
  for (const Word& word : words) {
    if (word.part.size() <= 2 ? name == word.part : name.find(word.part) != std::string_view::npos) return word.kind;
  }
  return GeneKind::other;
}

std::string_view name(Operator one) {
  return operator_names[static_cast<std::size_t>(one)];
}

const std::array<Focus, focuses>& all_focuses() {
  return table;
}

}  // namespace planish::search
