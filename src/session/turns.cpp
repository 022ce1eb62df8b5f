#include "session/turns.h"

#include <algorithm>

namespace planish::session {
Result<search::RecordedTurns> recorded_turns(const store::Store& store, const std::string& run,
                                             const std::vector<search::RegionSpec>& specs,
                                             const std::vector<store::EvaluationRecord>& records) {
  search::RecordedTurns out;
  PLANISH_TRY(const auto turns, store.turns(run));
  if (turns.empty()) return out;
  for (const store::TurnRecord& turn : turns) {
    const auto spec = std::ranges::find(specs, turn.region, &search::RegionSpec::id);
    if (spec == specs.end()) continue;
    std::string document;
    if (const auto hash = coder::document_hash(turn.proposal); !hash.empty()) {
      PLANISH_TRY(document, store.get(std::string(hash)));
    }
    PLANISH_TRY(auto proposal, coder::proposal_from(turn.proposal, document));
    out.turns[turn.asked] = {static_cast<std::size_t>(spec - specs.begin()), turn.seat, std::move(proposal), turn.dry};
    out.until = std::max(out.until, turn.asked);
  }
  for (const store::EvaluationRecord& record : records) {
    // Elites measured at the end of a part that was interrupted have numbers that the search used again.
    if (search::origin_from_text(record.proposer).by != "final") out.until = std::max(out.until, record.asked);
  }
  return out;
}

}  // namespace planish::session
