#pragma once

#include "judge/judge.h"

/// The parts of judge(): one a kind of verdict. Each expects an evaluation of its kind.
namespace planish::judge {

Verdict judge_compile_error(const Question& question);
Verdict judge_fault(const Question& question);
Verdict judge_mismatch(const Question& question);
/// The candidate passed, or was given up for its time.
Verdict judge_bottleneck(const Question& question);

}  // namespace planish::judge
