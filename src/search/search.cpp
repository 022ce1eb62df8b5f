#include "search/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

namespace planish::search {
namespace {

/// A candidate this much slower than the best so far is not timed to the end.
constexpr double give_up_factor = 2.5;

/// Regions of ways that seem this much slower than what they replace are measured again all the same.
constexpr double close_way = 0.1;

}  // namespace

Search::Search(std::vector<RegionSpec> regions, std::uint64_t seed, SearchOptions options)
    : specs_(std::move(regions)),
      options_(std::move(options)),
      ways_(specs_, std::move(options_.ways)),
      spent_(specs_.size(), 0) {
  for (std::size_t i = 0; i < specs_.size(); ++i) {
    // One generator a region, so that what one draws does not depend on how much another has drawn.
    std::seed_seq mix{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32U),
                      static_cast<std::uint32_t>(i)};
    std::uint32_t words[2];
    mix.generate(words, words + 2);
    const std::uint64_t own = (static_cast<std::uint64_t>(words[0]) << 32U) | words[1];
    const StrategyContext context{specs_[i], own, options_.predictor, &board_, options_.surrogate, options_.draws};
    regions_.emplace_back(
        specs_[i], [kind = options_.strategy, context] { return make_strategy(kind, context); }, options_.region);
  }
}

Proposal Search::issue(std::size_t region, RegionSearch::Idea idea) {
  Proposal proposal;
  proposal.serial = ++serial_;
  proposal.region = region;
  proposal.genome = std::move(idea.genome);
  proposal.full = idea.again;
  proposal.origin = std::move(idea.origin);
  if (specs_[region].alternative && spent_[region] == 0) proposal.origin.by = "partition";
  if (options_.predictor != nullptr)
    proposal.predicted_log_ms = options_.predictor->predicted_log_ms(specs_[region], proposal.genome);
  const double best = std::min(regions_[region].best_ms(), specs_[region].fallback_ms);
  if (!proposal.full && best < no_time) proposal.give_up_ms = best * give_up_factor;
  outstanding_.emplace(proposal.serial, proposal);
  return proposal;
}

std::vector<Standing> Search::standings(bool full) const {
  std::vector<Standing> out(specs_.size());
  for (std::size_t i = 0; i < specs_.size(); ++i) {
    const RegionSearch& region = regions_[i];
    double found = region.best_ms();
    if (full) found = region.winner() ? region.winner()->ms : no_time;
    out[i] = {std::min(found, specs_[i].fallback_ms), region.told(), region.done()};
  }
  return out;
}

std::vector<std::size_t> Search::close_ways(bool full) const {
  return ways_.worth(standings(full), close_way);
}

std::vector<Share> Search::shares() const {
  const std::vector<Standing> standing = standings(false);
  std::vector<Share> out(specs_.size());
  for (std::size_t i = 0; i < specs_.size(); ++i) {
    const double best = standing[i].best_ms;
    out[i].open = !standing[i].done;
    out[i].spent = spent_[i];
    if (specs_[i].alternative) {
      const auto promise = ways_.promise(i, standing);
      out[i].open = out[i].open && promise.has_value();
      out[i].headroom_ms = promise.value_or(0);
    } else {
      out[i].headroom_ms = best == no_time ? no_time : std::max(best - specs_[i].bound_ms, 0.0) * specs_[i].count;
    }
  }
  return out;
}

std::optional<Proposal> Search::ask() {
  if (finals_) return std::nullopt;
  while (true) {
    const int chosen = next_region(shares());
    if (chosen < 0) return std::nullopt;
    const auto i = static_cast<std::size_t>(chosen);
    if (auto idea = regions_[i].propose()) {
      Proposal proposal = issue(i, std::move(*idea));
      ++spent_[i];
      return proposal;
    }
    // It is done now: it has no share any more, and ways that replace it may be weighed.
  }
}

std::optional<Proposal> Search::ask_final() {
  if (!finals_) {
    finals_ = true;
    finals_asked_.assign(specs_.size(), 0);
    for (const RegionSpec& spec : specs_) final_.push_back(!spec.alternative);
    for (const std::size_t w : close_ways(false)) {
      for (const Way::Use& use : ways_.all()[w].by) final_[use.region] = true;
    }
  }
  // The best of every region before the second of any, and of those what gains most: the time may end on the way.
  while (true) {
    std::optional<std::size_t> next;
    for (std::size_t i = 0; i < regions_.size(); ++i) {
      if (!final_[i]) continue;
      if (!next || finals_asked_[i] < finals_asked_[*next] ||
          (finals_asked_[i] == finals_asked_[*next] && gain(i) > gain(*next)))
        next = i;
    }
    if (!next) return std::nullopt;
    if (auto genome = regions_[*next].propose_final()) {
      ++finals_asked_[*next];
      Origin origin;
      origin.by = "final";
      return issue(*next, {std::move(*genome), true, std::move(origin)});
    }
    final_[*next] = false;
  }
}

double Search::gain(std::size_t region) const {
  const double best = regions_[region].best_ms(), before = specs_[region].fallback_ms;
  return best == no_time || before == no_time ? 0 : (before - best) * specs_[region].count;
}

void Search::settle() {
  for (RegionSearch& region : regions_) region.settle();
}

FunnelCounts Search::funnel() const {
  FunnelCounts total;
  for (const RegionSearch& region : regions_) total += region.funnel();
  return total;
}

bool Search::claim_program(const Proposal& proposal, const std::string& hash) {
  RegionSearch& region = regions_[proposal.region];
  if (region.seen_program(hash)) return true;
  region.claim_program(hash);
  return false;
}

Result<Answer> Search::tell(std::int64_t serial, const Told& told) {
  const auto found = outstanding_.find(serial);
  if (found == outstanding_.end()) {
    return fail("order_violation", fmt::format("proposal {} is not outstanding", serial));
  }
  const Proposal proposal = std::move(found->second);
  outstanding_.erase(found);
  const RegionSpec& spec = specs_[proposal.region];
  RegionSearch& region = regions_[proposal.region];
  if (options_.predictor != nullptr) options_.predictor->observe(spec, proposal.genome, told);
  const Answer answer = proposal.full ? region.tell_final(proposal.genome, told) : region.tell(proposal.genome, told);
  if (answer == Answer::improved && !proposal.full) {
    const double from = spec.fallback_ms < no_time ? spec.fallback_ms : told.median_ms;
    board_.show({spec.id, proposal.genome, std::log(from / told.median_ms)});
  }
  return answer;
}

Result<Answer> Search::tell_duplicate(std::int64_t serial) {
  const auto found = outstanding_.find(serial);
  if (found == outstanding_.end()) {
    return fail("order_violation", fmt::format("proposal {} is not outstanding", serial));
  }
  // It did not cost an evaluation, so it does not count against the region's share.
  --spent_[found->second.region];
  regions_[found->second.region].tell_duplicate(found->second.genome);
  outstanding_.erase(found);
  return Answer::duplicate;
}

}  // namespace planish::search
