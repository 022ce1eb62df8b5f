#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "rewrite/products.h"
#include "rewrite/rules.h"

namespace planish::rewrite {
namespace {

/// The largest or least of windows, or over dims: of what, and which dims it folds.
struct Extremum {
  int of = -1;
  std::vector<bool> folded;  ///< by dim
  bool keeps_rank = true;
};

std::optional<Extremum> extremum(const Editor& editor, const ir::GraphNode& node) {
  if (node.outs.size() != 1 || !node.outs[0]) return std::nullopt;
  Extremum out{tensor(node, "self"), {}, true};
  if (out.of < 0) return std::nullopt;
  const std::size_t rank = editor.value(out.of).shape.size();
  out.folded.assign(rank, false);
  constexpr std::array<std::string_view, 3> pools{"aten.max_pool1d.default", "aten.max_pool2d.default",
                                                  "aten.max_pool3d.default"};
  const auto pool = std::ranges::find(pools, node.op);
  if (pool != pools.end()) {
    const auto dims = static_cast<std::size_t>(pool - pools.begin()) + 1;
    if (rank < dims) return std::nullopt;
    std::fill(out.folded.end() - static_cast<std::ptrdiff_t>(dims), out.folded.end(), true);
    // Windows whose taps are apart may meet padding alone, of which the largest is none: f has no value there.
    const auto padding = by_dim(node, "padding", dims, 0), dilation = by_dim(node, "dilation", dims, 1);
    if (!padding || !dilation) return std::nullopt;
    if (std::ranges::any_of(*padding, [](std::int64_t n) { return n != 0; }) &&
        std::ranges::any_of(*dilation, [](std::int64_t n) { return n != 1; }))
      return std::nullopt;
    return out;
  }
  if (node.op != "aten.amax.default" && node.op != "aten.amin.default") return std::nullopt;
  const ir::Arg* const dim = node.arg("dim");
  if (dim == nullptr || !std::holds_alternative<std::vector<std::int64_t>>(dim->data)) return std::nullopt;
  const auto& dims = std::get<std::vector<std::int64_t>>(dim->data);
  if (dims.empty()) out.folded.assign(rank, true);  // as PyTorch has it
  for (std::int64_t d : dims) {
    if (d < 0) d += static_cast<std::int64_t>(rank);
    if (d < 0 || d >= static_cast<std::int64_t>(rank)) return std::nullopt;
    out.folded[static_cast<std::size_t>(d)] = true;
  }
  out.keeps_rank = editor.value(*node.outs[0]).shape.size() == rank;
  return out;
}

/// Whether a factor has an inverse that is a number too, in the least dtype that is computed with: else it makes NaN of
/// an infinity or of 0.
bool is_moderate(double value) {
  const auto single = static_cast<float>(value);
  return std::isnormal(single) && std::isnormal(1.0F / single);
}

/// Functions that never fall, and give NaN for NaN alone: no softsign, which makes NaN of infinities, and no slope of
/// 0, which does so too.
bool is_rising(const ir::GraphNode& node) {
  constexpr std::array<std::string_view, 4> always{"aten.tanh.default", "aten.sigmoid.default", "aten.relu.default",
                                                   "aten.exp.default"};
  if (std::ranges::find(always, node.op) != always.end()) return true;
  // Bounds are numbers or nothing, and no bound is NaN.
  const auto bound = [&](std::string_view name) {
    const ir::Arg* const arg = node.arg(name);
    if (arg == nullptr || std::holds_alternative<ir::None>(arg->data)) return true;
    const auto value = number(node, name);
    return value && !std::isnan(*value);
  };
  if (node.op == "aten.clamp.default" || node.op == "aten.clamp_min.default" || node.op == "aten.clamp_max.default")
    return bound("min") && bound("max");
  if (node.op == "aten.hardtanh.default") return bound("min_val") && bound("max_val");
  if (node.op == "aten.leaky_relu.default") {
    const double slope = number(node, "negative_slope").value_or(node.arg("negative_slope") == nullptr ? 0.01 : -1);
    return slope > 0 && is_moderate(slope);
  }
  return false;
}

/// A factor or quotient above zero, or a summand: numbers, or parameters that are the same all over a fold.
bool is_rising_with_another(const Editor& editor, const ir::GraphNode& node, const Extremum& fold) {
  const bool sum = node.op == "aten.add.Tensor" || node.op == "aten.sub.Tensor";
  if (!sum && node.op != "aten.mul.Tensor" && node.op != "aten.div.Tensor") return false;
  if (node.arg("rounding_mode") != nullptr) return false;
  const double alpha = node.arg("alpha") == nullptr ? 1 : number(node, "alpha").value_or(0);
  if (sum && alpha != 1) return false;
  if (const auto value = number(node, "other"))
    return sum ? std::isfinite(static_cast<float>(*value)) : *value > 0 && is_moderate(*value);
  const int other = tensor(node, "other");
  if (!sum || other < 0 || !editor.is_parameter(other) || !fold.keeps_rank) return false;
  const auto& shape = editor.value(other).shape;
  const std::size_t rank = fold.folded.size();
  if (shape.size() > rank || editor.value(other).dtype != editor.value(fold.of).dtype) return false;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (fold.folded[rank - shape.size() + d] && shape[d] != 1) return false;
  }
  return true;
}

}  // namespace

bool extremum_before_monotone(Editor& editor, int index) {
  ir::GraphNode outer = editor.node(index);  // copies: new nodes move what is there
  const auto fold = extremum(editor, outer);
  if (!fold || !editor.read_once(fold->of)) return false;
  const ir::GraphNode* const maker = editor.maker(fold->of);
  if (maker == nullptr) return false;
  ir::GraphNode inner = *maker;
  if (!is_rising(inner) && !is_rising_with_another(editor, inner, *fold)) return false;
  const int x = tensor(inner, "self");
  if (x < 0) return false;
  const ir::Value data = editor.value(x), between = editor.value(fold->of), last = editor.value(*outer.outs[0]);
  if (data.shape != between.shape || data.dtype != between.dtype || last.dtype != data.dtype) return false;
  if (!is_floating(data.dtype) || last.elements() >= data.elements()) return false;
  redirect(outer, "self", x);
  const int folded = editor.add(outer.op, std::move(outer.args), last.shape, x);
  redirect(inner, "self", folded);
  editor.add(inner.op, std::move(inner.args), last.shape, folded);
  editor.replace(index);
  return true;
}

}  // namespace planish::rewrite
