#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "rewrite/editor.h"

/// Private to rewrite: scales and shifts of channels, which may move past what is linear and treats all places alike.
namespace planish::rewrite {

/// One operation on every element of a channel.
struct AffinePiece {
  enum class Kind : std::uint8_t { factor, quotient, summand, difference, norm } kind = Kind::factor;
  double value = 0;                                      ///< where there is no operand
  int operand = -1;                                      ///< one element a channel, or one for all
  int mean = -1, variance = -1, weight = -1, bias = -1;  ///< of a norm
  double eps = 0;
};

/// The operation of a node on its data, which `data` becomes: batch norm in evaluation, and products, quotients, sums
/// and differences with finite numbers or with what is the model's own. `results`: what the node makes; `channel`:
/// which of its dims.
std::optional<AffinePiece> affine_piece(const Editor& editor, const ir::GraphNode& node, const ir::Value& results,
                                        std::size_t channel, int& data);

/// What lies between a value and what one of its makers gives, where nothing else reads any of it.
struct AffineChain {
  std::vector<AffinePiece> pieces;  ///< from the value to the maker
  int made = -1;                    ///< what the maker gives: the value itself where nothing lies between
};
/// Up to the first maker of which `is_maker` is true. Channels are dim 1.
std::optional<AffineChain> affine_chain(const Editor& editor, int value, bool (*is_maker)(const ir::GraphNode&));
/// New nodes that do the same to another value with these channels.
int apply(Editor& editor, const AffineChain& chain, int value);

}  // namespace planish::rewrite
