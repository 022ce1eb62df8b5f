#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "judge/verdict.h"
#include "report/learned.h"
#include "session/candidate.h"
#include "suite/headline.h"

/// What a report shows, read from the store: plain data, all text as it was written by whoever wrote it.
namespace planish::report {
using namespace session;

struct Report {
  store::RunRecord run;
  std::string state;  ///< the run's; a run whose process is gone is not running
  bool goes_on() const { return state == "running"; }

  struct Time {
    std::string name;
    double median = 0, lo = 0, hi = 0, compile_seconds = 0;
    std::string error;  ///< why there is no time
    double kept = 0;    ///< median where the caller keeps results; 0: not measured
  };
  std::vector<Time> times;
  std::string best_baseline, reason, form, shipped_baseline;
  double speedup_best = 0;
  std::optional<suite::Headline> headline;  ///< the number that the run is known by
  std::vector<std::string> why;             ///< sentences: why it is faster; empty where nothing was gained

  /// Of the result; empty where the run has none.
  std::vector<std::pair<std::string, std::string>> accuracy;  ///< name → value
  std::map<std::string, std::string> skipped;                 ///< regime → why
  /// What coders and language models did, what they cost, how the best improved: name → words.
  std::vector<std::pair<std::string, std::string>> search;
  std::vector<std::pair<std::string, std::int64_t>> funnel;  ///< stage → candidates that reached it, in order
  std::map<std::string, std::map<std::string, std::int64_t>> outcomes;  ///< tier → outcome → count

  struct Region {
    std::string id, key, summary, genome;
    int count = 1;
    double best_ms = 0, fallback_ms = 0, bound_ms = 0;
    bool used = false;
    std::vector<std::pair<std::string, double>> cells;  ///< of the archive, by name → its best time
  };
  std::vector<Region> regions;  ///< `task`, the whole, is not among them

  /// Another way to cut the task. Texts: "r0 + r1 × 2".
  struct FusionPlan {
    std::string replaces, by;
    double before_ms = 0, after_ms = 0;  ///< of these regions alone; 0 where not known
    bool used = false;
  };
  std::vector<FusionPlan> fusions;  ///< those that were tried

  struct Candidate {
    StoredCandidate stored;
    judge::Verdict verdict;
  };
  std::vector<Candidate> candidates;  ///< in the order of evaluation
  Learned learned;
};

/// Everything about a run. Works for a run that is not finished too: what is not there stays empty. Errors are the
/// store's; an evaluation that cannot be read is left out.
Result<Report> load_report(const store::Store& store, const store::RunRecord& run);

/// Positions of the candidates from a seed to the fastest one of the region, along parents. Only the fastest itself
/// where parents are not known; empty where nothing passed.
std::vector<std::size_t> lineage(const Report& report, const std::string& region);
/// Positions of the candidates of a region that were each the fastest so far, in order.
std::vector<std::size_t> improvements(const Report& report, const std::string& region);

}  // namespace planish::report
