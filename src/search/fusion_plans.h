#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "search/region.h"

namespace planish::search {

/// Of what a way replaces: one that seems slower by less is measured again all the same, and one that gains less might
/// lose in the whole.
inline constexpr double close_way = 0.1;

/// Another way to cut the task: some regions in place of others. Regions by their places among the specs. All that
/// stand in `by` are alternatives (RegionSpec::alternative).
struct FusionPlan {
  struct Use {
    std::size_t region = 0;
    int times = 1;  ///< how many of the region are replaced, or how many of it replace them
  };
  std::vector<Use> replaces, by;
  double beside_ms = 0;  ///< what it replaces besides: steps that no region stands for
  bool whole = false;    ///< in place of all there is: it goes with no other way
};

/// What is known of a region while ways are weighed.
struct Standing {
  double best_ms = no_time;  ///< of what was found and its fallback
  std::int64_t told = 0;     ///< proposals that were told
  bool done = false;         ///< nothing more to try
};

/// Which ways deserve evaluations, and which are taken in the end. Changing the partition is an operator like others:
/// its reward is measured, and how many evaluations it gets follows from what it may still gain. Stateless: every
/// answer follows from the standings. Times a call, in ms.
class FusionPlans {
 public:
  FusionPlans() = default;
  /// Borrows the specs.
  FusionPlans(const std::vector<RegionSpec>& specs, std::vector<FusionPlan> fusions)
      : specs_(&specs), fusions_(std::move(fusions)) {}

  const std::vector<FusionPlan>& all() const { return fusions_; }

  /// What working on an alternative region may gain: what its most promising way's regions might take, against what
  /// the regions in its place take now. A region might reach its bound until its first guesses were measured; after
  /// that, a part less than its best, and the longer it was worked on, the smaller the part. Nothing where no way with
  /// it can gain, or where what it would replace is not known well enough yet.
  std::optional<double> promise(std::size_t region, const std::vector<Standing>& standings) const;

  /// What all that a way replaces takes; no_time where a region has no time.
  static double replaced_ms(const FusionPlan& fusion, const std::vector<Standing>& standings);

  /// What a way gains with the best of all its regions; negative where it loses. Nothing where one has no time.
  std::optional<double> gain(const FusionPlan& fusion, const std::vector<Standing>& standings) const;

  /// Ways that gain, or lose no more than this part of what they replace (regions are timed alone, with cold caches:
  /// the whole may say otherwise), largest gain first. No two replace the same region. Those in place of everything
  /// come last, and leave the others as they are: they are to be tried by themselves.
  std::vector<std::size_t> worth(const std::vector<Standing>& standings, double part) const;

 private:
  /// Whether enough is known of what it replaces to try for `hoped`.
  bool well_known(const FusionPlan& fusion, const std::vector<Standing>& standings, double hoped) const;
  std::optional<double> promise(const FusionPlan& fusion, const std::vector<Standing>& standings) const;

  const std::vector<RegionSpec>* specs_ = nullptr;
  std::vector<FusionPlan> fusions_;
};

}  // namespace planish::search
