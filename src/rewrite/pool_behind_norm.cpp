#include <algorithm>
#include <utility>

#include "rewrite/affine.h"
#include "rewrite/norms.h"
#include "rewrite/pools.h"
#include "rewrite/products.h"
#include "rewrite/rules.h"

namespace planish::rewrite {
namespace {

/// The norm of the data that `pooled` are averages of, with the statistics that its node gives.
int normed(Editor& editor, const Norm& norm, const ir::GraphNode& node, int pooled) {
  Steps s(editor, pooled);
  const Steps::Extents shape = s.shape(pooled);
  Steps::Extents split = shape, one(shape.size(), 1), each = one;
  one[1] = each[1] = shape[1];
  if (norm.groups > 0) {
    split = {shape[0], norm.groups, editor.value(pooled).elements() / shape[0] / norm.groups};
    one = {shape[0], norm.groups, 1};
  }
  int out = s.subtract(s.view(pooled, split), s.view(*node.outs[1], one));
  out = s.view(s.multiply(out, s.view(*node.outs[2], one)), shape);
  if (norm.weight >= 0) out = s.multiply(out, s.view(norm.weight, each));
  if (norm.bias >= 0) out = s.add(out, s.view(norm.bias, each));
  return out;
}

}  // namespace

bool pool_behind_norm(Editor& editor, int index) {
  const auto pool = average_pool(editor, editor.node(index));
  if (!pool || is_pooled_again(editor, index) || !editor.read_once(pool->of)) return false;
  const ir::GraphNode* const maker = editor.first_result_of(pool->of);
  if (maker == nullptr || maker->outs.size() < 3 || !maker->outs[1] || !maker->outs[2]) return false;
  const ir::GraphNode node = *maker;  // copies: new nodes move what is there
  const auto norm = norm_of(editor, node);
  if (!norm || !one_dtype(editor, {pool->of, norm->x, norm->weight, norm->bias, *node.outs[1], *node.outs[2]}))
    return false;
  const auto chain = affine_chain(editor, norm->x, is_convolution);
  if (!chain || !is_contiguous(editor.value(chain->made))) return false;
  // The convolution once more, for the pool: worth it where the pool then goes through it.
  Editor other = editor;
  ir::GraphNode convolution = *editor.maker(chain->made);
  const int again =
      other.add(convolution.op, std::move(convolution.args), editor.value(chain->made).shape, chain->made);
  const int pooled = add(other, {apply(other, *chain, again), pool->window, pool->stride});
  normed(other, *norm, node, pooled);
  other.replace(index);
  const int at = other.maker_index(pooled);
  if (!pool_before_convolution(other, at) && !pool_through_convolution(other, at) &&
      !pool_through_transposed(other, at))
    return false;
  editor = std::move(other);
  return true;
}

}  // namespace planish::rewrite
