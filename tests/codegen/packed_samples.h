#pragma once

#include <numeric>
#include <vector>

#include "codegen/graph_builder.h"
#include "codegen/lower/lower.h"

/// Kernels of attention over packed sequences.
namespace planish::codegen::samples {

struct Packed {
  std::vector<int> queries, keys = queries;  ///< of each sequence
  std::int64_t heads = 1, shared = heads;    ///< of q; of k and v
  std::int64_t features = 16, columns = 16;
  std::int64_t left = -1, right = -1;  ///< the window
  double scale = 0;                    ///< 0: as usual
  DType dtype = DType::bf16;
  bool odd = false;         ///< every second sequence has no numbers
  bool wide = false;        ///< offsets of 64 bits
  std::int64_t behind = 0;  ///< rows that no sequence has
  bool used = false;        ///< with a number of used keys
  double dropout = 0;
  std::int64_t page = 0, pages = 0;  ///< keys of one, and of a sequence by its table; 0: keys lie packed, too

  std::int64_t longest = 4096;  ///< queries that a sequence has at most

  std::int64_t pool() const { return static_cast<std::int64_t>(queries.size()) * pages + 3; }
  std::int64_t tokens() const { return std::accumulate(queries.begin(), queries.end(), std::int64_t{0}) + behind; }
  std::int64_t all_keys() const { return std::accumulate(keys.begin(), keys.end(), std::int64_t{0}); }
};

/// Values 0 to 4 are q, k, v and the offsets of queries and keys, which are one where lengths are the same; in pages
/// value 4 says how many keys each sequence has, and value 5 is the table.
inline GraphBuilder packed_graph(const Packed& p) {
  GraphBuilder g;
  const auto count = static_cast<std::int64_t>(p.queries.size());
  const DType whole = p.wide ? DType::i64 : DType::i32;
  if (p.page > 0) {
    const auto cache = [&](std::int64_t width) { return g.input({p.pool(), p.page, p.shared, width}, p.dtype); };
    const int q = g.input({p.tokens(), p.heads, p.features}, p.dtype), k = cache(p.features), v = cache(p.columns);
    const int of_queries = g.input({count + 1}, whole), used = g.input({count}, whole),
              table = g.input({count, p.pages}, DType::i32);
    g.output(g.node(
        "_flash_attention_forward.default",
        {V("query", q), V("key", k), V("value", v), V("cum_seq_q", of_queries), N("cum_seq_k"), I("max_q", p.longest),
         I("max_k", 4096), F("dropout_p", p.dropout), B("is_causal", false), B("return_debug_mask", false),
         p.scale > 0 ? F("scale", p.scale) : N("scale"), I("window_size_left", p.left), I("window_size_right", p.right),
         V("seqused_k", used), N("alibi_slopes"), V("block_table", table)},
        {p.tokens(), p.heads, p.columns}, p.dtype));
    return g;
  }
  const int q = g.input({p.tokens(), p.heads, p.features}, p.dtype);
  const int k = g.input({p.all_keys(), p.shared, p.features}, p.dtype);
  const int v = g.input({p.all_keys(), p.shared, p.columns}, p.dtype);
  const int of_queries = g.input({count + 1}, whole);
  const int of_keys = p.queries == p.keys ? of_queries : g.input({count + 1}, whole);
  const auto value = [&](const char* name, bool given) { return given ? V(name, of_queries) : N(name); };
  g.output(g.node(
      "_flash_attention_forward.default",
      {V("query", q), V("key", k), V("value", v), V("cum_seq_q", of_queries), V("cum_seq_k", of_keys), I("max_q", 4096),
       I("max_k", 4096), F("dropout_p", p.dropout), B("is_causal", false), B("return_debug_mask", false),
       p.scale > 0 ? F("scale", p.scale) : N("scale"), I("window_size_left", p.left), I("window_size_right", p.right),
       value("seqused_k", p.used), N("alibi_slopes")},
      {p.tokens(), p.heads, p.columns}, p.dtype));
  return g;
}

inline Result<Kernel> packed_kernel(const Packed& p) {
  const GraphBuilder g = packed_graph(p);
  LowerLimits limits;
  limits.contractions = true;
  return lower(g.graph, std::vector<bool>(g.graph.nodes.size(), true), std::vector{g.graph.outputs[0].value}, limits);
}

}  // namespace planish::codegen::samples
