#include "codegen/kernel.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

#include "codegen/lower/node_text.h"

namespace planish::codegen {
namespace {

/// By node: the variables of the space that its value depends on.
std::vector<std::vector<bool>> variables_of(const Kernel& kernel) {
  const std::size_t count = kernel.space.extents.size();
  std::vector<std::vector<bool>> all;
  for (const Node& node : kernel.nodes) {
    std::vector<bool> mine(count, false);
    for (std::size_t v = 0; v < count; ++v) {
      mine[v] = node.index.depends_on(static_cast<int>(v)) ||
                (node.op == Op::reduced && v + static_cast<std::size_t>(kernel.inner) < count) ||
                node.op == Op::scanned;
      for (const auto& bound : node.where) mine[v] = mine[v] || bound.e.depends_on(static_cast<int>(v));
      for (const int a : node.args) mine[v] = mine[v] || all[static_cast<std::size_t>(a)][v];
    }
    all.push_back(std::move(mine));
  }
  return all;
}

/// Distinct elements that an index reaches at most: the product of the extents it depends on, and its range.
double touched(const ir::IndexExpr& e, const ir::Space& space) {
  double points = 1;
  for (std::size_t v = 0; v < space.extents.size(); ++v) {
    if (e.depends_on(static_cast<int>(v))) points *= static_cast<double>(space.extents[v]);
  }
  const auto [lo, hi] = e.range(space);
  return std::min(points, static_cast<double>(hi) - static_cast<double>(lo) + 1);
}

/// What a transcendental costs against a multiplication, roughly, on hardware with and without special units.
double weight(Op op) {
  switch (op) {
    case Op::constant:
    case Op::load:
    case Op::index:
    case Op::reduced:
    case Op::scanned:
      return 0;
    case Op::fma:
      return 2;
    case Op::div:
    case Op::sqrt:
    case Op::rsqrt:
    case Op::reciprocal:
      return 4;
    case Op::pow:
    case Op::remainder:
    case Op::fmod:
    case Op::floor_div:
    case Op::trunc_div:
    case Op::erf:
    case Op::erfc:
      return 20;
    default:
      return op >= Op::exp && op <= Op::sigmoid ? 10 : 1;
  }
}

}  // namespace

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

Cost cost(const Kernel& kernel) {
  Cost total;
  const auto variables = variables_of(kernel);
  // One input read at several places of the same elements (x and its mean) counts once; different parts add up to no
  // more than the whole.
  for (std::size_t i = 0; i < kernel.inputs.size(); ++i) {
    double elements = 0;
    std::vector<const Node*> seen;
    for (std::size_t n = 0; n < kernel.nodes.size(); ++n) {
      const Node& node = kernel.nodes[n];
      if (node.op != Op::load || node.input != static_cast<int>(i)) continue;
      const bool again = std::any_of(seen.begin(), seen.end(), [&](const Node* other) {
        return other->index == node.index && other->args == node.args && other->strides == node.strides;
      });
      if (again) continue;
      seen.push_back(&node);
      double part = 1;
      if (gathers(node)) {
        // Each setting of the variables may meet another place.
        for (std::size_t v = 0; v < kernel.space.extents.size(); ++v) {
          if (variables[n][v]) part *= static_cast<double>(kernel.space.extents[v]);
        }
      } else {
        part = touched(node.index, kernel.space);
      }
      for (const auto& bound : node.where) {
        // A bound lets through this share of its range.
        const auto [lo, hi] = bound.e.range(kernel.space);
        const double range = static_cast<double>(hi) - static_cast<double>(lo) + 1;
        const double open =
            static_cast<double>(std::min(hi, bound.hi - 1)) - static_cast<double>(std::max(lo, bound.lo)) + 1;
        part *= std::clamp(open / range, 0.0, 1.0);
      }
      elements += part;
    }
    double stored = 1;
    for (std::size_t d = 0; d < kernel.inputs[i].shape.size(); ++d) {
      if (kernel.inputs[i].strides[d] != 0) stored *= static_cast<double>(kernel.inputs[i].shape[d]);
    }
    total.bytes += std::min(elements, stored) * size_of(kernel.inputs[i].dtype);
  }
  double points = 1;
  for (const std::int64_t extent : kernel.space.extents) points *= static_cast<double>(extent);
  for (const Output& output : kernel.outputs) {
    total.bytes += touched(output.index, kernel.space) * size_of(output.dtype);
  }
  // Which variables each node moves with decides how often it is computed.
  for (std::size_t n = 0; n < kernel.nodes.size(); ++n) {
    double times = 1;
    for (std::size_t v = 0; v < kernel.space.extents.size(); ++v) {
      if (variables[n][v]) times *= static_cast<double>(kernel.space.extents[v]);
    }
    total.flops += weight(kernel.nodes[n].op) * times;
  }
  total.flops += static_cast<double>(kernel.reductions.size()) * points;
  for (const Scan& scan : kernel.scans) total.flops += (scan.kind == ScanKind::log_sum_exp ? 30 : 2) * points;
  return total;
}

std::string text(const Kernel& kernel) {
  std::string out =
      fmt::format("{} space [{}] inner {}{}\n", anchor_name(kernel.anchor), fmt::join(kernel.space.extents, ", "),
                  kernel.inner, kernel.reversed ? " reversed" : "");
  for (std::size_t i = 0; i < kernel.inputs.size(); ++i) {
    const Input& input = kernel.inputs[i];
    out += fmt::format("in{}: {} [{}] strides [{}]\n", i, name(input.dtype), fmt::join(input.shape, ", "),
                       fmt::join(input.strides, ", "));
  }
  for (std::size_t n = 0; n < kernel.nodes.size(); ++n) out += fmt::format("%{} = {}\n", n, node_text(kernel.nodes[n]));
  for (std::size_t r = 0; r < kernel.reductions.size(); ++r) {
    const Reduction& reduction = kernel.reductions[r];
    out += fmt::format("r{} = {} %{}{} in {} phase {}\n", r, reduce_name(reduction.kind), reduction.arg,
                       reduction.at < 0 ? "" : fmt::format(" at %{}", reduction.at), name(reduction.accumulate),
                       reduction.phase);
  }
  for (std::size_t s = 0; s < kernel.scans.size(); ++s) {
    const Scan& scan = kernel.scans[s];
    out += fmt::format("s{} = running {} %{}{} in {}\n", s, scan_name(scan.kind), scan.arg,
                       scan.at < 0 ? "" : fmt::format(" at %{}", scan.at), name(scan.accumulate));
  }
  for (std::size_t o = 0; o < kernel.outputs.size(); ++o) {
    const Output& output = kernel.outputs[o];
    out += fmt::format("out{}: {} [{}] strides [{}] [{}] = %{}{}\n", o, name(output.dtype),
                       fmt::join(output.shape, ", "), fmt::join(output.strides, ", "), output.index.text(), output.node,
                       output.per_row ? " per row" : "");
  }
  return out;
}

}  // namespace planish::codegen
