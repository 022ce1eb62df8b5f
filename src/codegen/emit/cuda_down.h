#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "codegen/emit/cuda_plan.h"
#include "codegen/kernel.h"

/// Gene `down`: a thread computes several outputs below each other, along a variable other than the last, so that rows
/// which their windows share are loaded once. Made of a kernel whose points are those groups; what it takes to emit a
/// pointwise kernel then emits it. Pure; thread-safe.
namespace planish::codegen::printing {

/// Most outputs below each other.
constexpr int most_steps = 8;

/// A pointwise kernel where one point stands for `steps` neighbours along `variable`. Its outputs are those of the
/// first neighbour, then those of the second, …
struct Stepped {
  Kernel kernel;
  int variable = 0;
  int steps = 1;
  std::vector<int> output_of;                    ///< by output: the one of the kernel that it was made of
  std::vector<std::optional<ir::Bound>> inside;  ///< by output: where it exists, if not everywhere
  std::shared_ptr<const PlanFacts> facts;        ///< of `kernel`; null until PlanFacts::stepped() has made it
};

/// The variable that loads are shared along by most (the innermost of equals), never the last; -1 where none is.
int down_variable(const Kernel& kernel);

/// Equal loads of different steps are one node, whatever the bounds that hold for all points where both steps exist.
/// Behind the extent nothing is loaded, and what is computed there is not to be stored.
Stepped step_down(const Kernel& kernel, int variable, int steps);

/// What PlanFacts has made of its kernel so far. Thread-safe.
class StepsMade {
 public:
  const Stepped* get(const Kernel& kernel, int steps);

 private:
  std::mutex mutex_;
  std::optional<int> variable_;
  std::map<int, std::unique_ptr<const Stepped>> made_;
};

}  // namespace planish::codegen::printing
