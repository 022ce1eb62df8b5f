#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "codegen/kernel.h"
#include "ir/graph.h"

namespace planish::codegen {

/// How partition may treat an operator (by name; lowering decides about the details).
enum class OpClass : std::uint8_t {
  view,       ///< moves nothing: inlined wherever it is read
  creation,   ///< made from nothing: inlined wherever it is read
  pointwise,  ///< one element from elements at one place of each operand, copies included
  row,        ///< folds rows
  scan,       ///< running values along rows
  write,      ///< another tensor with other elements at places known at run time
  other,      ///< an `aten` step
};
OpClass classify(std::string_view op);
/// Whether LowerLimits::contractions is about this operator: a product of matrices or vectors or a recurrent network,
/// whose class is `other`, or a convolution.
bool contracts(std::string_view op);

struct LowerLimits {
  int max_loads = 64;
  int max_taps = 160;      ///< loads that are written out, those of one place's neighbours each: more wait in registers
  int max_row_loads = 20;  ///< of a kernel that sweeps rows: of a concatenation of forty, no schedule has the registers
  int max_nodes = 400;
  /// Allows outputs of every element beside results of rows that none of them needs (`relu(x)` and its sum).
  bool unneeded_rows = true;
  bool parts = true;  ///< where nothing else does, parts of rows may be folded beside the rows (see codegen/segments.h)
  bool contractions =
      false;  ///< matrix products and convolutions may be lowered (see codegen/contraction/contraction.h)
  bool narrow_products = false;    ///< of these only what mma.sync computes (see codegen/lower/narrow_products.h)
  std::int64_t longest_order = 0;  ///< rows whose elements may be put in order; more than a few ranks of longer ones
                                   ///< are PyTorch's (see codegen/order/order.h)
  bool wide_heads = false;         ///< attention of heads that no schedule has room for: of a library's operator
  bool grouped = false;            ///< products of rows in groups may be lowered (see codegen/grouped/grouped.h)
};

/// One kernel that computes `outputs` from everything that the nodes in `inside` (flags by node index) do not make
/// themselves. Error kind `unsupported`: these nodes do not fit one kernel, and the message says why. Deterministic.
/// Kernel::inputs are in order of first use.
/// `given` values are loaded even where a node inside makes them; a norm or softmax whose statistics are given sweeps
/// no row.
Result<Kernel> lower(const ir::Graph& graph, const std::vector<bool>& inside, std::span<const int> outputs,
                     const LowerLimits& limits = {}, std::span<const int> given = {});

/// The values that, where they are given, make the first output of a norm or a softmax a pointwise one: the norm's own
/// further outputs, or, where these are kept in fewer bits than a kernel that does the whole norm would keep them in,
/// those of a norm of the same data, converted, the first behind it; the maxima and the sums of exponentials of a
/// softmax's rows, the first behind it. Empty for other nodes, and where the graph has none. `node` is one of the
/// graph's.
std::vector<int> statistics_of(const ir::Graph& graph, const ir::GraphNode& node);

}  // namespace planish::codegen
