#pragma once

#include <cstdint>
#include <vector>

#include "base/dtype.h"
#include "base/result.h"
#include "codegen/kernel.h"

/// Keys and values as they lie in a cache: in 16 bits, or in 8 with scales, one after the other or where a table says.
/// Pure; thread-safe.
namespace planish::codegen {

/// What each element of a row is times, or divided by.
struct RowScale {
  int node = -1;
  bool divides = false;
  bool by_key = false;  ///< it moves with the key
};

/// Rows of neighbouring elements. Without a look-up that of a key begins at `begin` + key · `stride`.
struct KeyRows {
  int input = -1;             ///< of the kernel
  int load = -1;              ///< node
  DType stored = DType::f32;  ///< 16 bits, or 8
  ir::IndexExpr begin;        ///< element, over the variables of the batch, and of the keys where a look-up adds to it
  std::int64_t stride = 0;    ///< elements from a key to the next, where they lie together
  std::int64_t together = 0;  ///< so many keys follow from each look-up, at least; 0: there is none
  std::vector<RowScale> scales;

  int element_bytes() const { return stored == DType::f16 || stored == DType::bf16 ? 2 : 1; }
  bool weighs() const;  ///< a scale moves with the key
};

/// Whether an index is a multiple of `whole` wherever its variables stand.
bool is_multiple(const ir::IndexExpr& index, std::int64_t whole);

/// `factor`: a node that moves with `line`, along which rows run, and with `keys`, the last of them fastest. `half`:
/// the type that it is multiplied in. Error kind `unsupported`, saying why.
Result<KeyRows> key_rows_of(const Kernel& kernel, int factor, int line, const std::vector<int>& keys, DType half);

}  // namespace planish::codegen
