#include "search/region_search.h"

#include <algorithm>
#include <utility>

namespace planish::search {

RegionSearch::RegionSearch(std::shared_ptr<const coder::Domain> domain, std::uint64_t seed, double bound_ms,
                           RegionOptions options)
    : domain_(std::move(domain)), rng_(seed), bound_ms_(bound_ms), options_(options) {
  for (auto& genome : domain_->seeds()) push(std::move(genome));
}

void RegionSearch::push(codegen::Genome genome) {
  if (proposed_.contains(genome) || std::ranges::find(queue_, genome) != queue_.end()) return;
  queue_.push_back(std::move(genome));
}

double RegionSearch::best_ms() const {
  return best_ ? best_->ms : no_time;
}

bool RegionSearch::at_speed_of_light() const {
  return bound_ms_ > 0 && best_ && bound_ms_ / best_->ms >= options_.stop_fraction;
}

void RegionSearch::start_climb_from_best_of_draws() {
  // A climb begins at the best of what was drawn for it, or at the best of all where nothing drawn works.
  if (drawn_) here_ = drawn_;
  if (!here_) here_ = best_;
  drawn_.reset();
  moved_ = true;
  phase_ = Phase::climb;
}

void RegionSearch::refill() {
  if (phase_ == Phase::seeds) {
    phase_ = Phase::randoms;
    for (int i = 0; i < options_.randoms; ++i) push(domain_->random(rng_));
    return;
  }
  if (phase_ == Phase::randoms || phase_ == Phase::restart) {
    start_climb_from_best_of_draws();
  }
  if (phase_ == Phase::climb && here_ && moved_) {
    moved_ = false;
    auto around = domain_->neighbours(here_->genome);
    std::shuffle(around.begin(), around.end(), rng_);
    for (auto& genome : around) push(std::move(genome));
    if (!queue_.empty()) return;
  }
  // The climb stands on a peak, or nothing has worked yet: draw afresh, around the elites and anywhere.
  phase_ = Phase::restart;
  drawn_.reset();
  for (int i = 0; i < options_.restart_draws; ++i) {
    const std::size_t elites = std::min<std::size_t>(screened_.size(), 5);
    if (i % 2 == 0 && elites > 0) {
      const std::size_t pick = static_cast<std::size_t>(rng_() % elites);
      push(domain_->mutate(screened_[pick].genome, rng_));
    } else {
      push(domain_->random(rng_));
    }
  }
}

std::optional<codegen::Genome> RegionSearch::propose() {
  if (done()) return std::nullopt;
  // A few fruitless rounds in a row mean that (nearly) every legal genome was proposed.
  for (int round = 0; queue_.empty(); ++round) {
    if (round == 6) {
      exhausted_ = true;
      return std::nullopt;
    }
    refill();
  }
  codegen::Genome genome = std::move(queue_.front());
  queue_.pop_front();
  proposed_.insert(genome);
  return genome;
}

Answer RegionSearch::tell(const codegen::Genome& genome, const Told& told) {
  if (!told.program.empty()) programs_.insert(told.program);
  if (!told.ok) return Answer::rejected;
  Scored scored{genome, told.median_ms, told.program};
  const auto at = std::ranges::upper_bound(screened_, scored.ms, {}, &Scored::ms);
  screened_.insert(at, scored);
  if (!drawn_ || scored.ms < drawn_->ms) drawn_ = scored;
  if (phase_ == Phase::climb && (!here_ || scored.ms < here_->ms)) {
    here_ = scored;
    moved_ = true;
    queue_.clear();  // neighbours of a point that has been overtaken
  }
  if (best_ && scored.ms >= best_->ms) return Answer::not_better;
  best_ = std::move(scored);
  return Answer::improved;
}

std::optional<codegen::Genome> RegionSearch::propose_final() {
  if (finals_ok_ >= options_.finalists || static_cast<int>(finals_.size()) >= options_.finalist_tries) {
    return std::nullopt;
  }
  for (const Scored& scored : screened_) {
    if (finals_.insert(scored.genome).second) return scored.genome;
  }
  return std::nullopt;
}

Answer RegionSearch::tell_final(const codegen::Genome& genome, const Told& told) {
  if (!told.ok) return Answer::rejected;
  ++finals_ok_;
  if (winner_ && told.median_ms >= winner_->ms) return Answer::not_better;
  winner_ = Scored{genome, told.median_ms, told.program};
  return Answer::improved;
}

}  // namespace planish::search
