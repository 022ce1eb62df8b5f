#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "codegen/genome.h"
#include "evaluate/evaluation.h"
#include "judge/verdict.h"
#include "program/program.h"
#include "store/store.h"

/// Candidates as they lie in the store, read back for people: `show` and `report`.
namespace planish::session {

struct StoredCandidate {
  store::EvaluationRecord record;
  Evaluation evaluation;
  codegen::Genome genome;                   ///< empty for programs without one
  std::optional<program::Program> program;  ///< nothing where its text is no longer in the store, or is a solution's
  std::string solution;                     ///< the text of one; else empty
};
/// What whoever wrote it would read: kernels and launches, or a solution. Nothing where neither is there.
std::optional<std::string> source_of(const StoredCandidate& candidate);
/// Of a record with its document. Error kinds: `bad_evaluation`, and those of the store.
Result<StoredCandidate> read_candidate(const store::Store& store, const store::EvaluationRecord& record);

/// The last evaluation of the program whose hash begins so, with its document. Kinds `no_such_candidate`,
/// `ambiguous_candidate`.
Result<store::EvaluationRecord> find_candidate(const std::vector<store::EvaluationRecord>& records,
                                               const std::string& prefix);

/// The genes of a region with the choices that the search had; of runs of before those were kept, with the values that
/// were tried.
std::vector<codegen::Gene> genes_of(const std::vector<store::RegionRecord>& regions,
                                    const std::vector<store::EvaluationRecord>& records, const std::string& region);

/// The device of a run: what its result document says, else what the target usually has. `result` may be empty.
codegen::Device device_of_run(const store::RunRecord& run, const std::string& result);

judge::Verdict judge_candidate(const StoredCandidate& candidate, const std::vector<codegen::Gene>& genes,
                               const codegen::Device& device);

}  // namespace planish::session
