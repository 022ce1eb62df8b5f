#include "rewrite/norms.h"

#include <algorithm>
#include <variant>

namespace planish::rewrite {

std::optional<Norm> norm_of(const Editor& editor, const ir::GraphNode& node) {
  Norm out{tensor(node, "input"), tensor(node, "weight"), tensor(node, "bias")};
  const auto eps = number(node, "eps");
  if (out.x < 0 || !eps || editor.value(out.x).shape.size() < 3) return std::nullopt;
  out.eps = *eps;
  if (node.op == "aten.native_group_norm.default") {
    out.groups = static_cast<std::int64_t>(number(node, "group").value_or(0));
    if (out.groups < 1 || editor.value(out.x).shape[1] % out.groups != 0) return std::nullopt;
    return out;
  }
  if (node.op != "aten._native_batch_norm_legit_functional.default") return std::nullopt;
  const ir::Arg* training = node.arg("training");
  const auto* trains = training == nullptr ? nullptr : std::get_if<bool>(&training->data);
  if (trains == nullptr || !*trains) return std::nullopt;
  out.running_mean = tensor(node, "running_mean");
  out.running_variance = tensor(node, "running_var");
  const auto momentum = number(node, "momentum");
  const ir::Value& x = editor.value(out.x);
  if (out.running_mean < 0 || out.running_variance < 0 || !momentum || x.elements() < 2 * x.shape[1])
    return std::nullopt;
  out.momentum = *momentum;
  return out;
}

int Steps::add(int a, int b) {
  return two("aten.add.Tensor", a, of("other", b), true);
}
int Steps::subtract(int a, int b) {
  return two("aten.sub.Tensor", a, of("other", b), true);
}
int Steps::multiply(int a, int b) {
  return two("aten.mul.Tensor", a, of("other", b), false);
}
int Steps::add(int a, double b) {
  return two("aten.add.Tensor", a, {"other", b}, true);
}
int Steps::multiply(int a, double b) {
  return two("aten.mul.Tensor", a, {"other", b}, false);
}

int Steps::divide(int a, double b) {
  return two("aten.div.Tensor", a, {"other", b}, false);
}

int Steps::rsqrt(int a) {
  return editor_.add("aten.rsqrt.default", {of("self", a)}, shape(a), like_);
}

int Steps::mean(int a, Extents over) {
  Extents left = folded(a, over);
  return editor_.add("aten.mean.dim",
                     {of("self", a), dims(std::move(over)), flag("keepdim", true), {"dtype", ir::None{}}},
                     std::move(left), like_);
}

std::pair<int, int> Steps::variance(int a, Extents over) {
  const Extents left = folded(a, over);
  const int found = editor_.add(
      "aten.var_mean.correction",
      {of("self", a), dims(std::move(over)), {"correction", std::int64_t{0}}, flag("keepdim", true)}, left, like_);
  return {found, editor_.add_result(left, like_)};
}

Steps::Joined Steps::joined(int mean, int variance, std::int64_t dim, double eps) {
  const int middle = this->mean(mean, {dim}), away = subtract(mean, middle);
  // The variance of all is the mean of those of the parts, and that of their means.
  const int spread = this->mean(add(variance, multiply(away, away)), {dim});
  return {middle, away, spread, rsqrt(add(spread, eps))};
}

int Steps::view(int a, const Extents& as) {
  return shape(a) == as ? a : editor_.add("aten.view.default", {of("self", a), {"size", as}}, as, like_);
}

int Steps::two(const char* op, int a, ir::Arg b, bool scaled) {
  Extents result = shape(a);
  if (const auto* other = std::get_if<ir::ValueRef>(&b.data)) {
    for (std::size_t d = 0; d < result.size(); ++d) result[d] = std::max(result[d], shape(other->id)[d]);
  }
  std::vector<ir::Arg> args{of("self", a), std::move(b)};
  if (scaled) args.push_back({"alpha", std::int64_t{1}});
  return editor_.add(op, std::move(args), std::move(result), like_);
}

Steps::Extents Steps::folded(int a, const Extents& over) const {
  Extents left = shape(a);
  for (const std::int64_t d : over) left[static_cast<std::size_t>(d)] = 1;
  return left;
}

}  // namespace planish::rewrite
