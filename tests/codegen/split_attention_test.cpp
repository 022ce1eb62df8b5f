// Attention of fp32: what its main kernel computes of packed factors, run on a CPU (sm90_machine.h) beside the
// definition in double precision.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/attention/kernel_printer.h"
#include "codegen/attention/plan.h"
#include "codegen/attention_samples.h"
#include "codegen/compiled.h"
#include "codegen/contraction/plan.h"
#include "codegen/device/device_files.h"
#include "codegen/emit/expression.h"
#include "codegen/half_numbers.h"
#include "codegen/sm90_machine.h"

namespace planish::codegen {
namespace {

using attention::Tiling;
using samples::attention_sample;
using samples::Heads;

/// A factor as its packing leaves it: rows of all batches, two parts and a power of two each.
struct SplitFactor {
  std::int64_t batches, rows, depth;
  std::vector<double> values;  ///< what the parts say, times the power
  std::vector<float> floats;   ///< the same, rounded: what rows are computed of again
  std::vector<std::uint16_t> parts[2];
  std::vector<int> exponents;
  double at(std::int64_t batch, std::int64_t row, std::int64_t k) const {
    return values[static_cast<std::size_t>((batch * rows + row) * depth + k)];
  }
};

/// `across`: memory has k outside of rows, as of values, and the low part is times 2^11. `wide`: of many magnitudes.
SplitFactor split_factor(std::int64_t batches, std::int64_t rows, std::int64_t depth, bool across,
                         const contraction::TilePlan& plan, std::int64_t packed_rows, std::int64_t packed_depth,
                         int seed, bool wide = false) {
  SplitFactor out{batches, rows, depth, {}, {}, {}, {}};
  const auto count = static_cast<std::size_t>(batches * rows * depth);
  out.values.resize(count);
  out.floats.resize(count);
  for (auto& part : out.parts) part.assign(static_cast<std::size_t>(batches * packed_rows * packed_depth), 0);
  out.exponents.assign(static_cast<std::size_t>(batches * packed_rows), 0);
  for (std::int64_t b = 0; b < batches; ++b)
    for (std::int64_t row = 0; row < rows; ++row) {
      constexpr int top = 13, magnitudes = 26;
      const int exponent = static_cast<int>((b + row) % 4) - 2 - (wide ? top : 0);
      out.exponents[static_cast<std::size_t>(b * packed_rows + row)] = exponent;
      for (std::int64_t k = 0; k < depth; ++k) {
        const auto i = static_cast<std::size_t>((b * rows + row) * depth + k);
        const double size = 0.37 * static_cast<double>(i * static_cast<std::size_t>(7 + seed)) + seed;
        const double x = 1.5 * std::sin(size) * (wide ? std::ldexp(1.0, top - static_cast<int>(k) % magnitudes) : 1.0);
        const std::uint16_t high = to_bits(x, DType::f16);
        // What is left of a number is 2^-11 of it or less: products of two such are left out.
        std::uint16_t low = to_bits(wide ? (x - of_bits(high, DType::f16)) * 2048 : std::cos(size), DType::f16);
        if (!across) low = (low & 0x7c00) <= 11 << 10 ? 0 : static_cast<std::uint16_t>(low - (11 << 10));
        const double left = std::ldexp(double{of_bits(low, DType::f16)}, across ? -11 : 0);
        const auto place = static_cast<std::size_t>(
            (b * packed_rows * packed_depth * 2 + contraction::place_in_operand(plan, packed_rows, row, k)) / 2);
        out.parts[0].at(place) = high;
        out.parts[1].at(place) = low;
        out.values[i] = std::ldexp(of_bits(high, DType::f16) + left, exponent);
        out.floats[across ? static_cast<std::size_t>((b * depth + k) * rows + row) : i] =
            static_cast<float>(out.values[i]);
      }
    }
  return out;
}

/// What its packing makes of numbers of which some are not finite: single ones, and all of a row.
SplitFactor odd_factor(std::int64_t batches, std::int64_t rows, std::int64_t depth, bool across,
                       const contraction::TilePlan& plan, std::int64_t packed_rows, std::int64_t packed_depth,
                       int seed) {
  SplitFactor out = split_factor(batches, rows, depth, across, plan, packed_rows, packed_depth, seed);
  std::mt19937 rng(static_cast<unsigned>(seed));
  const auto one_in = [&](unsigned n) { return rng() % n == 0; };
  for (std::int64_t b = 0; b < batches; ++b)
    for (std::int64_t row = 0; row < rows; ++row) {
      const bool all = one_in(8);
      const double whole = one_in(2) ? INFINITY : -INFINITY;
      std::vector<double> x;
      double top = 0;
      for (std::int64_t k = 0; k < depth; ++k) {
        const double own = one_in(24) ? (one_in(4) ? NAN : one_in(2) ? INFINITY : -INFINITY) : out.at(b, row, k);
        x.push_back(all ? whole : double{static_cast<float>(own)});
        if (std::isfinite(x.back())) top = std::max(top, std::abs(x.back()));
      }
      const int exponent = top > 0 ? std::ilogb(top) : 0;
      out.exponents[static_cast<std::size_t>(b * packed_rows + row)] = exponent;
      for (std::int64_t k = 0; k < depth; ++k) {
        const double value = x[static_cast<std::size_t>(k)], scaled = std::ldexp(value, -exponent);
        const std::uint16_t high = std::isnan(value)   ? 0x7e00
                                   : std::isinf(value) ? (value > 0 ? 0x7c00 : 0xfc00)
                                                       : to_bits(scaled, DType::f16);
        const double left = std::isfinite(value) ? scaled - of_bits(high, DType::f16) : 0;
        const auto place = static_cast<std::size_t>(
            (b * packed_rows * packed_depth * 2 + contraction::place_in_operand(plan, packed_rows, row, k)) / 2);
        out.parts[0].at(place) = high;
        out.parts[1].at(place) = to_bits(across ? left * 2048 : left, DType::f16);
        const auto i = static_cast<std::size_t>((b * rows + row) * depth + k);
        out.values[i] = value;
        out.floats[across ? static_cast<std::size_t>((b * depth + k) * rows + row) : i] = static_cast<float>(value);
      }
    }
  return out;
}

struct SplitCase {
  Heads heads;
  Tiling plan;
  bool infinite = false;  ///< one value is, and one of a query
  bool selects = false;   ///< each query one key, whose values, of many magnitudes, it gives as they are
  bool odd = false;       ///< some of all factors are not finite
};

struct SplitData {
  SplitFactor q, k, v;
  std::vector<float> bias, sinks;
  std::vector<unsigned char> mask;
};

SplitData split_data(const SplitCase& one, const Attention& parts) {
  const Heads& h = one.heads;
  const auto layout = attention::layout_of(parts, one.plan);
  const std::int64_t columns = parts.values.columns, depth = parts.scores.depth, keys = parts.scores.columns;
  SplitData out{split_factor(parts.scores.batches, parts.scores.rows, depth, false, layout.scores, layout.rows,
                             layout.features, 1),
                split_factor(parts.scores.batches, keys, depth, false, layout.scores, layout.keys, layout.features, 2),
                split_factor(parts.values.batches, columns, keys, true, layout.values,
                             std::int64_t{layout.columns} * layout.column_blocks, layout.keys, 3, one.selects),
                {},
                {},
                {}};
  for (std::int64_t i = 0; i < h.heads * h.queries * h.keys; ++i)
    out.bias.push_back(one.selects ? (i % h.keys == i / h.keys * 7 % h.keys ? 0.0f : -1000.0f)
                                   : static_cast<float>(std::sin(0.11 * static_cast<double>(i))));
  for (std::int64_t i = 0; i < h.heads; ++i) out.sinks.push_back(i == 0 ? -200.0f : 0.75f * static_cast<float>(i));
  // The first two queries see no key at all.
  for (std::int64_t i = 0; i < h.queries * h.keys; ++i) out.mask.push_back(i % 3 != 0 && i >= 2 * h.keys ? 1 : 0);
  if (one.odd) {
    out.q = odd_factor(parts.scores.batches, parts.scores.rows, depth, false, layout.scores, layout.rows,
                       layout.features, 1);
    out.k = odd_factor(parts.scores.batches, keys, depth, false, layout.scores, layout.keys, layout.features, 2);
    out.v = odd_factor(parts.values.batches, columns, keys, true, layout.values,
                       std::int64_t{layout.columns} * layout.column_blocks, layout.keys, 3);
  }
  if (!one.infinite) return out;
  // Of the last key's first column: who sees that key has an infinity there, and finite numbers beside it.
  const auto place =
      contraction::place_in_operand(layout.values, std::int64_t{layout.columns} * layout.column_blocks, 0, keys - 1);
  out.v.parts[0].at(static_cast<std::size_t>(place / 2)) = 0x7c00;
  out.v.parts[1].at(static_cast<std::size_t>(place / 2)) = 0;
  out.v.values[static_cast<std::size_t>(keys - 1)] = INFINITY;
  out.v.floats[static_cast<std::size_t>((keys - 1) * columns)] = INFINITY;
  return out;
}

/// Against the definition in double; a query that sees no key gives zeros.
void compare_split(const SplitCase& one, const SplitData& data, const std::vector<float>& out) {
  const Heads& h = one.heads;
  const std::int64_t batches = data.q.batches, rows = data.q.rows, keys = data.k.rows, columns = data.v.rows;
  double worst = 0;
  std::int64_t at = 0, infinities = 0;
  for (std::int64_t b = 0; b < batches; ++b)
    for (std::int64_t y = 0; y < rows; ++y) {
      const std::int64_t query = y % h.queries, head = (b * (rows / h.queries) + y / h.queries) % h.heads;
      std::vector<double> x;
      double top = -INFINITY, total = 0;
      for (std::int64_t key = 0; key < keys; ++key) {
        double s = 0;
        for (std::int64_t f = 0; f < data.q.depth; ++f) s += data.q.at(b, y, f) * data.k.at(b, key, f);
        s /= std::sqrt(static_cast<double>(h.features));
        const auto place = static_cast<std::size_t>(query * h.keys + key);
        if (h.mask == 2) s += data.bias[static_cast<std::size_t>(head * h.queries * h.keys) + place];
        if ((h.causal && key > query) || (h.mask == 1 && data.mask[place] == 0)) s = -INFINITY;
        x.push_back(s);
        top = std::isnan(s) || std::isnan(top) ? NAN : std::max(top, s);
      }
      const double sink = data.sinks[static_cast<std::size_t>(head)];
      if (h.sink) top = std::max(top, sink);
      for (double& s : x) total += s = top == -INFINITY ? 0 : std::exp(s - top);
      if (h.sink) total += std::exp(sink - top);
      for (std::int64_t c = 0; c < columns; ++c, ++at) {
        double sum = 0, size = 0;
        for (std::int64_t key = 0; key < keys; ++key) {
          const double term = x[static_cast<std::size_t>(key)] * data.v.at(b, c, key);
          sum += term;
          size += std::abs(term);
        }
        if (!(total <= 0)) sum /= total, size /= total;
        const double got = out[static_cast<std::size_t>(at)];
        if (!std::isfinite(sum)) {
          ++infinities;
          CHECK((std::isnan(sum) ? std::isnan(got) : got == sum));
        } else {
          const double allowed = one.selects ? 0.25e-6 * std::abs(sum) : 1e-6 * (size + 1);
          worst = std::max(worst, std::isnan(got) ? INFINITY : std::abs(got - sum) / allowed);
        }
      }
    }
  CHECK(worst < 4);
  CHECK((infinities > 0) == (one.infinite || one.odd));
}

TEST_CASE("the device file of fp32 attention computes the definition on a CPU, whatever the tiles") {
  const std::vector<SplitCase> cases{
      {{.batch = 1, .heads = 2, .queries = 70, .keys = 90, .features = 24, .columns = 40}, {2, 32, 2, 1}},
      {{.batch = 1, .heads = 2, .queries = 140, .keys = 140, .features = 32, .causal = true}, {1, 48, 1, 2}},
      {{.batch = 2, .heads = 4, .keyed = 2, .queries = 40, .keys = 40, .features = 16, .causal = true}, {1, 16, 3, 1}},
      {{.batch = 1, .heads = 2, .queries = 66, .keys = 50, .features = 16, .columns = 136, .mask = 1}, {2, 64, 1, 1}},
      {{.batch = 1, .heads = 2, .queries = 64, .keys = 64, .features = 16, .mask = 2}, {1, 32, 2, 1}},
      {{.batch = 1, .heads = 1, .queries = 64, .keys = 64, .features = 16, .causal = true}, {1, 32, 2, 1}, true},
      {{.batch = 2, .heads = 3, .queries = 66, .keys = 50, .features = 16, .mask = 1, .sink = true}, {1, 32, 2, 1}},
      {{.batch = 1, .heads = 1, .queries = 64, .keys = 64, .features = 16, .sink = true}, {1, 32, 2, 1}, true},
      {{.batch = 1, .heads = 2, .queries = 64, .keys = 96, .features = 16, .mask = 2}, {1, 32, 2, 1}, false, true},
      {{.batch = 5, .heads = 4, .queries = 2, .keys = 2, .features = 32}, {1, 16, 2, 1}, false, false, true},
      {{.batch = 1, .heads = 2, .queries = 66, .keys = 50, .features = 16}, {1, 32, 2, 1}, false, false, true},
  };
  static constexpr std::array<std::string_view, 1> files{"sm90/split_attention.cuh"};
  const std::array<DeviceFile, 2> instead{{{"sm90/ptx.cuh", sm90_ptx}, {"sm90/wgmma.cuh", sm90_wgmma}}};
  const std::string on_device = device_text(files);
  std::string source = std::string(sm90_language) + std::string(printing::prelude(false)) + device_text(files, instead);
  std::vector<samples::ContractionSample> kernels;
  std::vector<Attention> parts;
  std::vector<attention::MainKernel> printed;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    kernels.push_back(attention_sample(cases[i].heads));
    const Kernel& kernel = kernels.back().kernel;
    const auto found = attention_of(kernel);
    REQUIRE(found);
    parts.push_back(*found);
    const Status fits = attention::check(*found, cases[i].plan, 232448);
    REQUIRE_MESSAGE(fits, fits.error().message);
    printed.push_back(attention::print_kernel(kernel, *found, cases[i].plan));
    std::string call;
    for (int a = 0; a < 6; ++a) call += fmt::format("(const char*)args[{}], ", a);
    for (int a = 6; a < 9; ++a) call += fmt::format("(const int*)args[{}], ", a);
    for (const int input : printed.back().inputs) {
      const Input& each = kernel.inputs[static_cast<std::size_t>(input)];
      call += fmt::format("(const {}*)args[{}], ", each.dtype == DType::boolean ? "unsigned char" : "float",
                          9 + each.value);
    }
    std::string text = printed.back().source;
    const std::size_t begin = text.find(on_device);
    REQUIRE(begin != std::string::npos);
    text.erase(0, begin + on_device.size());
    text.replace(text.find("extern \"C\""), 10, "");
    source += fmt::format(
        "namespace case{0} {{\n{1}}}\nextern \"C\" bool run{0}(void** args) {{\n  return run_blocks({2}, {3}, [&] {{ "
        "case{0}::planish_kernel({4}(float*)args[14]); }});\n}}\n",
        i, text, printed.back().blocks, printed.back().threads, call);
  }
  // `extern` within a function of a namespace would be another array; each block has its own part of the one.
  for (std::size_t found = 0; (found = source.find("extern __shared__", found)) != source.npos;)
    source.replace(found, source.find('\n', found) - found, "unsigned char* const pl_smem = shared_memory();");
  const Compiled library(source, "-std=c++20 -O1 -w");
  for (std::size_t i = 0; i < cases.size(); ++i) {
    CAPTURE(i);
    SplitData data = split_data(cases[i], parts[i]);
    const std::int64_t results = data.q.batches * data.q.rows * data.v.rows;
    std::vector<float> out(static_cast<std::size_t>(results), NAN);
    void* mask = cases[i].heads.mask == 1 ? static_cast<void*>(data.mask.data()) : data.bias.data();
    void* args[15] = {data.q.parts[0].data(),
                      data.q.parts[1].data(),
                      data.k.parts[0].data(),
                      data.k.parts[1].data(),
                      data.v.parts[0].data(),
                      data.v.parts[1].data(),
                      data.q.exponents.data(),
                      data.k.exponents.data(),
                      data.v.exponents.data(),
                      data.q.floats.data(),
                      data.k.floats.data(),
                      data.v.floats.data(),
                      cases[i].heads.sink ? data.sinks.data() : mask,
                      mask,
                      out.data()};
    REQUIRE(library.function<bool(void**)>(fmt::format("run{}", i))(args));
    compare_split(cases[i], data, out);
  }
}

}  // namespace
}  // namespace planish::codegen
