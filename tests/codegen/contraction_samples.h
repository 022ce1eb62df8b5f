#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "codegen/graph_builder.h"
#include "codegen/lower/lower.h"

/// Kernels of the contraction anchor in several shapes, each with what it computes as a line of Python over its inputs
/// `x` (torch tensors) and `t` (torch).
namespace planish::codegen::samples {

struct ContractionSample {
  std::string name, python;
  Kernel kernel;
  double products = 0;  ///< multiplications
  /// What says where Inf and NaN belong, if torch's own operator does not.
  std::string definition = {};
};

inline ContractionSample contraction_sample(std::string name, std::string python, double products,
                                            const std::function<int(GraphBuilder&)>& build) {
  GraphBuilder g;
  std::vector<int> outputs{build(g)};
  if (!g.graph.outputs.empty()) outputs.clear();  // it has said which
  for (const auto& output : g.graph.outputs) outputs.push_back(output.value);
  LowerLimits limits;
  limits.contractions = true;
  auto kernel = lower(g.graph, std::vector<bool>(g.graph.nodes.size(), true), outputs, limits);
  return {std::move(name), std::move(python), kernel ? std::move(*kernel) : Kernel{}, products};
}

/// x[0] (m × k) times x[1] (k × n).
inline ContractionSample mm_sample(std::int64_t m, std::int64_t n, std::int64_t k, DType dtype = DType::f32) {
  return contraction_sample("mm", "x[0] @ x[1]", static_cast<double>(m * n * k), [=](GraphBuilder& g) {
    const int a = g.input({m, k}, dtype), b = g.input({k, n}, dtype);
    return g.node("mm.default", {V("self", a), V("mat2", b)}, {m, n}, dtype);
  });
}

/// A linear layer with bias and GELU.
inline ContractionSample linear_sample(std::int64_t m, std::int64_t n, std::int64_t k, DType dtype = DType::f32) {
  const char* const python = "t.nn.functional.gelu(t.nn.functional.linear(x[0], x[1], x[2]))";
  return contraction_sample("linear_gelu", python, static_cast<double>(m * n * k), [=](GraphBuilder& g) {
    const int a = g.input({m, k}, dtype), b = g.input({n, k}, dtype), bias = g.input({n}, dtype);
    const int y = g.node("linear.default", {V("input", a), V("weight", b), V("bias", bias)}, {m, n}, dtype);
    return g.node("gelu.default", {V("self", y)}, {m, n}, dtype);
  });
}

/// A linear layer with what has short forms behind it: logistic function, quotient, hyperbolic tangent, mish.
inline ContractionSample activated_sample(std::int64_t m, std::int64_t n, std::int64_t k, DType dtype = DType::f32) {
  const char* const python =
      "(lambda y: t.nn.functional.mish(t.tanh(t.nn.functional.silu(y) / (y.square() + 1.5))))"
      "(t.nn.functional.linear(x[0], x[1]))";
  return contraction_sample("linear_activated", python, static_cast<double>(m * n * k), [=](GraphBuilder& g) {
    const int a = g.input({m, k}, dtype), b = g.input({n, k}, dtype);
    const std::vector<std::int64_t> shape{m, n};
    const int y = g.node("linear.default", {V("input", a), V("weight", b)}, shape, dtype);
    const int silu = g.node("silu.default", {V("self", y)}, shape, dtype);
    const int square = g.node("mul.Tensor", {V("self", y), V("other", y)}, shape, dtype);
    const int below = g.node("add.Tensor", {V("self", square), F("other", 1.5)}, shape, dtype);
    const int ratio = g.node("div.Tensor", {V("self", silu), V("other", below)}, shape, dtype);
    const int tanh = g.node("tanh.default", {V("self", ratio)}, shape, dtype);
    return g.node("mish.default", {V("self", tanh)}, shape, dtype);
  });
}

/// A product whose results leave as 16-bit integers.
inline ContractionSample rounded_sample(std::int64_t m, std::int64_t n, std::int64_t k) {
  const char* const python = "(x[0] @ x[1]).to(t.int16)";
  return contraction_sample("mm_integers", python, static_cast<double>(m * n * k), [=](GraphBuilder& g) {
    const int a = g.input({m, k}), b = g.input({k, n});
    const int c = g.node("mm.default", {V("self", a), V("mat2", b)}, {m, n});
    return g.node("_to_copy.default", {V("self", c)}, {m, n}, DType::i16);
  });
}

/// x[0]ᵀ (of k × m) times x[1]ᵀ (of n × k).
inline ContractionSample transposed_sample(std::int64_t m, std::int64_t n, std::int64_t k, DType dtype = DType::f32) {
  const char* const python = "x[0].T @ x[1].T";
  return contraction_sample("transposed_mm", python, static_cast<double>(m * n * k), [=](GraphBuilder& g) {
    const int a = g.input({k, m}, dtype), b = g.input({n, k}, dtype);
    const int at = g.node("permute.default", {V("self", a), L("dims", {1, 0})}, {m, k}, dtype, {1, m});
    const int bt = g.node("permute.default", {V("self", b), L("dims", {1, 0})}, {k, n}, dtype, {1, k});
    return g.node("mm.default", {V("self", at), V("mat2", bt)}, {m, n}, dtype);
  });
}

/// Products of a batch.
inline ContractionSample bmm_sample(std::int64_t batch, std::int64_t m, std::int64_t n, std::int64_t k,
                                    DType dtype = DType::f32) {
  return contraction_sample("bmm", "t.bmm(x[0], x[1])", static_cast<double>(batch * m * n * k), [=](GraphBuilder& g) {
    const int a = g.input({batch, m, k}, dtype), b = g.input({batch, k, n}, dtype);
    return g.node("bmm.default", {V("self", a), V("mat2", b)}, {batch, m, n}, dtype);
  });
}

/// Heads as attention has them: queries (batch, rows, heads, width) by keys, and their scores.
inline ContractionSample heads_sample(std::int64_t batch, std::int64_t heads, std::int64_t rows, std::int64_t width,
                                      DType dtype) {
  const char* const python = "x[0].permute(0, 2, 1, 3) @ x[1].permute(0, 2, 3, 1)";
  const double products = static_cast<double>(batch * heads * rows * rows * width);
  return contraction_sample("heads", python, products, [=](GraphBuilder& g) {
    const std::int64_t line = heads * width, all = rows * line;
    const int q = g.input({batch, rows, heads, width}, dtype), k = g.input({batch, rows, heads, width}, dtype);
    const int queries = g.node("permute.default", {V("self", q), L("dims", {0, 2, 1, 3})}, {batch, heads, rows, width},
                               dtype, {all, width, line, 1});
    const int keys = g.node("permute.default", {V("self", k), L("dims", {0, 2, 3, 1})}, {batch, heads, width, rows},
                            dtype, {all, width, 1, line});
    return g.node("matmul.default", {V("self", queries), V("other", keys)}, {batch, heads, rows, rows}, dtype);
  });
}

/// relu(y + a further input).
inline int with_residual(GraphBuilder& g, int y, const std::vector<std::int64_t>& shape, DType dtype = DType::f32,
                         const Shape& strides = {}) {
  const int sum =
      g.node("add.Tensor", {V("self", y), V("other", g.input(shape, dtype, strides))}, shape, dtype, strides);
  return g.node("relu.default", {V("self", sum)}, shape, dtype, strides);
}

/// relu of y normalised by four further inputs of a number a channel.
inline int with_norm(GraphBuilder& g, int y, const std::vector<std::int64_t>& shape, DType dtype,
                     const Shape& strides) {
  const auto each = [&] { return g.input({shape[1]}, dtype); };
  const int mean = each(), of = each(), weight = each(), bias = each();
  const int variance = g.node("abs.default", {V("self", of)}, {shape[1]}, dtype);
  const int normed = g.value(shape, dtype, strides), none = g.value({0}), other = g.value({0});
  g.graph.nodes.push_back({"aten._native_batch_norm_legit_no_training.default",
                           {V("input", y), V("weight", weight), V("bias", bias), V("running_mean", mean),
                            V("running_var", variance), F("momentum", 0.1), F("eps", 1e-5)},
                           {normed, none, other}});
  return g.node("relu.default", {V("self", normed)}, shape, dtype, strides);
}

/// Strides of a tensor whose channels, the second dim, lie beside each other.
inline Shape channels_last(const Shape& shape) {
  Shape order = shape;
  order.push_back(order[1]);
  order.erase(order.begin() + 1);
  Shape strides = GraphBuilder::contiguous(order);
  strides.insert(strides.begin() + 1, strides.back());
  strides.pop_back();
  return strides;
}

struct Convolved {
  std::vector<std::int64_t> x, w;  ///< (n, c, …) and (o, c of a group, …)
  std::int64_t stride = 1, padding = 0, dilation = 1, groups = 1;
  bool chain = false;     ///< with a bias, ReLU and a gain a channel behind
  bool along = false;     ///< that gain is one of the last dim
  bool residual = false;  ///< with a bias, a residual and ReLU behind
  bool norm = false;      ///< normalised by statistics of channels, those of a chain being inputs, and ReLU behind
  DType dtype = DType::f32;
  std::string last = {};                ///< "all": channels lie beside each other in memory; "images": not of weights;
                                        ///< "input": nor of results
  std::vector<std::int64_t> pool = {};  ///< windows of the last dims that are folded behind that, and tanh
  bool average = false;                 ///< their mean, not their largest
  std::string fold = {};                ///< "amax": by what all channels are folded behind that (see with_fold)
  std::string sums = {};                ///< "batch": of what more results there are (see with_sums)
};

/// All channels of y folded, by amax, amin, sum, mean or logsumexp; what is negative is divided by 4.
inline int with_fold(GraphBuilder& g, int y, std::vector<std::int64_t> shape, const std::string& fold, DType dtype) {
  shape[1] = 1;
  const std::string overload = fold == "sum" ? ".dim_IntList" : fold == "mean" ? ".dim" : ".default";
  const int folded = g.node(fold + overload, {V("self", y), L("dim", {1}), B("keepdim", true)}, shape, dtype);
  return g.node("leaky_relu.default", {V("self", folded), F("negative_slope", 0.25)}, shape, dtype);
}

inline std::string folded_python(const std::string& of, const std::string& fold) {
  return "t.nn.functional.leaky_relu(t." + fold + "(" + of + ", 1, keepdim=True), 0.25)";
}

/// Results beside y, as outputs: "batch" and "group" the statistics of norms, groups of four channels; "rows" those of
/// what the last dim has; "squeeze" the mean of each plane. "only_batch" and the like: without y.
inline int with_sums(GraphBuilder& g, int y, const std::vector<std::int64_t>& shape, std::string sums) {
  const std::int64_t n = shape[0], channels = shape[1];
  if (!sums.starts_with("only_"))
    g.output(y);
  else
    sums = sums.substr(5);
  if (sums == "squeeze") {
    std::vector<std::int64_t> dims;
    for (std::size_t d = 2; d < shape.size(); ++d) dims.push_back(static_cast<std::int64_t>(d));
    g.output(g.node("mean.dim", {V("self", y), L("dim", dims), B("keepdim", false)}, {n, channels}));
    return y;
  }
  std::vector<ir::Arg> args{V("input", y)};
  std::vector<std::int64_t> of{channels};
  std::string op = "_native_batch_norm_legit.no_stats";
  if (sums == "batch") {
    args.insert(args.end(), {B("training", true), F("momentum", 0.1), F("eps", 1e-5)});
  } else if (sums == "group") {
    std::int64_t plane = 1;
    for (std::size_t d = 2; d < shape.size(); ++d) plane *= shape[d];
    op = "native_group_norm.default";
    of = {n, channels / 4};
    args.insert(args.end(), {I("N", n), I("C", channels), I("HxW", plane), I("group", channels / 4), F("eps", 1e-5)});
  } else {
    op = "native_layer_norm.default";
    of = shape;
    of.back() = 1;
    args.insert(args.begin() + 1, L("normalized_shape", {shape.back()}));
    args.push_back(F("eps", 1e-5));
  }
  const int normed = g.value(shape), mean = g.value(of), rstd = g.value(of);
  g.graph.nodes.push_back({"aten." + op, std::move(args), {normed, mean, rstd}});
  g.output(mean);
  g.output(rstd);
  return y;
}

inline std::string sums_python(const std::string& of, const std::string& sums) {
  const std::string y = sums.starts_with("only_") ? "" : "y, ";
  if (sums.ends_with("squeeze")) return "(lambda y: (" + y + "y.flatten(2).mean(-1)" + ",))(" + of + ")";
  const std::string rows = sums.ends_with("batch")   ? "y.transpose(0, 1).flatten(1)"
                           : sums.ends_with("group") ? "y.unflatten(1, (-1, 4)).flatten(2)"
                                                     : "y";
  return "(lambda y: (lambda r: (" + y + "r.mean(-1), (r.var(-1, unbiased=False) + 1e-5).rsqrt()))(" + rows + "))(" +
         of + ")";
}

/// tanh of windows of y, whose last dims they are of.
inline int with_pool(GraphBuilder& g, int y, std::vector<std::int64_t> shape, const std::vector<std::int64_t>& sizes,
                     bool average, DType dtype) {
  const std::size_t front = shape.size() - sizes.size();
  for (std::size_t d = 0; d < sizes.size(); ++d) shape[front + d] /= sizes[d];
  const std::string name = (average ? "avg_pool" : "max_pool") + std::to_string(sizes.size()) + "d.default";
  const int pooled = g.node(name, {V("self", y), L("kernel_size", sizes), L("stride", sizes)}, shape, dtype);
  return g.node("tanh.default", {V("self", pooled)}, shape, dtype);
}

inline std::string pooled_python(const std::string& of, const std::vector<std::int64_t>& sizes, bool average) {
  std::string list;
  for (const std::int64_t size : sizes) list += (list.empty() ? "" : ", ") + std::to_string(size);
  return std::string("t.tanh(t.nn.functional.") + (average ? "avg" : "max") + "_pool" + std::to_string(sizes.size()) +
         "d(" + of + ", [" + list + "]))";
}

/// A convolution of one, two or three dims, the same in each.
inline ContractionSample conv_sample(const Convolved& how) {
  const std::size_t dims = how.x.size() - 2;
  std::vector<std::int64_t> shape{how.x[0], how.w[0]};
  double products = static_cast<double>(how.x[0] * how.w[0] * how.w[1]);
  for (std::size_t d = 0; d < dims; ++d) {
    shape.push_back((how.x[d + 2] + 2 * how.padding - how.dilation * (how.w[d + 2] - 1) - 1) / how.stride + 1);
    products *= static_cast<double>(shape.back() * how.w[d + 2]);
  }
  const std::string name = "conv" + std::to_string(dims) + "d";
  const auto each = [&](std::int64_t value) { return std::vector<std::int64_t>(dims, value); };
  const auto number = [](std::int64_t value) { return std::to_string(value); };
  std::string python = "t.nn.functional." + name + "(x[0], x[1], " + (how.chain || how.residual ? "x[2]" : "None") +
                       ", " + number(how.stride) + ", " + number(how.padding) + ", " + number(how.dilation) + ", " +
                       number(how.groups) + ")";
  if (how.chain) python = "t.relu(" + python + ") * x[3]";
  if (how.residual) python = "t.relu(" + python + " + x[3])";
  if (how.norm) python = "t.relu(t.nn.functional.batch_norm(" + python + ", x[2], x[3].abs(), x[4], x[5]))";
  if (!how.pool.empty()) python = pooled_python(python, how.pool, how.average);
  if (!how.fold.empty()) python = folded_python(python, how.fold);
  if (!how.sums.empty()) python = sums_python(python, how.sums);
  const std::string called = name + (how.norm ? "_norm" : "") +
                             (how.chain      ? "_chain"
                              : how.residual ? "_residual"
                                             : "") +
                             (how.last.empty() ? "" : "_last_" + how.last) + (how.pool.empty() ? "" : "_pool") +
                             (how.fold.empty() ? "" : "_" + how.fold) + (how.sums.empty() ? "" : "_" + how.sums);
  return contraction_sample(called, python, products, [&](GraphBuilder& g) {
    const Shape of_x = how.last.empty() ? Shape() : channels_last(how.x);
    const Shape of_w = how.last == "all" ? channels_last(how.w) : Shape();
    const Shape of_y = how.last.empty() || how.last == "input" ? Shape() : channels_last(shape);
    const int x = g.input(how.x, how.dtype, of_x), w = g.input(how.w, how.dtype, of_w);
    std::vector<ir::Arg> args{V("input", x), V("weight", w)};
    if (how.chain || how.residual) args.push_back(V("bias", g.input({how.w[0]}, how.dtype)));
    args.push_back(L("stride", each(how.stride)));
    args.push_back(L("padding", each(how.padding)));
    args.push_back(L("dilation", each(how.dilation)));
    args.push_back(I("groups", how.groups));
    int y = g.node(name + ".default", args, shape, how.dtype, of_y);
    if (how.residual) y = with_residual(g, y, shape, how.dtype, of_y);
    if (how.norm) y = with_norm(g, y, shape, how.dtype, of_y);
    if (how.chain) {
      const int relu = g.node("relu.default", {V("self", y)}, shape, how.dtype, of_y);
      std::vector<std::int64_t> one{how.along ? 1 : how.w[0]};
      one.insert(one.end(), dims, 1);
      if (how.along) one.back() = shape.back();
      y = g.node("mul.Tensor", {V("self", relu), V("other", g.input(one, how.dtype))}, shape, how.dtype, of_y);
    }
    if (!how.fold.empty()) return with_fold(g, y, shape, how.fold, how.dtype);
    if (!how.sums.empty()) return with_sums(g, y, shape, how.sums);
    return how.pool.empty() ? y : with_pool(g, y, shape, how.pool, how.average, how.dtype);
  });
}

/// Convolutions of 16 bits whose images have channels beside each other.
inline std::vector<ContractionSample> channels_last_samples(bool large) {
  std::vector<ContractionSample> all;
  const auto bf16 = DType::bf16, f16 = DType::f16;
  for (const Convolved& how : std::vector<Convolved>{
           {.x = {2, 64, 12, 12}, .w = {64, 64, 3, 3}, .padding = 1, .dtype = bf16, .last = "all"},
           {.x = {3, 64, 9, 11}, .w = {40, 64, 3, 3}, .padding = 1, .chain = true, .dtype = f16, .last = "all"},
           {.x = {2, 128, 15, 14}, .w = {72, 128, 3, 3}, .padding = 1, .residual = true, .dtype = bf16, .last = "all"},
           {.x = {2, 64, 16, 15}, .w = {96, 64, 3, 3}, .stride = 2, .padding = 1, .dtype = bf16, .last = "all"},
           {.x = {2, 64, 14, 14}, .w = {128, 64, 1, 1}, .stride = 2, .dtype = bf16, .last = "all"},
           {.x = {2, 64, 17, 13}, .w = {64, 64, 5, 3}, .padding = 2, .dilation = 2, .dtype = f16, .last = "all"},
           {.x = {2, 128, 11, 9},
            .w = {128, 64, 3, 3},
            .padding = 1,
            .groups = 2,
            .chain = true,
            .dtype = bf16,
            .last = "all"},
           {.x = {2, 40, 10, 12}, .w = {64, 40, 3, 3}, .padding = 1, .dtype = bf16, .last = "all"},
           {.x = {2, 64, 12, 12}, .w = {64, 64, 3, 3}, .chain = true, .dtype = bf16, .last = "images"},
           {.x = {2, 64, 12, 16}, .w = {64, 64, 3, 3}, .padding = 1, .residual = true, .dtype = bf16, .last = "input"},
           {.x = {3, 64, 13, 11}, .w = {72, 64, 3, 3}, .stride = 2, .padding = 1, .dtype = f16, .last = "input"},
           {.x = {2, 64, 100}, .w = {64, 64, 7}, .padding = 9, .dilation = 3, .dtype = bf16, .last = "all"},
           {.x = {2, 64, 6, 7, 8}, .w = {64, 64, 3, 3, 3}, .padding = 1, .dtype = bf16, .last = "all"},
           {.x = {2, 64, 9, 10}, .w = {72, 64, 3, 3}, .padding = 1, .norm = true, .dtype = bf16, .last = "all"},
           {.x = {2, 32, 9, 10}, .w = {160, 32, 1, 1}, .norm = true, .dtype = bf16, .last = "all"},
           {.x = {1, 256, 16, 16}, .w = {64, 256, 3, 3}, .padding = 1, .dtype = bf16, .last = "all"},  // long sums
       })
    all.push_back(conv_sample(how));
  if (!large) return all;
  for (const auto& [channels, results, size, stride] : std::vector<std::array<std::int64_t, 4>>{{64, 64, 56, 1},
                                                                                                {128, 128, 28, 1},
                                                                                                {256, 256, 14, 1},
                                                                                                {512, 512, 7, 1},
                                                                                                {128, 128, 56, 2},
                                                                                                {256, 256, 28, 2}})
    all.push_back(conv_sample({.x = {64, channels, size, size},
                               .w = {results, channels, 3, 3},
                               .stride = stride,
                               .padding = 1,
                               .dtype = bf16,
                               .last = "all"}));
  all.push_back(conv_sample(
      {.x = {64, 256, 56, 56}, .w = {512, 256, 1, 1}, .stride = 2, .chain = true, .dtype = bf16, .last = "all"}));
  for (const std::int64_t channels : {64, 128, 256, 512}) {  // as a ResNet has them, a residual behind
    const std::int64_t size = 56 * 64 / channels;
    all.push_back(conv_sample({.x = {64, channels, size, size},
                               .w = {4 * channels, channels, 1, 1},
                               .residual = true,
                               .dtype = bf16,
                               .last = "all"}));
  }
  all.push_back(conv_sample(
      {.x = {16, 320, 64, 64}, .w = {320, 320, 3, 3}, .padding = 1, .chain = true, .dtype = f16, .last = "all"}));
  all.push_back(conv_sample(
      {.x = {16, 320, 64, 64}, .w = {320, 320, 3, 3}, .padding = 1, .chain = true, .dtype = f16, .last = "input"}));
  // As UNets and autoencoders of images have them, weights as PyTorch keeps them: images, channels, results, size.
  for (const auto& [images, channels, results, size] : std::vector<std::array<std::int64_t, 4>>{{2, 320, 320, 64},
                                                                                                {2, 640, 640, 32},
                                                                                                {2, 1280, 1280, 16},
                                                                                                {2, 2560, 1280, 16},
                                                                                                {2, 960, 320, 64},
                                                                                                {2, 320, 320, 128},
                                                                                                {2, 640, 640, 64},
                                                                                                {2, 1280, 1280, 32},
                                                                                                {1, 512, 512, 64},
                                                                                                {1, 512, 512, 256},
                                                                                                {1, 256, 256, 512},
                                                                                                {1, 128, 128, 1024},
                                                                                                {1, 128, 3, 1024}})
    all.push_back(conv_sample({.x = {images, channels, size, size},
                               .w = {results, channels, 3, 3},
                               .padding = 1,
                               .residual = results != 3,
                               .dtype = bf16,
                               .last = "images"}));
  all.push_back(conv_sample(
      {.x = {2, 320, 64, 64}, .w = {320, 320, 3, 3}, .stride = 2, .padding = 1, .dtype = bf16, .last = "images"}));
  return all;
}

struct Transposed {
  std::vector<std::int64_t> x, w;                       ///< (n, c, …) and (c, o of a group, …)
  std::vector<std::int64_t> stride = {}, padding = {};  ///< by dim
  std::vector<std::int64_t> more = {};                  ///< output padding
  std::vector<std::int64_t> dilation = {};
  std::int64_t groups = 1;
  bool chain = false;                   ///< with a bias, a residual and ReLU behind
  std::string fold = {}, sums = {};     ///< as of Convolved
  std::vector<std::int64_t> pool = {};  ///< likewise
  bool average = false;
  DType dtype = DType::f32;
};

/// Lists of one number are that for each dim; those left out are ones, or zeros.
inline void complete(Transposed& how) {
  const std::size_t dims = how.x.size() - 2;
  for (auto* const ones : {&how.stride, &how.dilation}) ones->resize(dims, ones->empty() ? 1 : ones->back());
  for (auto* const none : {&how.padding, &how.more}) none->resize(dims, none->empty() ? 0 : none->back());
}

/// Of the result; `how` is complete.
inline std::vector<std::int64_t> transposed_sizes(const Transposed& how) {
  std::vector<std::int64_t> shape{how.x[0], how.w[1] * how.groups};
  for (std::size_t d = 0; d + 2 < how.x.size(); ++d) {
    shape.push_back((how.x[d + 2] - 1) * how.stride[d] - 2 * how.padding[d] + how.dilation[d] * (how.w[d + 2] - 1) +
                    how.more[d] + 1);
  }
  return shape;
}

/// A transposed convolution of one, two or three dims.
inline ContractionSample transposed_sample(Transposed how) {
  complete(how);
  const std::size_t dims = how.x.size() - 2;
  const auto shape = transposed_sizes(how);
  double products = static_cast<double>(how.x[0] * how.x[1] * how.w[1]);
  for (std::size_t d = 0; d < dims; ++d) products *= static_cast<double>(how.x[d + 2] * how.w[d + 2]);
  const std::string name = "conv_transpose" + std::to_string(dims) + "d";
  const auto list = [](const std::vector<std::int64_t>& values) {
    std::string text = "[";
    for (const std::int64_t value : values) text += std::to_string(value) + ", ";
    return text + "]";
  };
  std::string python = "t.nn.functional." + name + "(x[0], x[1], " + (how.chain ? "x[2]" : "None") + ", " +
                       list(how.stride) + ", " + list(how.padding) + ", " + list(how.more) + ", " +
                       std::to_string(how.groups) + ", " + list(how.dilation) + ")";
  if (how.chain) python = "t.relu(" + python + " + x[3])";
  if (!how.pool.empty()) python = pooled_python(python, how.pool, how.average);
  if (!how.fold.empty()) python = folded_python(python, how.fold);
  if (!how.sums.empty()) python = sums_python(python, how.sums);
  const std::string called = name + (how.chain ? "_chain" : "") + (how.pool.empty() ? "" : "_pool") +
                             (how.fold.empty() ? "" : "_" + how.fold) + (how.sums.empty() ? "" : "_" + how.sums);
  return contraction_sample(called, python, products, [&](GraphBuilder& g) {
    const int x = g.input(how.x, how.dtype), w = g.input(how.w, how.dtype);
    std::vector<ir::Arg> args{V("input", x), V("weight", w)};
    if (how.chain) args.push_back(V("bias", g.input({shape[1]}, how.dtype)));
    args.push_back(L("stride", how.stride));
    args.push_back(L("padding", how.padding));
    args.push_back(L("output_padding", how.more));
    args.push_back(I("groups", how.groups));
    args.push_back(L("dilation", how.dilation));
    int y = g.node(name + (dims == 1 ? ".default" : ".input"), args, shape, how.dtype);
    if (how.chain) y = with_residual(g, y, shape, how.dtype);
    if (!how.sums.empty()) return with_sums(g, y, shape, how.sums);
    if (!how.pool.empty()) return with_pool(g, y, shape, how.pool, how.average, how.dtype);
    return how.fold.empty() ? y : with_fold(g, y, shape, how.fold, how.dtype);
  });
}

/// Transposed convolutions with windows whose places are phases.
inline std::vector<ContractionSample> phased_pools() {
  std::vector<ContractionSample> all;
  for (const Transposed& how : std::vector<Transposed>{
           {.x = {2, 3, 5, 6, 7},
            .w = {3, 8, 3, 3, 3},
            .stride = {2},
            .padding = {1},
            .chain = true,
            .pool = {2, 2, 2}},
           {.x = {2, 8, 6, 7}, .w = {8, 12, 3, 3}, .stride = {2}, .padding = {1}, .more = {1}, .pool = {2, 2}},
           {.x = {2, 8, 6, 7}, .w = {8, 5, 4, 4}, .stride = {2}, .padding = {1}, .pool = {2, 2}, .average = true},
           {.x = {2, 8, 6, 9}, .w = {8, 10, 5, 5}, .stride = {2}, .padding = {2}, .pool = {2, 2}},
           {.x = {3, 8, 31}, .w = {8, 16, 6}, .stride = {3}, .pool = {3}},
           {.x = {2, 8, 9, 5}, .w = {8, 12, 1, 4}, .stride = {1, 2}, .padding = {0, 1}, .pool = {1, 2}},
           // As many taps as places of a window: channels and phases are apart as windows and their places are.
           {.x = {2, 8, 6, 7}, .w = {8, 5, 2, 4}, .stride = {2}, .padding = {0, 1}, .pool = {2, 2}},
           {.x = {2, 8, 6, 7}, .w = {8, 5, 2, 3}, .stride = {2}, .padding = {0, 1}, .more = {0, 1}, .pool = {2, 2}},
           {.x = {2, 8, 6, 8}, .w = {8, 5, 4, 4}, .stride = {2}, .padding = {1}, .pool = {2, 2}},
           {.x = {2, 4, 4, 6, 7}, .w = {4, 5, 2, 4, 4}, .stride = {2}, .padding = {0, 1, 1}, .pool = {2, 2, 2}},
           {.x = {2, 8, 6, 7}, .w = {8, 5, 2, 2}, .stride = {2}, .chain = true, .pool = {2, 2}},
           {.x = {2, 8, 6, 7}, .w = {8, 12, 3, 3}, .stride = {3}, .chain = true, .pool = {3, 3}},
           {.x = {2, 8, 13}, .w = {8, 5, 2}, .stride = {2}, .chain = true, .pool = {2}},
       })
    all.push_back(transposed_sample(how));
  return all;
}

inline std::vector<Transposed> transposed_shapes(bool large) {
  std::vector<Transposed> all{
      {.x = {2, 16, 5, 7}, .w = {16, 12, 4, 4}, .stride = {2}, .padding = {1}, .chain = true},
      {.x = {2, 12, 6, 5}, .w = {12, 10, 3, 3}, .stride = {2}, .padding = {1}, .more = {1}},
      {.x = {3, 9, 7, 6}, .w = {9, 10, 3, 5}, .padding = {1, 2}},
      {.x = {2, 16, 8, 8}, .w = {16, 10, 2, 2}, .stride = {2}, .chain = true},
      {.x = {2, 16, 6, 7}, .w = {16, 10, 4, 4}, .stride = {2}},
      {.x = {2, 10, 50}, .w = {10, 18, 7}, .stride = {3}, .padding = {2}, .more = {2}},
      {.x = {2, 10, 50}, .w = {10, 18, 3}, .dilation = {3}},
      {.x = {2, 16, 9}, .w = {16, 8, 2}, .stride = {3}, .chain = true},
      {.x = {2, 8, 3, 2, 4}, .w = {8, 9, 3, 3, 3}, .stride = {2}, .padding = {1}, .chain = true},
      {.x = {2, 32, 5, 6}, .w = {32, 8, 3, 3}, .stride = {2, 3}, .padding = {1, 2}, .dilation = {2, 1}, .groups = 4},
      {.x = {2, 9, 4, 5}, .w = {9, 6, 3, 3}, .stride = {5}, .padding = {1}, .dilation = {2}},
      {.x = {2, 16, 4, 5}, .w = {16, 5, 4, 3}, .stride = {3, 2}, .padding = {3, 0}, .dilation = {2, 3}},
      {.x = {2, 16, 6, 5}, .w = {16, 10, 3, 3}, .stride = {2}, .padding = {1}, .more = {1}, .dtype = DType::bf16},
      {.x = {3, 16, 50}, .w = {16, 18, 7}, .stride = {3}, .chain = true, .dtype = DType::f16},
      {.x = {2, 24, 3, 4, 5}, .w = {24, 9, 3, 3, 3}, .stride = {2}, .padding = {1}, .dtype = DType::bf16},
      {.x = {2, 16, 6, 7}, .w = {16, 12, 4, 4}, .stride = {2}, .padding = {1}, .chain = true, .dtype = DType::bf16},
  };
  if (!large) return all;
  const std::vector<Transposed> more{
      {.x = {16, 32, 16, 32, 32}, .w = {32, 64, 3, 3, 3}, .stride = {2}, .padding = {1}, .more = {1}},
      {.x = {16, 32, 16, 32, 32}, .w = {32, 64, 3, 3, 3}, .stride = {2}, .padding = {1}, .chain = true},
      {.x = {16, 64, 128, 128}, .w = {64, 128, 4, 4}, .stride = {2}, .padding = {1}, .chain = true},
      {.x = {128, 64, 64, 64}, .w = {64, 128, 4, 4}, .stride = {2}, .padding = {1}, .more = {1}},
      {.x = {128, 64, 128, 128}, .w = {64, 64, 3, 3}, .stride = {2}, .padding = {1}, .more = {1}},
      {.x = {4, 64, 24, 48, 48}, .w = {64, 128, 3, 3, 3}, .stride = {2}, .padding = {1}},
      {.x = {16, 128, 128, 128}, .w = {128, 64, 3, 3}},
      {.x = {16, 64, 128, 128}, .w = {64, 64, 2, 2}, .stride = {2}},
      {.x = {32, 64, 8192}, .w = {64, 64, 5}, .stride = {2}, .padding = {2}, .more = {1}},
      {.x = {32, 32, 32768}, .w = {32, 64, 5}, .dilation = {3}},
      {.x = {16, 32, 64, 128}, .w = {32, 64, 3, 5}, .stride = {5, 2}, .padding = {1}, .dilation = {2, 1}},
      {.x = {8, 64, 128, 128},
       .w = {64, 16, 3, 5},
       .stride = {2, 3},
       .padding = {1, 2},
       .dilation = {2, 1},
       .groups = 4},
      {.x = {8, 32, 32, 32, 32}, .w = {32, 32, 4, 4, 4}, .stride = {2}, .padding = {1}},
      {.x = {128, 64, 128, 128}, .w = {64, 64, 3, 3}, .stride = {2}, .padding = {1}, .more = {1}, .dtype = DType::bf16},
      {.x = {16, 64, 128, 128},
       .w = {64, 128, 4, 4},
       .stride = {2},
       .padding = {1},
       .chain = true,
       .dtype = DType::bf16},
  };
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

inline std::vector<ContractionSample> transposed_samples(bool large) {
  std::vector<ContractionSample> all;
  for (const Transposed& how : transposed_shapes(large)) all.push_back(transposed_sample(how));
  return all;
}

inline std::vector<ContractionSample> convolution_samples(bool large) {
  std::vector<ContractionSample> all;
  for (const Convolved& how : std::vector<Convolved>{
           {.x = {2, 16, 12, 12}, .w = {32, 16, 3, 3}, .padding = 1},
           {.x = {3, 20, 9, 11}, .w = {24, 20, 1, 1}, .chain = true},
           {.x = {2, 3, 17, 19}, .w = {24, 3, 3, 3}, .stride = 2, .padding = 1, .chain = true},
           {.x = {3, 12, 11, 10}, .w = {20, 12, 5, 3}, .padding = 2, .dilation = 2},
           {.x = {2, 32, 9, 9}, .w = {32, 8, 3, 3}, .padding = 1, .groups = 4, .chain = true},
           {.x = {2, 10, 100}, .w = {18, 10, 7}, .stride = 3},
           {.x = {2, 8, 6, 7, 8}, .w = {16, 8, 3, 3, 3}, .padding = 1, .chain = true},
           {.x = {2, 16, 13, 14}, .w = {24, 16, 3, 3}, .stride = 2, .padding = 1},
           {.x = {2, 3, 31, 29}, .w = {24, 3, 7, 7}, .stride = 2, .padding = 3},
           {.x = {2, 3, 9, 19, 14}, .w = {16, 3, 3, 3, 3}, .chain = true},
           {.x = {2, 8, 267}, .w = {16, 8, 5}, .padding = 2, .chain = true},
           {.x = {3, 16, 11, 13}, .w = {24, 16, 3, 3}, .padding = 1, .residual = true},
           {.x = {2, 16, 14, 9}, .w = {8, 16, 3, 3}, .stride = 2, .residual = true},
           {.x = {2, 16, 11, 13}, .w = {24, 16, 3, 3}, .padding = 1, .residual = true, .dtype = DType::bf16},
           {.x = {3, 24, 90}, .w = {40, 24, 5}, .padding = 8, .dilation = 4, .chain = true, .dtype = DType::f16},
           // Channels enough for a tile's rows: strips may be read where they lie.
           {.x = {2, 16, 12, 12}, .w = {72, 16, 3, 3}, .padding = 1, .chain = true},
           {.x = {3, 20, 13, 15}, .w = {64, 20, 3, 3}, .stride = 2, .padding = 1, .residual = true},
           {.x = {2, 32, 15, 15}, .w = {128, 16, 3, 3}, .padding = 1, .groups = 2},
           {.x = {2, 8, 7, 9, 10}, .w = {64, 8, 3, 3, 3}, .padding = 1, .chain = true},
           {.x = {1, 128, 16, 16}, .w = {64, 128, 3, 3}, .padding = 1},  // few tiles of long sums
       })
    all.push_back(conv_sample(how));
  if (!large) return all;
  for (const Convolved& how : std::vector<Convolved>{
           {.x = {16, 64, 256, 256}, .w = {128, 64, 3, 3}, .chain = true},
           {.x = {64, 64, 128, 128}, .w = {128, 64, 3, 3}, .chain = true},
           {.x = {64, 8, 256, 256}, .w = {64, 8, 3, 3}, .chain = true},
           {.x = {128, 3, 224, 224}, .w = {64, 3, 7, 7}, .stride = 2, .padding = 3},
           {.x = {128, 64, 56, 56}, .w = {64, 64, 3, 3}, .padding = 1},
           {.x = {128, 256, 14, 14}, .w = {256, 256, 3, 3}, .padding = 1},
           {.x = {128, 512, 7, 7}, .w = {512, 512, 3, 3}, .padding = 1},
           {.x = {128, 128, 56, 56}, .w = {128, 128, 3, 3}, .stride = 2, .padding = 1},
           {.x = {16, 32, 64, 64, 64}, .w = {64, 32, 3, 3, 3}, .chain = true},
           {.x = {64, 64, 131072}, .w = {128, 64, 3}},
           {.x = {16, 64, 128, 128}, .w = {64, 64, 5, 9}, .padding = 4, .dilation = 2},
           {.x = {32, 256, 64, 64}, .w = {256, 32, 3, 3}, .padding = 1, .groups = 8},
           {.x = {128, 3, 16, 64, 64}, .w = {16, 3, 3, 3, 3}, .chain = true},
           {.x = {128, 8, 16, 64, 64}, .w = {16, 8, 3, 3, 3}, .chain = true},
           {.x = {128, 8, 256, 256}, .w = {32, 8, 3, 3}, .chain = true},
           {.x = {128, 64, 56, 56}, .w = {64, 64, 3, 3}, .padding = 1, .residual = true},
           {.x = {128, 256, 14, 14}, .w = {1024, 256, 1, 1}, .residual = true},
           {.x = {32, 256, 8192}, .w = {256, 256, 5}, .padding = 8, .dilation = 4, .chain = true, .dtype = DType::bf16},
           {.x = {128, 64, 56, 56}, .w = {64, 64, 3, 3}, .padding = 1, .residual = true, .dtype = DType::bf16},
           {.x = {16, 64, 256, 256}, .w = {128, 64, 3, 3}, .chain = true, .dtype = DType::f16},
           {.x = {16, 32, 64, 64, 64}, .w = {64, 32, 3, 3, 3}, .chain = true, .dtype = DType::bf16},
       })
    all.push_back(conv_sample(how));
  return all;
}

/// Layers of convolutional networks on ten images: each is too small to fill a card with large tiles.
inline std::vector<ContractionSample> layer_samples() {
  std::vector<ContractionSample> all;
  for (const Convolved& how : std::vector<Convolved>{
           {.x = {10, 64, 56, 56}, .w = {64, 64, 3, 3}, .padding = 1},
           {.x = {10, 192, 28, 28}, .w = {64, 192, 1, 1}},
           {.x = {10, 96, 28, 28}, .w = {128, 96, 3, 3}, .padding = 1},
           {.x = {10, 512, 28, 28}, .w = {512, 512, 3, 3}, .padding = 1},
           {.x = {10, 256, 14, 14}, .w = {256, 256, 3, 3}, .padding = 1},
           {.x = {10, 256, 14, 14}, .w = {1024, 256, 1, 1}},
           {.x = {10, 1024, 14, 14}, .w = {256, 1024, 1, 1}},
           {.x = {10, 512, 14, 14}, .w = {512, 512, 3, 3}, .padding = 1},
           {.x = {10, 512, 7, 7}, .w = {512, 512, 3, 3}, .padding = 1},
       })
    all.push_back(conv_sample(how));
  return all;
}

/// Convolutions, and a product, whose results are folded by windows.
inline std::vector<ContractionSample> pooled_samples(bool large) {
  std::vector<ContractionSample> all;
  for (const Convolved& how : std::vector<Convolved>{
           {.x = {2, 16, 14, 22}, .w = {24, 16, 3, 3}, .chain = true, .pool = {2, 2}},
           {.x = {3, 16, 13, 11}, .w = {20, 16, 3, 3}, .padding = 1, .chain = true, .pool = {2, 2}, .average = true},
           {.x = {2, 16, 17, 19}, .w = {40, 16, 3, 3}, .padding = 1, .pool = {3, 3}},
           {.x = {2, 8, 8, 9, 10}, .w = {16, 8, 3, 3, 3}, .padding = 1, .chain = true, .pool = {2, 2, 2}},
           {.x = {2, 12, 131}, .w = {18, 12, 5}, .padding = 2, .chain = true, .pool = {4}},
           {.x = {2, 16, 20, 24}, .w = {16, 16, 3, 3}, .stride = 2, .padding = 1, .pool = {2, 1}, .average = true},
           {.x = {2, 3, 21, 30}, .w = {24, 3, 5, 5}, .pool = {1, 4}},
           {.x = {3, 16, 12, 14}, .w = {24, 16, 3, 3}, .padding = 1, .residual = true, .pool = {2, 2}},
           {.x = {2, 32, 12, 12}, .w = {32, 8, 3, 3}, .padding = 1, .groups = 4, .chain = true, .pool = {2, 2}},
           {.x = {2, 16, 12, 14},
            .w = {24, 16, 3, 3},
            .padding = 1,
            .chain = true,
            .dtype = DType::bf16,
            .pool = {2, 2}},
       })
    all.push_back(conv_sample(how));
  const auto layer = [&](std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t size) {
    const std::string python = pooled_python("t.nn.functional.linear(x[0], x[1], x[2])", {size}, false);
    all.push_back(contraction_sample("linear_pool", python, static_cast<double>(m * n * k), [=](GraphBuilder& g) {
      const int a = g.input({m, k}), b = g.input({n, k}), bias = g.input({n});
      const int y = g.node("linear.default", {V("input", a), V("weight", b), V("bias", bias)}, {m, n});
      return with_pool(g, y, {m, n}, {size}, false, DType::f32);
    }));
  };
  layer(70, 96, 64, 2);
  if (!large) return all;
  for (const Convolved& how : std::vector<Convolved>{
           {.x = {128, 64, 128, 128}, .w = {128, 64, 3, 3}, .chain = true, .pool = {2, 2}},
           {.x = {128, 64, 128, 128},
            .w = {64, 64, 3, 3},
            .padding = 1,
            .chain = true,
            .pool = {2, 2},
            .average = true},
           {.x = {16, 32, 32, 64, 64}, .w = {64, 32, 3, 3, 3}, .padding = 1, .pool = {2, 2, 2}},
           {.x = {64, 64, 32768}, .w = {128, 64, 5}, .padding = 2, .pool = {4}},
           {.x = {128, 3, 224, 224}, .w = {64, 3, 3, 3}, .padding = 1, .chain = true, .pool = {2, 2}},
           {.x = {128, 64, 128, 128},
            .w = {128, 64, 3, 3},
            .padding = 1,
            .chain = true,
            .dtype = DType::bf16,
            .pool = {2, 2}},
       })
    all.push_back(conv_sample(how));
  layer(1024, 8192, 8192, 2);
  return all;
}

/// Convolutions, and a product, whose channels are folded.
inline std::vector<ContractionSample> folded_samples(bool large) {
  std::vector<ContractionSample> all;
  std::vector<Convolved> convolved{
      {.x = {2, 16, 14, 22}, .w = {24, 16, 3, 3}, .chain = true, .fold = "amin"},
      {.x = {3, 16, 13, 11}, .w = {20, 16, 3, 3}, .padding = 1, .chain = true, .fold = "mean"},
      {.x = {2, 16, 17, 19}, .w = {40, 16, 3, 3}, .stride = 2, .padding = 1, .fold = "amax"},
      {.x = {2, 8, 6, 9, 10}, .w = {16, 8, 3, 3, 3}, .padding = 1, .chain = true, .fold = "logsumexp"},
      {.x = {2, 12, 131}, .w = {18, 12, 5}, .padding = 2, .residual = true, .fold = "sum"},
      {.x = {2, 16, 12, 14}, .w = {24, 16, 3, 3}, .padding = 1, .chain = true, .dtype = DType::bf16, .fold = "amax"},
      {.x = {2, 16, 12, 14}, .w = {64, 16, 1, 1}, .chain = true, .fold = "logsumexp"},
  };
  std::vector<Transposed> transposed{
      {.x = {2, 16, 6, 7}, .w = {16, 12, 4, 4}, .stride = {2}, .padding = {1}, .more = {1}, .fold = "amin"},
      {.x = {2, 16, 6, 7}, .w = {16, 24, 3, 3}, .padding = {1}, .chain = true, .fold = "logsumexp"},
      {.x = {2, 16, 6, 7}, .w = {16, 12, 3, 3}, .stride = {2}, .padding = {1}, .more = {1}, .fold = "logsumexp"},
      {.x = {2, 8, 3, 4, 5}, .w = {8, 16, 4, 4, 4}, .stride = {2}, .padding = {1}, .fold = "sum"},
  };
  if (large) {
    convolved.push_back({.x = {64, 64, 128, 128}, .w = {128, 64, 3, 3}, .chain = true, .fold = "amin"});
    convolved.push_back({.x = {128, 16, 256, 256}, .w = {64, 16, 3, 3}, .padding = 1, .fold = "logsumexp"});
    convolved.push_back({.x = {16, 32, 32, 64, 64}, .w = {64, 32, 3, 3, 3}, .padding = 1, .fold = "amax"});
    convolved.push_back(
        {.x = {64, 64, 128, 128}, .w = {128, 64, 3, 3}, .chain = true, .dtype = DType::bf16, .fold = "amin"});
    transposed.push_back(
        {.x = {16, 64, 128, 128}, .w = {64, 128, 4, 4}, .stride = {2}, .padding = {1}, .fold = "amin"});
    transposed.push_back(
        {.x = {16, 64, 128, 128}, .w = {64, 128, 3, 3}, .stride = {2}, .padding = {1}, .more = {1}, .fold = "amin"});
    transposed.push_back(
        {.x = {16, 32, 16, 32, 32}, .w = {32, 16, 4, 4, 4}, .stride = {2}, .padding = {1}, .fold = "sum"});
    transposed.push_back(
        {.x = {128, 3, 16, 32, 32}, .w = {3, 16, 3, 3, 3}, .stride = {2}, .padding = {1}, .pool = {2, 2, 2}});
  }
  for (const Convolved& how : convolved) all.push_back(conv_sample(how));
  for (const Transposed& how : transposed) all.push_back(transposed_sample(how));
  std::ranges::move(phased_pools(), std::back_inserter(all));
  return all;
}

/// A linear layer with a bias, and statistics of its rows, or of its columns ("batch"), or nothing besides ("").
inline ContractionSample summed_layer(std::int64_t m, std::int64_t n, std::int64_t k, const std::string& sums) {
  const std::string layer = "t.nn.functional.linear(x[0], x[1], x[2])";
  const std::string python = sums.empty() ? layer : sums_python(layer, sums);
  return contraction_sample("linear_" + sums, python, static_cast<double>(m * n * k), [=](GraphBuilder& g) {
    const int a = g.input({m, k}), b = g.input({n, k}), bias = g.input({n});
    const int y = g.node("linear.default", {V("input", a), V("weight", b), V("bias", bias)}, {m, n});
    return sums.empty() ? y : with_sums(g, y, {m, n}, sums);
  });
}

/// A linear layer of bf16 with the mean of the squares of each head, which is `head` of its `n` features; where these
/// are all, behind a residual.
inline ContractionSample squares_sample(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t head) {
  return contraction_sample("linear_squares", "", 0, [=](GraphBuilder& g) {
    const DType half = DType::bf16;
    const int a = g.input({m, k}, half), b = g.input({n, k}, half), bias = g.input({n}, half);
    const std::vector<std::int64_t> shape{m, n / head, head}, kept{m, n / head, 1};
    int y = g.node("linear.default", {V("input", a), V("weight", b), V("bias", bias)}, {m, n}, half);
    if (head == n)
      y = g.node("add.Tensor", {V("self", y), V("other", g.input({m, n}, half)), I("alpha", 1)}, {m, n}, half);
    g.output(y);
    const int heads = g.node("view.default", {V("self", y), L("size", shape)}, shape, half);
    const int wide = g.node("_to_copy.default", {V("self", heads)}, shape, DType::f32);
    const int squares = g.node("mul.Tensor", {V("self", wide), V("other", wide)}, shape);
    g.output(g.node("mean.dim", {V("self", squares), L("dim", {2}), B("keepdim", true)}, kept));
    return y;
  });
}

/// Contractions whose results are stored and summed up, over more of them than a tile has.
inline std::vector<ContractionSample> spread_samples(bool large) {
  std::vector<Convolved> convolved{
      {.x = {3, 16, 22, 26}, .w = {24, 16, 3, 3}, .chain = true, .sums = "batch"},
      {.x = {3, 16, 23, 21}, .w = {24, 16, 3, 3}, .padding = 1, .sums = "group"},
      {.x = {5, 16, 13, 14}, .w = {40, 16, 3, 3}, .stride = 2, .padding = 1, .residual = true, .sums = "group"},
      {.x = {2, 8, 6, 9, 10}, .w = {16, 8, 3, 3, 3}, .padding = 1, .chain = true, .sums = "squeeze"},
      {.x = {2, 12, 531}, .w = {18, 12, 5}, .padding = 2, .sums = "only_squeeze"},
      {.x = {7, 16, 12, 14}, .w = {64, 16, 1, 1}, .chain = true, .sums = "batch"},
      {.x = {2, 32, 29, 9}, .w = {32, 8, 3, 3}, .padding = 1, .groups = 4, .sums = "squeeze"},
      {.x = {2, 3, 31, 29}, .w = {24, 3, 7, 7}, .stride = 2, .padding = 3, .chain = true, .sums = "only_squeeze"},
      {.x = {2, 4, 40'000}, .w = {8, 4, 3}, .padding = 1, .sums = "batch"},  // joined by whole blocks
      {.x = {3, 16, 23, 21}, .w = {24, 16, 3, 3}, .padding = 1, .chain = true, .sums = "only_group"},
      {.x = {3, 16, 23, 21}, .w = {24, 16, 3, 3}, .sums = "only_batch"},
  };
  std::vector<Transposed> transposed{
      {.x = {2, 16, 16, 17}, .w = {16, 12, 4, 4}, .stride = {2}, .padding = {1}, .chain = true, .sums = "batch"},
      {.x = {3, 9, 17, 16}, .w = {9, 12, 3, 5}, .padding = {1, 2}, .sums = "group"},
      {.x = {2, 8, 5, 4, 7}, .w = {8, 8, 4, 4, 4}, .stride = {2}, .padding = {1}, .sums = "only_squeeze"},
      {.x = {2, 16, 16, 17}, .w = {16, 12, 4, 4}, .stride = {2}, .padding = {1}, .sums = "only_batch"},
  };
  if (large) {
    convolved = {
        {.x = {128, 8, 256, 256}, .w = {64, 8, 3, 3}, .chain = true, .sums = "only_squeeze"},
        {.x = {128, 8, 128, 128}, .w = {64, 8, 3, 3}, .sums = "group"},
        {.x = {128, 8, 128, 128}, .w = {64, 8, 3, 3}, .sums = "batch"},
        {.x = {128, 8, 128, 128}, .w = {64, 8, 3, 3}, .sums = "only_batch"},
        {.x = {16, 32, 32, 64, 64}, .w = {64, 32, 3, 3, 3}, .padding = 1, .chain = true, .sums = "group"},
    };
    transposed = {
        {.x = {16, 32, 16, 32, 32}, .w = {32, 64, 4, 4, 4}, .stride = {2}, .padding = {1}, .sums = "batch"},
    };
  }
  std::vector<ContractionSample> all;
  for (const Convolved& how : convolved) all.push_back(conv_sample(how));
  for (const Transposed& how : transposed) all.push_back(transposed_sample(how));
  all.push_back(large ? summed_layer(8192, 4096, 1024, "rows") : summed_layer(100, 180, 64, "rows"));
  all.push_back(large ? summed_layer(8192, 4096, 1024, "batch") : summed_layer(200, 77, 64, "batch"));
  return all;
}

inline std::vector<ContractionSample> contraction_samples(bool large) {
  std::vector<ContractionSample> all;
  const auto add = [&](ContractionSample sample) { all.push_back(std::move(sample)); };
  add(mm_sample(100, 77, 53));
  add(mm_sample(64, 48, 520));
  add(linear_sample(70, 96, 64));
  add(contraction_sample("relu_bmm_residual", "t.relu(x[0]) @ x[1] + x[2]", 3.0 * 40 * 50 * 72, [](GraphBuilder& g) {
    const int a = g.input({3, 40, 72}), b = g.input({3, 72, 50}), r = g.input({3, 40, 50});
    const int relu = g.node("relu.default", {V("self", a)}, {3, 40, 72});
    const int c = g.node("bmm.default", {V("self", relu), V("mat2", b)}, {3, 40, 50});
    return g.node("add.Tensor", {V("self", c), V("other", r)}, {3, 40, 50});
  }));
  add(contraction_sample("broadcast_matmul", "x[0] @ x[1]", 8.0 * 30 * 20 * 41, [](GraphBuilder& g) {
    const int a = g.input({2, 1, 30, 41}), b = g.input({4, 41, 20});
    return g.node("matmul.default", {V("self", a), V("other", b)}, {2, 4, 30, 20});
  }));
  add(transposed_sample(120, 72, 40));
  add(mm_sample(130, 66, 96, DType::f16));
  add(mm_sample(130, 66, 96, DType::bf16));
  add(mm_sample(70, 51, 64, DType::f16));
  add(rounded_sample(40, 64, 48));
  add(mm_sample(200, 24, 72, DType::bf16));  // tiles too narrow for rows of the second factor
  add(activated_sample(72, 136, 40));
  add(activated_sample(72, 136, 40, DType::bf16));
  // What main loops read where it lies, along k and along rows, where neither fills its tiles.
  add(mm_sample(130, 72, 88, DType::f16));
  add(linear_sample(70, 96, 64, DType::bf16));
  add(linear_sample(200, 264, 136, DType::f16));
  add(linear_sample(200, 264, 136));
  add(bmm_sample(3, 72, 40, 200));
  add(transposed_sample(120, 72, 40, DType::bf16));
  add(transposed_sample(264, 136, 72, DType::f16));
  add(bmm_sample(3, 72, 40, 200, DType::bf16));
  add(heads_sample(2, 3, 72, 24, DType::f16));
  add(mm_sample(72, 40, 4096, DType::bf16));
  if (!large) return all;
  // Rows too long to be kept while they are packed, by clusters and by blocks alone, few enough results for every
  // check.
  add(mm_sample(72, 40, 20000));
  add(mm_sample(4104, 24, 1100));
  add(mm_sample(4096, 4096, 4096));
  add(linear_sample(4096, 4096, 4096));
  add(mm_sample(8192, 8192, 8192));
  add(mm_sample(1024, 4096, 4096));
  add(mm_sample(2048, 2048, 2048));
  add(mm_sample(1024, 1024, 1024));
  add(mm_sample(512, 512, 512));
  add(mm_sample(128, 4096, 16384));
  add(mm_sample(256, 256, 131072));
  add(mm_sample(65536, 256, 256));
  add(mm_sample(16384, 32, 16384));
  add(mm_sample(1000, 777, 5300));
  add(linear_sample(1024, 8192, 8192));
  add(contraction_sample("linear_residual", "x[2] + x[0] @ x[1]", 8192.0 * 4096 * 1024, [](GraphBuilder& g) {
    const int a = g.input({8192, 1024}), b = g.input({1024, 4096}), r = g.input({8192, 4096});
    const int c = g.node("mm.default", {V("self", a), V("mat2", b)}, {8192, 4096});
    return g.node("add.Tensor", {V("self", r), V("other", c)}, {8192, 4096});
  }));
  add(mm_sample(4096, 4096, 4096, DType::f16));
  add(mm_sample(4096, 4096, 4096, DType::bf16));
  add(bmm_sample(128, 512, 512, 1024));
  add(transposed_sample(2048, 4096, 8192));
  for (const DType dtype : {DType::f16, DType::bf16}) {
    add(linear_sample(4096, 4096, 4096, dtype));
    add(bmm_sample(512, 1024, 512, 512, dtype));
  }
  add(activated_sample(16384, 1024, 256));
  add(activated_sample(16384, 1024, 256, DType::bf16));
  add(linear_sample(32, 8192, 8192));
  add(linear_sample(128, 16384, 16384));
  add(mm_sample(256, 256, 524288));
  add(transposed_sample(2048, 4096, 8192, DType::bf16));
  add(linear_sample(4096, 11008, 4096, DType::bf16));
  add(linear_sample(65536, 256, 256, DType::bf16));
  add(heads_sample(8, 16, 1024, 64, DType::bf16));
  return all;
}

}  // namespace planish::codegen::samples
