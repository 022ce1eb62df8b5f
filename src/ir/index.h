#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace planish::ir {

/// The ranged variables of one iteration space: variable i takes 0 … extents[i]-1.
struct Space {
  std::vector<std::int64_t> extents;

  std::int64_t extent(int variable) const { return extents[static_cast<std::size_t>(variable)]; }
};

class IndexExpr;

/// One non-constant factor of an index: a variable, or floor(inner / k), or inner mod k (0 ≤ result < k).
struct Atom {
  enum class Kind : std::uint8_t { variable, div, mod };
  Kind kind = Kind::variable;
  int variable = 0;
  std::int64_t divisor = 1;
  std::shared_ptr<const IndexExpr> inner;  ///< null for a variable
  friend bool operator==(const Atom& a, const Atom& b);
  friend bool operator<(const Atom& a, const Atom& b);
};

/// constant + Σ coefficient · atom over the variables of a Space, kept simplified and in a canonical order, so
/// that equal functions built the same way compare equal. A value; immutable once built; thread-safe to read.
///
/// Simplification uses the ranges of the space: floor((k·A+B)/k) = A where 0 ≤ B < k; mod likewise; common factors
/// cancel; nested div and mod fold; k·floor(L/k) + (L mod k) = L, also across a chain of them (a ravel undoing an
/// unravel).
class IndexExpr {
 public:
  struct Term {
    Atom atom;
    std::int64_t coefficient = 1;
    friend bool operator==(const Term&, const Term&) = default;
  };

  IndexExpr() = default;
  static IndexExpr constant(std::int64_t value);
  static IndexExpr variable(int index);
  /// constant + terms, sorted and with equal atoms merged; applies no other simplification.
  static IndexExpr build(std::int64_t constant, std::vector<Term> terms);

  std::int64_t constant_term() const { return constant_; }
  const std::vector<Term>& terms() const { return terms_; }
  bool is_constant() const { return terms_.empty(); }
  /// True where no div or mod occurs.
  bool is_affine() const;
  /// Coefficient of a plain variable (0 if absent). Says nothing about its occurrences under div or mod.
  std::int64_t coefficient_of(int variable) const;
  /// True where the variable occurs anywhere, also under div or mod.
  bool depends_on(int variable) const;
  /// Inclusive bounds over the space.
  std::pair<std::int64_t, std::int64_t> range(const Space& space) const;
  std::int64_t evaluate(std::span<const std::int64_t> values) const;
  /// For messages and tests, e.g. "4*d0 + (d1 // 3) + 7".
  std::string text() const;

  friend bool operator==(const IndexExpr&, const IndexExpr&) = default;

 private:
  std::int64_t constant_ = 0;
  std::vector<Term> terms_;
};

IndexExpr add(const IndexExpr& a, const IndexExpr& b, const Space& space);
IndexExpr scale(const IndexExpr& a, std::int64_t factor);
/// Rounds towards minus infinity; k ≥ 1.
IndexExpr floor_div(const IndexExpr& a, std::int64_t k, const Space& space);
/// 0 ≤ result < k; k ≥ 1.
IndexExpr mod(const IndexExpr& a, std::int64_t k, const Space& space);
/// Replaces variable i by replacements[i] (expressions over `space`, which may be another space).
IndexExpr substitute(const IndexExpr& e, std::span<const IndexExpr> replacements, const Space& space);

/// lo ≤ e < hi. A list of bounds means all of them.
struct Bound {
  IndexExpr e;
  std::int64_t lo = 0;
  std::int64_t hi = 0;
  friend bool operator==(const Bound&, const Bound&) = default;
};

/// True where the bound surely holds everywhere in the space.
bool always(const Bound& bound, const Space& space);

}  // namespace planish::ir
