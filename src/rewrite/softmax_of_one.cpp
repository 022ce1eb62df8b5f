#include <algorithm>

#include "rewrite/rules.h"

namespace planish::rewrite {
namespace {

/// The dims that such a node folds, as it names them; empty for other nodes.
std::vector<std::int64_t> folded(const ir::GraphNode& node) {
  const ir::Arg* dim = node.arg("dim");
  if (dim == nullptr) return {};
  if (const auto* one = std::get_if<std::int64_t>(&dim->data)) return {*one};
  if (const auto* list = std::get_if<std::vector<std::int64_t>>(&dim->data)) return *list;
  return {};
}

}  // namespace

bool softmax_of_one(Editor& editor, int index) {
  const ir::GraphNode& node = editor.node(index);
  const bool logs = node.op == "aten.logsumexp.default";
  const bool softmax = node.op == "aten._softmax.default";
  if (!logs && !softmax && node.op != "aten._log_softmax.default") return false;
  const int x = tensor(node, "self");
  const auto over = folded(node);
  if (x < 0 || over.empty() || node.outs.size() != 1 || !node.outs[0]) return false;
  const ir::Value data = editor.value(x);  // a copy: new nodes move the values
  const std::vector<std::int64_t> shape = editor.value(*node.outs[0]).shape;
  if ((data.dtype != DType::f32 && data.dtype != DType::f64) || editor.value(*node.outs[0]).dtype != data.dtype)
    return false;
  const auto rank = static_cast<std::int64_t>(data.shape.size());
  for (const std::int64_t d : over) {
    const std::int64_t at = d < 0 ? d + rank : d;
    if (at < 0 || at >= rank || data.shape[static_cast<std::size_t>(at)] != 1) return false;
  }
  if (logs) {
    // A product with 1 is a value of its own: a result is never its caller's tensor.
    const int same = editor.add("aten.mul.Tensor", {of("self", x), {"other", 1.0}}, data.shape, x);
    if (shape != data.shape) editor.add("aten.view.default", {of("self", same), {"size", shape}}, shape, x);
  } else {
    const std::vector<ir::Arg> args{of("self", x), of("other", x), {"alpha", std::int64_t{1}}};
    const int zero = editor.add("aten.sub.Tensor", args, shape, x);
    if (softmax)
      editor.add("aten.add.Tensor", {of("self", zero), {"other", 1.0}, {"alpha", std::int64_t{1}}}, shape, x);
  }
  editor.replace(index);
  return true;
}

}  // namespace planish::rewrite
