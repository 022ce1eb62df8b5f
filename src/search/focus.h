#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "codegen/gene.h"

namespace planish::search {

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

/// Slots that genes fall into: their kinds, and a last one for genes that the catalogue does not know.
inline constexpr int gene_slots = codegen::gene_kinds + 1;
int slot_of_gene(std::string_view name);

/// What an agent tends to try first: weights of operators and of kinds of genes. A prior, not a cage.
struct Focus {
  std::string_view name;
  std::array<double, operators> operator_weight;
  std::array<double, gene_slots> kind_weight;
};
inline constexpr int focuses = 8;
const std::array<Focus, focuses>& all_focuses();

}  // namespace planish::search
