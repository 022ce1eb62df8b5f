#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "search/board.h"
#include "search/budget.h"
#include "search/fusion_plans.h"
#include "search/region_search.h"
#include "search/schedule.h"
#include "search/seats.h"

namespace planish::search {

/// One proposal that was asked for.
struct Ask {
  std::int64_t serial = 0;  ///< names it in tell()
  std::size_t region = 0;
  coder::Proposal proposal;
  bool full = false;      ///< level full, for elites; else screen
  double give_up_ms = 0;  ///< slower than this need not be timed to the end; 0 = no limit
  Origin origin{};
  std::optional<double> predicted_log_ms{};  ///< what the predictor said before it was measured
  std::optional<std::size_t> seat{};         ///< of SearchOptions::seats; nothing for a strategy's
  bool dry = false;                          ///< of a seat's: the strategies were asked first and had nothing

  /// Of one that is a genome, as a strategy's always is.
  const codegen::Genome& genome() const { return std::get<codegen::Genome>(proposal); }
};

/// A seat's turn as it was taken once. No decision of a coder can be derived again: on a replay it is read.
struct RecordedTurn {
  std::size_t region = 0;
  std::string seat;
  coder::Proposal proposal;
  bool dry = false;
};
/// By Ask::serial. Up to `until` the seats' turns are these and no others.
struct RecordedTurns {
  std::map<std::int64_t, RecordedTurn> turns;
  std::int64_t until = 0;
};

struct SearchOptions {
  StrategyKind strategy = StrategyKind::hillclimb;
  RegionOptions region;
  Predictor* predictor = nullptr;     ///< borrowed; may be null
  bool surrogate = true;              ///< StrategyContext::surrogate
  std::int64_t draws = 0;             ///< StrategyContext::draws
  std::vector<FusionPlan> fusions{};  ///< other ways to cut the task
  std::vector<coder::Seat> seats{};
  int model_seats = 0;  ///< of them, those of language models: as many of the swarm's agents stand up for them
  RecordedTurns recorded{};
  const Schedule* schedule = nullptr;  ///< when the seats' coders are heard; borrowed, null: when they answer
  std::function<void(const SeatEvent&)> heard{};  ///< is told when they are
};

/// Ask / tell over all regions of a task, and over the ways to cut it: regions of other ways are worked on where they
/// may gain (fusion_plans.h). One thread. No clock, no process: the caller decides when the search is over.
/// Same specs, seed and order of calls: same decisions.
class Search {
 public:
  Search(std::vector<RegionSpec> regions, std::uint64_t seed, SearchOptions options = {});
  Search(const Search&) = delete;
  Search& operator=(const Search&) = delete;

  /// The next proposal; nothing when no region has anything left to try.
  std::optional<Ask> ask();
  /// After ask() gave nothing: a coder may have something later.
  bool expecting() const { return expecting_; }
  /// Waits until a coder calls, or for so long; not with a schedule.
  void wait_for_coders(double seconds) { seats_.wait(seconds); }
  /// How often ask() was called: the search's own time.
  std::int64_t polls() const { return polls_; }
  /// No coder is asked any more (Seats::dismiss()).
  void dismiss_coders() { seats_.dismiss(); }
  /// Where the coders do not do what the schedule says, that; else empty.
  const std::string& differs() const { return seats_.differs(); }
  /// The next elite to measure at level full: the best of each region, those that gain most first, then the second
  /// best. After the first call ask() gives nothing.
  std::optional<Ask> ask_final();
  /// True if this region has met the program already (evaluated or under way); otherwise notes it.
  bool claim_program(const Ask& ask, const std::string& hash);
  /// No more finals come. Where none of a region's was told, the best that was screened stands for it: the whole that
  /// it becomes part of is measured at level full in any case.
  void settle();
  /// Each proposal is told exactly once. Kind `order_violation` otherwise.
  Result<Answer> tell(std::int64_t serial, const Told& told);
  /// A proposal whose program was seen before: costs nothing, teaches nothing.
  Result<Answer> tell_duplicate(std::int64_t serial);

  const std::vector<RegionSpec>& specs() const { return specs_; }
  const RegionSearch& region(std::size_t i) const { return regions_[i]; }
  StrategyKind strategy() const { return options_.strategy; }
  const FusionPlans& fusions() const { return fusions_; }
  /// Where each region stands. At level full: only what was measured so counts.
  std::vector<Standing> standings(bool full) const;
  /// Ways that gain or come close, largest gain first; no two replace the same region.
  std::vector<std::size_t> close_fusions(bool full) const;
  /// Over all regions.
  FunnelCounts funnel() const;
  bool outstanding() const { return !outstanding_.empty(); }
  std::vector<SeatReport> seats() const { return seats_.reports(); }

 private:
  Ask issue(std::size_t region, RegionSearch::Idea idea);
  std::optional<Ask> ask_strategies();
  std::optional<Ask> ask_recorded();
  std::optional<Ask> issue_turn(std::size_t region, const std::string& seat, std::optional<std::size_t> kind,
                                coder::Proposal proposal, bool dry);
  void ask_seats();
  std::shared_ptr<const coder::Brief> brief(std::size_t region);
  coder::Feedback feedback(const Ask& ask, const Told& told) const;
  std::vector<Share> shares() const;
  /// What a region's best saves in the whole, ms; 0 where not known.
  double gain(std::size_t region) const;
  const std::vector<RegionSpec> specs_;
  SearchOptions options_;
  FusionPlans fusions_;
  Board board_;
  std::vector<RegionSearch> regions_;
  std::vector<std::int64_t> spent_;
  Seats seats_;
  std::vector<std::pair<std::int64_t, std::shared_ptr<const coder::Brief>>> briefs_;  ///< by region; when it was made
  bool expecting_ = false;
  std::int64_t polls_ = 0;
  std::map<std::int64_t, Ask> outstanding_;
  std::int64_t serial_ = 0;
  bool finals_ = false;
  std::vector<bool> final_;        ///< by region: whether it has elites to be measured at level full
  std::vector<int> finals_asked_;  ///< by region
};

}  // namespace planish::search
