#include "search/draws.h"

#include <utility>

#include "search/space.h"

namespace planish::search {
namespace {

/// So many known genomes in a row mean that (nearly) every legal one was proposed.
constexpr int most_known_draws = 400;

}  // namespace

RandomSearch::RandomSearch(const StrategyContext& context) : domain_(context.region.domain), rng_(context.seed) {
  for (auto& genome : domain_->seeds()) first_.push_back(std::move(genome));
}

codegen::Genome RandomSearch::draw() {
  origin_.by = first_.empty() ? "draw" : "seed";
  if (first_.empty()) return domain_->random(rng_);
  codegen::Genome genome = std::move(first_.front());
  first_.pop_front();
  return genome;
}

std::optional<codegen::Genome> RandomSearch::propose() {
  for (int repeat = 0; repeat < most_known_draws; ++repeat) {
    codegen::Genome genome = draw();
    ++funnel_.drawn;
    if (!proposed_.insert(genome).second) continue;
    ++funnel_.legal;
    return genome;
  }
  return std::nullopt;
}

Sample::Sample(const StrategyContext& context) : RandomSearch(context), guesses_(domain_->seeds()) {}

codegen::Genome Sample::draw() {
  origin_.by = guesses_.empty() ? "draw" : "mutate";
  if (guesses_.empty()) return domain_->random(rng_);
  std::size_t guess = 0;
  while (guess + 1 < guesses_.size() && unit(rng_) < 0.5) ++guess;
  origin_.parent = guesses_[guess];
  return domain_->mutate(guesses_[guess], rng_);
}

}  // namespace planish::search
