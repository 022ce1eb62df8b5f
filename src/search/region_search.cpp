#include "search/region_search.h"

#include <algorithm>
#include <utility>

namespace planish::search {
namespace {

/// A strategy that keeps proposing what was proposed has nothing left.
constexpr int most_repeats = 100;

}  // namespace

RegionSearch::RegionSearch(const RegionSpec& region, MakeStrategy make, RegionOptions options)
    : region_(region), make_(std::move(make)), options_(options) {}

Strategy& RegionSearch::strategy() {
  if (!strategy_) strategy_ = make_();
  return *strategy_;
}

bool RegionSearch::at_speed_of_light() const {
  return region_.bound_ms > 0 && best_ms() < no_time && region_.bound_ms / best_ms() >= options_.stop_fraction;
}

std::optional<RegionSearch::Idea> RegionSearch::propose() {
  if (done()) return std::nullopt;
  if (contested_ && told_ >= (rechecks_ + 1) * options_.screened_a_recheck) {
    coder::Proposal rival = std::move(contested_->proposal);
    contested_.reset();
    if (finals_.try_emplace(rival, false).second) {
      ++rechecks_;
      Origin origin;
      origin.by = "recheck";
      return Idea{std::move(rival), true, std::move(origin)};
    }
  }
  for (int repeat = 0; repeat < most_repeats; ++repeat) {
    auto genome = strategy().propose();
    if (!genome) break;
    if (add(*genome)) return Idea{std::move(*genome), false, strategy().origin()};
    strategy().tell_duplicate(*genome);
  }
  exhausted_ = true;
  return std::nullopt;
}

void RegionSearch::rank(Scored scored) {
  const auto at = std::ranges::upper_bound(screened_, scored.ms, {}, &Scored::ms);
  screened_.insert(at, std::move(scored));
}

Answer RegionSearch::tell(const coder::Proposal& proposal, const Told& told) {
  if (!told.program.empty()) programs_.insert(told.program);
  ++told_;
  if (const auto* genome = coder::genome_of(proposal)) strategy().tell(*genome, told);
  if (!told.ok) return Answer::rejected;
  const double before = best_ms();
  rank({proposal, told.median_ms, told.program});
  Added added = Added::not_better;
  if (told.cell) {
    cells_[proposal] = *told.cell;
    added = archive_.add({*told.cell, told.median_ms, told.lo_ms, told.hi_ms, proposed_[proposal]});
  }
  // Only a rival that might win is worth a full measurement; in other cells the elite stays for now.
  if (added == Added::contested && told.median_ms < before) contested_ = Contested{proposal, *told.cell};
  if (told.median_ms < before) return Answer::improved;
  return added == Added::new_cell ? Answer::new_cell : Answer::not_better;
}

std::optional<coder::Proposal> RegionSearch::propose_final() {
  // The best count, whenever they were measured again: an elite of long ago that was overtaken does not.
  int passed = 0, tried = 0;
  for (const Scored& scored : screened_) {
    if (const auto known = finals_.find(scored.proposal); known != finals_.end()) {
      ++tried;
      passed += known->second ? 1 : 0;
      if (passed >= options_.finalists || tried >= options_.finalist_tries) return std::nullopt;
      continue;
    }
    finals_[scored.proposal] = false;
    return scored.proposal;
  }
  return std::nullopt;
}

void RegionSearch::settle() {
  if (!winner_ && told_finals_ == 0 && !screened_.empty()) winner_ = screened_.front();
}

Answer RegionSearch::tell_final(const coder::Proposal& proposal, const Told& told) {
  if (told.lost) return Answer::rejected;  // as if it had not been asked for, but for the tries
  finals_[proposal] = told.ok;
  ++told_finals_;
  if (const auto* genome = coder::genome_of(proposal)) strategy().tell_again(*genome, told);
  const auto known = std::ranges::find(screened_, proposal, &Scored::proposal);
  if (!told.ok) {
    // It passed one seed and not five: it is wrong.
    archive_.drop(proposed_[proposal]);
    if (known != screened_.end()) known->ms = no_time;
    std::erase_if(screened_, [](const Scored& s) { return s.ms == no_time; });
    return Answer::rejected;
  }
  if (const auto cell = cells_.find(proposal); cell != cells_.end())
    archive_.settle({cell->second, told.median_ms, told.lo_ms, told.hi_ms, proposed_[proposal]});
  if (winner_ && told.median_ms >= winner_->ms) return Answer::not_better;
  winner_ = Scored{proposal, told.median_ms, told.program};
  return Answer::improved;
}

}  // namespace planish::search
