#pragma once

#include <cmath>

#include "codegen/contraction_samples.h"

/// Kernels of the attention anchor, with what they compute as a line of Python.
namespace planish::codegen::samples {

struct Heads {
  std::int64_t batch = 1, heads = 1, keyed = 0;  ///< heads of k and v; 0: as many
  std::int64_t queries = 1, keys = 1, features = 1, columns = 0;
  bool causal = false;
  int mask = 0;             ///< 1: of booleans (queries × keys); 2: added, one for each head
  std::int64_t window = 0;  ///< keys that count for a query: so many, itself the last
  DType dtype = DType::f32;
  bool beside = false;  ///< heads lie beside each other in memory: (batch, rows, heads, features)
  bool sink = false;    ///< each head has one more score, whose weight is dropped; written down, in f32
};

/// Of (batch, heads, rows, length), as memory has it.
inline std::vector<std::int64_t> head_strides(const Heads& h, std::int64_t heads, std::int64_t rows,
                                              std::int64_t length) {
  if (h.beside) return {rows * heads * length, length, heads * length, 1};
  return {heads * rows * length, rows * length, length, 1};
}

inline double multiplications(const Heads& h) {
  return static_cast<double>(h.batch * h.heads * h.queries * h.keys) *
         static_cast<double>(h.features + (h.columns > 0 ? h.columns : h.features));
}

/// Which keys count within a window, of booleans (queries × keys) made of places alone.
inline int window_mask(GraphBuilder& g, const Heads& h) {
  const auto places = [&](std::int64_t count, std::int64_t dim, const std::vector<std::int64_t>& shape) {
    const int all = g.node("arange.start_step", {I("start", 0), I("end", count), I("step", 1)}, {count}, DType::i64);
    return g.node("unsqueeze.default", {V("self", all), I("dim", dim)}, shape, DType::i64);
  };
  const int row = places(h.queries, 1, {h.queries, 1}), key = places(h.keys, 0, {1, h.keys});
  const std::vector<std::int64_t> shape{h.queries, h.keys};
  const int seen = g.node("le.Tensor", {V("self", key), V("other", row)}, shape, DType::boolean);
  const int last = g.node("sub.Tensor", {V("self", row), I("other", h.window)}, {h.queries, 1}, DType::i64);
  const int near = g.node("gt.Tensor", {V("self", key), V("other", last)}, shape, DType::boolean);
  return g.node("logical_and.default", {V("self", seen), V("other", near)}, shape, DType::boolean);
}

/// softmax of `scores` and the column of sinks `own`, without that column's weight, times `v`: as rewrite makes it.
/// `seen`: which keys count; -1: all do.
inline int weighed_with_sink(GraphBuilder& g, const Heads& h, int scores, int v, int own, int seen,
                             std::int64_t columns) {
  const std::vector<std::int64_t> all{h.batch, h.heads, h.queries, h.keys}, row{h.batch, h.heads, h.queries, 1};
  const auto cast = [&](int id, const std::vector<std::int64_t>& shape) {
    if (h.dtype == DType::f32) return id;
    return g.node("_to_copy.default", {V("self", id), {"dtype", ir::DTypeArg{"f32"}}}, shape, DType::f32);
  };
  const auto with = [&](const char* op, int a, int b, const std::vector<std::int64_t>& shape) {
    return g.node(op, {V("self", a), V("other", b)}, shape, DType::f32);
  };
  const int sinks = cast(own, {1, h.heads, 1, 1});
  const int none = seen < 0 ? -1 : g.node("scalar_tensor.default", {F("s", -INFINITY)}, {}, DType::f32);
  const int x =
      seen < 0 ? scores
               : g.node("where.self", {V("condition", seen), V("self", scores), V("other", none)}, all, DType::f32);
  const int most = g.node("amax.default", {V("self", x), L("dim", {-1}), B("keepdim", true)}, row, DType::f32);
  const int top = with("maximum.default", most, sinks, row);
  const int weights = g.node("exp.default", {V("self", with("sub.Tensor", x, top, all))}, all, DType::f32);
  const int total =
      g.node("sum.dim_IntList", {V("self", weights), L("dim", {-1}), B("keepdim", true)}, row, DType::f32);
  const int beside = g.node("exp.default", {V("self", with("sub.Tensor", sinks, top, row))}, row, DType::f32);
  const int shares = with("div.Tensor", weights, with("add.Tensor", total, beside, row), all);
  const int values = cast(v, {h.batch, h.heads, h.keys, columns});
  const std::vector<std::int64_t> results{h.batch, h.heads, h.queries, columns};
  const int out = g.node("matmul.default", {V("self", shares), V("other", values)}, results, DType::f32);
  if (h.dtype == DType::f32) return out;
  return g.node("_to_copy.default", {V("self", out), {"dtype", ir::DTypeArg{std::string(name(h.dtype))}}}, results,
                h.dtype);
}

/// q · kᵀ / √d, in f32.
inline int written_scores(GraphBuilder& g, const Heads& h, int q, int k) {
  const std::vector<std::int64_t> of_k{h.batch, h.heads, h.keys, h.features};
  const auto cast = [&](int id, std::int64_t rows) {
    if (h.dtype == DType::f32) return id;
    return g.node("_to_copy.default", {V("self", id), {"dtype", ir::DTypeArg{"f32"}}},
                  {h.batch, h.heads, rows, h.features}, DType::f32);
  };
  const int turned = g.node("transpose.int", {V("self", cast(k, h.keys)), I("dim0", -2), I("dim1", -1)},
                            {h.batch, h.heads, h.features, h.keys}, DType::f32,
                            {h.heads * h.keys * h.features, h.keys * h.features, 1, h.features});
  const std::vector<std::int64_t> all{h.batch, h.heads, h.queries, h.keys};
  const int product = g.node("matmul.default", {V("self", cast(q, h.queries)), V("other", turned)}, all, DType::f32);
  return g.node("mul.Tensor", {V("self", product), F("other", 1 / std::sqrt(static_cast<double>(h.features)))}, all,
                DType::f32);
}

/// As one operator, or as it is written with sinks.
inline ContractionSample attention_sample(const Heads& h) {
  const std::int64_t keyed = h.keyed > 0 ? h.keyed : h.heads, columns = h.columns > 0 ? h.columns : h.features;
  std::string python = "t.nn.functional.scaled_dot_product_attention(x[0], x[1], x[2]";
  if (h.mask == 1) python += ", attn_mask=x[3]";
  if (h.mask == 2) python += ", attn_mask=x[3]";
  const std::string queries = std::to_string(h.queries), keys = std::to_string(h.keys);
  const std::string row = "t.arange(" + queries + ", device='cuda')[:, None]";
  const std::string key = "t.arange(" + keys + ", device='cuda')";
  const std::string near =
      "(" + key + " <= " + row + ") & (" + key + " > " + row + " - " + std::to_string(h.window) + ")";
  if (h.window > 0) python += ", attn_mask=" + near;
  if (h.causal) python += ", is_causal=True";
  if (keyed != h.heads) python += ", enable_gqa=True";
  auto sample = contraction_sample("attention", python + ")", multiplications(h), [=](GraphBuilder& g) {
    const int q =
        g.input({h.batch, h.heads, h.queries, h.features}, h.dtype, head_strides(h, h.heads, h.queries, h.features));
    const int k = g.input({h.batch, keyed, h.keys, h.features}, h.dtype, head_strides(h, keyed, h.keys, h.features));
    const int v = g.input({h.batch, keyed, h.keys, columns}, h.dtype, head_strides(h, keyed, h.keys, columns));
    if (h.sink) {
      const int sinks = g.input({1, h.heads, 1, 1}, h.dtype);
      const int seen = h.mask == 1 ? g.input({h.queries, h.keys}, DType::boolean) : -1;
      return weighed_with_sink(g, h, written_scores(g, h, q, k), v, sinks, seen, columns);
    }
    std::vector<ir::Arg> args{V("query", q), V("key", k), V("value", v)};
    if (h.mask == 1) args.push_back(V("attn_mask", g.input({h.queries, h.keys}, DType::boolean)));
    if (h.mask == 2) args.push_back(V("attn_mask", g.input({h.heads, h.queries, h.keys}, h.dtype)));
    if (h.window > 0) args.push_back(V("attn_mask", window_mask(g, h)));
    args.push_back(F("dropout_p", 0.0));
    args.push_back(B("is_causal", h.causal));
    args.push_back(B("enable_gqa", keyed != h.heads));
    return g.node("scaled_dot_product_attention.default", std::move(args), {h.batch, h.heads, h.queries, columns},
                  h.dtype, head_strides(h, h.heads, h.queries, columns));
  });
  // torch adds -inf where a key does not count, which leaves a NaN there.
  const std::string groups = std::to_string(h.heads / keyed);
  std::string scores =
      "x[0] @ x[1].repeat_interleave(" + groups + ", 1).transpose(-2, -1) / " + std::to_string(h.features) + " ** 0.5";
  const std::string mask = h.causal       ? "t.ones(x[0].shape[-2], x[1].shape[-2], device='cuda').tril().bool()"
                           : h.mask == 1  ? "x[3]"
                           : h.window > 0 ? "(" + near + ")"
                                          : "";
  if (h.sink) {
    if (h.mask == 1) scores = "t.where(x[4], " + scores + ", -t.inf)";
    const std::string rows = "x[3].expand(" + std::to_string(h.batch) + ", -1, " + queries + ", -1)";
    sample.definition = "t.softmax(t.cat([" + scores + ", " + rows + "], -1), -1)[..., :-1] @ x[2]";
    sample.python = sample.definition;
    return sample;
  }
  if (h.mask == 2) scores += " + x[3]";
  if (!mask.empty()) scores = "t.where(" + mask + ", " + scores + ", -t.inf)";
  std::string weights = "t.softmax(" + scores + ", -1)";
  if (!mask.empty()) weights = "t.where(" + mask + ".any(-1, True), " + weights + ", 0.0)";
  sample.definition = "(" + weights + ") @ x[2].repeat_interleave(" + groups + ", 1)";
  return sample;
}

/// As people write it: products, a scale and a softmax, from (batch, rows, heads · features) and back.
inline ContractionSample written_attention_sample(const Heads& h) {
  const std::int64_t columns = h.columns > 0 ? h.columns : h.features, flat = h.batch * h.heads;
  const double scale = 1 / std::sqrt(static_cast<double>(h.features));
  const std::string python = "(t.softmax(x[0] @ x[1].transpose(-2, -1) * " + std::to_string(scale) + ", -1) @ x[2])";
  return contraction_sample("attention_written", python, multiplications(h), [=](GraphBuilder& g) {
    const int q = g.input({flat, h.queries, h.features}), k = g.input({flat, h.keys, h.features}),
              v = g.input({flat, h.keys, columns});
    const int turned = g.node("transpose.int", {V("self", k), I("dim0", -2), I("dim1", -1)}, {flat, h.features, h.keys},
                              DType::f32, {h.keys * h.features, 1, h.features});
    const int product = g.node("bmm.default", {V("self", q), V("mat2", turned)}, {flat, h.queries, h.keys});
    const int scores = g.node("mul.Tensor", {V("self", product), F("other", std::stod(std::to_string(scale)))},
                              {flat, h.queries, h.keys});
    const int weights = g.node("_softmax.default", {V("self", scores), I("dim", -1), B("half_to_float", false)},
                               {flat, h.queries, h.keys});
    return g.node("bmm.default", {V("self", weights), V("mat2", v)}, {flat, h.queries, columns});
  });
}

inline std::vector<ContractionSample> attention_samples(bool large) {
  std::vector<ContractionSample> all{
      attention_sample({.batch = 2, .heads = 3, .queries = 100, .keys = 130, .features = 40, .columns = 24}),
      attention_sample({.batch = 1, .heads = 2, .queries = 200, .keys = 200, .features = 64, .causal = true}),
      attention_sample({.batch = 2, .heads = 4, .keyed = 2, .queries = 90, .keys = 64, .features = 32, .causal = true}),
      attention_sample({.batch = 2, .heads = 2, .queries = 70, .keys = 96, .features = 16, .mask = 1}),
      attention_sample({.batch = 2, .heads = 2, .queries = 70, .keys = 96, .features = 16, .mask = 2}),
      written_attention_sample({.batch = 2, .heads = 2, .queries = 65, .keys = 80, .features = 20, .columns = 136}),
      attention_sample({.batch = 1, .heads = 1, .queries = 64, .keys = 256, .features = 256}),
      attention_sample({.batch = 2, .heads = 2, .queries = 70, .keys = 96, .features = 16, .sink = true}),
      attention_sample(
          {.batch = 1, .heads = 2, .queries = 70, .keys = 96, .features = 64, .dtype = DType::bf16, .sink = true}),
  };
  if (!large) return all;
  all.push_back(attention_sample({.batch = 4, .heads = 16, .queries = 4096, .keys = 4096, .features = 64}));
  all.push_back(
      attention_sample({.batch = 4, .heads = 16, .queries = 4096, .keys = 4096, .features = 64, .causal = true}));
  all.push_back(attention_sample({.batch = 4, .heads = 16, .queries = 2048, .keys = 2048, .features = 128}));
  all.push_back(attention_sample({.batch = 32, .heads = 12, .queries = 197, .keys = 197, .features = 64}));
  all.push_back(
      attention_sample({.batch = 8, .heads = 12, .queries = 1024, .keys = 1024, .features = 64, .causal = true}));
  all.push_back(
      attention_sample({.batch = 4, .heads = 32, .keyed = 8, .queries = 1024, .keys = 1024, .features = 128}));
  all.push_back(attention_sample({.batch = 4, .heads = 8, .queries = 1024, .keys = 1024, .features = 256}));
  all.push_back(written_attention_sample({.batch = 8, .heads = 16, .queries = 1024, .keys = 1024, .features = 64}));
  return all;
}

/// The same of 16-bit factors, which are read where they lie.
inline std::vector<ContractionSample> half_attention_samples(bool large) {
  const DType bf16 = DType::bf16, f16 = DType::f16;
  std::vector<ContractionSample> all{
      attention_sample(
          {.batch = 2, .heads = 3, .queries = 100, .keys = 130, .features = 40, .columns = 24, .dtype = bf16}),
      attention_sample(
          {.batch = 1, .heads = 2, .queries = 200, .keys = 200, .features = 64, .causal = true, .dtype = f16}),
      attention_sample({.batch = 2,
                        .heads = 4,
                        .keyed = 2,
                        .queries = 290,
                        .keys = 290,
                        .features = 128,
                        .causal = true,
                        .dtype = bf16,
                        .beside = true}),
      attention_sample({.batch = 2, .heads = 2, .queries = 70, .keys = 96, .features = 72, .mask = 1, .dtype = bf16}),
      attention_sample(
          {.batch = 1, .heads = 2, .queries = 500, .keys = 500, .features = 64, .window = 90, .dtype = bf16}),
      attention_sample({.batch = 2, .heads = 2, .queries = 70, .keys = 97, .features = 16, .mask = 2, .dtype = bf16}),
      attention_sample({.batch = 1, .heads = 2, .queries = 130, .keys = 256, .features = 256, .dtype = bf16}),
      attention_sample(
          {.batch = 1, .heads = 2, .queries = 130, .keys = 77, .features = 192, .columns = 128, .dtype = f16}),
  };
  if (!large) return all;
  for (const Heads& heads : std::initializer_list<Heads>{
           {.batch = 2, .heads = 10, .queries = 4096, .keys = 4096, .features = 64},
           {.batch = 8, .heads = 20, .queries = 1500, .keys = 1500, .features = 64},
           {.batch = 32, .heads = 16, .queries = 512, .keys = 512, .features = 64},
           {.batch = 2, .heads = 10, .queries = 4096, .keys = 77, .features = 64},
           {.batch = 4, .heads = 16, .queries = 2048, .keys = 2048, .features = 64, .causal = true},
           {.batch = 1, .heads = 16, .queries = 32768, .keys = 32768, .features = 64, .causal = true},
           {.batch = 4, .heads = 16, .queries = 2048, .keys = 2048, .features = 64, .mask = 1},
           {.batch = 4, .heads = 16, .queries = 2048, .keys = 2048, .features = 64, .mask = 2},
           {.batch = 2, .heads = 16, .queries = 4096, .keys = 4096, .features = 72},
           {.batch = 2, .heads = 16, .queries = 4096, .keys = 4096, .features = 72, .causal = true},
           {.batch = 16, .heads = 16, .queries = 729, .keys = 729, .features = 72},
           {.batch = 4, .heads = 16, .queries = 4096, .keys = 4096, .features = 128},
           {.batch = 4, .heads = 32, .queries = 2048, .keys = 2048, .features = 128, .causal = true},
           {.batch = 1, .heads = 8, .queries = 32768, .keys = 32768, .features = 128, .causal = true},
           {.batch = 2, .heads = 16, .queries = 2048, .keys = 2048, .features = 128, .mask = 2},
           {.batch = 4, .heads = 8, .queries = 4096, .keys = 4096, .features = 256},
           {.batch = 16, .heads = 8, .queries = 512, .keys = 512, .features = 256},
           {.batch = 1,
            .heads = 32,
            .keyed = 8,
            .queries = 8192,
            .keys = 8192,
            .features = 128,
            .causal = true,
            .beside = true},
           {.batch = 16, .heads = 32, .keyed = 8, .queries = 512, .keys = 512, .features = 128, .causal = true},
           {.batch = 1, .heads = 32, .keyed = 8, .queries = 8192, .keys = 8192, .features = 128, .window = 1024},
           {.batch = 4, .heads = 8, .keyed = 4, .queries = 4096, .keys = 4096, .features = 256, .causal = true},
       }) {
    Heads of = heads;
    of.dtype = bf16;
    all.push_back(attention_sample(of));
  }
  return all;
}

}  // namespace planish::codegen::samples
