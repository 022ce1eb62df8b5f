#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "rewrite/editor.h"

/// Private to rewrite: what may lie between a sum and what it is moved through.
namespace planish::rewrite {

/// An operation with a number.
struct Scalar {
  enum class Kind : std::uint8_t { factor, quotient, summand } kind = Kind::factor;
  double value = 0;
};

/// A sum or mean of what a node makes, with scalars in between.
struct LinearChain {
  Fold fold;
  std::vector<Scalar> between;  ///< from the sum to the node
  int made = -1;                ///< the value that the node makes
};

/// What the sum or mean at node `index` folds; nothing for other nodes. All in one dtype, f32 or f64, and read by
/// nothing else. `is_maker` says where to stop.
std::optional<LinearChain> linear_chain(const Editor& editor, int index, bool (*is_maker)(const ir::GraphNode&));

/// The sum of what the node makes, in `sum` with this shape, becomes the chain's result.
int apply(Editor& editor, const LinearChain& chain, int sum, const std::vector<std::int64_t>& shape);

}  // namespace planish::rewrite
