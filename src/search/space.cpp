#include "search/space.h"

#include <algorithm>
#include <utility>

namespace planish::search {
namespace {

constexpr std::size_t longest_list = 255;
/// A pair that was met this often and never in a legal genome is taken for impossible.
constexpr int enough = 48;
/// Above this the pair tables would not be small any more.
constexpr std::size_t most_pairs = 1U << 18U;

}  // namespace

Space::Space(std::shared_ptr<const coder::Domain> domain) : domain_(std::move(domain)), all_(domain_->genes()) {
  const auto seeds = domain_->seeds();
  std::size_t table = 0;
  for (const codegen::Gene& gene : all_) {
    if (gene.choices.empty()) continue;
    if (gene.choices.size() == 1 || static_cast<int>(open_.size()) == Code::most) {
      fixed_[gene.name] = gene.choices.front();
      if (!seeds.empty() && seeds.front().contains(gene.name)) fixed_[gene.name] = seeds.front().at(gene.name);
      continue;
    }
    open_.push_back(gene);
    if (gene.choices.size() > longest_list) open_.back().choices.resize(longest_list);
    counts_.push_back(static_cast<int>(open_.back().choices.size()));
    size_ *= counts_.back();
  }
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      starts_.push_back(table);
      table += static_cast<std::size_t>(counts_[i] * counts_[j]);
    }
  }
  if (table <= most_pairs) pairs_.resize(table);
}

std::optional<Code> Space::encode(const codegen::Genome& genome) const {
  if (genome.size() != open_.size() + fixed_.size()) return std::nullopt;
  for (const auto& [name, value] : fixed_) {
    const auto found = genome.find(name);
    if (found == genome.end() || found->second != value) return std::nullopt;
  }
  Code code;
  for (std::size_t i = 0; i < open_.size(); ++i) {
    const auto found = genome.find(open_[i].name);
    if (found == genome.end()) return std::nullopt;
    const auto at = std::ranges::find(open_[i].choices, found->second);
    if (at == open_[i].choices.end()) return std::nullopt;
    code.at[i] = static_cast<std::uint8_t>(at - open_[i].choices.begin());
  }
  return code;
}

codegen::Genome Space::decode(const Code& code) const {
  codegen::Genome out = fixed_;
  for (std::size_t i = 0; i < open_.size(); ++i) out[open_[i].name] = open_[i].choices[code.at[i]];
  return out;
}

const codegen::Genome& Space::view(const Code& code) const {
  if (slots_.empty()) {
    scratch_ = decode(code);
    for (const codegen::Gene& gene : open_) slots_.push_back(&scratch_.find(gene.name)->second);
  }
  for (std::size_t i = 0; i < slots_.size(); ++i) *slots_[i] = open_[i].choices[code.at[i]];
  return scratch_;
}

std::uint64_t Space::key(const Code& code) const {
  std::uint64_t out = 0;
  if (size_ < 0x1p63) {
    for (std::size_t i = 0; i < counts_.size(); ++i) out = out * static_cast<std::uint64_t>(counts_[i]) + code.at[i];
    return out;
  }
  out = 0xcbf29ce484222325ULL;
  for (std::size_t i = 0; i < counts_.size(); ++i) out = (out ^ (code.at[i] + 1U)) * 0x9e3779b97f4a7c15ULL;
  return out ^ (out >> 29U);
}

Code Space::numbered(std::uint64_t number) const {
  Code code;
  for (std::size_t i = counts_.size(); i-- > 0;) {
    code.at[i] = static_cast<std::uint8_t>(number % static_cast<std::uint64_t>(counts_[i]));
    number /= static_cast<std::uint64_t>(counts_[i]);
  }
  return code;
}

Code Space::draw(std::mt19937_64& rng) const {
  Code code;
  for (std::size_t i = 0; i < counts_.size(); ++i)
    code.at[i] = static_cast<std::uint8_t>(pick(rng, static_cast<std::size_t>(counts_[i])));
  return code;
}

bool Space::legal(const Code& code) {
  // Operators come back to the neighbours of the same elites: many are asked about again and again.
  const std::uint64_t known = key(code);
  if (legal_.contains(known)) return true;
  if (illegal_.contains(known)) return false;
  const bool yes = domain_->legal(view(code));
  (yes ? legal_ : illegal_).insert(known);
  if (pairs_.empty()) return yes;
  for (std::size_t i = 1, at = 0; i < counts_.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j, ++at) {
      Pair& one = pairs_[pair(at, i, j, code)];
      if (one.met < enough) ++one.met;
      one.legal = one.legal || yes;
    }
  }
  return yes;
}

bool Space::plausible(const Code& code) const {
  if (pairs_.empty()) return true;
  for (std::size_t i = 1, at = 0; i < counts_.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j, ++at) {
      const Pair& one = pairs_[pair(at, i, j, code)];
      if (one.met >= enough && !one.legal) return false;
    }
  }
  return true;
}

}  // namespace planish::search
