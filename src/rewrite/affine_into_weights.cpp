#include <algorithm>

#include "rewrite/affine.h"
#include "rewrite/products.h"
#include "rewrite/rules.h"

namespace planish::rewrite {
namespace {

/// Results from which on a pass over them takes longer than one or two more launches of a small kernel.
constexpr std::int64_t least_results = 1 << 20;
/// So many times the weights, which are read and written once more.
constexpr std::int64_t least_of_weights = 4;

/// What lies between a product or convolution and the node at hand, and where its weights have the channels.
struct Found {
  std::vector<AffinePiece> pieces;  ///< from the node to the product
  const ir::GraphNode* product = nullptr;
  int made = -1;  ///< the product's value
  int w = -1, bias = -1;
  std::size_t channel = 0;         ///< dim of the results
  std::size_t weight_channel = 0;  ///< dim of the weights
};

bool same_layout(const ir::Value& a, const ir::Value& b) {
  return a.dtype == b.dtype && a.shape == b.shape && a.strides == b.strides;
}

std::optional<Found> found_at(const Editor& editor, int index) {
  const ir::GraphNode& last = editor.node(index);
  if (last.outs.empty() || !last.outs[0] || editor.first_of(*last.outs[0]) == nullptr) return std::nullopt;
  const ir::Value& results = editor.value(*last.outs[0]);
  if ((results.dtype != DType::f32 && results.dtype != DType::f64) || results.shape.size() < 2) return std::nullopt;
  if (results.elements() < least_results) return std::nullopt;
  // Which dim has the channels is known at the product; until then both are tried.
  for (const bool convolved : {true, false}) {
    Found out;
    out.channel = convolved ? 1 : results.shape.size() - 1;
    const ir::GraphNode* node = &last;
    while (true) {
      int data = -1;
      const auto one = affine_piece(editor, *node, results, out.channel, data);
      if (!one || !same_layout(editor.value(data), results) || !editor.read_once(data)) break;
      out.pieces.push_back(*one);
      node = editor.first_of(data);
      if (node == nullptr) break;
      const bool product = convolved ? is_convolution(*node) : node->op == "aten.linear.default";
      if (!product) continue;
      out.product = node;
      out.made = data;
      out.w = tensor(*node, "weight");
      out.bias = tensor(*node, "bias");
      if (!editor.is_parameter(out.w) || editor.value(out.w).dtype != results.dtype) return std::nullopt;
      if (out.bias >= 0 && editor.value(out.bias).dtype != results.dtype) return std::nullopt;
      const bool transposed = convolved && is_transposed(*node);
      if (transposed && number(*node, "groups").value_or(1) != 1) return std::nullopt;
      out.weight_channel = transposed ? 1 : 0;
      const auto& w = editor.value(out.w).shape;
      if (convolved && w.size() != results.shape.size()) return std::nullopt;  // no images
      if (results.elements() < least_of_weights * editor.value(out.w).elements()) return std::nullopt;
      return out;
    }
  }
  return std::nullopt;
}

/// Whether the value is written to memory whoever computes it: it is a result, or PyTorch's libraries read it.
bool is_stored(const Editor& editor, int id) {
  if (editor.is_output(id)) return true;
  return std::ranges::any_of(editor.readers(id), [&](int reader) {
    const ir::GraphNode& node = editor.node(reader);
    if (reads_memory(node)) return true;
    const bool view =
        node.op == "aten.view.default" || node.op == "aten.permute.default" || node.op == "aten.unsqueeze.default";
    return view && node.outs[0] && is_stored(editor, *node.outs[0]);
  });
}

/// A scale and a shift of each channel, as they grow: none, a number for all, or a vector.
class Affine {
 public:
  Affine(Editor& editor, std::int64_t channels, int like, int shift)
      : editor_(editor), channels_(channels), like_(like), shift_(shift) {}

  /// False where a number would be the only shift, which no vector of the model's has.
  bool add(const AffinePiece& piece) {
    switch (piece.kind) {
      case AffinePiece::Kind::norm:
        norm(piece);
        return true;
      case AffinePiece::Kind::factor:
        if (piece.operand >= 0) {
          multiply(vector(piece.operand));
        } else {
          all_ *= piece.value;
          if (shift_ >= 0) shift_ = by("aten.mul.Tensor", shift_, {"other", piece.value});
        }
        return true;
      case AffinePiece::Kind::quotient:
        all_ /= piece.value;
        if (shift_ >= 0) shift_ = by("aten.div.Tensor", shift_, {"other", piece.value});
        return true;
      case AffinePiece::Kind::summand:
      case AffinePiece::Kind::difference:
        break;
    }
    const bool less = piece.kind == AffinePiece::Kind::difference;
    if (piece.operand < 0) {
      if (shift_ >= 0) shift_ = by("aten.add.Tensor", shift_, {"other", less ? -piece.value : piece.value});
      return shift_ >= 0;
    }
    const int operand = vector(piece.operand);
    if (shift_ >= 0) {
      shift_ = by(less ? "aten.sub.Tensor" : "aten.add.Tensor", shift_, of("other", operand));
    } else {
      // A parameter of one element becomes a vector by this as well.
      shift_ = by("aten.mul.Tensor", operand, {"other", less ? -1.0 : 1.0});
      if (editor_.value(operand).elements() != channels_)
        shift_ = editor_.add("aten.expand.default", {of("self", shift_), {"size", std::vector{channels_}}}, {channels_},
                             like_);
    }
    return true;
  }

