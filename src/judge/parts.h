#pragma once

#include "judge/judge.h"

/// The parts of judge(): one a kind of verdict. Each expects an evaluation of its kind.
namespace planish::judge {

Verdict judge_compile_error(const Question& question);
Verdict judge_fault(const Question& question);
Verdict judge_mismatch(const Question& question);
/// The candidate passed, or was given up for its time.
Verdict judge_bottleneck(const Question& question);

/// The genome's value of a gene, or `otherwise` where it has none.
inline std::int64_t gene_value(const codegen::Genome& genome, std::string_view name, std::int64_t otherwise) {
  const auto found = genome.find(name);
  return found == genome.end() ? otherwise : found->second;
}

}  // namespace planish::judge
