#include "codegen/templates/genomes.h"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/emit/float8.h"
#include "codegen/templates/template.h"

namespace planish::codegen {
namespace {

std::size_t draw(std::mt19937_64& rng, std::size_t n) {
  // Not std::uniform_int_distribution: its results differ between standard libraries, and runs must replay everywhere.
  return static_cast<std::size_t>(rng() % n);
}

constexpr const char* cooperative_gene = "cooperative";
constexpr std::size_t cooperative_draws = 4;  // one draw in so many has a team, where a kernel can have some

/// Genes that a draw leaves at their first choice. Another language is a different way altogether: tried as a seed, not
/// drawn. So is a cooperative group of blocks, which most genes rule out: draws have it on purpose, without what it
/// does not know.
bool stays_first(const GeneInfo* info, bool team) {
  if (info == nullptr) return false;
  return info->seeds_only || info->in_cooperative == (team ? InCooperative::foreign : InCooperative::own);
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
    if (find_gene(known, name) == nullptr) return fmt::format("gene {} is unknown here", name);
  }
  return {};
}

/// What no template has a place for.
Status printable(const Kernel& kernel) {
  if (kernel.outputs.empty()) return fail("unsupported", "the kernel has no outputs");
  for (const auto& input : kernel.inputs) {
    if (input.dtype == DType::other)
      return fail("unsupported", "a kernel input has an element type that kernels do not know");
  }
  if (kernel.outer_extent() == 0 || kernel.inner_extent() == 0)
    return fail("unsupported", "the kernel's space is empty");
  return {};
}

}  // namespace

std::vector<Gene> genes(const Kernel& kernel, const Device& device) {
  return schedule_of(kernel, device)->genes();
}

std::string schedule_lacks(const Kernel& kernel, const Device& device) {
  const Status able = printable(kernel);
  return able ? schedule_of(kernel, device)->lacks() : able.error().message;
}

TensorLoop tensor_loop(const Kernel& kernel, const Device& device) {
  return schedule_of(kernel, device)->tensor_loop();
}

std::string illegal(const Kernel& kernel, const Device& device, const Genome& genome) {
  const auto schedule = schedule_of(kernel, device);
  auto why = unknown_value(schedule->genes(), genome);
  return why.empty() ? schedule->illegal(genome) : why;
}

std::vector<Genome> seeds(const Kernel& kernel, const Device& device) {
  return Genomes(kernel, device).seeds();
}

Result<Emitted> emit(const Kernel& kernel, const Device& device, const Genome& genome) {
  PLANISH_CHECK(printable(kernel));  // before its genes are looked for
  return Genomes(kernel, device).emit(genome);
}

Genomes::Genomes(const Kernel& kernel, const Device& device)
    : kernel_(kernel), schedule_(schedule_of(kernel, device)), genes_(schedule_->genes()) {
  for (const Gene& gene : genes_) infos_.push_back(find_gene(gene.name));
}

Result<Emitted> Genomes::emit(const Genome& genome) const {
  PLANISH_CHECK(printable(kernel_));
  auto reason = unknown_value(genes_, genome);
  if (reason.empty()) reason = schedule_->illegal(genome);
  if (!reason.empty()) return fail("illegal_genome", "the schedule cannot be used: " + reason, "draw another genome");
  PLANISH_TRY(Emitted out, schedule_->emit(genome));
  out.source = printing::with_float8(std::move(out.source));
  for (Emitted& next : out.after) next.source = printing::with_float8(std::move(next.source));
  return out;
}

bool Genomes::legal(const Genome& genome) const {
  return schedule_->illegal(genome).empty();
}

const std::vector<Genome>& Genomes::seeds() const {
  std::call_once(found_, [this] {
    seeds_ = schedule_->seeds();
    std::erase_if(seeds_,
                  [&](const Genome& genome) { return !unknown_value(genes_, genome).empty() || !legal(genome); });
  });
  return seeds_;
}

Genome Genomes::random(std::mt19937_64& rng) const {
  const bool teams = find_gene(genes_, cooperative_gene) != nullptr;
  for (int attempt = 0; attempt < 1000; ++attempt) {
    const bool team = teams && draw(rng, cooperative_draws) == 0;
    Genome genome;
    for (std::size_t g = 0; g < genes_.size(); ++g) {
      const auto& choices = genes_[g].choices;
      genome[genes_[g].name] = choices[stays_first(infos_[g], team) ? 0 : draw(rng, choices.size())];
    }
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

}  // namespace planish::codegen
