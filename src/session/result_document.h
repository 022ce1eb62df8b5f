#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "coder/model_pool.h"
#include "evaluate/api.h"
#include "search/seats.h"
#include "search/strategy.h"
#include "session/explain.h"
#include "suite/headline.h"

namespace planish::session {

/// The result of `optimize` (docs/formats/result.md) as plain data.
struct ResultDocument {
  static constexpr int schema_version = 1;

  std::string run, task, task_path, task_sha256, target;
  DeviceFacts device;
  std::string outcome;           ///< improved | no_improvement | searched | interrupted
  std::string reason;            ///< one sentence: why nothing was gained; empty when improved
  std::string until_then;        ///< where the time was over: what had kept it from a gain; else empty
  std::string shipped;           ///< folder; empty where an interrupted run had nothing verified
  std::string form;              ///< program | solution | baseline
  std::string shipped_baseline;  ///< the mode that ships, where the form is `baseline`

  struct Accuracy {
    std::string gate;
    double error = 0, eager_error = 0, ratio = 0;  ///< relative Frobenius: the worst output, and eager's on the same
    double max_error = 0;                          ///< largest element error, relative
    std::vector<std::string> regimes;
    std::map<std::string, std::string> skipped;
    std::vector<std::string> degenerate;
    std::vector<Note> notes;
    bool verified = false;
  };
  std::optional<Accuracy> accuracy;

  /// `shipped`, `eager`, `compile`, …: what was timed, or why it was not.
  std::vector<ClaimTime> times;
  std::map<std::string, double> speedup;       ///< against each baseline
  std::map<std::string, Gain> gains;           ///< the same with their intervals
  std::optional<Gain> solution_gain;           ///< of a solution over eager, timed in turn in guests
  double speedup_best_baseline = 0;            ///< 0 where there was nothing to compare
  std::string best_baseline;                   ///< the fastest one that was not refused
  std::vector<std::string> refused_baselines;  ///< their own results are wrong: no measure, and they do not ship
  /// By mode, of those refused and of one that could not be judged: the outcome or the kind of error, and why.
  struct Fault {
    std::string kind, message;
  };
  std::map<std::string, Fault> baseline_faults;

  std::optional<Roofline> roofline;  ///< `fraction` is of the kernels alone; called_fraction() of the module
  std::optional<Explanation> why;    ///< where a program ships
  double host_us_per_call = 0;
  std::map<std::string, std::map<std::string, std::int64_t>> evaluations;  ///< tier → outcome → count

  /// What language models did in the search.
  struct Models {
    int seats = 0;            ///< in every region; 0: none were asked
    bool judge = false;       ///< one of them judged
    std::int64_t tokens = 0;  ///< that were paid for
    double dollars = 0;       ///< by the configured prices
    coder::ModelPool::Report report;
  };

  /// A region's best so far.
  struct Best {
    std::int64_t asked = 0;      ///< number of the proposal
    std::string region, by;      ///< who proposed it, as text
    double ms = 0, seconds = 0;  ///< of the program; of the search until then
  };

  /// How the search went, over all regions.
  struct Searched {
    std::string strategy;
    search::FunnelCounts funnel;
    std::int64_t compiled = 0, tested = 0, timed = 0;
    std::int64_t guesses = 0, guesses_completed = 0, guesses_left_out = 0;  ///< that earlier runs left
    std::vector<search::SeatReport> coders;                                 ///< that sat beside the strategy
    Models models;
    std::vector<Best> best;  ///< each time that a region's best improved
  };
  Searched searched;

  struct Region {
    std::string id, key, summary, genome;
    std::vector<std::pair<std::string, double>> cells;  ///< what each filled cell of the archive is, and its best ms
    int count = 1;
    double best_ms = 0, fallback_ms = 0, bound_ms = 0;  ///< 0 where not known
    std::optional<std::int64_t> tried;                  ///< candidates; nothing where it was not searched
    bool used = false;
  };
  std::vector<Region> regions;  ///< alternatives only where they were searched

  /// Another way to cut the task: what was measured of it.
  struct FusionPlan {
    std::vector<std::pair<std::string, int>> replaces, by;  ///< regions, and how many of each
    double before_ms = 0, after_ms = 0;  ///< of the regions alone; `after` 0 where not all of them have a time
    bool used = false;
  };
  std::vector<FusionPlan> fusions;
  double seconds_total = 0, seconds_first_verified = 0;
  double seconds_max = 0;              ///< of --max-time; 0: no limit
  std::string out_of_time;             ///< phase in which --max-time was over; empty where it was not
  std::vector<std::string> too_noisy;  ///< of `times`: those whose interval is too wide to be compared
  std::vector<std::pair<std::string, double>> seconds_in;  ///< capture, check, …: what the time went to, in order
};

/// How much of the time that a baseline takes and what ships does not is there only because memory of outputs is used
/// again, which a caller who keeps results does not see. 0 … 1; nothing where calls with kept results were not timed.
std::optional<double> memory_share(const ResultDocument& result, const std::string& baseline);
/// The roofline's bound as a part of the time that a call of the module takes. 0 where either is not known.
double called_fraction(const ResultDocument& result);
/// The number that the run is known by.
std::optional<suite::Headline> headline_of(const ResultDocument& result);

/// Fills the speed-ups from the times: where calls were also timed whose caller keeps the results, the lesser gain of
/// the two. Says whether the shipped module beats every baseline beyond the noise, apart from those refused. A median
/// whose interval is wider than `noisy_share` (evaluate/gain.h) of it is compared with nothing: it is listed as too
/// noisy, has no speed-up, and nothing is won against it unless all of its interval is slower.
bool compare_times(ResultDocument& result);
bool is_noisy(const ClaimTime& time);
/// The worst output over all cases: error, eager's, their ratio.
ResultDocument::Accuracy summarise(const std::string& gate, const std::vector<TestCase>& cases);
/// The note on a program that rounds as torch's flags permit (TF32) where eager's kernels, for these shapes, did not.
std::optional<Note> permitted_rounding(const ResultDocument::Accuracy& accuracy);

std::string to_json(const ResultDocument& result);

}  // namespace planish::session