  int shift() const { return shift_; }

  /// The weights times the scale; themselves where there is none.
  int scaled(int w, std::size_t channel) {
    const auto shape = editor_.value(w).shape;
    if (scale_ < 0) {
      if (all_ == 1) return w;
      return editor_.add("aten.mul.Tensor", {of("self", w), {"other", all_}}, shape, w);
    }
    if (all_ != 1) scale_ = by("aten.mul.Tensor", scale_, {"other", all_});
    std::vector<std::int64_t> along(shape.size(), 1);
    along[channel] = editor_.value(scale_).elements();
    const int factor = editor_.add("aten.view.default", {of("self", scale_), {"size", along}}, along, w);
    return editor_.add("aten.mul.Tensor", {of("self", w), of("other", factor)}, shape, w);
  }

 private:
  int by(const char* op, int self, ir::Arg other) {
    const auto longer = [&](int id) { return editor_.value(id).elements(); };
    std::int64_t count = longer(self);
    if (const auto* ref = std::get_if<ir::ValueRef>(&other.data)) count = std::max(count, longer(ref->id));
    std::vector<ir::Arg> args{of("self", self), std::move(other)};
    const std::string_view name = op;
    if (name == "aten.add.Tensor" || name == "aten.sub.Tensor") args.push_back({"alpha", std::int64_t{1}});
    return editor_.add(op, std::move(args), {count}, like_);
  }
  /// As a vector, of one element or of one a channel.
  int vector(int operand) {
    const ir::Value& value = editor_.value(operand);
    if (value.shape.size() == 1) return operand;
    const std::vector<std::int64_t> shape{value.elements()};
    return editor_.add("aten.view.default", {of("self", operand), {"size", shape}}, shape, like_);
  }
  void multiply(int factor) {
    scale_ = scale_ < 0 ? factor : by("aten.mul.Tensor", scale_, of("other", factor));
    if (shift_ >= 0) shift_ = by("aten.mul.Tensor", shift_, of("other", factor));
  }
  void norm(const AffinePiece& piece) {
    const int inside = by("aten.add.Tensor", piece.variance, {"other", piece.eps});
    const std::vector<std::int64_t> shape{channels_};
    int factor = editor_.add("aten.rsqrt.default", {of("self", inside)}, shape, like_);
    if (piece.weight >= 0) factor = by("aten.mul.Tensor", factor, of("other", piece.weight));
    shift_ = shift_ >= 0 ? by("aten.sub.Tensor", shift_, of("other", piece.mean))
                         : by("aten.mul.Tensor", piece.mean, {"other", -1.0});
    multiply(factor);
    if (piece.bias >= 0) shift_ = by("aten.add.Tensor", shift_, of("other", piece.bias));
  }

  Editor& editor_;
  std::int64_t channels_;
  int like_;
  double all_ = 1;  ///< what all channels are scaled with besides
  int scale_ = -1;
  int shift_;
};

}  // namespace

bool affine_into_weights(Editor& editor, int index) {
  const auto found = found_at(editor, index);
  if (!found) return false;
  const int results = *editor.node(index).outs[0];
  if (!is_stored(editor, results)) return false;
  ir::GraphNode product = *found->product;  // a copy: new nodes move the values
  const std::int64_t channels = editor.value(results).shape[found->channel];
  Affine affine(editor, channels, found->w, found->bias);
  for (auto one = found->pieces.rbegin(); one != found->pieces.rend(); ++one) {
    if (affine.add(*one)) continue;
    editor.forget();
    return false;
  }
  const int weights = affine.scaled(found->w, found->weight_channel);
  for (ir::Arg& arg : product.args) {
    if (arg.name == "weight") arg.data = ir::ValueRef{weights};
  }
  if (affine.shift() >= 0) {
    const auto bias = std::ranges::find(product.args, "bias", &ir::Arg::name);
    if (bias != product.args.end()) {
      bias->data = ir::ValueRef{affine.shift()};
    } else {
      product.args.push_back(of("bias", affine.shift()));
    }
  }
  editor.add(product.op, std::move(product.args), editor.value(results).shape, results);
  editor.replace(index);
  return true;
}

}  // namespace planish::rewrite
