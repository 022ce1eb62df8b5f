#pragma once

#include <string>

#include "codegen/contraction/plan.h"

namespace planish::codegen::contraction {

/// What a main loop is printed into: who gets its results.
struct EpilogueVisitor {
  std::string prelude;     ///< text before the kernel, behind sm90/contraction.cuh
  std::string parameters;  ///< of the kernel, behind its operands
  /// Of a function `store_sums<rows, columns, all>`, in front of (slice, row, column, end, lane, sums): a warp stores C
  /// at row + r and column + c, r < rows, c < columns, where that column is below `end`; `sums(r, c)` is what was added
  /// up there (and neighbours(sums, r, c, v) gives several from a c that is a multiple of as many, see
  /// epilogue.h), the rows are inside C where `all`. `lane` is the caller's in its warp; 0 does all of one element. A
  /// slice is a product, or where k is split a part of one (product · split_k + part). Where tiles overlap, `end` is
  /// where the next one begins, and behind the sums comes where this one does (see sectors.h).
  std::string arguments;
  /// Rows of the operands were multiplied by powers of two, whose exponents the parameters `ea` and `eb` hold: results
  /// are multiplied back. Not where k is split.
  bool scaled = false;
  std::int64_t images = 0;  ///< of an operand whose strips are read
  /// `store_sums` is unrolled for a whole tile, with loads under way: a second way to scale in front of it costs more
  /// than it saves.
  bool crowded = false;
  /// There is a function `fold_sums<columns, all>` too, with the same arguments in front of (slice, row, column, end,
  /// lane, v): a warp's threads hold the sums of 16 rows of a tile from `row` on in `v`, which the function may change:
  /// v[4 · g + 2 · h + i] is row lane / 4 + 8 · h, column 8 · g + 2 · (lane % 4) + i.
  bool folds = false;
  bool stores = true;  ///< there is a `store_sums`
};

/// The visitor that writes C in fp32, row-major (m × n, slice by slice), through the parameter `c`.
EpilogueVisitor plain_store(const Problem& problem);

/// A kernel's text and how it is launched.
struct MainLoop {
  std::string source;  ///< CUDA C++ without headers, for `sm_90a`; one entry `planish_kernel`
  int threads = 0;
  int shared_bytes = 0;     ///< dynamic
  std::int64_t blocks = 0;  ///< most that have work; fewer walk further each, where nothing is stationary
};

constexpr std::int64_t map_bytes = 256;  ///< of a block, for both operands

/// Arguments of the kernel: A's parts, then B's (pointers to operands, aligned to 16 bytes), then the visitor's.
/// `places`: print_places() of those that are not packed, or with tensor maps print_boxes(); a last argument then
/// points to map_bytes for each block, aligned to 128. Where the plan has needs_fallback() one more points to an int
/// for each block: not 0 afterwards where the block met a row that has to be scaled, and its results may be wrong.
/// Where strips are read these are the notes of print_strip_reader(), which are 0 before, and `images` of them are
/// images'. Errors are check()'s.
Result<MainLoop> print_main_loop(const Problem& problem, const TilePlan& plan, const EpilogueVisitor& visitor,
                                 int multiprocessors, std::int64_t shared_limit = 232448,
                                 const std::string& places = {});

/// A kernel's text with one more parameter in front, `const int* NAME`: where none of its first `count` numbers, `i`,
/// meets the condition (empty: is 0), the kernel does nothing.
std::string only_if_any(std::string source, const std::string& name, std::int64_t count,
                        const std::string& condition = {});

}  // namespace planish::codegen::contraction
