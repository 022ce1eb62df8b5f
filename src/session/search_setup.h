#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "evaluate/api.h"
#include "search/search.h"
#include "session/plan.h"
#include "session/seeded_domain.h"
#include "session/tuning_database.h"

namespace planish::session {

/// A search as a run makes it, and as its replay makes it again: the same regions, first guesses and predictor. Give it
/// every planned region, in order. One thread.
class SearchSetup {
 public:
  /// Borrows what is known of earlier runs, which must outlive the search.
  explicit SearchSetup(TuningDatabase& tuning);
  ~SearchSetup();

  /// A region that is searched; 0 where a time is not known.
  void add(const PlannedRegion& region, double fallback_ms, double bound_ms);
  /// Ways to cut the task, when all regions were added. One with a region that is not searched is left out.
  void add_fusions(const std::vector<PlannedFusion>& fusions);
  /// The whole task, for coders, last of all: in place of all regions and of what no region stands for. `whole_ms`:
  /// what the captured program takes, 0 where that is not known.
  void add_whole(const PlannedRegion& region, double whole_ms, double bound_ms);
  /// Of the search's ways but that one, its place among those of the plan.
  std::size_t planned_fusion(std::size_t fusion) const { return planned_fusions_[fusion]; }
  bool empty() const { return specs_.empty(); }
  /// Those added; gone once make() was called.
  const std::vector<search::RegionSpec>& specs() const { return specs_; }
  /// Of the first guesses that earlier runs left, over all regions.
  const Fitted& guesses() const { return guesses_; }
  /// Once, when all regions were added. Borrows what this owns.
  /// `how` without regions' ways and predictor, which are this one's to say.
  std::unique_ptr<search::Search> make(std::uint64_t seed, search::SearchOptions how);

  /// Evaluations under way at once: one is measured while the others compile, on about half of the cores. Few where
  /// kernels run on those same cores, and never many: what is under way is proposed without knowing the others' times.
  static int window(const DeviceFacts& device);

 private:
  class Predict;
  TuningDatabase& tuning_;
  std::vector<search::RegionSpec> specs_;
  std::vector<search::FusionPlan> fusions_;
  std::vector<std::size_t> planned_fusions_;
  std::unique_ptr<Predict> predictor_;
  Fitted guesses_;
};

}  // namespace planish::session
