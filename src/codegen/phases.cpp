#include "codegen/phases.h"

#include <algorithm>
#include <array>
#include <optional>
#include <ranges>
#include <utility>

#include "codegen/variables.h"

namespace planish::codegen::contraction {
namespace {

using ir::Bound;
using ir::IndexExpr;

constexpr std::int64_t most_reach = 2;  ///< of a window, in its places' own

/// (v + shift) // by and (v + shift) % by: all that is known of v.
struct Division {
  std::int64_t by = 0, shift = 0;
};

/// Collects how `e` knows the variable; false where it knows it otherwise than by one division.
bool divided(const IndexExpr& e, int variable, std::optional<Division>& found) {
  for (const auto& term : e.terms()) {
    if (term.atom.kind == ir::Atom::Kind::variable) {
      if (term.atom.variable == variable) return false;
      continue;
    }
    const IndexExpr& inner = *term.atom.inner;
    if (!inner.depends_on(variable)) continue;
    if (inner.terms().size() != 1 || inner.coefficient_of(variable) != 1) {
      if (!divided(inner, variable, found)) return false;
      continue;
    }
    const std::int64_t by = term.atom.divisor;
    const Division mine{by, (inner.constant_term() % by + by) % by};
    if (!found) found = mine;
    // A remainder by 4 knows that by 2.
    const auto& [large, small] = mine.by > found->by ? std::pair{mine, *found} : std::pair{*found, mine};
    if (large.by % small.by != 0 || large.shift % small.by != small.shift) return false;
    found = large;
  }
  return true;
}

/// The nodes of both factors, each ascending.
std::array<std::vector<int>, 2> factors_of(const Kernel& kernel) {
  std::array<std::vector<int>, 2> out;
  const Node& product = kernel.nodes[static_cast<std::size_t>(kernel.reductions[0].arg)];
  for (std::size_t f = 0; f < 2; ++f) {
    std::vector<bool> needed(kernel.nodes.size(), false);
    needed[static_cast<std::size_t>(product.args[f])] = true;
    // Arguments come before what is made of them.
    for (std::size_t id = needed.size(); id-- > 0;) {
      if (!needed[id]) continue;
      for (const int arg : kernel.nodes[id].args) needed[static_cast<std::size_t>(arg)] = true;
    }
    for (std::size_t id = 0; id < needed.size(); ++id) {
      if (needed[id]) out[f].push_back(static_cast<int>(id));
    }
  }
  return out;
}

std::optional<Division> division_of(const Kernel& kernel, const std::array<std::vector<int>, 2>& factors,
                                    int variable) {
  std::optional<Division> found;
  for (const auto& nodes : factors) {
    for (const int id : nodes) {
      const Node& node = kernel.nodes[static_cast<std::size_t>(id)];
      if (!divided(node.index, variable, found)) return std::nullopt;
      for (const Bound& bound : node.where) {
        if (!divided(bound.e, variable, found)) return std::nullopt;
      }
    }
  }
  return found;
}

bool within(const Bound& bound, const std::vector<Bound>& all) {
  return std::ranges::find(all, bound) != all.end();
}

/// True where the load's place is one of the input's wherever `where` holds: each coordinate that is bounded lies in a
/// dim, and what else moves the place never leaves the others.
bool stays_inside(const Kernel& kernel, const Node& load, const std::vector<Bound>& where) {
  const Input& input = kernel.inputs[static_cast<std::size_t>(load.input)];
  IndexExpr rest = load.index;
  std::int64_t least = 0, most = 0;
  std::vector<bool> met(input.shape.size(), false);
  for (const Bound& bound : where) {
    for (std::size_t d = 0; d < met.size(); ++d) {
      if (met[d] || bound.lo < 0 || bound.hi > input.shape[d] || bound.e.terms().empty()) continue;
      // The dim whose stride the terms have.
      const auto& term = bound.e.terms().front();
      std::int64_t moved = 0;
      for (const auto& own : load.index.terms()) moved = own.atom == term.atom ? own.coefficient : moved;
      if (moved == 0 || moved != term.coefficient * input.strides[d]) continue;
      met[d] = true;
      rest = ir::add(rest, ir::scale(bound.e, -input.strides[d]), kernel.space);
      least += bound.lo * input.strides[d];
      most += (bound.hi - 1) * input.strides[d];
      break;
    }
  }
  const auto [lo, hi] = rest.range(kernel.space);
  return lo + least >= 0 && hi + most < input.storage_elements;
}

/// Takes the conditions that both factors' loads have from that factor which they alone move with a phase. The phases:
/// outer variables that no index of this factor's knows. Returns them.
std::vector<Bound> take_common(Kernel& kernel) {
  const auto factors = factors_of(kernel);
  const auto loads = [&](const std::vector<int>& nodes) {
    std::vector<int> out;
    for (const int id : nodes) {
      if (kernel.nodes[static_cast<std::size_t>(id)].op == Op::load) out.push_back(id);
    }
    return out;
  };
  const auto first = loads(factors[0]), second = loads(factors[1]);
  if (first.size() != 1 || second.size() != 1) return {};
  const std::size_t outer = kernel.space.extents.size() - static_cast<std::size_t>(kernel.inner);
  for (const auto& [from, other] : {std::pair{first[0], second[0]}, std::pair{second[0], first[0]}}) {
    Node& load = kernel.nodes[static_cast<std::size_t>(from)];
    const auto& kept = kernel.nodes[static_cast<std::size_t>(other)].where;
    std::vector<Bound> common, rest;
    for (const Bound& bound : load.where) (within(bound, kept) ? common : rest).push_back(bound);
    const auto is_phase = [&](std::size_t v) {
      const int variable = static_cast<int>(v);
      return !load.index.depends_on(variable) &&
             std::ranges::none_of(rest, [&](const Bound& bound) { return bound.e.depends_on(variable); }) &&
             std::ranges::any_of(common, [&](const Bound& bound) { return bound.e.depends_on(variable); });
    };
    bool any = false;
    for (std::size_t v = 0; v < outer; ++v) any = any || is_phase(v);
    if (!any || load.value != 0 || kernel.nodes[static_cast<std::size_t>(other)].value != 0) continue;
    // Nothing but the load stands between the conditions and the product, so that both factors are 0 without them.
    const auto plain = [&](const std::vector<int>& nodes) {
      return std::ranges::all_of(nodes, [&](int id) {
        const Op op = kernel.nodes[static_cast<std::size_t>(id)].op;
        return op == Op::load || op == Op::cast;
      });
    };
    if (!plain(factors[0]) || !plain(factors[1]) || !stays_inside(kernel, load, rest)) continue;
    load.where = std::move(rest);
    return common;
  }
  return {};
}

/// True where the quotient in place of v moves one factor alone, and the remainder behind it the other.
bool apart(Kernel kernel, int v) {
  take_common(kernel);
  const auto moves = variables_of(kernel);
  const Node& product = kernel.nodes[static_cast<std::size_t>(kernel.reductions[0].arg)];
  const auto moved = [&](std::size_t factor, int variable) {
    return moves[static_cast<std::size_t>(product.args[factor])][static_cast<std::size_t>(variable)];
  };
  return moved(0, v) != moved(1, v) && moved(0, v + 1) != moved(1, v + 1) && moved(0, v) != moved(0, v + 1);
}

/// How a load knows a window: its place has `per` · ((w + shift) // by + offset) with a variable of the sum.
struct Straddle {
  std::size_t factor = 0;
  int window = -1, offset = -1;
  Division division;

