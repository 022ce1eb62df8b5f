#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "codegen/contraction_samples.h"

/// Products of float8 tensors, as torch._scaled_mm is captured.
namespace planish::codegen::samples {

/// What scales a product of m × k and n × k: one number; rows of both, with a bias behind; or blocks of 128 k of both,
/// and of 128 columns.
enum class Scales { tensor, rows, blocks };

struct EightBitProduct {
  std::int64_t m = 0, n = 0, k = 0;
  Scales scales = Scales::rows;
  DType a = DType::f8_e4m3, b = DType::f8_e4m3;
};

namespace detail {

inline int widened(GraphBuilder& g, int id, const std::vector<std::int64_t>& shape) {
  return g.node("_to_copy.default", {V("self", id), {"dtype", ir::DTypeArg{"f32"}}}, shape, DType::f32);
}
inline int times(GraphBuilder& g, int x, int y, const std::vector<std::int64_t>& shape) {
  return g.node("mul.Tensor", {V("self", x), V("other", y)}, shape, DType::f32);
}

/// [rows, columns] with each element of `dim` 128 times.
inline int repeated(GraphBuilder& g, int scale, std::int64_t rows, std::int64_t columns, int dim) {
  using Shape = std::vector<std::int64_t>;
  const bool along = dim == 1;
  const Shape open = along ? Shape{rows, columns, 1} : Shape{rows, 1, columns};
  const Shape all = along ? Shape{rows, columns, 128} : Shape{rows, 128, columns};
  const Shape strides = along ? Shape{columns, 1, 0} : Shape{columns, 0, 1};
  const Shape flat = along ? Shape{rows, columns * 128} : Shape{rows * 128, columns};
  const DType f32 = DType::f32;
  const int one = g.node("unsqueeze.default", {V("self", scale), {"dim", std::int64_t{dim + 1}}}, open, f32);
  const int many = g.node("expand.default", {V("self", one), L("size", all)}, all, f32, strides);
  const int own = g.node("clone.default", {V("self", many)}, all, f32);
  return g.node("view.default", {V("self", own), L("size", flat)}, flat, f32);
}

}  // namespace detail

/// The product's value, bf16. `x`: the first factor, widened, where it is there already.
inline int eight_bit_product(GraphBuilder& g, const EightBitProduct& p, int x = -1) {
  const DType f32 = DType::f32;
  const std::vector<std::int64_t> results{p.m, p.n};
  int a = x >= 0 ? x : detail::widened(g, g.input({p.m, p.k}, p.a), {p.m, p.k});
  int b = detail::widened(g, g.input({p.n, p.k}, p.b), {p.n, p.k});
  if (p.scales == Scales::blocks) {
    const std::int64_t steps = p.k / 128;
    a = detail::times(g, a, detail::repeated(g, g.input({p.m, steps}, f32), p.m, steps, 1), {p.m, p.k});
    const int rows = detail::repeated(g, g.input({p.n / 128, steps}, f32), p.n / 128, steps, 0);
    b = detail::times(g, b, detail::repeated(g, rows, p.n, steps, 1), {p.n, p.k});
  }
  const int t = g.node("permute.default", {V("self", b), L("dims", {1, 0})}, {p.k, p.n}, f32, {1, p.k});
  int y = g.node("mm.default", {V("self", a), V("mat2", t)}, results, f32);
  if (p.scales == Scales::tensor) y = detail::times(g, y, g.input({}, f32), results);
  if (p.scales == Scales::rows) {
    y = detail::times(g, detail::times(g, y, g.input({p.m, 1}, f32), results), g.input({1, p.n}, f32), results);
    const int bias = detail::widened(g, g.input({p.n}, DType::bf16), {p.n});
    y = g.node("add.Tensor", {V("self", y), V("other", bias)}, results, f32);
  }
  return g.node("_to_copy.default", {V("self", y), {"dtype", ir::DTypeArg{"bf16"}}}, results, DType::bf16);
}

inline ContractionSample eight_bit_sample(const EightBitProduct& p) {
  // Eager's where it has the product; in fp64, and with scales of blocks, what it stands for. Tensors are in the order
  // of the graph's values.
  const std::string python =
      p.scales == Scales::tensor
          ? "(x[0] @ x[1].t() * x[2]) if x[0].dtype == t.float64 else t._scaled_mm(x[0], x[1].t(), x[2], "
            "t.ones((), device=x[2].device), out_dtype=t.bfloat16)"
      : p.scales == Scales::rows
          ? "(x[0] @ x[1].t() * x[3] * x[2] + x[4]) if x[0].dtype == t.float64 else t._scaled_mm(x[0], x[1].t(), "
            "x[3], x[2], bias=x[4], out_dtype=t.bfloat16)"
          : "(lambda x, w: ((x[0].to(w) * x[2].to(w).repeat_interleave(128, 1)) @ (x[1].to(w) * "
            "x[3].to(w).repeat_interleave(128, "
            "0).repeat_interleave(128, 1)).t()))(x, t.promote_types(x[2].dtype, t.float32))"
            ".to(t.float64 if x[2].dtype == t.float64 else t.bfloat16)";
  return contraction_sample(fmt::format("scaled_mm_{}", p.scales == Scales::tensor ? "tensor"
                                                        : p.scales == Scales::rows ? "rows"
                                                                                   : "blocks"),
                            python, static_cast<double>(p.m * p.n * p.k),
                            [&](GraphBuilder& g) { return eight_bit_product(g, p); });
}

inline std::vector<ContractionSample> eight_bit_samples(bool large) {
  const DType e5m2 = DType::f8_e5m2;
  std::vector<EightBitProduct> shapes{{.m = 150, .n = 96, .k = 272},
                                      {.m = 70, .n = 48, .k = 144, .scales = Scales::tensor, .a = e5m2},
                                      {.m = 200, .n = 320, .k = 2080, .scales = Scales::tensor},
                                      {.m = 64, .n = 512, .k = 4096},
                                      {.m = 190, .n = 384, .k = 1152, .scales = Scales::blocks},
                                      {.m = 513, .n = 1024, .k = 512, .scales = Scales::blocks}};
  if (large) {
    // Layers of models of 8 and 70 billion parameters, a part of them, and experts; of 64 to 8,192 rows.
    shapes.clear();
    for (const std::int64_t m : {64, 512, 2048, 8192}) {
      for (const auto& [n, k] : {std::pair{4096, 4096}, {6144, 4096}, {28672, 4096}, {4096, 14336}, {7168, 2048}}) {
        shapes.push_back({.m = m, .n = n, .k = k});
        shapes.push_back({.m = m, .n = n, .k = k, .scales = Scales::blocks});
      }
    }
  }
  std::vector<ContractionSample> all;
  for (const EightBitProduct& shape : shapes) all.push_back(eight_bit_sample(shape));
  return all;
}

}  // namespace planish::codegen::samples
