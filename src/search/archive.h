#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "search/cell.h"
#include "search/key_set.h"

namespace planish::search {

/// What adding did, from the most to the least welcome.
enum class Added : std::uint8_t {
  new_cell,
  improved,   ///< displaced its cell's elite
  contested,  ///< faster than the elite, but inside the noise: measure it again, then settle()
  not_better,
  duplicate,  ///< this id was added before
  rejected    ///< no time that could be compared; reject_reason() says why
};
std::string_view name(Added added);

/// One measured candidate. `id` is the caller's name for it.
struct Elite {
  Cell cell;
  double ms = 0, lo_ms = 0, hi_ms = 0;  ///< median and its 95 % interval; both ends 0: not known, taken as the median
  std::uint64_t id = 0;
};

/// Empty where the elite can be compared, else why not.
std::string_view reject_reason(const Elite& elite);

/// MAP-Elites: the best candidate of each of 36 cells. One thread.
///
/// An elite gives way only to what is faster beyond the noise (intervals that do not overlap) or was measured again.
class Archive {
 public:
  /// In order; the result is that of adding one after the other.
  std::vector<Added> add(std::span<const Elite> batch);
  Added add(const Elite& one);
  /// The same by obvious, slow code: what tests compare add() with.
  Added add_single(const Elite& one);

  /// A second measurement of an elite, or of a contested candidate, which takes the cell if it is now the faster one.
  Added settle(const Elite& again);
  /// Forgets an elite that turned out to be wrong. Its cell is free; the id stays known.
  void drop(std::uint64_t id);

  const std::optional<Elite>& at(Cell cell) const { return cells_[static_cast<std::size_t>(cell.index())]; }
  /// Elites in the order of cells.
  std::vector<Elite> elites() const;
  int filled() const;
  /// Nothing in an empty archive.
  std::optional<Elite> best() const;

 private:
  Added place(const Elite& one);
  std::array<std::optional<Elite>, Cell::count> cells_;
  KeySet known_;
  std::vector<std::uint64_t> slow_known_;  ///< what add_single() remembers by
};

}  // namespace planish::search
