#include "search/hill_climb.h"

#include <algorithm>
#include <utility>

namespace planish::search {
namespace {

constexpr std::size_t elites_kept = 5;

}  // namespace

HillClimb::HillClimb(const StrategyContext& context, HillClimbOptions options)
    : domain_(context.region.domain), rng_(context.seed), options_(options) {
  for (auto& genome : domain_->seeds()) push(std::move(genome), "seed");
}

void HillClimb::push(codegen::Genome genome, std::string_view by, const codegen::Genome* parent) {
  ++funnel_.drawn;
  if (proposed_.contains(genome) || std::ranges::find(queue_, genome, &Queued::genome) != queue_.end()) return;
  ++funnel_.legal;
  Origin origin;
  origin.by = by;
  if (parent != nullptr) origin.parent = *parent;
  queue_.push_back({std::move(genome), std::move(origin)});
}

void HillClimb::start_climb_from_best_of_draws() {
  // A climb begins at the best of what was drawn for it, or at the best of all where nothing drawn works.
  if (drawn_) here_ = drawn_;
  if (!here_ && !elites_.empty()) here_ = elites_.front();
  drawn_.reset();
  moved_ = true;
  phase_ = Phase::climb;
}

void HillClimb::refill() {
  if (phase_ == Phase::seeds) {
    phase_ = Phase::randoms;
    for (int i = 0; i < options_.randoms; ++i) push(domain_->random(rng_), "draw");
    return;
  }
  if (phase_ == Phase::randoms || phase_ == Phase::restart) start_climb_from_best_of_draws();
  if (phase_ == Phase::climb && here_ && moved_) {
    moved_ = false;
    auto around = domain_->neighbours(here_->genome);
    std::shuffle(around.begin(), around.end(), rng_);
    for (auto& genome : around) push(std::move(genome), "step", &here_->genome);
    if (!queue_.empty()) return;
  }
  // The climb stands on a peak, or nothing has worked yet: draw afresh, around the elites and anywhere.
  phase_ = Phase::restart;
  drawn_.reset();
  for (int i = 0; i < options_.restart_draws; ++i) {
    if (i % 2 == 0 && !elites_.empty()) {
      const codegen::Genome& elite = elites_[static_cast<std::size_t>(rng_() % elites_.size())].genome;
      push(domain_->mutate(elite, rng_), "mutate", &elite);
    } else {
      push(domain_->random(rng_), "draw");
    }
  }
}

std::optional<codegen::Genome> HillClimb::propose() {
  // A few fruitless rounds in a row mean that (nearly) every legal genome was proposed.
  for (int round = 0; queue_.empty(); ++round) {
    if (round == 6) return std::nullopt;
    refill();
  }
  codegen::Genome genome = std::move(queue_.front().genome);
  origin_ = std::move(queue_.front().origin);
  queue_.pop_front();
  proposed_.insert(genome);
  return genome;
}

void HillClimb::tell(const codegen::Genome& genome, const Told& told) {
  if (!told.ok) return;
  const Scored scored{genome, told.median_ms};
  elites_.insert(std::ranges::upper_bound(elites_, scored.ms, {}, &Scored::ms), scored);
  if (elites_.size() > elites_kept) elites_.pop_back();
  if (!drawn_ || scored.ms < drawn_->ms) drawn_ = scored;
  if (phase_ == Phase::climb && (!here_ || scored.ms < here_->ms)) {
    here_ = scored;
    moved_ = true;
    queue_.clear();  // neighbours of a point that has been overtaken
  }
}

}  // namespace planish::search
