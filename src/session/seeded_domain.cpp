#include "session/seeded_domain.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <utility>

namespace planish::session {
namespace {

class SeededDomain : public coder::Domain {
 public:
  SeededDomain(std::shared_ptr<const coder::Domain> domain, std::vector<codegen::Genome> seeds)
      : domain_(std::move(domain)), seeds_(std::move(seeds)) {}
  std::vector<codegen::Gene> genes() const override { return domain_->genes(); }
  bool legal(const codegen::Genome& genome) const override { return domain_->legal(genome); }
  std::vector<codegen::Genome> seeds() const override { return seeds_; }
  codegen::Genome random(std::mt19937_64& rng) const override { return domain_->random(rng); }
  std::vector<codegen::Genome> neighbours(const codegen::Genome& genome) const override {
    return domain_->neighbours(genome);
  }
  codegen::Genome mutate(const codegen::Genome& genome, std::mt19937_64& rng) const override {
    return domain_->mutate(genome, rng);
  }
  Result<coder::Candidate> build(const codegen::Genome& genome) const override { return domain_->build(genome); }
  Result<coder::Candidate> build_source(std::string_view source) const override {
    return domain_->build_source(source);
  }
  Result<std::string> source(const codegen::Genome& genome) const override { return domain_->source(genome); }
  std::string description() const override { return domain_->description(); }
  std::string topic() const override { return domain_->topic(); }

 private:
  std::shared_ptr<const coder::Domain> domain_;
  std::vector<codegen::Genome> seeds_;
};

/// Another kernel's genome may have other genes, or values that make no sense here. Nothing where it cannot be had.
std::optional<codegen::Genome> adapted(const coder::Domain& domain, const std::vector<codegen::Gene>& genes,
                                       codegen::Genome genome) {
  for (const codegen::Gene& gene : genes) {
    if (gene.choices.empty()) continue;
    const auto [at, missing] = genome.try_emplace(gene.name, gene.choices.front());
    if (!missing && std::ranges::find(gene.choices, at->second) == gene.choices.end()) return std::nullopt;
  }
  if (genome.size() != genes.size() || !domain.legal(genome)) return std::nullopt;
  return genome;
}

}  // namespace

std::shared_ptr<const coder::Domain> with_seeds(std::shared_ptr<const coder::Domain> domain,
                                                std::vector<codegen::Genome> known, bool first, Fitted* fitted) {
  const auto genes = domain->genes();
  std::vector<codegen::Genome> fitting;
  Fitted counts;
  for (const codegen::Genome& genome : known) {
    auto here = adapted(*domain, genes, genome);
    if (!here) {
      ++counts.left_out;
      continue;
    }
    ++counts.taken;
    counts.completed += genome.size() < genes.size() ? 1 : 0;
    if (std::ranges::find(fitting, *here) == fitting.end()) fitting.push_back(std::move(*here));
  }
  if (fitted != nullptr) *fitted = counts;
  known = std::move(fitting);
  if (known.empty()) return domain;
  std::vector<codegen::Genome> seeds = domain->seeds();
  std::erase_if(first ? seeds : known, [&](const codegen::Genome& genome) {
    return std::ranges::find(first ? known : seeds, genome) != (first ? known : seeds).end();
  });
  seeds.insert(first ? seeds.begin() : seeds.end(), known.begin(), known.end());
  return std::make_shared<SeededDomain>(std::move(domain), std::move(seeds));
}

std::string genes_text(const std::vector<codegen::Gene>& genes) {
  std::string out;
  for (const codegen::Gene& gene : genes)
    out += fmt::format("{}{}={}", out.empty() ? "" : " ", gene.name, fmt::join(gene.choices, ","));
  return out;
}

Result<std::vector<codegen::Gene>> genes_from_text(const std::string& text) {
  std::vector<codegen::Gene> out;
  std::string_view left = text;
  while (!left.empty()) {
    const std::string_view word = left.substr(0, left.find(' '));
    left.remove_prefix(std::min(word.size() + 1, left.size()));
    const std::size_t equals = word.find('=');
    bool good = equals != std::string_view::npos && equals > 0;
    codegen::Gene gene;
    if (good) gene.name = word.substr(0, equals);
    std::string_view choices = good ? word.substr(equals + 1) : std::string_view();
    while (good && !choices.empty()) {
      const std::string_view one = choices.substr(0, choices.find(','));
      choices.remove_prefix(std::min(one.size() + 1, choices.size()));
      std::int64_t value = 0;
      const auto [end, code] = std::from_chars(one.data(), one.data() + one.size(), value);
      good = code == std::errc{} && end == one.data() + one.size();
      gene.choices.push_back(value);
    }
    if (!good) return fail("store_corrupt", fmt::format("'{}' is no gene with its choices", word));
    out.push_back(std::move(gene));
  }
  return out;
}

}  // namespace planish::session
