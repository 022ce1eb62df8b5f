#include "codegen/emit/whole_vectors.h"

#include <algorithm>
#include <cstdint>

#include "codegen/emit/cuda_access.h"
#include "codegen/emit/cuda_plan.h"
#include "codegen/emit/expression.h"
#include "codegen/phases.h"

namespace planish::codegen::printing {
namespace {

constexpr int vector_bytes = 16;

/// Whether results are stored in the order of both variables.
bool runs_along(const Output& output, int outer, int within, std::int64_t size) {
  return output.where.empty() && output.args.empty() && output.index.is_affine() &&
         output.index.coefficient_of(within) == 1 && output.index.coefficient_of(outer) == size;
}

}  // namespace

std::optional<Kernel> with_whole_vectors(const Kernel& kernel) {
  const int last = static_cast<int>(kernel.space.extents.size()) - 1;
  if (kernel.has_rows() || last < 1) return std::nullopt;
  const std::int64_t size = kernel.space.extent(last);
  const int width = vector_bytes / widest(kernel);
  if (width < 2 || size < 2 || size >= width || size * kernel.space.extent(last - 1) % width != 0) return std::nullopt;
  if (!std::ranges::all_of(kernel.outputs, [&](const Output& o) { return runs_along(o, last - 1, last, size); }))
    return std::nullopt;
  Kernel joined = kernel;
  contraction::join(joined, last - 1, last);
  const Lanes lanes{Lanes::Mode::along, width, last - 1, {}, {}};
  const bool gains = std::ranges::any_of(joined.nodes, [&](const Node& node) {
    if (node.op != Op::load || gathers(node)) return false;
    const Input& input = joined.inputs[static_cast<std::size_t>(node.input)];
    return classify_load(node.index, node.where, input.dtype, input.storage_elements, joined.space, lanes).kind ==
           Access::Kind::within;
  });
  if (!gains) return std::nullopt;
  return joined;
}

}  // namespace planish::codegen::printing
