#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "codegen/emit/expression.h"

namespace planish::codegen::printing {
namespace {

std::string number(std::int64_t value, bool wide) {
  const bool big =
      value > std::numeric_limits<std::int32_t>::max() || value < -std::numeric_limits<std::int32_t>::max();
  return wide || big ? fmt::format("{}LL", value) : fmt::format("{}", value);
}

std::string atom_text(const ir::Atom& atom, const ir::Space& space, std::span<const std::string> variables, bool wide) {
  if (atom.kind == ir::Atom::Kind::variable) return variables[static_cast<std::size_t>(atom.variable)];
  const std::string inner = index_text(*atom.inner, space, variables, wide);
  const bool plain = atom.inner->range(space).first >= 0;
  const bool div = atom.kind == ir::Atom::Kind::div;
  if (plain) return fmt::format("(({}) {} {})", inner, div ? "/" : "%", number(atom.divisor, wide));
  return fmt::format("{}({}, {})", div ? "pl_index_div" : "pl_index_mod", inner, number(atom.divisor, wide));
}

/// Adds the magnitudes of everything that an evaluation may pass through.
double reach(const ir::IndexExpr& e, const ir::Space& space) {
  double total = std::abs(static_cast<double>(e.constant_term()));
  double deepest = 0;
  for (const auto& term : e.terms()) {
    double atom = 0;
    if (term.atom.kind == ir::Atom::Kind::variable) {
      atom = static_cast<double>(space.extents[static_cast<std::size_t>(term.atom.variable)]);
    } else {
      const double inner = reach(*term.atom.inner, space);
      deepest = std::max({deepest, inner, static_cast<double>(term.atom.divisor)});
      atom = term.atom.kind == ir::Atom::Kind::div ? inner / static_cast<double>(term.atom.divisor) + 1
                                                   : static_cast<double>(term.atom.divisor);
    }
    total += atom * std::abs(static_cast<double>(term.coefficient));
  }
  return std::max(total, deepest);
}

}  // namespace

std::string index_text(const ir::IndexExpr& e, const ir::Space& space, std::span<const std::string> variables,
                       bool wide) {
  std::string out;
  for (const auto& term : e.terms()) {
    const std::string atom = atom_text(term.atom, space, variables, wide);
    const bool negative = term.coefficient < 0;
    const std::int64_t magnitude = negative ? -term.coefficient : term.coefficient;
    if (out.empty()) {
      if (negative) out += "-";
    } else {
      out += negative ? " - " : " + ";
    }
    out += magnitude == 1 ? atom : fmt::format("{} * {}", number(magnitude, wide), atom);
  }
  const std::int64_t c = e.constant_term();
  if (out.empty()) return number(c, wide);
  if (c != 0) out += c < 0 ? " - " + number(-c, wide) : " + " + number(c, wide);
  return out;
}

std::string where_text(std::span<const ir::Bound> where, const ir::Space& space, std::span<const std::string> variables,
                       bool wide) {
  std::string out;
  const auto both = [&](const std::string& text) { out += (out.empty() ? "" : " && ") + text; };
  for (const auto& bound : where) {
    const auto [lo, hi] = bound.e.range(space);
    const std::string e = index_text(bound.e, space, variables, wide);
    if (lo < bound.lo) both(fmt::format("({}) >= {}", e, number(bound.lo, wide)));
    if (hi >= bound.hi) both(fmt::format("({}) < {}", e, number(bound.hi, wide)));
  }
  return out;
}

bool fits_int32(const ir::IndexExpr& e, const ir::Space& space) {
  return reach(e, space) < 2147483647.0;
}

bool fits_int32(const Kernel& kernel) {
  double points = 1;
  for (const auto extent : kernel.space.extents) points *= static_cast<double>(extent);
  // Head room for vectors and tiles that start before, or end after, the last point.
  if (points >= 2147483647.0 - 16777216.0) return false;
  for (const auto& node : kernel.nodes) {
    if (!fits_int32(node.index, kernel.space)) return false;
    for (const auto& bound : node.where) {
      if (!fits_int32(bound.e, kernel.space)) return false;
    }
  }
  return std::ranges::all_of(kernel.outputs, [&](const Output& o) { return fits_int32(o.index, kernel.space); });
}

std::vector<Place> place(const Kernel& kernel) {
  const auto variables = static_cast<int>(kernel.space.extents.size());
  const int outer = variables - kernel.inner;
  const auto uses = [&](const ir::IndexExpr& e, Place& p) {
    for (int v = 0; v < variables; ++v) {
      if (!e.depends_on(v)) continue;
      p.variables |= std::uint64_t{1} << std::min(v, 63);
      if (v >= outer) p.inner = true;
    }
  };
  std::vector<Place> places(kernel.nodes.size());
  for (std::size_t i = 0; i < kernel.nodes.size(); ++i) {
    const Node& node = kernel.nodes[i];
    Place& p = places[i];
    if (node.op == Op::load || node.op == Op::index) {
      uses(node.index, p);
      for (const auto& bound : node.where) uses(bound.e, p);
    }
    if (node.op == Op::reduced) {
      for (int v = 0; v < outer; ++v) p.variables |= std::uint64_t{1} << std::min(v, 63);
      p.phase = kernel.reductions[static_cast<std::size_t>(node.reduction)].phase + 1;
    }
    if (node.op == Op::scanned) {
      p = places[static_cast<std::size_t>(kernel.scans[static_cast<std::size_t>(node.scan)].arg)];
      p.inner = true;
      for (int v = 0; v < variables; ++v) p.variables |= std::uint64_t{1} << std::min(v, 63);
    }
    for (const int arg : node.args) {
      const Place& from = places[static_cast<std::size_t>(arg)];
      p.inner = p.inner || from.inner;
      p.variables |= from.variables;
      p.phase = std::max(p.phase, from.phase);
    }
  }
  return places;
}

std::vector<int> closure(const Kernel& kernel, std::span<const int> roots, const std::function<bool(int)>& known) {
  std::vector<bool> wanted(kernel.nodes.size(), false);
  for (const int root : roots) {
    if (!known(root)) wanted[static_cast<std::size_t>(root)] = true;
  }
  for (std::size_t i = kernel.nodes.size(); i-- > 0;) {
    if (!wanted[i]) continue;
    for (const int arg : kernel.nodes[i].args) {
      if (!known(arg)) wanted[static_cast<std::size_t>(arg)] = true;
    }
  }
  std::vector<int> order;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i]) order.push_back(static_cast<int>(i));
  }
  return order;
}

int phases(const Kernel& kernel) {
  int count = 0;
  for (const auto& reduction : kernel.reductions) count = std::max(count, reduction.phase + 1);
  return count;
}

}  // namespace planish::codegen::printing
