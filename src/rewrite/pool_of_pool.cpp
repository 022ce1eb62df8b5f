#include "rewrite/affine.h"
#include "rewrite/pools.h"
#include "rewrite/products.h"
#include "rewrite/rules.h"

namespace planish::rewrite {
namespace {

struct PoolOfPool {
  AveragePool both;
  AffineChain chain;  ///< between them
};

std::optional<PoolOfPool> pools_at(const Editor& editor, int index) {
  const auto outer = average_pool(editor, editor.node(index));
  if (!outer) return std::nullopt;
  auto chain = affine_chain(editor, outer->of, is_average_pool);
  if (!chain) return std::nullopt;
  const auto inner = average_pool(editor, *editor.maker(chain->made));
  // Where windows of the first overlap, or leave elements out, one of the second is no window of the data.
  if (!inner || inner->dims() != outer->dims() || inner->window != inner->stride) return std::nullopt;
  const int result = *editor.node(index).outs[0];
  if (!one_dtype(editor, {result, inner->of, chain->made})) return std::nullopt;
  for (const int id : {inner->of, chain->made, result}) {
    if (!is_contiguous(editor.value(id))) return std::nullopt;
  }
  // What the first leaves out at an end, as too little for a window, no window of both needs either.
  PoolOfPool out{*inner, std::move(*chain)};
  for (std::size_t d = 0; d < inner->dims(); ++d) {
    out.both.window[d] *= outer->window[d];
    out.both.stride[d] *= outer->stride[d];
  }
  return out;
}

}  // namespace

bool pool_of_pool(Editor& editor, int index) {
  const auto found = pools_at(editor, index);
  if (!found) return false;
  apply(editor, found->chain, add(editor, found->both));
  editor.replace(index);
  return true;
}

bool is_pooled_again(const Editor& editor, int index) {
  for (int id = *editor.node(index).outs[0]; editor.read_once(id);) {
    const int reader = editor.readers(id).front();
    if (is_average_pool(editor.node(reader))) return pools_at(editor, reader).has_value();
    const auto& outs = editor.node(reader).outs;
    if (outs.empty() || !outs[0]) return false;
    id = *outs[0];
  }
  return false;
}

}  // namespace planish::rewrite
