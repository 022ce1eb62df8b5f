#include "rewrite/pools.h"

#include <algorithm>
#include <string>

#include "rewrite/products.h"

namespace planish::rewrite {

bool is_average_pool(const ir::GraphNode& node) {
  for (const char* op : {"aten.avg_pool1d.default", "aten.avg_pool2d.default", "aten.avg_pool3d.default"})
    if (node.op == op) return true;
  return false;
}

std::optional<AveragePool> average_pool(const Editor& editor, const ir::GraphNode& node) {
  if (!is_average_pool(node) || node.outs.size() != 1 || !node.outs[0]) return std::nullopt;
  AveragePool out;
  out.of = tensor(node, "self");
  const std::size_t rank = out.of < 0 ? 0 : editor.value(out.of).shape.size();
  if (rank < 3 || editor.value(*node.outs[0]).shape.size() != rank) return std::nullopt;
  const std::size_t dims = rank - 2;
  if (!node.op.ends_with(std::to_string(dims) + "d.default")) return std::nullopt;  // no images
  const auto window = by_dim(node, "kernel_size", dims, 0), padding = by_dim(node, "padding", dims, 0);
  const ir::Arg* given = node.arg("stride");
  const auto* steps = given == nullptr ? nullptr : std::get_if<std::vector<std::int64_t>>(&given->data);
  // As PyTorch has it: without a stride windows stand side by side.
  const bool beside =
      given == nullptr || std::holds_alternative<ir::None>(given->data) || (steps != nullptr && steps->empty());
  const auto stride = beside ? window : by_dim(node, "stride", dims, 1);
  if (!window || !stride || !padding) return std::nullopt;
  if (std::ranges::any_of(*padding, [](std::int64_t n) { return n != 0; })) return std::nullopt;
  for (const auto* list : {&*window, &*stride}) {
    if (std::ranges::any_of(*list, [](std::int64_t n) { return n < 1; })) return std::nullopt;
  }
  const ir::Arg* ceil = node.arg("ceil_mode");
  const ir::Arg* divisor = node.arg("divisor_override");
  const bool plain = ceil == nullptr || std::holds_alternative<ir::None>(ceil->data) ||
                     (std::holds_alternative<bool>(ceil->data) && !std::get<bool>(ceil->data));
  if (!plain || (divisor != nullptr && !std::holds_alternative<ir::None>(divisor->data))) return std::nullopt;
  out.window = *window, out.stride = *stride;
  return out;
}

int add(Editor& editor, const AveragePool& pool) {
  std::vector<std::int64_t> shape = editor.value(pool.of).shape;
  for (std::size_t d = 0; d < pool.dims(); ++d) shape[d + 2] = (shape[d + 2] - pool.window[d]) / pool.stride[d] + 1;
  std::vector<ir::Arg> args{of("self", pool.of), {"kernel_size", pool.window}, {"stride", pool.stride}};
  args.push_back({"padding", std::vector<std::int64_t>(pool.dims(), 0)});
  args.push_back(flag("ceil_mode", false));
  args.push_back(flag("count_include_pad", true));
  if (pool.dims() > 1) args.push_back({"divisor_override", ir::None{}});
  return editor.add("aten.avg_pool" + std::to_string(pool.dims()) + "d.default", std::move(args), std::move(shape),
                    pool.of);
}

std::int64_t places(const ir::Value& value) {
  std::int64_t count = 1;
  for (std::size_t d = 2; d < value.shape.size(); ++d) count *= value.shape[d];
  return count;
}

int padded(Editor& editor, int x, const std::vector<std::int64_t>& before, const std::vector<std::int64_t>& behind) {
  std::vector<std::int64_t> shape = editor.value(x).shape, around;
  bool same = true;
  for (std::size_t d = before.size(); d-- > 0;) {
    around.insert(around.end(), {before[d], behind[d]});
    shape[d + 2] += before[d] + behind[d];
    same = same && before[d] == 0 && behind[d] == 0;
  }
  if (same) return x;
  return editor.add("aten.constant_pad_nd.default", {of("self", x), {"pad", around}, {"value", 0.0}}, std::move(shape),
                    x);
}

bool one_dtype(const Editor& editor, std::initializer_list<int> ids) {
  const DType dtype = editor.value(*ids.begin()).dtype;
  if (dtype != DType::f32 && dtype != DType::f64) return false;
  return std::ranges::all_of(ids, [&](int id) { return id < 0 || editor.value(id).dtype == dtype; });
}

}  // namespace planish::rewrite
