#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "codegen/kernel.h"

/// How the elements of one thread's vector lie in memory: which loads and stores may be wide, and how wide. Pure;
/// thread-safe.
namespace planish::codegen::printing {

/// The elements that one thread takes at a time: `width` neighbours of the iteration space.
struct Lanes {
  enum class Mode {
    along,  ///< lanes step one variable, whose extent is divisible by width; the others are common to all lanes
    flat,   ///< lanes step the linear position over `domain` (last fastest) and may cross into the next value of any of
            ///< them
  };
  Mode mode = Mode::along;
  int width = 1;
  int variable = 0;         ///< along
  std::vector<int> domain;  ///< flat
  std::optional<ir::IndexExpr>
      primary;  ///< flat: part of an index outside the domain; vectors start where position + primary ≡ 0 mod width
};

struct Access {
  enum class Kind {
    invariant,  ///< the same element for all lanes
    vector,     ///< lane j at base + j
    reversed,   ///< lane j at base - j
    within,     ///< lane j at base + lane_at(j), all of them of one vector
    elements,   ///< anything else, or bounds that part the lanes of a vector: one access a lane
  };
  Kind kind = Kind::elements;
  int unit = 1;          ///< vector, reversed, within: elements in one aligned access; divides width
  std::uint64_t at = 0;  ///< within: lane_at(j) in the four bits from 4 · j on
  int before = 0;        ///< within: of the index at lane 0, the base is so many elements before that
  int lane_at(int lane) const { return static_cast<int>(at >> (4 * lane) & 15); }
};

/// Behaviour of an index over the lanes of a vector that steps one variable: value(lane j) = base + slope·j, where base
/// ≡ residue mod modulus (0: base is residue).
struct LaneForm {
  std::int64_t slope = 0;
  std::int64_t modulus = 0;
  std::int64_t residue = 0;
};
/// Nothing where lanes are not evenly apart.
std::optional<LaneForm> lane_form(const ir::IndexExpr& e, const ir::Space& space, int variable, int width);

/// value mod modulus, not negative; the value itself where the modulus is 0.
std::int64_t wrap(std::int64_t value, std::int64_t modulus);

/// `where` are the bounds of a load (empty for stores). Base addresses are assumed 16-byte aligned.
Access classify(const ir::IndexExpr& e, std::span<const ir::Bound> where, DType dtype, const ir::Space& space,
                const Lanes& lanes);

/// The same of a load from memory of `storage` elements, whose bounds may part the lanes of a vector (even ones and odd
/// ones, say) where all that is read stays inside.
Access classify_load(const ir::IndexExpr& e, std::span<const ir::Bound> where, DType dtype, std::int64_t storage,
                     const ir::Space& space, const Lanes& lanes);
/// Those of a load's bounds that hold for all lanes of a vector or for none.
std::vector<ir::Bound> common_bounds(std::span<const ir::Bound> where, const ir::Space& space, const Lanes& lanes);
/// Where the vector of such a load begins: equal for loads of one vector.
ir::IndexExpr vector_begin(const ir::IndexExpr& e, const Access& access, const ir::Space& space, const Lanes& lanes);

/// True where a lane changes the value of e.
bool varies(const ir::IndexExpr& e, const Lanes& lanes);

/// e with the flat domain's variables at 0.
ir::IndexExpr outside_domain(const ir::IndexExpr& e, std::span<const int> domain, const ir::Space& space);
/// True where e = outside_domain(e) + linear position over the domain.
bool is_linear(const ir::IndexExpr& e, std::span<const int> domain, const ir::Space& space);
/// Largest divisor of `width` that surely divides e.
int divisor_of(const ir::IndexExpr& e, int width);

}  // namespace planish::codegen::printing
