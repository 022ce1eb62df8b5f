#include "codegen/kernel.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <limits>

#include "codegen/node_text.h"

namespace planish::codegen {

OutOfRange out_of_range(DType dtype) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  switch (dtype) {
    case DType::i64:
      return {nan, std::numeric_limits<std::int64_t>::min()};
    case DType::i32:
      return {nan, std::numeric_limits<std::int32_t>::min()};
    case DType::i16:
      return {nan, std::numeric_limits<std::int16_t>::min()};
    case DType::i8:
      return {nan, std::numeric_limits<std::int8_t>::min()};
    default:
      return {nan, 0};
  }
}

int product_beside_extreme(const Kernel& kernel, const Node& node) {
  if (node.op != Op::sub || !is_floating(node.dtype)) return -1;
  const auto argument = [&](std::size_t i) { return &kernel.nodes[static_cast<std::size_t>(node.args[i])]; };
  const auto is_extreme = [&](const Node& one) {
    if (one.op == Op::reduced) {
      const ReduceKind kind = kernel.reductions[static_cast<std::size_t>(one.reduction)].kind;
      return kind == ReduceKind::max || kind == ReduceKind::min;
    }
    if (one.op != Op::scanned || one.position) return false;
    const ScanKind kind = kernel.scans[static_cast<std::size_t>(one.scan)].kind;
    return kind == ScanKind::max || kind == ScanKind::min;
  };
  for (const std::size_t i : {0U, 1U}) {
    const Node* factor = argument(i);
    while (factor->op == Op::neg) factor = &kernel.nodes[static_cast<std::size_t>(factor->args[0])];
    if (factor->op == Op::mul && is_extreme(*argument(1 - i))) return static_cast<int>(i);
  }
  return -1;
}

namespace {

/// " moved 64*(%0 < 5) over others"
std::string moved_text(const Output& output) {
  std::string out = output.args.empty() ? "" : " moved";
  for (std::size_t i = 0; i < output.args.size(); ++i)
    out += fmt::format("{} {}*(%{} < {})", i == 0 ? "" : " +", output.arg_strides[i], output.args[i],
                       output.arg_limits[i]);
  return out + " over others";
}

}  // namespace

std::string text(const Kernel& kernel) {
  std::string out =
      fmt::format("{} space [{}] inner {}{}{}{}\n", info(kernel.anchor).name, fmt::join(kernel.space.extents, ", "),
                  kernel.inner, kernel.across == 0 ? "" : fmt::format(" across {}", kernel.across),
                  kernel.parts == 0 ? "" : fmt::format(" parts {}", kernel.parts), kernel.reversed ? " reversed" : "");
  for (std::size_t i = 0; i < kernel.inputs.size(); ++i) {
    const Input& input = kernel.inputs[i];
    out += fmt::format("in{}: {} [{}] strides [{}]\n", i, name(input.dtype), fmt::join(input.shape, ", "),
                       fmt::join(input.strides, ", "));
  }
  for (std::size_t n = 0; n < kernel.nodes.size(); ++n) out += fmt::format("%{} = {}\n", n, node_text(kernel.nodes[n]));
  for (std::size_t r = 0; r < kernel.reductions.size(); ++r) {
    const Reduction& reduction = kernel.reductions[r];
    out += fmt::format("r{} = {}{} %{}{} in {} phase {}{}\n", r,
                       reduction.across ? "across "
                       : reduction.part ? "of parts "
                                        : "",
                       info(reduction.kind).name, reduction.arg,
                       reduction.at < 0 ? "" : fmt::format(" at %{}", reduction.at), name(reduction.accumulate),
                       reduction.phase, reduction.rank < 0 ? "" : fmt::format(" rank %{}", reduction.rank));
  }
  for (std::size_t s = 0; s < kernel.scans.size(); ++s) {
    const Scan& scan = kernel.scans[s];
    out += fmt::format("s{} = running {} %{}{} in {}\n", s, info(scan.kind).name, scan.arg,
                       scan.at < 0 ? "" : fmt::format(" at %{}", scan.at), name(scan.accumulate));
  }
  for (std::size_t o = 0; o < kernel.outputs.size(); ++o) {
    const Output& output = kernel.outputs[o];
    out += fmt::format("out{}: {} [{}] strides [{}] [{}] = %{}{}\n", o, name(output.dtype),
                       fmt::join(output.shape, ", "), fmt::join(output.strides, ", "), output.index.text(), output.node,
                       output.writes_places() ? moved_text(output)
                       : output.per_row       ? " per row"
                       : output.per_column    ? " per column"
                       : output.per_part      ? " per part"
                                              : "");
  }
  if (kernel.recurrence) out += text(*kernel.recurrence);
  return out;
}

}  // namespace planish::codegen
