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

}  // namespace

Search::Search(std::vector<RegionSpec> regions, std::uint64_t seed, SearchOptions options)
    : specs_(std::move(regions)),
      options_(std::move(options)),
      fusions_(specs_, std::move(options_.fusions)),
      spent_(specs_.size(), 0),
      seats_(std::move(options_.seats), specs_.size(), seed, options_.schedule, std::move(options_.heard)),
      briefs_(specs_.size()) {
  for (std::size_t i = 0; i < specs_.size(); ++i) {
    // One generator a region, so that what one draws does not depend on how much another has drawn.
    std::seed_seq mix{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32U),
                      static_cast<std::uint32_t>(i)};
    std::uint32_t words[2];
    mix.generate(words, words + 2);
    const std::uint64_t own = (static_cast<std::uint64_t>(words[0]) << 32U) | words[1];
    const StrategyContext context{specs_[i],
                                  own,
                                  options_.predictor,
                                  &board_,
                                  options_.surrogate,
                                  options_.draws,
                                  std::max(swarm_seats - options_.model_seats, 1)};
    regions_.emplace_back(
        specs_[i], [kind = options_.strategy, context] { return make_strategy(kind, context); }, options_.region);
  }
}

Ask Search::issue(std::size_t region, RegionSearch::Idea idea) {
  Ask ask;
  ask.serial = ++serial_;
  ask.region = region;
  ask.proposal = std::move(idea.proposal);
  ask.full = idea.again;
  ask.origin = std::move(idea.origin);
  const auto* genome = coder::genome_of(ask.proposal);
  if (specs_[region].alternative && spent_[region] == 0 && genome != nullptr) ask.origin.by = "partition";
  if (options_.predictor != nullptr && genome != nullptr)
    ask.predicted_log_ms = options_.predictor->predicted_log_ms(specs_[region], *genome);
  const double best = std::min(regions_[region].best_ms(), specs_[region].fallback_ms);
  if (!ask.full && best < no_time) ask.give_up_ms = best * give_up_factor;
  outstanding_.emplace(ask.serial, ask);
  return ask;
}

std::vector<Standing> Search::standings(bool full) const {
  std::vector<Standing> out(specs_.size());
  for (std::size_t i = 0; i < specs_.size(); ++i) {
    const RegionSearch& region = regions_[i];
    double found = region.best_ms();
    if (full) found = region.winner() ? region.winner()->ms : no_time;
    // PyTorch's form of the whole is what stands there anyway: nothing to put in place of it.
    if (!specs_[i].sources_only) found = std::min(found, specs_[i].fallback_ms);
    out[i] = {found, region.told(), region.done()};
  }
  return out;
}

std::vector<std::size_t> Search::close_fusions(bool full) const {
  return fusions_.worth(standings(full), close_way);
}

std::vector<Share> Search::shares() const {
  const std::vector<Standing> standing = standings(false);
  std::vector<Share> out(specs_.size());
  for (std::size_t i = 0; i < specs_.size(); ++i) {
    const double best = standing[i].best_ms;
    out[i].open = !standing[i].done;
    out[i].spent = spent_[i];
    if (specs_[i].sources_only) {
      out[i].open = false;  // to strategies
      out[i].headroom_ms = best == no_time ? no_time : std::max(best - specs_[i].bound_ms, 0.0);
    } else if (specs_[i].alternative) {
      const auto promise = fusions_.promise(i, standing);
      out[i].open = out[i].open && promise.has_value();
      out[i].headroom_ms = promise.value_or(0);
    } else {
      out[i].headroom_ms = best == no_time ? no_time : std::max(best - specs_[i].bound_ms, 0.0) * specs_[i].count;
    }
  }
  return out;
}

std::optional<Ask> Search::ask() {
  expecting_ = false;
  if (finals_) return std::nullopt;
  ++polls_;
  if (auto recorded = ask_recorded()) return recorded;
  if (seats_.empty() || serial_ + 1 <= options_.recorded.until) return ask_strategies();
  ask_seats();
  bool dry = false;
  while (true) {
    if (auto turn = seats_.take(!dry)) {
      auto ask = issue_turn(turn->region, seats_.name(turn->kind), turn->kind, std::move(turn->proposal), dry);
      if (ask) return ask;
      continue;
    }
    if (dry) break;
    if (auto ask = ask_strategies()) return ask;
    dry = true;
  }
  expecting_ = seats_.expecting();
  return std::nullopt;
}

/// A turn that was taken under the next number once.
std::optional<Ask> Search::ask_recorded() {
  const auto found = options_.recorded.turns.find(serial_ + 1);
  if (found == options_.recorded.turns.end()) return std::nullopt;
  RecordedTurn& turn = found->second;
  // Asking changes what they have left, so it is repeated.
  if (turn.dry) {
    if (auto unexpected = ask_strategies()) return unexpected;
  }
  std::optional<std::size_t> kind;
  for (std::size_t k = 0; k < seats_.size(); ++k) {
    if (seats_.name(k) == turn.seat) kind = k;
  }
  return issue_turn(turn.region, turn.seat, kind, turn.proposal, turn.dry);
}

/// Nothing where the region has met the proposal already: then its coder is told so, and it costs no number.
std::optional<Ask> Search::issue_turn(std::size_t region, const std::string& seat, std::optional<std::size_t> kind,
                                      coder::Proposal proposal, bool dry) {
  if (!regions_[region].add(proposal)) {
    coder::Feedback known;
    known.proposal = std::move(proposal);
    known.duplicate = true;
    if (kind) seats_.tell(region, *kind, known);
    return std::nullopt;
  }
  RegionSearch::Idea idea{std::move(proposal), false, {}};
  idea.origin.by = "coder";
  idea.origin.seat = seat;
  Ask ask = issue(region, std::move(idea));
  ask.seat = kind;
  ask.dry = dry;
  outstanding_.at(ask.serial).seat = kind;
  ++spent_[region];
  return ask;
}

