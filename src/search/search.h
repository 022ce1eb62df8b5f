#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "coder/domain.h"
#include "search/budget.h"
#include "search/region_search.h"

namespace planish::search {

/// One thing to search: a region of which the task has `count`.
struct RegionSpec {
  std::string id;
  std::string key;  ///< canonical
  int count = 1;
  double bound_ms = 0;           ///< roofline; 0 if not known
  double fallback_ms = no_time;  ///< what its aten form takes, where that was measured
  std::shared_ptr<const coder::Domain> domain;
};

struct Proposal {
  std::int64_t serial = 0;  ///< names the proposal in tell()
  std::size_t region = 0;
  codegen::Genome genome;
  bool full = false;      ///< level full, for elites; else screen
  double give_up_ms = 0;  ///< slower than this need not be timed to the end; 0 = no limit
};

/// Ask / tell over all regions of a task. One thread. No clock, no process: the caller decides when the search is over.
/// Same specs, seed and order of calls: same decisions.
class Search {
 public:
  Search(std::vector<RegionSpec> regions, std::uint64_t seed, RegionOptions options = {});

  /// The next proposal; nothing when no region has anything left to try.
  std::optional<Proposal> ask();
  /// The next elite to measure at level full. After the first call ask() gives nothing.
  std::optional<Proposal> ask_final();
  /// True if this region has met the program already (evaluated or under way); otherwise notes it.
  bool claim_program(const Proposal& proposal, const std::string& hash);
  /// Each proposal is told exactly once. Kind `order_violation` otherwise.
  Result<Answer> tell(std::int64_t serial, const Told& told);
  /// A proposal whose program was seen before: costs nothing, teaches nothing.
  Result<Answer> tell_duplicate(std::int64_t serial);

  const std::vector<RegionSpec>& specs() const { return specs_; }
  const RegionSearch& region(std::size_t i) const { return regions_[i]; }
  bool outstanding() const { return !outstanding_.empty(); }

 private:
  Proposal issue(std::size_t region, codegen::Genome genome, bool full);
  std::vector<RegionSpec> specs_;
  std::vector<RegionSearch> regions_;
  std::vector<std::int64_t> spent_;
  std::map<std::int64_t, Proposal> outstanding_;
  std::int64_t serial_ = 0;
  bool finals_ = false;
};

}  // namespace planish::search
