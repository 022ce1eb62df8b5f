#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "codegen/contraction_samples.h"

/// Products of rows in groups with float8 factors, as torch._scaled_grouped_mm is captured.
namespace planish::codegen::samples {

struct ScaledGroups {
  std::int64_t rows = 0, depth = 0, columns = 0, groups = 0;
  DType dtype = DType::f8_e4m3;
};

/// The product's value, bf16. Inputs: rows, matrices of columns × depth, scales of both, ends.
inline int scaled_groups(GraphBuilder& g, const ScaledGroups& p) {
  const DType f32 = DType::f32, bf16 = DType::bf16;
  const auto widened = [&](int id, const Shape& shape, const Shape& strides) {
    return g.node("_to_copy.default", {V("self", id), {"dtype", ir::DTypeArg{"f32"}}}, shape, f32, strides);
  };
  const Shape rows{p.rows, p.depth}, matrices{p.groups, p.depth, p.columns}, results{p.rows, p.columns};
  const Shape across{p.depth * p.columns, 1, p.depth};
  const int first = g.input(rows, p.dtype), second = g.input({p.groups, p.columns, p.depth}, p.dtype);
  const int row_scales = g.input({p.rows}, f32), column_scales = g.input({p.groups, p.columns}, f32);
  const auto opened = [&](int id, const Shape& shape) {
    return g.node("unsqueeze.default", {V("self", id), {"dim", std::int64_t{1}}}, shape, f32);
  };
  const int a = g.node("mul.Tensor", {V("self", widened(first, rows, {})), V("other", opened(row_scales, {p.rows, 1}))},
                       rows, f32);
  const int turned = g.node("permute.default", {V("self", second), L("dims", {0, 2, 1})}, matrices, p.dtype, across);
  const int b = g.node(
      "mul.Tensor",
      {V("self", widened(turned, matrices, across)), V("other", opened(column_scales, {p.groups, 1, p.columns}))},
      matrices, f32, across);
  const int ends = g.input({p.groups}, DType::i32);
  const int y = g.node("_grouped_mm.default", {V("self", a), V("mat2", b), V("offs", ends), N("bias"), N("out_dtype")},
                       results, f32);
  return g.node("_to_copy.default", {V("self", y), {"dtype", ir::DTypeArg{"bf16"}}}, results, bf16);
}

inline ContractionSample scaled_groups_sample(const ScaledGroups& p) {
  const std::string python =
      "(lambda x, t: t.cat([(x[0][a:b] * x[2][a:b, None]) @ (x[1][g].t() * x[3][g]) for g, (a, b) in "
      "enumerate(zip([0, *x[4].tolist()], x[4].tolist()))]) if x[2].dtype == t.float64 else t._scaled_grouped_mm(x[0], "
      "x[1].transpose(1, 2), x[2], x[3], offs=x[4], out_dtype=t.bfloat16))(x, t)";
  GraphBuilder g;
  const std::vector<int> outputs{scaled_groups(g, p)};
  LowerLimits limits;
  limits.contractions = limits.grouped = true;
  auto kernel = lower(g.graph, std::vector<bool>(g.graph.nodes.size(), true), outputs, limits);
  return {"scaled_grouped_mm", python, kernel ? std::move(*kernel) : Kernel{},
          static_cast<double>(p.rows * p.depth * p.columns)};
}

inline std::vector<ContractionSample> scaled_groups_samples(bool large) {
  std::vector<ScaledGroups> shapes{{.rows = 150, .depth = 144, .columns = 88, .groups = 4},
                                   {.rows = 700, .depth = 272, .columns = 256, .groups = 13},
                                   {.rows = 64, .depth = 1024, .columns = 512, .groups = 8}};
  if (large) {
    // Experts of mixtures, of few rows and of many: a device's share of 256, 128 small ones, and 8 large ones.
    shapes.clear();
    for (const std::int64_t rows : {512, 8192}) {
      shapes.push_back({.rows = rows, .depth = 7168, .columns = 4096, .groups = 32});
      shapes.push_back({.rows = rows, .depth = 2048, .columns = 7168, .groups = 32});
      shapes.push_back({.rows = rows, .depth = 2048, .columns = 1536, .groups = 128});
      shapes.push_back({.rows = rows, .depth = 768, .columns = 2048, .groups = 128});
      shapes.push_back({.rows = rows, .depth = 4096, .columns = 14336, .groups = 8});
    }
  }
  std::vector<ContractionSample> all;
  for (const ScaledGroups& shape : shapes) all.push_back(scaled_groups_sample(shape));
  return all;
}

}  // namespace planish::codegen::samples
