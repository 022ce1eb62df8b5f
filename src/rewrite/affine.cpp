#include "rewrite/affine.h"

#include <cmath>

namespace planish::rewrite {
namespace {

/// The parameter behind views of it.
int parameter_behind(const Editor& editor, int id) {
  while (true) {
    const ir::GraphNode* node = editor.maker(id);
    const bool view = node != nullptr && (node->op == "aten.view.default" || node->op == "aten.unsqueeze.default");
    if (!view) return id;
    id = tensor(*node, "self");
  }
}

/// Whether it is the model's own and has one element a channel, or one for all.
bool by_channel(const Editor& editor, int id, const ir::Value& results, std::size_t channel) {
  const ir::Value& own = editor.value(id);
  if (!editor.is_parameter(parameter_behind(editor, id)) || own.dtype != results.dtype) return false;
  if (own.shape.size() > results.shape.size()) return false;
  const std::size_t ahead = results.shape.size() - own.shape.size();
  for (std::size_t d = 0; d < own.shape.size(); ++d) {
    if (own.shape[d] != 1 && (d + ahead != channel || own.shape[d] != results.shape[channel])) return false;
  }
  return true;
}

/// Another value, with its channels' shape kept.
class Repeated {
 public:
  Repeated(Editor& editor, int value) : editor_(editor), value_(value), shape_(editor.value(value).shape) {}

  int value() const { return value_; }
  void by(const char* op, ir::Arg other) {
    std::vector<ir::Arg> args{of("self", value_), std::move(other)};
    if (op[5] == 'a' || op[5] == 's') args.push_back({"alpha", std::int64_t{1}});  // add, sub
    value_ = editor_.add(op, std::move(args), shape_, value_);
  }
  void norm(const AffinePiece& piece) {
    const std::vector<std::int64_t> vector{shape_[1]};
    const int inside =
        editor_.add("aten.add.Tensor", {of("self", piece.variance), {"other", piece.eps}, {"alpha", std::int64_t{1}}},
                    vector, piece.variance);
    int factor = editor_.add("aten.rsqrt.default", {of("self", inside)}, vector, inside);
    if (piece.weight >= 0)
      factor = editor_.add("aten.mul.Tensor", {of("self", factor), of("other", piece.weight)}, vector, factor);
    by("aten.sub.Tensor", of("other", along(piece.mean)));
    by("aten.mul.Tensor", of("other", along(factor)));
    if (piece.bias >= 0) by("aten.add.Tensor", of("other", along(piece.bias)));
  }

 private:
  /// A vector of a number a channel.
  int along(int vector) {
    std::vector<std::int64_t> shape(shape_.size() - 1, 1);
    shape[0] = shape_[1];
    return editor_.add("aten.view.default", {of("self", vector), {"size", shape}}, shape, vector);
  }

  Editor& editor_;
  int value_;
  std::vector<std::int64_t> shape_;
};

}  // namespace

std::optional<AffinePiece> affine_piece(const Editor& editor, const ir::GraphNode& node, const ir::Value& results,
                                        std::size_t channel, int& data) {
  AffinePiece out;
  const auto own = [&](int id) { return id < 0 || by_channel(editor, id, results, channel); };
  if (node.op == "aten._native_batch_norm_legit_no_training.default") {
    data = tensor(node, "input");
    out.kind = AffinePiece::Kind::norm;
    out.mean = tensor(node, "running_mean");
    out.variance = tensor(node, "running_var");
    out.weight = tensor(node, "weight");
    out.bias = tensor(node, "bias");
    const auto eps = number(node, "eps");
    if (data < 0 || out.mean < 0 || out.variance < 0 || !eps || channel != 1) return std::nullopt;
    out.eps = *eps;
    for (const int id : {out.mean, out.variance, out.weight, out.bias}) {
      if (id >= 0 && (!editor.is_parameter(id) || editor.value(id).dtype != results.dtype)) return std::nullopt;
    }
    return out;
  }
  const bool adds = node.op == "aten.add.Tensor", subtracts = node.op == "aten.sub.Tensor";
  const bool multiplies = node.op == "aten.mul.Tensor";
  if (!adds && !subtracts && !multiplies && node.op != "aten.div.Tensor") return std::nullopt;
  if ((adds || subtracts) && node.arg("alpha") != nullptr && number(node, "alpha").value_or(0) != 1)
    return std::nullopt;
  out.kind = adds         ? AffinePiece::Kind::summand
             : subtracts  ? AffinePiece::Kind::difference
             : multiplies ? AffinePiece::Kind::factor
                          : AffinePiece::Kind::quotient;
  const int a = tensor(node, "self"), b = tensor(node, "other");
  if (b < 0) {
    const auto value = number(node, "other");
    if (a < 0 || !value || !std::isfinite(*value) || (out.kind == AffinePiece::Kind::quotient && *value == 0))
      return std::nullopt;
    data = a;
    out.value = *value;
    return out;
  }
  // A quotient by zero is infinite, and what it multiplies would be: parameters divide nothing here.
  if (a < 0 || out.kind == AffinePiece::Kind::quotient) return std::nullopt;
  const bool turned = !subtracts && editor.value(a).shape != results.shape;
  data = turned ? b : a;
  out.operand = turned ? a : b;
  if (!own(out.operand)) return std::nullopt;
  return out;
}

std::optional<AffineChain> affine_chain(const Editor& editor, int value, bool (*is_maker)(const ir::GraphNode&)) {
  const ir::Value& results = editor.value(value);
  AffineChain chain{{}, value};
  while (true) {
    const ir::GraphNode* node = editor.first_of(chain.made);
    if (node == nullptr || !editor.read_once(chain.made) || editor.value(chain.made).shape != results.shape ||
        editor.value(chain.made).dtype != results.dtype)
      return std::nullopt;
    if (is_maker(*node)) return chain;
    int data = -1;
    const auto one = affine_piece(editor, *node, results, 1, data);
    if (!one) return std::nullopt;
    chain.pieces.push_back(*one);
    chain.made = data;
  }
}

int apply(Editor& editor, const AffineChain& chain, int value) {
  Repeated out(editor, value);
  for (auto one = chain.pieces.rbegin(); one != chain.pieces.rend(); ++one) {
    const ir::Arg other = one->operand >= 0 ? of("other", one->operand) : ir::Arg{"other", one->value};
    switch (one->kind) {
      case AffinePiece::Kind::factor:
        out.by("aten.mul.Tensor", other);
        break;
      case AffinePiece::Kind::quotient:
        out.by("aten.div.Tensor", other);
        break;
      case AffinePiece::Kind::summand:
        out.by("aten.add.Tensor", other);
        break;
      case AffinePiece::Kind::difference:
        out.by("aten.sub.Tensor", other);
        break;
      case AffinePiece::Kind::norm:
        out.norm(*one);
        break;
    }
  }
  return out.value();
}

}  // namespace planish::rewrite
