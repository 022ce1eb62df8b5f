#pragma once

#include <cstdint>
#include <optional>

#include "rewrite/editor.h"

/// Private to rewrite: which elements of matrices are zero, or not wanted, by their places. All of it is proved from
/// the nodes of the graph: masks are comparisons of counts, as `tril`, `triu` and `arange` are captured.
namespace planish::rewrite {

/// Places of a matrix (the last two dims of a value) whose column less their row is at least `least` and at most
/// `most`.
struct Band {
  static constexpr std::int64_t unbounded = std::int64_t{1} << 40;  ///< more than any extent

  std::int64_t least = -unbounded, most = unbounded;

  bool everywhere() const { return least <= -unbounded && most >= unbounded; }
  bool operator==(const Band&) const = default;
};

/// Where a boolean value is true, and nowhere else; nothing where that is no band, or not known.
std::optional<Band> mask(const Editor& editor, int id);
/// Outside of it every element is zero.
Band nonzero(const Editor& editor, int id);
/// The same, of a softmax of masked scores too: outside of it an element is zero, or its whole row is NaN.
Band nonzero_but_nan_rows(const Editor& editor, int id);
/// Outside of it no result of the graph depends on an element, not even on its being finite.
Band wanted(const Editor& editor, int id);
/// Whether no element is an infinity or NaN, as none is in what is the model's own.
bool is_finite(const Editor& editor, int id);

}  // namespace planish::rewrite
