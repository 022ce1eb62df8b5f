#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "codegen/contraction/contraction.h"
#include "codegen/contraction/plan.h"

/// A convolution as a matrix product: the rows of one factor slide over one array instead of each having elements of
/// its own. Pure; thread-safe.
///
/// Where the coordinate u = stride · row + dilation · tap of a dim is all that a factor's loads know of a variable
/// `row` of its rows and a variable `tap` of the sum, rows that are neighbours have most elements in common. They are
/// stored once, by u, in planes of one chunk of 8 channels (see Im2col): what a tile of rows needs for a tap is a run
/// of places in a plane, shifted by the tap. u = stride · place + phase, so that places of one phase are neighbours;
/// rows of places (pitch) are even, and places behind the last row of a dim are computed and dropped.
namespace planish::codegen::contraction {

/// One dim that is slid along, or that lies within such dims.
struct ImplicitDim {
  int row = -1, tap = -1;  ///< variables of the kernel's space; no tap: u is the row's own coordinate
  std::int64_t stride = 1, dilation = 1;
  std::int64_t rows = 1, taps = 1;  ///< extents
  std::int64_t reach = 1;           ///< u is below it
  std::int64_t places = 1;          ///< of each phase
};

struct ImplicitOperand {
  Operand operand = Operand::b;
  std::vector<ImplicitDim> dims;  ///< ascending in `row`
  std::vector<int> apart;         ///< variables of rows that do not slide; each setting is an image
  std::vector<int> channels;      ///< variables of the sum that no row slides along: also the taps of one dim where
                                  ///< channels are too few to fill chunks
  std::int64_t channel_count = 1, images = 1;
  std::int64_t plane = 1;   ///< places of an image in all slides
  std::int64_t phases = 1;  ///< of all slides
  std::int64_t chunks = 1;  ///< of 8 channels
  std::int64_t taps = 1;

  std::int64_t positions() const { return images * plane; }
  /// The longest shift of a tap, in places.
  std::int64_t longest_shift() const;
  /// Where the columns of a tap's first chunk begin, in places, by tap (the last slide's varies fastest).
  std::vector<std::int64_t> offsets() const;
};

/// How a factor of `kernel` slides; nothing where none does, or where elements that rows have in common do not repay
/// the places that are dropped.
std::optional<ImplicitOperand> implicit_operand_of(const Kernel& kernel, const Contraction& contraction);

/// The same kernel with u in place of each slide's row variable, and no taps: what the stored elements are.
Kernel by_place(const Kernel& kernel, const Contraction& contraction, const ImplicitOperand& implicit);

}  // namespace planish::codegen::contraction
