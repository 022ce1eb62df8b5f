#include "codegen/contraction/hoisted.h"

#include <algorithm>

namespace planish::codegen::contraction {
namespace {

enum class Share { none, all, mixed };

Share share_of(const ir::Atom& atom, const std::vector<int>& variables, const ir::Space& space) {
  if (atom.kind == ir::Atom::Kind::variable)
    return std::ranges::find(variables, atom.variable) != variables.end() ? Share::all : Share::none;
  bool own = false, other = false;
  for (int v = 0; v < static_cast<int>(space.extents.size()); ++v) {
    if (!atom.inner->depends_on(v)) continue;
    (std::ranges::find(variables, v) != variables.end() ? own : other) = true;
  }
  return !own ? Share::none : other ? Share::mixed : Share::all;
}

class Hoister {
 public:
  Hoister(const Kernel& kernel, const std::vector<int>& variables, std::size_t most)
      : out_{kernel, {}}, space_(kernel.space), variables_(variables), most_(most) {}

  bool place(ir::IndexExpr& e) {
    std::vector<ir::IndexExpr::Term> own, others;
    for (const auto& term : e.terms()) {
      const Share share = share_of(term.atom, variables_, space_);
      if (share == Share::mixed) return false;
      (share == Share::all ? own : others).push_back(term);
    }
    if (own.empty()) return true;
    const ir::IndexExpr sum = ir::IndexExpr::build(0, std::move(own));
    const auto [least, largest] = sum.range(space_);
    if (least < 0) return false;
    const auto known = std::ranges::find(out_.sums, sum, &std::pair<int, ir::IndexExpr>::second);
    int variable = known == out_.sums.end() ? -1 : known->first;
    if (variable < 0) {
      if (out_.sums.size() == most_) return false;
      variable = static_cast<int>(out_.kernel.space.extents.size());
      out_.kernel.space.extents.push_back(largest + 1);
      out_.sums.emplace_back(variable, sum);
    }
    others.push_back({ir::Atom{ir::Atom::Kind::variable, variable, 1, nullptr}, 1});
    e = ir::IndexExpr::build(e.constant_term(), std::move(others));
    return true;
  }

  bool places(std::vector<ir::Bound>& bounds) {
    return std::ranges::all_of(bounds, [&](ir::Bound& bound) { return place(bound.e); });
  }

  std::optional<Hoisted> take(const std::vector<int>& nodes) {
    for (Output& output : out_.kernel.outputs) {
      if (!place(output.index) || !places(output.where)) return std::nullopt;
    }
    for (const int id : nodes) {
      Node& node = out_.kernel.nodes[static_cast<std::size_t>(id)];
      if (!place(node.index) || !places(node.where)) return std::nullopt;
    }
    return std::move(out_);
  }

 private:
  Hoisted out_;
  ir::Space space_;
  const std::vector<int>& variables_;
  std::size_t most_;
};

}  // namespace

std::optional<Hoisted> hoisted(const Kernel& kernel, const std::vector<int>& variables, const std::vector<int>& nodes,
                               std::size_t most) {
  return Hoister(kernel, variables, most).take(nodes);
}

}  // namespace planish::codegen::contraction
