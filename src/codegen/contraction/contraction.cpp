#include "codegen/contraction/contraction.h"

#include <algorithm>
#include <ranges>
#include <utility>

#include "backend/architecture.h"
#include "codegen/variables.h"

namespace planish::codegen {
Result<Contraction> contraction_of(const Kernel& kernel) {
  const auto no = [](const char* why) { return fail("unsupported", why); };
  if (kernel.reductions.empty() || !kernel.scans.empty() || kernel.inner < 1 ||
      !std::ranges::all_of(kernel.reductions | std::views::drop(1), &Reduction::across))
    return no("not one fold of rows");
  const Reduction& sum = kernel.reductions[0];
  if (sum.kind != ReduceKind::sum || (sum.accumulate != DType::f32 && sum.accumulate != DType::i32))
    return no("not a sum in f32 or i32");
  const Node& product = kernel.nodes[static_cast<std::size_t>(sum.arg)];
  if (product.op != Op::mul || product.args.size() != 2) return no("not a sum of products");
  Contraction out;
  out.first = product.args[0];
  out.second = product.args[1];
  const auto moves = variables_of(kernel);
  const auto moved = [&](int node, std::size_t v) { return moves[static_cast<std::size_t>(node)][v]; };
  const std::size_t count = kernel.space.extents.size(), outer = count - static_cast<std::size_t>(kernel.inner);
  for (std::size_t v = 0; v < count; ++v) {
    const bool first = moved(out.first, v), second = moved(out.second, v);
    const int variable = static_cast<int>(v);
    if (v >= outer) {
      if (!first || !second) return no("a factor that does not move with the sum");
      out.k.push_back(variable);
    } else if (first || second) {
      (first && second ? out.batch : first ? out.m : out.n).push_back(variable);
    } else {
      return no("results that neither factor moves with");
    }
  }
  if (out.m.empty() || out.n.empty()) return no("a product with a vector");
  if (kernel.outputs.empty()) return no("no outputs");
  // Memory of the first output runs along the last of the outer variables that it has at stride 1, mostly one of n.
  for (const int v : out.m) {
    if (kernel.outputs[0].index.coefficient_of(v) == 1) {
      std::swap(out.first, out.second);
      std::swap(out.m, out.n);
      break;
    }
  }
  out.batches = kernel.extent_of(out.batch);
  out.rows = kernel.extent_of(out.m);
  out.columns = kernel.extent_of(out.n);
  out.depth = kernel.extent_of(out.k);
  return out;
}

TensorCores tensor_cores(const Device& device) {
  if (device.target->on_host) return TensorCores::none;
  const backend::Architecture& arch = backend::architecture(device.arch);
  if (arch.wgmma) return TensorCores::warpgroups;
  return arch.mma16 && arch.async_copies ? TensorCores::warps : TensorCores::none;
}

Kernel as_rows(const Kernel& kernel) {
  Kernel rows = kernel;
  rows.anchor = Anchor::row;
  return rows;
}

}  // namespace planish::codegen
