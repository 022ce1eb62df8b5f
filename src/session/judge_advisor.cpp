#include "session/judge_advisor.h"

#include "judge/judge.h"

namespace planish::session {

search::Advice JudgeAdvisor::advise(const search::RegionSpec&, const Evaluation& evaluation,
                                    const codegen::Genome& genome, const std::vector<codegen::Gene>& genes,
                                    bool words) const {
  judge::Question question{evaluation, genome, genes, device_, {}, {}, {}};
  if (evaluation.compile) {
    for (const LaunchReport& launch : evaluation.compile->launches)
      question.launches.push_back({launch.blocks, launch.threads, launch.shared_bytes, launch.kernel});
  }
  const judge::Verdict verdict = judge::judge(question);
  search::Advice out;
  for (const judge::Move& move : verdict.moves) out.moves.push_back({move.gene, move.direction, move.expected_gain});
  if (words) {
    out.text = judge::to_text(verdict);
    out.issue = verdict.issue;
  }
  return out;
}

}  // namespace planish::session