  std::int64_t lowest() const { return division.shift / division.by; }
  std::int64_t highest(const ir::Space& space) const {
    return (space.extent(window) - 1 + division.shift) / division.by;
  }
};

std::optional<Straddle> straddle_of(const Kernel& kernel, const std::array<std::vector<int>, 2>& factors, int window) {
  const int variables = static_cast<int>(kernel.space.extents.size());
  for (std::size_t f = 0; f < 2; ++f) {
    for (const int id : factors[f]) {
      const Node& node = kernel.nodes[static_cast<std::size_t>(id)];
      if (node.op != Op::load) continue;
      for (const auto& term : node.index.terms()) {
        if (term.atom.kind != ir::Atom::Kind::div) continue;
        const IndexExpr& inner = *term.atom.inner;
        if (inner.terms().size() != 1 || inner.coefficient_of(window) != 1 || inner.constant_term() < 0) continue;
        for (int e = variables - kernel.inner; e < variables; ++e) {
          if (node.index.coefficient_of(e) == term.coefficient)
            return Straddle{f, window, e, {term.atom.divisor, inner.constant_term()}};
        }
      }
    }
  }
  return std::nullopt;
}

/// The kernel over f, of which `count` values from `first` on, in place of the offset.
Kernel over_reach(const Kernel& kernel, const std::array<std::vector<int>, 2>& factors, const Straddle& straddle,
                  std::int64_t first, std::int64_t count) {
  Kernel out = kernel;
  const std::int64_t offsets = kernel.space.extent(straddle.offset);
  out.space.extents[static_cast<std::size_t>(straddle.offset)] = count;
  std::vector<IndexExpr> replacements;
  for (int v = 0; v < static_cast<int>(out.space.extents.size()); ++v) replacements.push_back(IndexExpr::variable(v));
  const IndexExpr from =
      ir::add(IndexExpr::variable(straddle.offset), IndexExpr::constant(first + straddle.lowest()), out.space);
  const IndexExpr reached = ir::floor_div(
      ir::add(IndexExpr::variable(straddle.window), IndexExpr::constant(straddle.division.shift), out.space),
      straddle.division.by, out.space);
  IndexExpr& offset = replacements[static_cast<std::size_t>(straddle.offset)];
  offset = ir::add(from, ir::scale(reached, -1), out.space);
  const Bound there{offset, 0, offsets};
  for (const auto& nodes : factors) {
    for (const int id : nodes) {
      Node& node = out.nodes[static_cast<std::size_t>(id)];
      node.index = ir::substitute(node.index, replacements, out.space);
      for (Bound& bound : node.where) bound.e = ir::substitute(bound.e, replacements, out.space);
      if (node.op == Op::load && !within(there, node.where)) node.where.push_back(there);
      std::erase_if(node.where, [&](const Bound& bound) { return ir::always(bound, out.space); });
    }
  }
  return out;
}

/// Whether some setting of the window has a tap at `f`, as far as these loads say.
bool has_tap(const Kernel& kernel, const std::vector<int>& nodes, const Straddle& straddle, std::int64_t f) {
  std::vector<std::int64_t> at(kernel.space.extents.size(), 0);
  at[static_cast<std::size_t>(straddle.offset)] = f;
  const auto decides = [&](const Bound& bound) {
    for (int v = 0; v < static_cast<int>(at.size()); ++v) {
      if (v != straddle.offset && v != straddle.window && bound.e.depends_on(v)) return false;
    }
    return true;
  };
  for (std::int64_t w = 0; w < kernel.space.extent(straddle.window); ++w) {
    at[static_cast<std::size_t>(straddle.window)] = w;
    const bool there = std::ranges::all_of(nodes, [&](int id) {
      return std::ranges::all_of(kernel.nodes[static_cast<std::size_t>(id)].where, [&](const Bound& bound) {
        const std::int64_t e = bound.e.evaluate(at);
        return !decides(bound) || (bound.lo <= e && e < bound.hi);
      });
    });
    if (there) return true;
  }
  return false;
}

}  // namespace

Kernel windows_apart(const Kernel& kernel) {
  Kernel out = kernel;
  if (kernel.across == 0 || kernel.reductions.empty() || kernel.inner < 1) return out;
  const Node& product = kernel.nodes[static_cast<std::size_t>(kernel.reductions[0].arg)];
  if (product.op != Op::mul || product.args.size() != 2) return out;
  const auto factors = factors_of(kernel);
  const int end = static_cast<int>(kernel.space.extents.size()) - kernel.inner;
  for (int window = end - kernel.across; window < end; ++window) {
    const auto straddle = straddle_of(out, factors, window);
    if (!straddle) continue;
    const std::int64_t offsets = out.space.extent(straddle->offset);
    const std::int64_t all = offsets + straddle->highest(out.space) - straddle->lowest();
    const Kernel whole = over_reach(out, factors, *straddle, 0, all);
    const auto& taps = factors[1 - straddle->factor];
    std::int64_t first = 0, last = all - 1;
    while (first < last && !has_tap(whole, taps, *straddle, first)) ++first;
    while (first < last && !has_tap(whole, taps, *straddle, last)) --last;
    // What is multiplied with zeros: of a whole dim most would be.
    if (last - first + 1 > most_reach * offsets) continue;
    Kernel made = over_reach(out, factors, *straddle, first, last - first + 1), tried = made;
    take_common(tried);
    const auto moves = variables_of(tried);
    const int factor = product.args[straddle->factor];
    if (moves[static_cast<std::size_t>(factor)][static_cast<std::size_t>(window)]) continue;
    out = std::move(made);
  }
  return out;
}

void change_space(Kernel& kernel, const std::vector<IndexExpr>& replacements, ir::Space space) {
  const auto into = [&](IndexExpr& e) { e = ir::substitute(e, replacements, space); };
  const auto all_into = [&](std::vector<Bound>& bounds) {
    for (Bound& bound : bounds) into(bound.e);
    std::erase_if(bounds, [&](const Bound& bound) { return ir::always(bound, space); });
  };
  for (Node& node : kernel.nodes) {
    into(node.index);
    all_into(node.where);
  }
  for (Output& output : kernel.outputs) {
    into(output.index);
    all_into(output.where);
  }
  kernel.space = std::move(space);
}

std::vector<IndexExpr> split(Kernel& kernel, int variable, std::int64_t by, std::int64_t shift) {
  const std::int64_t extent = kernel.space.extents[static_cast<std::size_t>(variable)];
  ir::Space space = kernel.space;
  space.extents[static_cast<std::size_t>(variable)] = (extent - 1 + shift) / by + 1;
  space.extents.insert(space.extents.begin() + variable + 1, by);
  std::vector<IndexExpr> replacements;
  for (int v = 0; v < static_cast<int>(kernel.space.extents.size()); ++v) {
    IndexExpr e = IndexExpr::variable(v > variable ? v + 1 : v);
    if (v == variable) {
      e = IndexExpr::build(-shift, {{{ir::Atom::Kind::variable, v, 1, nullptr}, by},
                                    {{ir::Atom::Kind::variable, v + 1, 1, nullptr}, 1}});
    }
    replacements.push_back(std::move(e));
  }
  change_space(kernel, replacements, std::move(space));
  for (Output& output : kernel.outputs) {
    const Bound there{replacements[static_cast<std::size_t>(variable)], 0, extent};
    if (!ir::always(there, kernel.space)) output.where.push_back(there);
  }
  return replacements;
}

void join(Kernel& kernel, int outer, int within) {
  const std::int64_t size = kernel.space.extent(within);
  ir::Space space = kernel.space;
  space.extents[static_cast<std::size_t>(outer)] *= size;
  space.extents.erase(space.extents.begin() + within);
  std::vector<IndexExpr> replacements;
  for (int v = 0; v < static_cast<int>(kernel.space.extents.size()); ++v) {
    const IndexExpr joined = IndexExpr::variable(outer);
    replacements.push_back(v == outer    ? ir::floor_div(joined, size, space)
                           : v == within ? ir::mod(joined, size, space)
                                         : IndexExpr::variable(v > within ? v - 1 : v));
  }
  const bool inner = outer >= static_cast<int>(kernel.space.extents.size()) - kernel.inner;
  change_space(kernel, replacements, std::move(space));
  if (inner) --kernel.inner;
}

Phased phased(const Kernel& kernel) {
  Phased out{kernel, false, {}};
  const bool folded =
      !kernel.reductions.empty() && std::ranges::all_of(kernel.reductions | std::views::drop(1), &Reduction::across);
  if (!folded || kernel.inner < 1) return out;
  const Node& product = kernel.nodes[static_cast<std::size_t>(kernel.reductions[0].arg)];
  if (product.op != Op::mul || product.args.size() != 2) return out;
  // What is folded across stays one variable: its phases would be folded apart.
  for (int v = 0; v < static_cast<int>(out.kernel.space.extents.size()) - kernel.inner - kernel.across; ++v) {
    const auto division = division_of(out.kernel, factors_of(out.kernel), v);
    if (!division) continue;
    Kernel tried = out.kernel;
    split(tried, v, division->by, division->shift);
    if (!apart(tried, v)) continue;
    out.kernel = std::move(tried);
    out.phases = true;
    ++v;
  }
  out.taps = take_common(out.kernel);
  return out;
}

double tapped(const Phased& phased) {
  const auto& extents = phased.kernel.space.extents;
  std::vector<std::size_t> moving;
  for (std::size_t v = 0; v < extents.size(); ++v) {
    const auto moves = [&](const Bound& bound) { return bound.e.depends_on(static_cast<int>(v)); };
    if (std::ranges::any_of(phased.taps, moves)) moving.push_back(v);
  }
  std::vector<std::int64_t> at(extents.size(), 0);
  double there = 0, all = 0;
  for (std::size_t i = 0; true;) {
    all += 1;
    there += std::ranges::all_of(phased.taps, [&](const Bound& bound) {
      const std::int64_t e = bound.e.evaluate(at);
      return bound.lo <= e && e < bound.hi;
    });
    for (i = moving.size(); i > 0 && ++at[moving[i - 1]] == extents[moving[i - 1]]; --i) at[moving[i - 1]] = 0;
    if (i == 0) return there / all;
  }
}

}  // namespace planish::codegen::contraction
