#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "codegen/kernel.h"

/// What kernels that leave pieces of folds in scratch share: the ordinary row kernel that puts the pieces together and
/// computes what is made of them, so that epilogues are written once. Its inputs are arrays of pieces, then inputs of
/// the kernel that it finishes. One thread.
namespace planish::codegen::printing {

class Gathering {
 protected:
  /// Variables that stay keep their order; behind them `pieces` is the row that is folded. `inputs`: filled with which
  /// of the kernel's inputs it loads. Kernel and inputs outlive it.
  Gathering(const Kernel& kernel, const std::vector<bool>& stays, std::int64_t pieces, std::vector<int>& inputs);

  int push(Node node);
  int reduce(ReduceKind kind, int arg, DType accumulate, int phase);
  /// A load of an array of pieces, which becomes the next input.
  int load_pieces(Input pieces, ir::IndexExpr at);
  /// A node of the kernel, with what it needs; what a reduction gives is `results_`.
  int copy(int id);
  /// The kernel with those outputs that are wanted, each written once a row; `outputs`: which of the kernel's they are.
  Kernel finished(const std::function<bool(const Output&)>& wanted, std::vector<int>& outputs);

  const Kernel& k_;
  Kernel made_;
  std::vector<int> results_;  ///< by reduction of k_: the node that holds its result

 private:
  std::vector<int>& inputs_;
  std::vector<int> copied_;
  std::vector<ir::IndexExpr> replacements_;
};

}  // namespace planish::codegen::printing
