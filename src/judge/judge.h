#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "codegen/genome.h"
#include "evaluate/evaluation.h"
#include "judge/verdict.h"
#include "program/program.h"

namespace planish::judge {

/// How one kernel is launched.
struct Launch {
  std::int64_t blocks = 0;          ///< of the whole grid
  std::int64_t threads = 0;         ///< a block
  std::int64_t dynamic_shared = 0;  ///< bytes a block
  int kernel = -1;                  ///< into CompileReport::kernels
};
/// Of the program's steps, in order.
std::vector<Launch> launches_of(const program::Program& program);

/// What is judged. The evaluation, the genome and its genes are enough; the rest sharpens the verdict where it is
/// known. References must live as long as the call.
struct Question {
  const Evaluation& evaluation;
  const codegen::Genome& genome;
  /// The genes of the candidate's kernel, so that moves name choices that exist. A gene that is not here is not moved.
  const std::vector<codegen::Gene>& genes;
  codegen::Device device;                                ///< limits and widths; the defaults are an H200's
  std::vector<Launch> launches;                          ///< empty where not known
  std::vector<std::vector<std::int64_t>> output_shapes;  ///< of the program's outputs; empty where not known
  std::vector<std::string> output_dtypes;                ///< document names, in the same order
};

/// The most valuable issue of the evaluation. Pure: equal questions give equal verdicts; thread-safe.
Verdict judge(const Question& question);

}  // namespace planish::judge
