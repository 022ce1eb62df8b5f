#include <algorithm>

#include "rewrite/pools.h"
#include "rewrite/products.h"
#include "rewrite/rules.h"

namespace planish::rewrite {

bool pool_before_convolution(Editor& editor, int index) {
  const ir::GraphNode pool = editor.node(index);  // copies: new nodes move what is there
  if (!is_average_pool(pool) || pool.outs.size() != 1 || !pool.outs[0]) return false;
  const int between = tensor(pool, "self"), results = *pool.outs[0];
  const ir::GraphNode* maker = editor.maker(between);
  if (maker == nullptr || !is_convolution(*maker) || is_transposed(*maker) || !editor.read_once(between)) return false;
  ir::GraphNode convolution = *maker;
  const int x = tensor(convolution, "input"), w = tensor(convolution, "weight"), bias = tensor(convolution, "bias");
  if (x < 0 || !editor.is_parameter(w)) return false;
  const ir::Value data = editor.value(x), last = editor.value(results);
  const std::size_t rank = data.shape.size();
  const auto& window = editor.value(w).shape;
  if (rank < 3 || window.size() != rank || last.shape.size() != rank) return false;
  const std::size_t dims = rank - 2;
  for (std::size_t d = 2; d < rank; ++d) {
    if (window[d] != 1) return false;
  }
  const auto stride = by_dim(convolution, "stride", dims, 1), padding = by_dim(convolution, "padding", dims, 0);
  if (!stride || std::ranges::any_of(*stride, [](std::int64_t n) { return n != 1; })) return false;
  if (!padding || std::ranges::any_of(*padding, [](std::int64_t n) { return n != 0; })) return false;
  for (const int id : {x, w, between, results, bias}) {
    if (id >= 0 && (editor.value(id).dtype != data.dtype || !is_contiguous(editor.value(id)))) return false;
  }
  if (data.dtype != DType::f32 && data.dtype != DType::f64) return false;
  if (bias >= 0 && !average_pool(editor, pool)) return false;
  if (places(data) < least_fewer * places(last)) return false;

  std::vector<std::int64_t> shape = last.shape;
  shape[1] = data.shape[1];
  ir::GraphNode first = pool;
  redirect(first, "self", x);
  const int pooled = editor.add(first.op, std::move(first.args), shape, x);
  redirect(convolution, "input", pooled);
  editor.add(convolution.op, std::move(convolution.args), last.shape, results);
  editor.replace(index);
  return true;
}

}  // namespace planish::rewrite
