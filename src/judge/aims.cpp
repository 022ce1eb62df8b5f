#include "judge/aims.h"

#include <algorithm>
#include <string>

namespace planish::judge {
namespace {

/// Whether the gene's value has a neighbour in that direction (0: any other choice).
bool exists(int direction, std::int64_t value, const codegen::Gene& gene) {
  if (gene.choices.size() < 2) return false;
  if (direction == 0) return true;
  // Choices ascend in every gene, so "larger" means a later choice.
  const auto at = std::ranges::find(gene.choices, value);
  if (at == gene.choices.end()) return false;
  return direction > 0 ? at + 1 != gene.choices.end() : at != gene.choices.begin();
}

}  // namespace

std::vector<Move> moves_for(Aim aim, double worth, const codegen::Genome& genome,
                            const std::vector<codegen::Gene>& genes) {
  std::vector<Move> out;
  for (const codegen::GeneInfo& info : codegen::gene_catalogue()) {
    const auto value = genome.find(info.name);
    const codegen::Gene* const gene = value == genome.end() ? nullptr : codegen::find_gene(genes, info.name);
    if (gene == nullptr) continue;
    for (const codegen::GeneEffect& effect : info.effects) {
      if (effect.aim != aim || !exists(effect.direction, value->second, *gene)) continue;
      out.push_back({gene->name, effect.direction, worth * effect.part});
    }
  }
  std::ranges::stable_sort(out, std::ranges::greater{}, &Move::expected_gain);
  return out;
}

}  // namespace planish::judge
