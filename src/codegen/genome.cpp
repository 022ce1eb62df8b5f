#include "codegen/genome.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/named_values.h"
#include "codegen/emit/cpp_emit.h"
#include "codegen/emit/cuda_emit.h"
#include "codegen/emit/cuda_plan.h"
#include "codegen/emit/triton_emit.h"
#include "codegen/genomes.h"

namespace planish::codegen {
namespace {

std::size_t draw(std::mt19937_64& rng, std::size_t n) {
  // Not std::uniform_int_distribution: its results differ between standard libraries, and runs must replay everywhere.
  return static_cast<std::size_t>(rng() % n);
}

constexpr std::string_view language_gene = "language";

constexpr std::string_view team_gene = "team";
constexpr std::size_t team_draws = 4;  // one draw in so many has a team, where a kernel can have some

/// Genes that a draw leaves at their first choice. Another language is a different way altogether: tried as a seed, not
/// drawn. So is a team of blocks, which most genes rule out: draws have it on purpose, without what it does not know.
bool stays_first(std::string_view gene, bool team) {
  if (gene == language_gene) return true;
  return team ? !printing::team_knows(gene) : printing::is_of_teams(gene);
}

bool in_triton(const Genome& genome) {
  const auto it = genome.find(language_gene);
  return it != genome.end() && it->second == static_cast<std::int64_t>(printing::Language::triton);
}

/// Why these choices cannot be had together; each of them is one of its gene's.
std::string illegal_together(const Kernel& kernel, const printing::PlanFacts* facts, const Device& device,
                             const std::vector<Gene>& known, const Genome& genome) {
  if (device.target != Target::cuda) return cpp_illegal(kernel, device, genome);
  if (in_triton(genome)) return printing::triton_illegal(kernel, known, genome);
  return facts != nullptr ? printing::cuda_illegal(kernel, *facts, device, genome)
                          : printing::cuda_illegal(kernel, device, genome);
}

/// Empty where the genome has these genes, each at one of its choices.
std::string unknown_value(const std::vector<Gene>& known, const Genome& genome) {
  for (const auto& gene : known) {
    const auto it = genome.find(gene.name);
    if (it == genome.end()) return fmt::format("gene {} is missing", gene.name);
    if (std::ranges::find(gene.choices, it->second) == gene.choices.end())
      return fmt::format("gene {} cannot be {}", gene.name, it->second);
  }
  for (const auto& [name, value] : genome) {
    if (std::ranges::find(known, name, &Gene::name) == known.end()) return fmt::format("gene {} is unknown here", name);
  }
  return {};
}

}  // namespace

std::vector<Gene> genes(const Kernel& kernel, const Device& device) {
  if (device.target != Target::cuda) return cpp_genes(kernel, device);
  auto out = printing::cuda_genes(kernel, device);
  if (device.triton && printing::triton_lacks(kernel).empty()) out.push_back({std::string(language_gene), {0, 1}});
  return out;
}

std::string illegal(const Kernel& kernel, const Device& device, const Genome& genome) {
  return illegal(kernel, device, genes(kernel, device), genome);
}

std::string illegal(const Kernel& kernel, const Device& device, const std::vector<Gene>& known, const Genome& genome) {
  auto why = unknown_value(known, genome);
  return why.empty() ? illegal_together(kernel, nullptr, device, known, genome) : why;
}

std::vector<Genome> seeds(const Kernel& kernel, const Device& device) {
  auto out = device.target == Target::cuda ? printing::cuda_seeds(kernel, device) : cpp_seeds(kernel, device);
  const auto known = genes(kernel, device);
  if (std::ranges::find(known, language_gene, &Gene::name) != known.end()) {
    for (Genome& genome : out) genome[std::string(language_gene)] = static_cast<std::int64_t>(printing::Language::cuda);
    std::ranges::copy(printing::triton_seeds(kernel, device, known), std::back_inserter(out));
  }
  std::erase_if(out, [&](const Genome& genome) { return !illegal(kernel, device, known, genome).empty(); });
  return out;
}

Genomes::Genomes(const Kernel& kernel, const Device& device)
    : kernel_(kernel), device_(device), genes_(codegen::genes(kernel, device)) {
  if (device.target == Target::cuda) facts_ = std::make_shared<printing::PlanFacts>(kernel);
}

bool Genomes::legal(const Genome& genome) const {
  return illegal_together(kernel_, facts_.get(), device_, genes_, genome).empty();
}

const std::vector<Genome>& Genomes::seeds() const {
  std::call_once(found_, [this] { seeds_ = codegen::seeds(kernel_, device_); });
  return seeds_;
}

Genome Genomes::random(std::mt19937_64& rng) const {
  const bool teams = std::ranges::find(genes_, team_gene, &Gene::name) != genes_.end();
  for (int attempt = 0; attempt < 1000; ++attempt) {
    const bool team = teams && draw(rng, team_draws) == 0;
    Genome genome;
    for (const auto& gene : genes_)
      genome[gene.name] = gene.choices[stays_first(gene.name, team) ? 0 : draw(rng, gene.choices.size())];
    if (legal(genome)) return genome;
  }
  const auto& safe = seeds();
  return safe.empty() ? Genome{} : safe[draw(rng, safe.size())];
}

std::vector<Genome> Genomes::neighbours(const Genome& genome) const {
  std::vector<Genome> out;
  for (const auto& gene : genes_) {
    const auto it = genome.find(gene.name);
    if (it == genome.end()) continue;
    const auto at = std::ranges::find(gene.choices, it->second);
    if (at == gene.choices.end()) continue;
    const auto position = at - gene.choices.begin();
    for (const std::ptrdiff_t other : {position - 1, position + 1}) {
      if (other < 0 || other >= static_cast<std::ptrdiff_t>(gene.choices.size())) continue;
      Genome next = genome;
      next[gene.name] = gene.choices[static_cast<std::size_t>(other)];
      if (unknown_value(genes_, next).empty() && legal(next)) out.push_back(std::move(next));
    }
  }
  return out;
}

Genome Genomes::mutate(const Genome& genome, std::mt19937_64& rng) const {
  std::vector<const Gene*> open;
  for (const auto& gene : genes_) {
    if (gene.choices.size() > 1) open.push_back(&gene);
  }
  if (open.empty()) return genome;
  for (int attempt = 0; attempt < 200; ++attempt) {
    Genome next = genome;
    const std::size_t changes = 1 + draw(rng, 3);
    for (std::size_t c = 0; c < changes; ++c) {
      const auto& gene = *open[draw(rng, open.size())];
      next[gene.name] = gene.choices[draw(rng, gene.choices.size())];
    }
    if (next != genome && unknown_value(genes_, next).empty() && legal(next)) return next;
  }
  return random(rng);
}

Genome random_genome(const Kernel& kernel, const Device& device, std::mt19937_64& rng) {
  return Genomes(kernel, device).random(rng);
}

std::vector<Genome> neighbours(const Kernel& kernel, const Device& device, const Genome& genome) {
  return Genomes(kernel, device).neighbours(genome);
}

Genome mutate(const Kernel& kernel, const Device& device, const Genome& genome, std::mt19937_64& rng) {
  return Genomes(kernel, device).mutate(genome, rng);
}

std::string text(const Genome& genome) {
  return named_values_text(genome);
}

Result<Genome> genome_from_text(std::string_view text) {
  return named_values_from_text<Genome>(text, "bad_genome");
}

}  // namespace planish::codegen
