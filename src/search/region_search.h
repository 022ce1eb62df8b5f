#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "search/archive.h"
#include "search/strategy.h"

namespace planish::search {

struct RegionOptions {
  int finalists = 3;       ///< measured again at level full before one of them wins
  int finalist_tries = 6;  ///< no more than this many are tried where finalists fail
  /// Elites measured again while the search goes on: at most one for so many screened. They count as finalists later.
  int screened_a_recheck = 24;
  /// A region is done at this fraction of its roofline. Above one, because the bound counts a streaming copy, and mixes
  /// with more reads than writes have been seen to run 5 % faster than a copy (docs/results/h200.md).
  double stop_fraction = 1.05;
};

/// Ask / tell for one region: a strategy proposes (and coders, through add()), this keeps what is common to all: no
/// proposal and no program twice, the ranking, the archive, the elites' second measurement. Knows no clock and no
/// process; every decision follows from the seed and the order of tells. Any number of proposals may be outstanding.
class RegionSearch {
 public:
  /// The strategy is made when it is first asked: a region that may never be searched costs nothing.
  using MakeStrategy = std::function<std::unique_ptr<Strategy>()>;
  RegionSearch(const RegionSpec& region, MakeStrategy make, RegionOptions options);

  struct Idea {
    coder::Proposal proposal;
    bool again = false;  ///< an elite, to be measured at level full
    Origin origin{};
  };
  /// The next genome; never one to screen that was before. Nothing when all that can be thought of was tried.
  std::optional<Idea> propose();
  /// A proposal of somebody else's; false where it was proposed before.
  bool add(const coder::Proposal& proposal) { return proposed_.try_emplace(proposal, proposed_.size()).second; }
  /// All that were proposed, by whomever, with their numbers: they passed, or failed, or nobody was told any more.
  const std::map<coder::Proposal, std::uint64_t>& proposals() const { return proposed_; }
  Answer tell(const coder::Proposal& proposal, const Told& told);
  /// Its program was that of an earlier proposal.
  void tell_duplicate(const coder::Proposal& proposal) {
    if (const auto* genome = coder::genome_of(proposal)) strategy().tell_duplicate(*genome);
  }

  /// True once a program with this hash was told, or announced with claim_program(), before.
  bool seen_program(const std::string& hash) const { return programs_.contains(hash); }
  /// Announces a program whose evaluation is under way.
  void claim_program(const std::string& hash) { programs_.insert(hash); }

  /// The next elite to measure at level full; nothing once enough of them are or none is left.
  std::optional<coder::Proposal> propose_final();
  /// An elite was measured at level full, at the end or (Idea::again) on the way. One that was lost stays what it was.
  Answer tell_final(const coder::Proposal& proposal, const Told& told);

  /// Where nothing was measured at level full, the best that was screened is the winner.
  void settle();

  /// Nothing more to gain (speed of light) or to try.
  bool done() const { return exhausted_ || at_speed_of_light(); }
  bool at_speed_of_light() const;
  /// Best median; no_time before the first.
  double best_ms() const { return screened_.empty() ? no_time : screened_.front().ms; }
  /// Proposals to screen that were told.
  std::int64_t told() const { return told_; }

  struct Scored {
    coder::Proposal proposal;
    double ms = no_time;
    std::string program;
  };
  /// The best of those measured at level full; after settle() see there.
  const std::optional<Scored>& winner() const { return winner_; }
  /// Those that passed, best first, by their first measurement.
  const std::vector<Scored>& ranking() const { return screened_; }
  const Archive& archive() const { return archive_; }
  FunnelCounts funnel() const { return strategy_ ? strategy_->funnel() : FunnelCounts{}; }

 private:
  void rank(Scored scored);
  Strategy& strategy();

  const RegionSpec& region_;
  MakeStrategy make_;
  std::unique_ptr<Strategy> strategy_;
  RegionOptions options_;
  Archive archive_;
  bool exhausted_ = false;
  std::int64_t told_ = 0, rechecks_ = 0, told_finals_ = 0;
  std::map<coder::Proposal, std::uint64_t> proposed_;  ///< with their ids in the archive, in order of proposing
  struct Contested {
    coder::Proposal proposal;
    Cell cell;
  };
  std::optional<Contested> contested_;  ///< the latest rival of an elite whose lead is inside the noise
  std::set<std::string> programs_;
  std::vector<Scored> screened_;            ///< those that passed, ascending by time
  std::map<coder::Proposal, bool> finals_;  ///< proposed at level full; true once it passed
  std::map<coder::Proposal, Cell> cells_;   ///< of those in ranking()
  std::optional<Scored> winner_;
};

}  // namespace planish::search
