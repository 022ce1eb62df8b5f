#include "codegen/emit/cuda_down.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <utility>

namespace planish::codegen::printing {
namespace {

/// Farther apart, a group of outputs would hold mostly rows that it needs once.
constexpr std::int64_t farthest_rows = 7;

bool depends(const Node& node, int variable) {
  return node.index.depends_on(variable) ||
         std::ranges::any_of(node.where, [&](const ir::Bound& bound) { return bound.e.depends_on(variable); });
}

std::vector<ir::Bound> undecided(const std::vector<ir::Bound>& bounds, const ir::Space& space) {
  std::vector<ir::Bound> out;
  std::ranges::copy_if(bounds, std::back_inserter(out), [&](const ir::Bound& b) { return !ir::always(b, space); });
  return out;
}

/// Writes the steps out, one after the other.
class Steps {
 public:
  Steps(const Kernel& kernel, int variable, int steps) : from_(kernel), variable_(variable), steps_(steps) {
    to_.anchor = kernel.anchor;
    to_.space = kernel.space;
    extent() = (own_extent() + steps - 1) / steps;
    to_.inputs = kernel.inputs;
  }

  Stepped made() {
    Stepped out;
    out.variable = variable_;
    out.steps = steps_;
    for (step_ = 0; step_ < steps_; ++step_) {
      replace();
      place_.clear();
      for (const Node& node : from_.nodes) place_.push_back(add(node));
      for (std::size_t o = 0; o < from_.outputs.size(); ++o) {
        Output output = from_.outputs[o];
        output.node = place_[static_cast<std::size_t>(output.node)];
        output.index = moved(output.index);
        to_.outputs.push_back(std::move(output));
        out.output_of.push_back(static_cast<int>(o));
        out.inside.push_back(limit());
      }
    }
    out.kernel = std::move(to_);
    return out;
  }

 private:
  std::int64_t own_extent() const { return from_.space.extents[static_cast<std::size_t>(variable_)]; }
  std::int64_t& extent() { return to_.space.extents[static_cast<std::size_t>(variable_)]; }

  void replace() {
    replacements_.clear();
    for (int v = 0; v < static_cast<int>(from_.space.extents.size()); ++v)
      replacements_.push_back(ir::IndexExpr::variable(v));
    auto& own = replacements_[static_cast<std::size_t>(variable_)];
    own = ir::add(ir::scale(own, steps_), ir::IndexExpr::constant(step_), to_.space);
    present_ = to_.space;
    present_.extents[static_cast<std::size_t>(variable_)] = (own_extent() - 1 - step_) / steps_ + 1;
  }

  ir::IndexExpr moved(const ir::IndexExpr& e) const { return ir::substitute(e, replacements_, to_.space); }

  /// Where the step at hand exists; nothing where it always does.
  std::optional<ir::Bound> limit() const {
    const ir::Bound bound{replacements_[static_cast<std::size_t>(variable_)], 0, own_extent()};
    return ir::always(bound, to_.space) ? std::nullopt : std::optional(bound);
  }

  int add(const Node& node) {
    Node next = node;
    for (int& arg : next.args) arg = place_[static_cast<std::size_t>(arg)];
    next.index = moved(node.index);
    for (ir::Bound& bound : next.where) bound.e = moved(bound.e);
    next.where = undecided(next.where, present_);
    for (std::size_t i = 0; i < to_.nodes.size(); ++i) {
      if (same(to_.nodes[i], next) && undecided(bounds_[i], present_) == next.where) return static_cast<int>(i);
    }
    bounds_.push_back(next.where);
    if (const auto behind = limit(); behind && node.op == Op::load && depends(node, variable_))
      next.where.push_back(*behind);
    to_.nodes.push_back(std::move(next));
    return static_cast<int>(to_.nodes.size()) - 1;
  }

  /// Bounds apart.
  static bool same(const Node& a, const Node& b) {
    return a.op == b.op && a.dtype == b.dtype && a.args == b.args && a.input == b.input && a.bits == b.bits &&
           std::bit_cast<std::uint64_t>(a.value) == std::bit_cast<std::uint64_t>(b.value) && a.rounds == b.rounds &&
           a.index == b.index && a.strides == b.strides && a.limits == b.limits;
  }

  const Kernel& from_;
  int variable_, steps_;
  int step_ = 0;
  Kernel to_;
  std::vector<int> place_;                      ///< by node of from_: its place in to_, at this step
  std::vector<std::vector<ir::Bound>> bounds_;  ///< by node of to_: its bounds without the step's limit
  std::vector<ir::IndexExpr> replacements_;
  ir::Space present_;  ///< the points where the step exists
};

/// Loads that depend on the variable.
std::int64_t rows_loaded(const Kernel& kernel, int variable) {
  return std::ranges::count_if(kernel.nodes,
                               [&](const Node& node) { return node.op == Op::load && depends(node, variable); });
}

bool taps_along(const Kernel& kernel, int variable) {
  std::vector<const Node*> seen;
  for (const Node& node : kernel.nodes) {
    const std::int64_t step = node.op == Op::load ? node.index.coefficient_of(variable) : 0;
    if (step == 0 || gathers(node)) continue;
    for (const Node* other : seen) {
      const std::int64_t apart = std::abs(node.index.constant_term() - other->index.constant_term());
      if (beside(*other, node) && apart != 0 && apart % step == 0 && apart / std::abs(step) <= farthest_rows)
        return true;
    }
    seen.push_back(&node);
  }
  return false;
}

}  // namespace

Stepped step_down(const Kernel& kernel, int variable, int steps) {
  return Steps(kernel, variable, steps).made();
}

int down_variable(const Kernel& kernel) {
  if (kernel.has_rows()) return -1;
  int best = -1;
  double least = 1;
  for (int v = static_cast<int>(kernel.space.extents.size()) - 2; v >= 0; --v) {
    if (kernel.space.extents[static_cast<std::size_t>(v)] < 2 || !taps_along(kernel, v)) continue;
    // All that may be shared is, with as many steps as there may be.
    const Stepped stepped = step_down(kernel, v, most_steps);
    const double part =
        static_cast<double>(rows_loaded(stepped.kernel, v)) / static_cast<double>(most_steps * rows_loaded(kernel, v));
    if (part < least) {
      least = part;
      best = v;
    }
  }
  return best;
}

const Stepped* StepsMade::get(const Kernel& kernel, int steps) {
  const std::scoped_lock lock(mutex_);
  if (!variable_) variable_ = down_variable(kernel);
  if (*variable_ < 0 || steps < 2 || kernel.space.extents[static_cast<std::size_t>(*variable_)] < steps) return nullptr;
  auto& one = made_[steps];
  if (!one) {
    auto made = std::make_unique<Stepped>(step_down(kernel, *variable_, steps));
    made->facts = std::make_shared<const PlanFacts>(made->kernel);
    one = std::move(made);
  }
  return one.get();
}

}  // namespace planish::codegen::printing
