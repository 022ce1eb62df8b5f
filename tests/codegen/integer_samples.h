#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "codegen/contraction_samples.h"

/// Products of int8 tensors, as torch._int_mm is captured.
namespace planish::codegen::samples {

/// What becomes of a product of m × k and n × k: the sums in i32; times scales of rows and columns, with a bias behind;
/// or, of factors that were widened to f32, a product in f32.
enum class OfSums { sums, rows, widened };

struct IntegerProduct {
  std::int64_t m = 0, n = 0, k = 0;
  OfSums of = OfSums::rows;
  DType out = DType::bf16;  ///< or f32; of sums alone i32
  DType a = DType::i8;      ///< widened, it may be u8
};

namespace detail {

inline int converted(GraphBuilder& g, int id, const std::vector<std::int64_t>& shape, DType dtype) {
  return g.node("_to_copy.default", {V("self", id), {"dtype", ir::DTypeArg{std::string(name(dtype))}}}, shape, dtype);
}

}  // namespace detail

/// The product's value.
inline int integer_product(GraphBuilder& g, const IntegerProduct& p) {
  const DType f32 = DType::f32;
  const std::vector<std::int64_t> results{p.m, p.n};
  int a = g.input({p.m, p.k}, p.a), b = g.input({p.n, p.k}, DType::i8);
  const bool widened = p.of == OfSums::widened;
  if (widened) {
    a = detail::converted(g, a, {p.m, p.k}, f32);
    b = detail::converted(g, b, {p.n, p.k}, f32);
  }
  const int t =
      g.node("permute.default", {V("self", b), L("dims", {1, 0})}, {p.k, p.n}, widened ? f32 : DType::i8, {1, p.k});
  int y = g.node(widened ? "mm.default" : "_int_mm.default", {V("self", a), V("mat2", t)}, results,
                 widened ? f32 : DType::i32);
  if (widened && p.out != f32) return detail::converted(g, y, results, p.out);
  if (p.of != OfSums::rows) return y;
  y = detail::converted(g, y, results, f32);
  for (const std::vector<std::int64_t>& scale : {std::vector{p.m, std::int64_t{1}}, std::vector{p.n}})
    y = g.node("mul.Tensor", {V("self", y), V("other", g.input(scale, f32))}, results, f32);
  y = g.node("add.Tensor", {V("self", y), V("other", g.input({p.n}, DType::bf16))}, results, f32);
  return p.out == f32 ? y : detail::converted(g, y, results, p.out);
}

inline ContractionSample integer_sample(const IntegerProduct& p) {
  // torch._int_mm takes more than 16 rows. Sums of float64 are exact.
  const std::string sums =
      p.m > 16 && p.n % 8 == 0 ? "t._int_mm(x[0], x[1].t())" : "(x[0].double() @ x[1].double().t()).long().to(t.int32)";
  const std::string_view out = p.out == DType::f32 ? "float32" : "bfloat16";
  const std::string python =
      p.of == OfSums::sums ? sums
      : p.of == OfSums::widened
          ? std::string("x[0].double() @ x[1].double().t()")
          : fmt::format("({}.to(x[2].dtype) * x[2] * x[3] + x[4]).to(t.float64 if x[2].dtype == t.float64 else t.{})",
                        sums, out);
  return contraction_sample(fmt::format("int_mm_{}", p.of == OfSums::sums   ? "sums"
                                                     : p.of == OfSums::rows ? "rows"
                                                                            : "widened"),
                            python, static_cast<double>(p.m * p.n * p.k),
                            [&](GraphBuilder& g) { return integer_product(g, p); });
}

inline std::vector<ContractionSample> integer_samples(bool large) {
  std::vector<IntegerProduct> shapes{
      {.m = 150, .n = 96, .k = 272},
      {.m = 70, .n = 48, .k = 144, .of = OfSums::sums},
      {.m = 9, .n = 72, .k = 208, .of = OfSums::sums},
      {.m = 200, .n = 328, .k = 2080, .out = DType::f32},
      {.m = 64, .n = 512, .k = 4096},
      {.m = 513, .n = 1024, .k = 512, .of = OfSums::sums},
      {.m = 130, .n = 256, .k = 1024, .of = OfSums::widened, .a = DType::u8},
      // The longest of which i32 holds any sum: beyond, what torch gives depends on the device.
      {.m = 64, .n = 64, .k = 131072 - 256, .of = OfSums::sums}};
  if (large) {
    // Layers of models of 8 and 70 billion parameters, a part of them, and experts; of 64 to 8,192 rows.
    shapes.clear();
    for (const std::int64_t m : {64, 512, 2048, 8192}) {
      for (const auto& [n, k] : {std::pair{4096, 4096}, {6144, 4096}, {28672, 4096}, {4096, 14336}, {7168, 2048}}) {
        shapes.push_back({.m = m, .n = n, .k = k});
        shapes.push_back({.m = m, .n = n, .k = k, .of = OfSums::sums});
      }
    }
  }
  std::vector<ContractionSample> all;
  for (const IntegerProduct& shape : shapes) all.push_back(integer_sample(shape));
  return all;
}

}  // namespace planish::codegen::samples
