#include "codegen/lower/space.h"

#include <algorithm>
#include <numeric>

#include "codegen/lower/lowering.h"

namespace planish::codegen {
namespace {

using ir::Atom;
using ir::IndexExpr;

template <typename F>
void for_each_expression(Kernel& kernel, F&& f) {
  for (Node& node : kernel.nodes) {
    if (node.op == Op::load || node.op == Op::index) f(node.index);
    for (auto& bound : node.where) f(bound.e);
  }
  for (Output& output : kernel.outputs) f(output.index);
}

/// Variable v of extent n becomes by·v' + w with w < by; all variables behind it move by one.
std::vector<IndexExpr> split_replacements(std::size_t count, int variable, std::int64_t by) {
  std::vector<IndexExpr> replacements;
  for (int v = 0; v < static_cast<int>(count); ++v) {
    if (v < variable) replacements.push_back(IndexExpr::variable(v));
    if (v == variable) {
      replacements.push_back(IndexExpr::build(0, {{ir::Atom{Atom::Kind::variable, v, 1, nullptr}, by},
                                                  {ir::Atom{Atom::Kind::variable, v + 1, 1, nullptr}, 1}}));
    }
    if (v > variable) replacements.push_back(IndexExpr::variable(v + 1));
  }
  return replacements;
}

}  // namespace

int div_mod_count(const IndexExpr& e) {
  int count = 0;
  for (const auto& term : e.terms()) {
    if (term.atom.kind != Atom::Kind::variable) count += 1 + div_mod_count(*term.atom.inner);
  }
  return count;
}

std::vector<const IndexExpr*> index_expressions(const Kernel& kernel) {
  std::vector<const IndexExpr*> result;
  for_each_expression(const_cast<Kernel&>(kernel), [&](IndexExpr& e) { result.push_back(&e); });
  return result;
}

std::optional<SpaceChange> find_split(const IndexExpr& e, const ir::Space& space) {
  for (const auto& term : e.terms()) {
    if (term.atom.kind == Atom::Kind::variable) continue;
    // The innermost division first: what is around it may vanish with it.
    if (auto inner = find_split(*term.atom.inner, space)) return inner;
    const IndexExpr alone = IndexExpr::build(0, {{term.atom, 1}});
    for (const auto& part : term.atom.inner->terms()) {
      if (part.atom.kind != Atom::Kind::variable) continue;
      const int v = part.atom.variable;
      const std::int64_t extent = space.extents[static_cast<std::size_t>(v)];
      const std::int64_t by = term.atom.divisor / std::gcd(term.atom.divisor, part.coefficient);
      if (by <= 1 || by >= extent || extent % by != 0) continue;
      ir::Space split = space;
      split.extents[static_cast<std::size_t>(v)] = extent / by;
      split.extents.insert(split.extents.begin() + v + 1, by);
      const auto replacements = split_replacements(space.extents.size(), v, by);
      if (div_mod_count(ir::substitute(alone, replacements, split)) < div_mod_count(alone)) {
        return SpaceChange{v, by, {}, {}};
      }
    }
  }
  return std::nullopt;
}

void change_variables(Kernel& kernel, std::span<const IndexExpr> replacements, ir::Space space) {
  for_each_expression(kernel, [&](IndexExpr& e) { e = ir::substitute(e, replacements, space); });
  kernel.space = std::move(space);
}

void permute_variables(Kernel& kernel, const std::vector<int>& order) {
  ir::Space space;
  std::vector<IndexExpr> replacements(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    space.extents.push_back(kernel.space.extents[static_cast<std::size_t>(order[i])]);
    replacements[static_cast<std::size_t>(order[i])] = IndexExpr::variable(static_cast<int>(i));
  }
  change_variables(kernel, replacements, std::move(space));
}

void turn_over(Kernel& kernel) {
  const int all = static_cast<int>(kernel.space.extents.size());
  const int outer = all - kernel.inner, common = outer - kernel.across;
  std::vector<int> order(static_cast<std::size_t>(common));
  std::iota(order.begin(), order.end(), 0);
  for (int v = outer; v < all; ++v) order.push_back(v);
  for (int v = common; v < outer; ++v) order.push_back(v);
  permute_variables(kernel, order);
  std::swap(kernel.inner, kernel.across);
  for (Reduction& reduction : kernel.reductions) reduction.across = !reduction.across;
  for (Output& output : kernel.outputs) std::swap(output.per_row, output.per_column);
}

void merge_variables(Kernel& kernel) {
  for (std::size_t v = 0; v + 1 < kernel.space.extents.size();) {
    const std::size_t first_inner = kernel.space.extents.size() - static_cast<std::size_t>(kernel.inner);
    const std::size_t first_across = first_inner - static_cast<std::size_t>(kernel.across);
    const std::size_t first_part = kernel.space.extents.size() - static_cast<std::size_t>(kernel.parts);
    const auto parted = [&](std::size_t first) { return v < first && v + 1 >= first; };
    if (parted(first_inner) || parted(first_across) || parted(first_part)) {
      ++v;
      continue;
    }
    const std::int64_t by = kernel.space.extents[v + 1];
    ir::Space merged = kernel.space;
    merged.extents[v] *= by;
    merged.extents.erase(merged.extents.begin() + static_cast<std::ptrdiff_t>(v) + 1);
    std::vector<IndexExpr> replacements;
    for (std::size_t u = 0; u < kernel.space.extents.size(); ++u) {
      const auto variable = IndexExpr::variable(static_cast<int>(u > v ? u - 1 : u));
      if (u == v) {
        replacements.push_back(ir::floor_div(variable, by, merged));
      } else if (u == v + 1) {
        replacements.push_back(ir::mod(variable, by, merged));
      } else {
        replacements.push_back(variable);
      }
    }
    bool gains = true;
    for (const IndexExpr* e : index_expressions(kernel)) {
      if (!e->depends_on(static_cast<int>(v)) && !e->depends_on(static_cast<int>(v) + 1)) continue;
      gains = gains && div_mod_count(ir::substitute(*e, replacements, merged)) <= div_mod_count(*e);
    }
    if (!gains) {
      ++v;
      continue;
    }
    if (v >= first_part) --kernel.parts;
    if (v >= first_inner)
      --kernel.inner;
    else if (v >= first_across)
      --kernel.across;
    change_variables(kernel, replacements, std::move(merged));
    // The merged variable may merge with its predecessor now.
    v = v > 0 ? v - 1 : 0;
  }
}

}  // namespace planish::codegen
