#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "codegen/genome.h"
#include "codegen/kernel.h"

/// Elements of rows by their rank: what sort, topk and kthvalue are. A kernel's outer variables are those of rows and
/// one that counts ranks; the inner ones count the elements of a row. Reductions nth_smallest and nth_largest give an
/// element, or a place, by its rank. What elements are made of may need folds of the row (a softmax's sum), and what is
/// stored anything that follows from an element of a rank. Pure; thread-safe.
namespace planish::codegen {

/// Ranks of a row that is longer than LowerLimits::longest_order that may be asked for.
inline constexpr std::int64_t most_ranks = 64;
/// Longest row that a block of a GPU puts in order as a whole; of elements of 64 bits it is half as long.
inline constexpr std::int64_t longest_order_of_block = 16384;
/// LowerLimits::longest_order for the device.
std::int64_t longest_order(const Device& device);

struct RowOrder {
  int arg = -1;              ///< node: what is compared
  DType dtype = DType::f32;  ///< of that, as memory has it: f16 and bf16 where it was read so or rounded
  bool descending = false;
  int rank = -1;               ///< outer variable that counts ranks; −1: one rank
  std::int64_t first = 0;      ///< rank where that variable is 0
  std::int64_t count = 1;      ///< its extent
  std::int64_t length = 0;     ///< of a row
  std::vector<int> variables;  ///< the other outer ones
  std::int64_t rows = 1;
  std::vector<int> folds;  ///< reductions of rows that elements or results need, by phase

  /// Elements of a row that are put in order.
  std::int64_t ranks() const { return first + count; }
  /// Keys of 64 bits, where others have 32.
  bool has_wide_keys() const { return size_of(dtype) == 8; }
  /// Bits of an fp32 that elements of 16 bits do not have.
  int unused_bits() const { return dtype == DType::bf16 ? 16 : dtype == DType::f16 ? 13 : 0; }
  /// On a processor: ranks that insertion finds, without the whole row in order (device/cpu/order.h).
  bool few() const { return ranks() <= 128 && 2 * ranks() <= length; }
};

bool has_ranks(const Kernel& kernel);
/// Of a kernel of anchor `order`. Error kind `unsupported`: it is more than one order, or more than that.
Result<RowOrder> order_of(const Kernel& kernel);
/// Whether it is one that schedules run: rows of at most so many elements, or few ranks of longer ones.
Status check_order(const Kernel& kernel, std::int64_t longest);

}  // namespace planish::codegen
