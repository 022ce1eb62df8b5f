#include "table_domain.h"

#include <algorithm>

namespace planish::bench {

using codegen::Gene;
using codegen::Genome;

bool TableDomain::within(const Genome& genome) const {
  return genome.size() == all.size() && std::ranges::all_of(all, [&](const Gene& gene) {
           const auto found = genome.find(gene.name);
           return found != genome.end() && std::ranges::find(gene.choices, found->second) != gene.choices.end();
         });
}

bool TableDomain::legal(const Genome& genome) const {
  return closed ? rows.contains(genome) : within(genome);
}

Genome TableDomain::random(std::mt19937_64& rng) const {
  if (closed) return *order[rng() % order.size()];
  Genome genome;
  for (const Gene& gene : all) genome[gene.name] = gene.choices[rng() % gene.choices.size()];
  return genome;
}

std::vector<Genome> TableDomain::neighbours(const Genome& genome) const {
  std::vector<Genome> out;
  for (const Gene& gene : all) {
    const auto at = std::ranges::find(gene.choices, genome.at(gene.name)) - gene.choices.begin();
    for (const std::ptrdiff_t to : {at - 1, at + 1}) {
      if (to < 0 || to >= static_cast<std::ptrdiff_t>(gene.choices.size())) continue;
      Genome next = genome;
      next[gene.name] = gene.choices[static_cast<std::size_t>(to)];
      if (legal(next)) out.push_back(std::move(next));
    }
  }
  return out;
}

Genome TableDomain::mutate(const Genome& genome, std::mt19937_64& rng) const {
  std::vector<const Gene*> open;
  for (const Gene& gene : all) {
    if (gene.choices.size() > 1) open.push_back(&gene);
  }
  constexpr int attempts = 200;
  for (int attempt = 0; attempt < attempts && !open.empty(); ++attempt) {
    Genome next = genome;
    for (std::size_t changes = 1 + rng() % 3; changes-- > 0;) {
      const Gene& gene = *open[rng() % open.size()];
      next[gene.name] = gene.choices[rng() % gene.choices.size()];
    }
    if (next != genome && legal(next)) return next;
  }
  return random(rng);
}

Result<coder::Candidate> TableDomain::build(const Genome& genome) const {
  coder::Candidate out;
  out.proposal = genome;
  out.hash = codegen::text(genome);
  out.program = out.hash;
  return out;
}

}  // namespace planish::bench
