#include "judge/aims.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace planish::judge {
namespace {

struct Effect {
  Aim aim;
  std::string_view gene;
  int direction;
  double part;  ///< of the aim's worth
};

// From how the schedules work (codegen/emit): the genes of both targets. Order breaks ties.
constexpr std::array effects{
    Effect{Aim::fewer_registers, "min_blocks", +1, 0.8},
    Effect{Aim::fewer_registers, "unroll", -1, 0.7},
    Effect{Aim::fewer_registers, "residency", 0, 0.6},
    Effect{Aim::fewer_registers, "vector", -1, 0.4},
    Effect{Aim::fewer_registers, "threads", +1, 0.3},
    Effect{Aim::fewer_registers, "threads", -1, 0.2},

    Effect{Aim::more_registers, "min_blocks", -1, 0.9},
    Effect{Aim::more_registers, "unroll", -1, 0.7},
    Effect{Aim::more_registers, "residency", 0, 0.6},
    Effect{Aim::more_registers, "threads", -1, 0.5},
    Effect{Aim::more_registers, "threads", +1, 0.4},  // a resident row spread over more threads
    Effect{Aim::more_registers, "vector", -1, 0.4},
    Effect{Aim::more_registers, "cluster", +1, 0.4},

    Effect{Aim::less_shared, "cluster", +1, 0.6},
    Effect{Aim::less_shared, "residency", 0, 0.6},
    Effect{Aim::less_shared, "rows", -1, 0.6},
    Effect{Aim::less_shared, "tile", -1, 0.6},
    Effect{Aim::less_shared, "stages", -1, 0.6},
    Effect{Aim::less_shared, "walk", -1, 0.4},
    Effect{Aim::less_shared, "hold", -1, 0.3},
    Effect{Aim::less_shared, "min_blocks", -1, 0.3},

    Effect{Aim::more_in_flight, "unroll", +1, 0.7},
    Effect{Aim::more_in_flight, "vector", +1, 0.6},
    Effect{Aim::more_in_flight, "stages", +1, 0.6},
    Effect{Aim::more_in_flight, "min_blocks", +1, 0.5},
    Effect{Aim::more_in_flight, "threads", +1, 0.4},
    Effect{Aim::more_in_flight, "walk", +1, 0.3},
    Effect{Aim::more_in_flight, "residency", 0, 0.3},
    Effect{Aim::more_in_flight, "hints", 0, 0.2},

    Effect{Aim::more_blocks, "split", +1, 0.8},
    Effect{Aim::more_blocks, "threads", +1, 0.7},
    Effect{Aim::more_blocks, "rows", -1, 0.7},
    Effect{Aim::more_blocks, "chunk", -1, 0.6},
    Effect{Aim::more_blocks, "cluster", +1, 0.5},
    Effect{Aim::more_blocks, "unroll", -1, 0.4},
    Effect{Aim::more_blocks, "walk", -1, 0.4},
    Effect{Aim::more_blocks, "threads", -1, 0.3},
    Effect{Aim::more_blocks, "tile", -1, 0.3},

    Effect{Aim::even_waves, "threads", -1, 0.6},
    Effect{Aim::even_waves, "persistent", +1, 0.6},
    Effect{Aim::even_waves, "rows", -1, 0.5},
    Effect{Aim::even_waves, "walk", 0, 0.4},
    Effect{Aim::even_waves, "unroll", -1, 0.3},
    Effect{Aim::even_waves, "min_blocks", 0, 0.3},

    Effect{Aim::less_traffic, "residency", 0, 0.9},
    Effect{Aim::less_traffic, "nt", +1, 0.9},
    Effect{Aim::less_traffic, "online", +1, 0.7},
    Effect{Aim::less_traffic, "skip", +1, 0.7},
    Effect{Aim::less_traffic, "tile", +1, 0.6},
    Effect{Aim::less_traffic, "buffer", +1, 0.5},
    Effect{Aim::less_traffic, "panel", 0, 0.5},
    Effect{Aim::less_traffic, "cluster", +1, 0.4},
    Effect{Aim::less_traffic, "hold", +1, 0.4},
    Effect{Aim::less_traffic, "hints", 0, 0.3},
    Effect{Aim::less_traffic, "raster", 0, 0.3},
    Effect{Aim::less_traffic, "chunk", -1, 0.3},

    Effect{Aim::wider_access, "vector", +1, 0.9},
    Effect{Aim::wider_access, "bits", +1, 0.8},
    Effect{Aim::wider_access, "tile", +1, 0.6},
    Effect{Aim::wider_access, "vary", 0, 0.6},

    Effect{Aim::less_arithmetic, "fast", +1, 0.8},
    Effect{Aim::less_arithmetic, "bits", +1, 0.8},
    Effect{Aim::less_arithmetic, "buffer", +1, 0.5},
    Effect{Aim::less_arithmetic, "vector", +1, 0.4},
    Effect{Aim::less_arithmetic, "unroll", +1, 0.4},
    Effect{Aim::less_arithmetic, "online", -1, 0.3},

    Effect{Aim::less_coordination, "cluster", -1, 0.6},
    Effect{Aim::less_coordination, "walk", -1, 0.6},
    Effect{Aim::less_coordination, "stages", -1, 0.5},
    Effect{Aim::less_coordination, "exchange", 0, 0.3},
    Effect{Aim::less_coordination, "split", -1, 0.6},
    Effect{Aim::less_coordination, "residency", 0, 0.4},
    Effect{Aim::less_coordination, "tile", -1, 0.4},
    Effect{Aim::less_coordination, "threads", -1, 0.3},

    Effect{Aim::more_exact, "fast", -1, 0.8},
    Effect{Aim::more_exact, "online", -1, 0.3},
    Effect{Aim::more_exact, "split", +1, 0.1},

    Effect{Aim::inside_bounds, "vector", -1, 0.5},
    Effect{Aim::inside_bounds, "bits", -1, 0.4},
    Effect{Aim::inside_bounds, "tile", -1, 0.4},
    Effect{Aim::inside_bounds, "unroll", -1, 0.3},
    Effect{Aim::inside_bounds, "rows", -1, 0.3},
    Effect{Aim::inside_bounds, "cluster", -1, 0.2},
    Effect{Aim::inside_bounds, "walk", -1, 0.2},
};

bool exists(const Effect& effect, const codegen::Genome& genome, const std::vector<codegen::Gene>& genes) {
  const auto value = genome.find(effect.gene);
  const auto gene = std::ranges::find(genes, effect.gene, &codegen::Gene::name);
  if (value == genome.end() || gene == genes.end() || gene->choices.size() < 2) return false;
  if (effect.direction == 0) return true;
  // Choices ascend in every gene, so "larger" means a later choice.
  const auto at = std::ranges::find(gene->choices, value->second);
  if (at == gene->choices.end()) return false;
  return effect.direction > 0 ? at + 1 != gene->choices.end() : at != gene->choices.begin();
}

}  // namespace

std::vector<Move> moves_for(Aim aim, double worth, const codegen::Genome& genome,
                            const std::vector<codegen::Gene>& genes) {
  std::vector<Move> out;
  for (const Effect& effect : effects) {
    if (effect.aim != aim || !exists(effect, genome, genes)) continue;
    out.push_back({std::string(effect.gene), effect.direction, worth * effect.part});
  }
  std::ranges::stable_sort(out, std::ranges::greater{}, &Move::expected_gain);
  return out;
}

}  // namespace planish::judge
