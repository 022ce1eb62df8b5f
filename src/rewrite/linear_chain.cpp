#include "rewrite/linear_chain.h"

namespace planish::rewrite {
namespace {

std::optional<Scalar> scalar(const ir::GraphNode& node) {
  const auto value = number(node, "other");
  if (!value || tensor(node, "self") < 0) return std::nullopt;
  if (node.op == "aten.mul.Tensor") return Scalar{Scalar::Kind::factor, *value};
  if (node.op == "aten.div.Tensor") return Scalar{Scalar::Kind::quotient, *value};
  const double alpha = node.arg("alpha") == nullptr ? 1 : number(node, "alpha").value_or(0);
  if (alpha != 1) return std::nullopt;
  if (node.op == "aten.add.Tensor") return Scalar{Scalar::Kind::summand, *value};
  if (node.op == "aten.sub.Tensor") return Scalar{Scalar::Kind::summand, -*value};
  return std::nullopt;
}

}  // namespace

std::optional<LinearChain> linear_chain(const Editor& editor, int index, bool (*is_maker)(const ir::GraphNode&)) {
  auto fold = linear_fold(editor, editor.node(index));
  if (!fold) return std::nullopt;
  LinearChain chain{*fold, {}, fold->of};
  const DType dtype = editor.value(fold->of).dtype;
  if (dtype != DType::f32 && dtype != DType::f64) return std::nullopt;
  while (true) {
    const ir::GraphNode* node = editor.maker(chain.made);
    if (node == nullptr || !editor.read_once(chain.made) || editor.value(chain.made).dtype != dtype)
      return std::nullopt;
    if (is_maker(*node)) return chain;
    const auto one = scalar(*node);
    if (!one) return std::nullopt;
    chain.between.push_back(*one);
    chain.made = tensor(*node, "self");
  }
}

int apply(Editor& editor, const LinearChain& chain, int sum, const std::vector<std::int64_t>& shape) {
  const auto by = [&](const char* op, double value) {
    std::vector<ir::Arg> args{of("self", sum), {"other", value}};
    if (std::string_view(op) == "aten.add.Tensor") args.push_back({"alpha", std::int64_t{1}});
    sum = editor.add(op, std::move(args), shape, sum);
  };
  const auto count = static_cast<double>(chain.fold.count);
  for (auto one = chain.between.rbegin(); one != chain.between.rend(); ++one) {
    switch (one->kind) {
      case Scalar::Kind::factor:
        by("aten.mul.Tensor", one->value);
        break;
      case Scalar::Kind::quotient:
        by("aten.div.Tensor", one->value);
        break;
      case Scalar::Kind::summand:
        by("aten.add.Tensor", one->value * count);
        break;
    }
  }
  if (chain.fold.mean) by("aten.div.Tensor", count);
  return sum;
}

}  // namespace planish::rewrite
