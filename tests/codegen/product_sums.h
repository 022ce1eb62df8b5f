#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "codegen/contraction/product.h"
#include "codegen/factor_elements.h"

/// What tensor cores would sum up, for tests of what follows: slowly, from the elements that each factor reads.
namespace planish::codegen {

using Tensors = std::vector<std::vector<double>>;

/// Of a kernel's inputs, exact in fp32.
inline Tensors random_inputs(const Kernel& kernel) {
  std::mt19937_64 rng(7);
  std::uniform_real_distribution<double> values(-2, 2);
  Tensors all;
  for (const Input& input : kernel.inputs) {
    auto& one = all.emplace_back(static_cast<std::size_t>(input.storage_elements));
    for (double& x : one) x = static_cast<float>(values(rng));
  }
  return all;
}

/// `inputs` of the kernel `from`, in the order in which `to` has the same tensors.
inline Tensors in_order_of(const Kernel& to, const Kernel& from, const Tensors& inputs) {
  Tensors same(to.inputs.size());
  for (std::size_t i = 0; i < same.size(); ++i) {
    const auto at = std::ranges::find(from.inputs, to.inputs[i].value, &Input::value);
    REQUIRE(at != from.inputs.end());
    same[i] = inputs[static_cast<std::size_t>(at - from.inputs.begin())];
  }
  return same;
}

inline void check_close(const std::vector<double>& found, const std::vector<double>& wanted, double tolerance) {
  REQUIRE(found.size() == wanted.size());
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < found.size(); ++i) wrong += !(std::abs(found[i] - wanted[i]) <= tolerance);
  CHECK(wrong == 0);
}

/// The factor's value at a point: a load, or 0 where it reads nothing.
inline double value_of_factor(const contraction::Product& product, const Tensors& inputs, int factor,
                              const std::vector<std::int64_t>& at) {
  const auto place = element(product.kernel, factor, at);
  const int input = load_of(product.kernel, factor).input;
  return place ? inputs[static_cast<std::size_t>(input)].at(static_cast<std::size_t>(*place)) : 0;
}

/// Coordinates of a factor's row, put into `at`; false where it is a position behind the last of a dim.
inline bool place_row(const contraction::Product& product, contraction::Operand operand, std::int64_t row,
                      std::vector<std::int64_t>& at) {
  if (!product.problem.is_implicit(operand)) {
    decode(product.kernel, operand == contraction::Operand::a ? product.c.m : product.c.n, row, at);
    return true;
  }
  bool there = true;
  for (std::size_t i = product.implicit->dims.size(); i-- > 0;) {
    const auto& slide = product.implicit->dims[i];
    at[static_cast<std::size_t>(slide.row)] = row % slide.places;
    there = there && row % slide.places < slide.rows;
    row /= slide.places;
  }
  decode(product.kernel, product.implicit->apart, row, at);
  return there;
}

/// What one factor has in each of its rows, k after k, of one product; NaN in rows that are positions behind the last
/// of a dim. A factor's elements are told by its own row and k alone.
inline std::vector<double> rows_of_factor(const contraction::Product& product, const Tensors& inputs,
                                          contraction::Operand operand, std::int64_t batch) {
  const Contraction& c = product.c;
  const bool first = operand == contraction::Operand::a;
  const std::int64_t rows = first ? product.problem.m : product.problem.n;
  std::vector<double> all;
  all.reserve(static_cast<std::size_t>(rows * c.depth));
  std::vector<std::int64_t> at(product.kernel.space.extents.size(), 0);
  for (std::int64_t row = 0; row < rows; ++row) {
    std::ranges::fill(at, 0);
    decode(product.kernel, c.batch, batch, at);
    const bool there = place_row(product, operand, row, at);
    for (std::int64_t k = 0; k < c.depth; ++k) {
      decode(product.kernel, c.k, k, at);
      all.push_back(there ? value_of_factor(product, inputs, first ? c.first : c.second, at)
                          : std::numeric_limits<double>::quiet_NaN());
    }
  }
  return all;
}

/// For every product, row and column; NaN where one of these is a position behind the last of a dim.
inline std::vector<float> sums_of(const contraction::Product& product, const Tensors& inputs) {
  std::vector<float> all;
  for (std::int64_t batch = 0; batch < product.c.batches; ++batch) {
    const auto a = rows_of_factor(product, inputs, contraction::Operand::a, batch);
    const auto b = rows_of_factor(product, inputs, contraction::Operand::b, batch);
    for (auto row = a.begin(); row != a.end(); row += product.c.depth) {
      for (auto column = b.begin(); column != b.end(); column += product.c.depth)
        all.push_back(static_cast<float>(std::inner_product(row, row + product.c.depth, column, 0.0)));
    }
  }
  return all;
}

}  // namespace planish::codegen
