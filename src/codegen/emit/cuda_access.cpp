#include "codegen/emit/cuda_access.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <numeric>

namespace planish::codegen::printing {

std::int64_t wrap(std::int64_t value, std::int64_t modulus) {
  if (modulus == 0) return value;
  const std::int64_t r = value % modulus;
  return r < 0 ? r + modulus : r;
}

namespace {

std::optional<LaneForm> lane_form_of(const ir::Atom& atom, const ir::Space& space, int variable, int width) {
  if (atom.kind == ir::Atom::Kind::variable) {
    return atom.variable == variable ? LaneForm{1, width, 0} : LaneForm{0, 1, 0};
  }
  const auto inner = printing::lane_form(*atom.inner, space, variable, width);
  if (!inner) return std::nullopt;
  const bool div = atom.kind == ir::Atom::Kind::div;
  const std::int64_t g = std::gcd(inner->modulus, atom.divisor);
  if (inner->slope == 0) return div ? LaneForm{0, 1, 0} : LaneForm{0, g, wrap(inner->residue, g)};
  // No lane may step over a multiple of the divisor.
  const std::int64_t start = wrap(inner->residue, g);
  const std::int64_t last = start + inner->slope * (width - 1);
  if (last < 0 || last >= g) return std::nullopt;
  return div ? LaneForm{0, 1, 0} : LaneForm{inner->slope, g, start};
}

}  // namespace

std::optional<LaneForm> lane_form(const ir::IndexExpr& e, const ir::Space& space, int variable, int width) {
  LaneForm out{0, 0, e.constant_term()};
  for (const auto& term : e.terms()) {
    const auto one = lane_form_of(term.atom, space, variable, width);
    if (!one) return std::nullopt;
    const std::int64_t modulus = std::abs(term.coefficient) * one->modulus;
    out.slope += term.coefficient * one->slope;
    out.modulus = std::gcd(out.modulus, modulus);
    out.residue = wrap(out.residue + term.coefficient * one->residue, out.modulus);
  }
  return out;
}

namespace {

/// True where all lanes of every vector lie on one side of `limit`: lane values are aligned to it, or never reach it.
bool one_side(const LaneForm& lane, std::pair<std::int64_t, std::int64_t> range, std::int64_t limit,
              std::int64_t width) {
  if (limit <= range.first || limit > range.second) return true;
  if (lane.slope != 1 && lane.slope != -1) return lane.slope == 0;
  if (lane.modulus % width != 0) return false;
  // Upwards a vector starts at its first lane, downwards it ends there.
  return wrap(limit - lane.residue - (lane.slope < 0 ? 1 : 0), width) == 0;
}

/// True where a bound holds for all lanes of a vector or for none.
bool uniform(const ir::Bound& bound, const ir::Space& space, const Lanes& lanes) {
  if (!varies(bound.e, lanes)) return true;
  if (lanes.mode == Lanes::Mode::flat) return false;
  const auto lane = lane_form(bound.e, space, lanes.variable, lanes.width);
  if (!lane) return false;
  const auto range = bound.e.range(space);
  return one_side(*lane, range, bound.lo, lanes.width) && one_side(*lane, range, bound.hi, lanes.width);
}

int cap_unit(int unit, DType dtype) {
  return std::max(1, std::min(unit, 16 / std::max(1, size_of(dtype))));
}

}  // namespace

ir::IndexExpr outside_domain(const ir::IndexExpr& e, std::span<const int> domain, const ir::Space& space) {
  if (e.is_affine()) {
    std::vector<ir::IndexExpr::Term> outside;
    for (const auto& term : e.terms()) {
      if (std::ranges::find(domain, term.atom.variable) == domain.end()) outside.push_back(term);
    }
    return ir::IndexExpr::build(e.constant_term(), std::move(outside));
  }
  std::vector<ir::IndexExpr> replacements;
  for (int v = 0; v < static_cast<int>(space.extents.size()); ++v) {
    const bool inside = std::ranges::find(domain, v) != domain.end();
    replacements.push_back(inside ? ir::IndexExpr::constant(0) : ir::IndexExpr::variable(v));
  }
  return ir::substitute(e, replacements, space);
}

bool is_linear(const ir::IndexExpr& e, std::span<const int> domain, const ir::Space& space) {
  if (e.is_affine()) {
    // Whatever is outside the domain is the same on both sides.
    std::int64_t step = 1;
    for (std::size_t i = domain.size(); i-- > 0;) {
      const std::int64_t extent = space.extents[static_cast<std::size_t>(domain[i])];
      if (e.coefficient_of(domain[i]) != (extent > 1 ? step : 0)) return false;
      step *= extent;
    }
    return true;
  }
  ir::IndexExpr expected = outside_domain(e, domain, space);
  std::int64_t stride = 1;
  for (std::size_t i = domain.size(); i-- > 0;) {
    const std::int64_t extent = space.extents[static_cast<std::size_t>(domain[i])];
    if (extent > 1) expected = ir::add(expected, ir::scale(ir::IndexExpr::variable(domain[i]), stride), space);
    stride *= extent;
  }
  return expected == e;
}

int divisor_of(const ir::IndexExpr& e, int width) {
  std::int64_t g = std::gcd(static_cast<std::int64_t>(width), e.constant_term());
  for (const auto& term : e.terms()) g = std::gcd(g, term.coefficient);
  return static_cast<int>(g);
}

bool varies(const ir::IndexExpr& e, const Lanes& lanes) {
  if (lanes.mode == Lanes::Mode::along) return e.depends_on(lanes.variable);
  return std::ranges::any_of(lanes.domain, [&](int v) { return e.depends_on(v); });
}

Access classify(const ir::IndexExpr& e, std::span<const ir::Bound> where, DType dtype, const ir::Space& space,
                const Lanes& lanes) {
  const bool same_for_all = std::ranges::all_of(where, [&](const ir::Bound& b) { return uniform(b, space, lanes); });
  if (!same_for_all) return {Access::Kind::elements, 1};
  if (!varies(e, lanes)) return {Access::Kind::invariant, 1};
  const int width = lanes.width;
  if (lanes.mode == Lanes::Mode::flat) {
    if (!is_linear(e, lanes.domain, space)) return {Access::Kind::elements, 1};
    ir::IndexExpr rest = outside_domain(e, lanes.domain, space);
    if (lanes.primary) rest = ir::add(rest, ir::scale(*lanes.primary, -1), space);
    return {Access::Kind::vector, cap_unit(divisor_of(rest, width), dtype)};
  }
  const auto lane = lane_form(e, space, lanes.variable, width);
  if (!lane) return {Access::Kind::elements, 1};
  if (lane->slope == 0) return {Access::Kind::invariant, 1};
  const std::int64_t w = width;
  if (lane->slope == 1) {
    const std::int64_t g = std::gcd(std::gcd(lane->modulus, w), lane->residue);
    return {Access::Kind::vector, cap_unit(static_cast<int>(g), dtype)};
  }
  if (lane->slope == -1) {
    const std::int64_t g = std::gcd(std::gcd(lane->modulus, w), lane->residue - (w - 1));
    return {Access::Kind::reversed, cap_unit(static_cast<int>(g), dtype)};
  }
  return {Access::Kind::elements, 1};
}

namespace {

/// e at a lane of the vector that the variable now counts.
ir::IndexExpr at_lane(const ir::IndexExpr& e, int lane, const ir::Space& vectors, const Lanes& lanes) {
  std::vector<ir::IndexExpr> replacements;
  for (int v = 0; v < static_cast<int>(vectors.extents.size()); ++v) {
    const ir::IndexExpr own = ir::IndexExpr::variable(v);
    replacements.push_back(
        v == lanes.variable ? ir::add(ir::scale(own, lanes.width), ir::IndexExpr::constant(lane), vectors) : own);
  }
  return ir::substitute(e, replacements, vectors);
}

/// The space with vectors in place of the variable's values.
ir::Space vectors_of(const ir::Space& space, const Lanes& lanes) {
  ir::Space out = space;
  out.extents[static_cast<std::size_t>(lanes.variable)] /= lanes.width;
  return out;
}

/// Whether the bounds that part the lanes let this one read, in every vector; nothing where that differs.
std::optional<bool> reads(std::span<const ir::Bound> where, int lane, const ir::Space& space, const ir::Space& vectors,
                          const Lanes& lanes) {
  bool all = true;
  for (const ir::Bound& bound : where) {
    if (uniform(bound, space, lanes)) continue;
    const ir::Bound own{at_lane(bound.e, lane, vectors, lanes), bound.lo, bound.hi};
    const auto range = own.e.range(vectors);
    if (range.second < own.lo || range.first >= own.hi) {
      all = false;
    } else if (!ir::always(own, vectors)) {
      return std::nullopt;
    }
  }
  return all;
}

}  // namespace

Access classify_load(const ir::IndexExpr& e, std::span<const ir::Bound> where, DType dtype, std::int64_t storage,
                     const ir::Space& space, const Lanes& lanes) {
  const Access plain = classify(e, where, dtype, space, lanes);
  constexpr int most = 16;  // lanes that Access::at has bits for
  if (plain.kind != Access::Kind::elements || lanes.mode != Lanes::Mode::along || lanes.width < 2 ||
      lanes.width > most || space.extent(lanes.variable) % lanes.width != 0)
    return plain;
  const ir::Space vectors = vectors_of(space, lanes);
  const ir::IndexExpr first = at_lane(e, 0, vectors, lanes);
  const std::int64_t constant = first.constant_term();
  const ir::IndexExpr moving = ir::IndexExpr::build(0, first.terms());
  const int aligned = divisor_of(moving, lanes.width);
  const int unit = cap_unit(aligned, dtype);
  Access out{Access::Kind::within, unit, 0, static_cast<int>(wrap(constant, aligned))};
  std::vector<bool> touched(static_cast<std::size_t>(lanes.width / unit), false);
  bool any = false;
  for (int lane = 0; lane < lanes.width; ++lane) {
    const auto there = reads(where, lane, space, vectors, lanes);
    if (!there) return plain;
    if (!*there) continue;
    any = true;
    const ir::IndexExpr apart = ir::add(at_lane(e, lane, vectors, lanes), ir::scale(first, -1), vectors);
    const std::int64_t at = apart.constant_term() + out.before;
    if (!apart.is_constant() || at < 0 || at >= lanes.width) return plain;
    out.at |= static_cast<std::uint64_t>(at) << (4 * lane);
    touched[static_cast<std::size_t>(at / unit)] = true;
  }
  if (!any) return plain;
  if (!varies(e, lanes)) return {Access::Kind::invariant, 1};
  // Each access has an element that some lane reads, and memory ends between two of them: none is outside.
  if (unit == 1 || storage % unit != 0 || std::ranges::find(touched, false) != touched.end()) return plain;
  return out;
}

std::vector<ir::Bound> common_bounds(std::span<const ir::Bound> where, const ir::Space& space, const Lanes& lanes) {
  std::vector<ir::Bound> out;
  std::ranges::copy_if(where, std::back_inserter(out), [&](const ir::Bound& b) { return uniform(b, space, lanes); });
  return out;
}

ir::IndexExpr vector_begin(const ir::IndexExpr& e, const Access& access, const ir::Space& space, const Lanes& lanes) {
  const ir::Space vectors = vectors_of(space, lanes);
  return ir::add(at_lane(e, 0, vectors, lanes), ir::IndexExpr::constant(-access.before), vectors);
}

}  // namespace planish::codegen::printing
