#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "codegen/kernel.h"

/// Weights that are computed of a stored tensor of 8 or 4 bits an element: a scale times a number that the stored code
/// alone, and maybe a zero point, say. A piece of 16 stored bytes is 16 or 32 weights of one row, neighbours along k.
/// Pure; thread-safe.
namespace planish::codegen::skinny {

struct Codes {
  /// How a code becomes a number of 16 bits. `computed`: by whatever the graph says, element by element.
  enum class Form : std::uint8_t { i8, u8, e4m3, e5m2, nibbles, computed };
  /// What scales are constant along, and so where they are applied: to a row's sums, to the sums of one step of a warp
  /// (four pieces side by side), to a piece; `none`: nowhere.
  enum class Scale : std::uint8_t { none, row, step, piece };

  Form form = Form::computed;
  Scale scaled = Scale::none;
  int bits = 8;
  bool zeroed = false;             ///< a zero point is loaded, one a piece
  Scale zero_along = Scale::none;  ///< and what it is constant along
  int zero = 0;                    ///< and this is taken off besides
  bool flipped = false;            ///< nibbles are of two's complement, and read as if their upper bit were the other
  std::array<int, 8> order{0, 1, 2, 3, 4, 5, 6, 7};  ///< of eight codes as they are taken apart: which element each is
  /// Each word has the nibbles of eight neighbouring rows at one place of k, and words of the next rows lie beside it.
  bool turned = false;
  std::array<int, 8> rows{0, 1, 2, 3, 4, 5, 6, 7};  ///< which of the eight each nibble of such a word is of

  /// What is computed: the product kernel's nodes once more, over a space whose last variable is the piece of a row in
  /// place of the variables of k. Its inputs are those of the product kernel.
  Kernel piece;
  /// Words whose neighbours in memory are those of neighbouring rows: elements from one word of a row to its next. A
  /// piece is four of them then, and rows are four at a time; turned, a piece has 32, and rows are 32 at a time. 0: a
  /// piece's bytes lie side by side.
  std::int64_t pitch = 0;
  int variable = -1;                ///< that variable
  int input = -1;                   ///< the stored tensor
  ir::IndexExpr begin;              ///< where a row begins in it, in elements, over the variables of n
  std::vector<int> elements;        ///< nodes: the weights of a piece without scale, for the form `computed` alone
  int scale = -1, zero_point = -1;  ///< nodes

  /// Scales of steps or pieces, which a row has several of.
  bool scaled_inside() const { return scaled == Scale::step || scaled == Scale::piece; }
  int count() const { return 128 / bits; }                          ///< weights of a piece
  int together() const { return turned ? 32 : pitch > 0 ? 4 : 1; }  ///< rows that one block has at least
  /// Pieces that have their scales and zero points in common where a table holds them: 1, 4, or 0 for those of a row;
  /// nothing where it would hold none.
  std::optional<int> table_pieces() const;
  std::string note() const;  ///< for messages: "4 bits, a scale every 128"
  /// Which element of a piece the node loads, in elements of the stored type of `size` bytes.
  std::int64_t place(const Node& load, std::int64_t size) const {
    return pitch > 0 ? load.index.constant_term() / pitch : load.index.constant_term() % (16 / size);
  }
};

/// Takes `factor` apart, which moves with the variables `n` and `k` of the kernel, k's last one fastest, and is
/// multiplied in the type `half`. What counts inside of words stands last among n. Error kind
/// `unsupported` where nothing stored in 8 or 4 bits is behind it, or its codes do not lie one after the other.
Result<Codes> codes_of(const Kernel& kernel, int factor, const std::vector<int>& n, const std::vector<int>& k,
                       DType half);

/// Whether a load looks a code up in a table of few numbers (nf4's 16, those of a scale's 256 codes): in a line or a
/// few of the cache.
bool looks_up(const Kernel& kernel, const Node& load);

/// How many of the last variables of `n` do not move where an input is loaded: what they count lies inside of its
/// elements.
std::ptrdiff_t inside_of_words(const Kernel& kernel, int input, std::span<const int> n);

/// Whether two factors of one product can be parts of one kernel.
bool alike(const Codes& a, const Codes& b);

}  // namespace planish::codegen::skinny
