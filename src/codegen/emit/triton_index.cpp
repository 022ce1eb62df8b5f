#include <fmt/format.h>

#include "codegen/emit/triton_value.h"

/// Index expressions as Triton prints them: division truncates there, as in C.
namespace planish::codegen::printing {
namespace {

std::string atom_text(const ir::Atom& atom, const ir::Space& space, std::span<const std::string> variables) {
  if (atom.kind == ir::Atom::Kind::variable) return variables[static_cast<std::size_t>(atom.variable)];
  const std::string inner = triton_index(*atom.inner, space, variables);
  const bool div = atom.kind == ir::Atom::Kind::div;
  if (atom.inner->range(space).first >= 0) return fmt::format("(({}) {} {})", inner, div ? "//" : "%", atom.divisor);
  return fmt::format("{}({}, {})", div ? "pl_index_div" : "pl_index_mod", inner, atom.divisor);
}

}  // namespace

std::string triton_index(const ir::IndexExpr& e, const ir::Space& space, std::span<const std::string> variables) {
  std::string out;
  for (const auto& term : e.terms()) {
    const std::string atom = atom_text(term.atom, space, variables);
    const bool negative = term.coefficient < 0;
    const std::int64_t magnitude = negative ? -term.coefficient : term.coefficient;
    if (out.empty()) {
      if (negative) out += "-";
    } else {
      out += negative ? " - " : " + ";
    }
    out += magnitude == 1 ? atom : fmt::format("{} * {}", magnitude, atom);
  }
  const std::int64_t c = e.constant_term();
  if (out.empty()) return fmt::format("{}", c);
  if (c != 0) out += fmt::format(" {} {}", c < 0 ? '-' : '+', c < 0 ? -c : c);
  return out;
}

std::string triton_where(std::span<const ir::Bound> where, const ir::Space& space,
                         std::span<const std::string> variables) {
  std::string out;
  const auto both = [&](const std::string& text) { out += (out.empty() ? "" : " & ") + text; };
  for (const auto& bound : where) {
    const auto [lo, hi] = bound.e.range(space);
    const std::string e = triton_index(bound.e, space, variables);
    if (lo < bound.lo) both(fmt::format("(({}) >= {})", e, bound.lo));
    if (hi >= bound.hi) both(fmt::format("(({}) < {})", e, bound.hi));
  }
  return out.empty() ? out : "(" + out + ")";
}

}  // namespace planish::codegen::printing
