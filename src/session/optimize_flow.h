#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/result.h"
#include "coder/model_coder.h"
#include "evaluate/api.h"
#include "llm/open.h"
#include "search/budget.h"
#include "search/strategy.h"
#include "session/plan.h"
#include "session/progress.h"
#include "session/result_document.h"
#include "session/tape.h"
#include "store/store.h"

namespace planish::session {

/// What a run is asked to do. Everything here but the folders is in the store as the run's settings.
struct OptimizeRequest {
  std::filesystem::path task;  ///< absolute
  std::string target = "auto";
  std::string accuracy = "eager";
  search::Budget budget;
  std::uint64_t seed = 0;
  search::StrategyKind strategy = search::StrategyKind::swarm;
  std::vector<std::string> coders;  ///< commands that take a seat in every region (coder/process_coder.h)
  int model_seats = 0;              ///< of the language models, in every region
  coder::Approach approach = coder::Approach::converse;  ///< how models work; others than this one search alone
  int turns = 0;              ///< answers asked of each seat of models in a region; 0: as the approach says
  bool model_judge = false;   ///< a model reads what was measured before the coders' models do
  std::int64_t draws = 0;     ///< genomes drawn before the swarm proposes beyond its guesses; 0: as usual
  double max_seconds = 0;     ///< over everything; 0: no limit. Not of the settings: each part of a run has its own
  bool memory_check = false;  ///< compute-sanitizer is asked about what ships; on a GPU
  bool cold = false;          ///< what earlier runs measured is not looked at
  std::vector<std::string> baselines;  ///< modes; `eager` is always among them
  std::filesystem::path out;           ///< absolute; empty takes planish-out/<task>-<run> under `base`
  std::filesystem::path base;          ///< working folder
  std::string run;                     ///< id; new unless `resume`
  bool resume = false;
  bool search_only = false;  ///< ends with the search; not among the settings: --resume goes on to the end
  std::string command;       ///< as typed, for the evidence
};

/// What the flow works with. All borrowed.
struct OptimizeWorld {
  EvaluatorApi& evaluator;
  Planner& planner;
  Shipper& shipper;
  /// Opened when the task has been found good, so that a bad one leaves no trace.
  std::function<Result<store::Store>()> open_store;
  Progress& progress;
  Clock& clock;
  CancelToken cancel;
  llm::OpenModels* models = nullptr;  ///< where the request has seats for them
  /// Where the run is recorded, or what it repeats: then `evaluator` answers from it, and the run ends with the search.
  /// May be null.
  Tape* tape = nullptr;
};

/// Captures, verifies a program of aten steps, searches the regions, composes, verifies, ships and times the claim.
/// A run that was cancelled still ends here, with what it has and the outcome `interrupted`: in the search it is
/// proved, and timed beside eager; later what is proved by then ships, and nothing is waited for.
///
/// Errors: those of the task (the oracle's kinds), of the store and of the disk; `task_changed` where a resumed run's
/// source differs. Once the run is in the store, an error leaves it there as `failed`, and --resume can go on from it.
Result<ResultDocument> optimize(const OptimizeRequest& request, OptimizeWorld& world);

/// The settings of a run as JSON text, and back.
std::string settings_text(const OptimizeRequest& request);
Status apply_settings(const std::string& text, OptimizeRequest& request);

}  // namespace planish::session
