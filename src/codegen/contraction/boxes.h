#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/contraction/contraction.h"
#include "codegen/contraction/direct.h"
#include "codegen/contraction/place_writer.h"
#include "codegen/contraction/plan.h"
#include "codegen/kernel.h"

/// Factors of 16 bits whose tiles are boxes of a tensor: images whose channels lie beside each other in memory
/// ("channels last"), which a convolution then reads where they lie. A tap's rows of a tile are one box, moved by the
/// tap; strides are the copy engine's own, and what lies outside an image it fills with zeros. So k is taps, and of
/// each its channels, up to a whole row of 128 bytes. Pure; thread-safe.
namespace planish::codegen::contraction {

/// A dim of the tensor, whose coordinate is step · row + dilation · tap + begin; of variables that are -1 nothing.
struct BoxDim {
  int row = -1;             ///< variable of the factor's rows, or of the batch
  int tap = -1;             ///< variable of the sum
  bool of_batch = false;    ///< `row` is one of the batch's
  std::int64_t extent = 1;  ///< coordinates, from 0, behind which there are zeros
  std::int64_t stride = 1;  ///< in memory, elements
  std::int64_t step = 1, dilation = 1, begin = 0;
};

struct Boxes {
  int input = -1;         ///< of the kernel
  std::int64_t base = 0;  ///< where coordinates 0 lie, elements
  int channel = -1;       ///< the variable of the sum that memory runs along
  std::int64_t channels = 0;
  std::vector<BoxDim> dims;  ///< behind the channels, ascending in memory

  /// Dims that rows differ by, the first varies fastest.
  std::vector<BoxDim> rows() const;
  /// k that a tap has: whole rows of 128 bytes.
  std::int64_t tap_depth() const;
};

/// Nothing where the factor is more than a load of 16 bits, or where its elements are not such a tensor's.
std::optional<Boxes> boxes_of(const Kernel& kernel, const Contraction& contraction, Operand operand);

/// The sum's variables in the order in which k goes through them.
std::vector<int> sum_in_boxes(const Contraction& contraction, const Boxes& boxes);

/// How the rows of that operand, of which there are `extents` by variable, lie in boxes.
Boxed boxed_of(const Kernel& kernel, const Boxes& boxes, Operand operand);

/// The tensor's map, of boxes with so many places of each dim of rows.
std::vector<MapDim> map_of(const Boxes& boxes, const std::vector<int>& sizes);

/// Coordinates of a box, where those of rows are declared and those of taps are too, behind the prefix `taps`:
/// "channel, -1 + (int)d2 + (int)d5, …".
std::string coordinates_in_boxes(const Boxes& boxes, std::string_view channel, std::string_view taps = "");

/// `map_a` and `fetch_a`, as print_boxes() has them. An operand that is not problem.boxed's has one dim of rows.
std::string print_box_copies(const Kernel& kernel, const Contraction& contraction, const Problem& problem,
                             const TilePlan& plan, Operand operand, const Boxes& boxes);

/// The places of an operand's rows, in tiles that are boxes.
class BoxPlaces {
 public:
  BoxPlaces(const Kernel& kernel, const Boxes& boxes, const Problem& problem, const TilePlan& plan, Operand operand);

  Operand operand() const { return operand_; }
  /// Coordinates of the row that the expression `linear` counts; the condition under which there is such a place, empty
  /// where it always holds. `clamped`: of one that there is, whatever the row.
  std::string print(PlaceWriter& writer, std::string_view linear, bool clamped = false) const;
  /// Coordinates of the first row of a tile, or of a half of it, where the expression `linear` counts that row.
  void print_tile(PlaceWriter& writer, std::string_view linear, bool half = false) const;
  /// Places of each dim that a box has, or a half of one; nothing where it has no such half.
  std::vector<int> sizes(bool half = false) const;
  /// Whether so many rows, from a multiple of as many on, are neighbours along `variable`, all of them or none.
  bool are_neighbours(int variable, std::int64_t count) const;

 private:
  struct Dim {
    int variable;
    std::int64_t extent, size, count;  ///< places; of a box; boxes
  };
  /// The dim that halves differ by: the slowest one that has more than one place of a box.
  std::size_t last() const;

  Operand operand_;
  int rows_;
  std::vector<Dim> dims_;
};

}  // namespace planish::codegen::contraction
