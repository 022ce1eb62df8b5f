#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace planish::search {

/// What a gene decides, read from its name. A prior only: what pays is learned.
enum class GeneKind : std::uint8_t {
  tensor,     ///< precision schemes and shapes of matrix instructions
  vector,     ///< width and order of accesses
  registers,  ///< unrolling, blocks asked for, tiles a thread
  tile,       ///< tiles of a block, threads, warps
  residency,  ///< what stays on chip between passes
  split,      ///< who shares the work: splits, clusters, persistent blocks
  pipeline,   ///< stages, prefetching, walking
  cache,      ///< hints and streaming stores
  algorithm,  ///< another way to compute the same
  other
};
inline constexpr int gene_kinds = 10;
GeneKind kind_of_gene(std::string_view name);

/// How a new genome comes about.
enum class Operator : std::uint8_t {
  mutate,      ///< one to three genes of an elite drawn anew
  step,        ///< one gene of an elite one choice further
  follow,      ///< what the judge said of an elite
  cross,       ///< two elites' genes mixed
  transplant,  ///< genes of another region's best
  seed,        ///< one of the coder's first guesses, a few genes drawn anew
  restart      ///< drawn anywhere
};
inline constexpr int operators = 7;
std::string_view name(Operator one);

/// What an agent tends to try first: weights of operators and of kinds of genes. A prior, not a cage.
struct Focus {
  std::string_view name;
  std::array<double, operators> operator_weight;
  std::array<double, gene_kinds> kind_weight;
};
inline constexpr int focuses = 8;
const std::array<Focus, focuses>& all_focuses();

}  // namespace planish::search
