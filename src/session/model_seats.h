#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "coder/model_coder.h"
#include "coder/model_pool.h"
#include "session/optimize_flow.h"
#include "session/tape.h"

namespace planish::session {

/// The file that patterns are kept in: PLANISH_PATTERNS, else the one in the data folder.
std::filesystem::path patterns_file();

/// Patterns for prompts from a library: our own, and what was imported. On the CPU our own alone. What is found is kept
/// on the tape, so that a replay needs no library. The tape may be null, and outlives it; the store is read at once.
std::unique_ptr<coder::PatternSource> pattern_source(const std::filesystem::path& file, const store::Store& store,
                                                     bool on_host, Tape* tape);

/// The language models' seats of a run, and everything that they share. Outlives the search.
class ModelSeats {
 public:
  /// Borrows all; `tape` may be null.
  ModelSeats(const OptimizeRequest& request, llm::OpenModels& models, const OpenReply& opened,
             const store::Store& store, Tape* tape);
  std::vector<coder::Seat> seats() const;
  /// What they cost and came to.
  void report(ResultDocument::Models& out) const;

 private:
  const OptimizeRequest& request_;
  llm::OpenModels& models_;
  std::unique_ptr<coder::PatternSource> patterns_;
  std::shared_ptr<coder::ModelPool> pool_;
};

}  // namespace planish::session