/// Every coder that is there, and those of one region more: the one furthest behind its share.
void Search::ask_seats() {
  std::vector<Share> open = shares();
  for (std::size_t i = 0; i < open.size(); ++i) {
    // A strategy that has nothing left says nothing of what a coder may have.
    open[i].open =
        !seats_.made(i) && !regions_[i].at_speed_of_light() && (!specs_[i].alternative || specs_[i].sources_only);
    if (!seats_.made(i)) continue;
    if (regions_[i].at_speed_of_light()) {
      seats_.close(i);
    } else {
      seats_.ask(polls_, i, *brief(i), false);
    }
  }
  if (const int next = next_region(open); next >= 0) {
    const auto i = static_cast<std::size_t>(next);
    seats_.ask(polls_, i, *brief(i), true);
  }
}

std::shared_ptr<const coder::Brief> Search::brief(std::size_t region) {
  constexpr std::size_t most = 3;
  auto& [made, known] = briefs_[region];
  const RegionSearch& search = regions_[region];
  if (known && made == search.told()) return known;
  const RegionSpec& spec = specs_[region];
  auto out = std::make_shared<coder::Brief>();
  out->region = spec.id;
  out->domain = spec.domain;
  out->bound_ms = spec.bound_ms;
  out->fallback_ms = spec.fallback_ms == no_time ? 0 : spec.fallback_ms;
  for (const RegionSearch::Scored& scored : search.ranking()) {
    if (out->best.size() == most) break;
    out->best.push_back({scored.proposal, scored.program, scored.ms});
  }
  made = search.told();
  return known = std::move(out);
}

coder::Feedback Search::feedback(const Ask& ask, const Told& told) const {
  coder::Feedback out;
  out.proposal = ask.proposal;
  out.program = told.program;
  out.ok = told.ok;
  out.median_ms = told.median_ms;
  out.error = told.error;
  out.evaluation = told.evaluation;
  out.advice = told.advice;
  out.issue = told.issue;
  return out;
}

std::optional<Ask> Search::ask_strategies() {
  while (true) {
    const int chosen = next_region(shares());
    if (chosen < 0) return std::nullopt;
    const auto i = static_cast<std::size_t>(chosen);
    if (auto idea = regions_[i].propose()) {
      Ask ask = issue(i, std::move(*idea));
      ++spent_[i];
      return ask;
    }
    // It is done now: it has no share any more, and ways that replace it may be weighed.
  }
}

std::optional<Ask> Search::ask_final() {
  if (!finals_) {
    finals_ = true;
    finals_asked_.assign(specs_.size(), 0);
    for (const RegionSpec& spec : specs_) final_.push_back(!spec.alternative);
    for (const std::size_t w : close_fusions(false)) {
      for (const FusionPlan::Use& use : fusions_.all()[w].by) final_[use.region] = true;
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
    if (auto elite = regions_[*next].propose_final()) {
      ++finals_asked_[*next];
      Origin origin;
      origin.by = "final";
      return issue(*next, {std::move(*elite), true, std::move(origin)});
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

bool Search::claim_program(const Ask& ask, const std::string& hash) {
  RegionSearch& region = regions_[ask.region];
  if (region.seen_program(hash)) return true;
  region.claim_program(hash);
  return false;
}

Result<Answer> Search::tell(std::int64_t serial, const Told& told) {
  const auto found = outstanding_.find(serial);
  if (found == outstanding_.end()) {
    return fail("order_violation", fmt::format("proposal {} is not outstanding", serial));
  }
  const Ask ask = std::move(found->second);
  outstanding_.erase(found);
  const RegionSpec& spec = specs_[ask.region];
  RegionSearch& region = regions_[ask.region];
  const auto* genome = coder::genome_of(ask.proposal);
  if (options_.predictor != nullptr && genome != nullptr) options_.predictor->observe(spec, *genome, told);
  if (ask.full) return region.tell_final(ask.proposal, told);
  const double before = std::min(region.best_ms(), spec.fallback_ms);
  const Answer answer = region.tell(ask.proposal, told);
  if (answer == Answer::improved && genome != nullptr) {
    const double from = spec.fallback_ms < no_time ? spec.fallback_ms : told.median_ms;
    board_.show({spec.id, *genome, std::log(from / told.median_ms)});
  }
  if (!seats_.empty()) {
    const bool gained = answer == Answer::improved && before < no_time && told.median_ms < before;
    seats_.reward(ask.seat, gained ? std::log(before / told.median_ms) : 0);
    if (ask.seat) seats_.tell(ask.region, *ask.seat, feedback(ask, told));
  }
  return answer;
}

Result<Answer> Search::tell_duplicate(std::int64_t serial) {
  const auto found = outstanding_.find(serial);
  if (found == outstanding_.end()) {
    return fail("order_violation", fmt::format("proposal {} is not outstanding", serial));
  }
  const Ask ask = std::move(found->second);
  outstanding_.erase(found);
  // It did not cost an evaluation, so it does not count against the region's share.
  --spent_[ask.region];
  regions_[ask.region].tell_duplicate(ask.proposal);
  if (ask.seat) {
    coder::Feedback known = feedback(ask, {});
    known.duplicate = true;
    seats_.tell(ask.region, *ask.seat, known);
  }
  return Answer::duplicate;
}

}  // namespace planish::search
