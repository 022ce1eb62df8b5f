#include "cli/judge_advisor.h"

#include "judge/judge.h"

namespace planish::cli {

std::vector<search::Move> JudgeAdvisor::advise(const search::RegionSpec&, const Evaluation& evaluation,
                                               const codegen::Genome& genome,
                                               const std::vector<codegen::Gene>& genes) const {
  judge::Question question{evaluation, genome, genes, device_, {}, {}, {}};
  if (evaluation.compile) {
    for (const LaunchReport& launch : evaluation.compile->launches)
      question.launches.push_back({launch.blocks, launch.threads, launch.shared_bytes, launch.kernel});
  }
  std::vector<search::Move> out;
  for (const judge::Move& move : judge::judge(question).moves)
    out.push_back({move.gene, move.direction, move.expected_gain});
  return out;
}

}  // namespace planish::cli
