#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "codegen/emit/cuda_access.h"
#include "codegen/kernel.h"

/// Loads of one input that lie beside each other in memory for each lane of a vector (the taps of a window): what they
/// read together is loaded once, as a strip of aligned units, and the lanes take their elements from registers. Pure;
/// thread-safe.
namespace planish::codegen::printing {

struct Strip {
  std::vector<int> loads;           ///< nodes, that with the least offset first
  std::vector<std::int64_t> shift;  ///< by load: elements from the strip's first to what lane 0 reads
  std::int64_t slope = 1;           ///< elements between neighbouring lanes
  std::int64_t before = 0;          ///< elements of the strip before the first load's at lane 0
  int unit = 1;                     ///< elements in one aligned access
  int units = 1;
  /// Where the strip may be read: all of `where`, and [lo, hi) for `along`, whose value at the strip's first element is
  /// that at lane 0 minus `before`. Units lie wholly on one side. Elsewhere the loads' outside value stands.
  std::vector<ir::Bound> where;
  std::optional<ir::Bound> along;

  int length() const { return unit * units; }
  /// Elements set aside for it, of `bytes` each: what is shorter than 16 bytes is aligned by its size, a power of two.
  int room(int bytes) const;
  bool guarded() const { return along.has_value() || !where.empty(); }
};

/// Strips among `candidates` (load nodes, no gathers). Every strip has two loads at least; none where lanes do not step
/// one variable.
std::vector<Strip> find_strips(const Kernel& kernel, const Lanes& lanes, const std::vector<int>& candidates);

/// True where a and b read the same input at places that differ by a constant.
bool beside(const Node& a, const Node& b);

}  // namespace planish::codegen::printing
