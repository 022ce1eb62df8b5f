#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "codegen/attention_samples.h"
#include "codegen/half_numbers.h"

/// Inputs of attention in 16 bits, and its definition in double.
namespace planish::codegen {

/// Numbers of moderate size around `offset`, as bits.
inline std::vector<std::uint16_t> half_numbers(std::size_t count, DType dtype, int seed, double offset = 0) {
  std::vector<std::uint16_t> out;
  for (std::size_t i = 0; i < count; ++i)
    out.push_back(to_bits(
        offset + 1.5 * std::sin(0.37 * static_cast<double>(i * (7 + static_cast<std::size_t>(seed))) + seed), dtype));
  return out;
}

inline std::size_t place_at(const std::vector<std::int64_t>& strides, std::int64_t a, std::int64_t b, std::int64_t c,
                            std::int64_t d) {
  return static_cast<std::size_t>(a * strides[0] + b * strides[1] + c * strides[2] + d * strides[3]);
}

struct HalfData {
  std::vector<std::uint16_t> q, k, v, bias, sinks;
  std::vector<unsigned char> mask;
};
inline HalfData half_data_of(const samples::Heads& h, double offset = 0) {
  const auto count = [](std::int64_t n) { return static_cast<std::size_t>(n); };
  const std::int64_t keyed = h.keyed > 0 ? h.keyed : h.heads, columns = h.columns > 0 ? h.columns : h.features;
  HalfData out;
  out.q = half_numbers(count(h.batch * h.heads * h.queries * h.features), h.dtype, 1, offset);
  out.k = half_numbers(count(h.batch * keyed * h.keys * h.features), h.dtype, 2, offset);
  out.v = half_numbers(count(h.batch * keyed * h.keys * columns), h.dtype, 3, offset);
  // One far below all scores, and others among them.
  out.sinks = half_numbers(count(h.heads), h.dtype, 5);
  out.sinks.front() = to_bits(-200, h.dtype);
  out.bias = half_numbers(count(h.heads * h.queries * h.keys), h.dtype, 4);
  // The first two queries see no key at all.
  for (std::int64_t i = 0; i < h.queries * h.keys; ++i) out.mask.push_back(i % 3 != 0 && i >= 2 * h.keys ? 1 : 0);
  return out;
}

/// The definition in double; a query that sees no key gives zeros. `roundings`: what results may be off by, of one of
/// each weight and one of the result.
inline void compare_half(const samples::Heads& h, const HalfData& data, const std::vector<std::uint16_t>& out,
                         double roundings = 1.2) {
  const std::int64_t keyed = h.keyed > 0 ? h.keyed : h.heads, columns = h.columns > 0 ? h.columns : h.features;
  const auto qs = samples::head_strides(h, h.heads, h.queries, h.features),
             ks = samples::head_strides(h, keyed, h.keys, h.features),
             vs = samples::head_strides(h, keyed, h.keys, columns),
             os = samples::head_strides(h, h.heads, h.queries, columns);
  const double relative = h.dtype == DType::bf16 ? 0x1p-8 : 0x1p-11;
  double worst = 0;
  for (std::int64_t b = 0; b < h.batch; ++b)
    for (std::int64_t head = 0; head < h.heads; ++head)
      for (std::int64_t row = 0; row < h.queries; ++row) {
        const std::int64_t shared = head / (h.heads / keyed);
        std::vector<double> x;
        double top = -INFINITY, total = 0;
        for (std::int64_t key = 0; key < h.keys; ++key) {
          double s = 0;
          for (std::int64_t f = 0; f < h.features; ++f)
            s += static_cast<double>(of_bits(data.q[place_at(qs, b, head, row, f)], h.dtype)) *
                 of_bits(data.k[place_at(ks, b, shared, key, f)], h.dtype);
          s /= std::sqrt(static_cast<double>(h.features));
          const auto place = static_cast<std::size_t>(row * h.keys + key);
          if (h.mask == 2)
            s += of_bits(data.bias[static_cast<std::size_t>(head * h.queries * h.keys) + place], h.dtype);
          if (h.window > 0 && (key > row || key <= row - h.window)) s = -INFINITY;
          if ((h.causal && key > row) || (h.mask == 1 && data.mask[place] == 0)) s = -INFINITY;
          x.push_back(s);
          top = std::max(top, s);
        }
        const double sink = of_bits(data.sinks[static_cast<std::size_t>(head)], h.dtype);
        if (h.sink) top = std::max(top, sink);
        for (double& s : x) total += s = std::isinf(top) ? 0 : std::exp(s - top);
        if (h.sink) total += std::exp(sink - top);
        for (std::int64_t c = 0; c < columns; ++c) {
          double sum = 0, size = 0;
          for (std::int64_t key = 0; key < h.keys; ++key) {
            const double term =
                x[static_cast<std::size_t>(key)] * of_bits(data.v[place_at(vs, b, shared, key, c)], h.dtype);
            sum += term;
            size += std::abs(term);
          }
          if (total > 0) sum /= total, size /= total;
          const double got = of_bits(out[place_at(os, b, head, row, c)], h.dtype);
          // A rounding of each weight, and one of the result.
          worst = std::max(worst, std::abs(got - sum) / (relative * (size + std::abs(sum)) + 1e-6));
        }
      }
  CHECK(worst < roundings);
}

}  // namespace planish::codegen
