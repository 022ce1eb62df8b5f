// Attention over packed sequences: lowered with a search for each query's sequence, read back, and run by the device
// file of Hopper on the emulated machine.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "codegen/attention/cuda_half_attention.h"
#include "codegen/attention/half.h"
#include "codegen/attention/half_kernel.h"
#include "codegen/compiled.h"
#include "codegen/composed_of_guesses.h"
#include "codegen/cost.h"
#include "codegen/device/device_files.h"
#include "codegen/devices.h"
#include "codegen/emit/expression.h"
#include "codegen/half_numbers.h"
#include "codegen/packed_samples.h"
#include "codegen/sm90_machine.h"
#include "codegen/templates/template.h"

namespace planish::codegen {
namespace {

using attention::HalfTiling;
using samples::Packed;
using samples::packed_kernel;

std::vector<std::int64_t> offsets_of(const std::vector<int>& lengths) {
  std::vector<std::int64_t> out{0};
  for (const int length : lengths) out.push_back(out.back() + length);
  return out;
}

/// As the graph's inputs have them: q, k, v and the offsets, which may be one input.
struct PackedData {
  std::vector<std::uint16_t> q, k, v;
  std::vector<std::int64_t> of_queries, of_keys;  // as numbers
  std::vector<std::int32_t> narrow_queries, narrow_keys, table;

  explicit PackedData(const Packed& p) : of_queries(offsets_of(p.queries)), of_keys(offsets_of(p.keys)) {
    const auto drawn = [&](std::int64_t count, int seed) {
      std::vector<std::uint16_t> out;
      for (std::int64_t i = 0; i < count; ++i)
        out.push_back(to_bits(1.5 * std::sin(0.37 * static_cast<double>(i * (7 + seed)) + seed), p.dtype));
      return out;
    };
    const std::int64_t rows = p.page > 0 ? p.pool() * p.page : p.all_keys();
    q = drawn(p.tokens() * p.heads * p.features, 1);
    k = drawn(rows * p.shared * p.features, 2);
    v = drawn(rows * p.shared * p.columns, 3);
    if (p.page > 0) {
      keep_in_pages(p);
      return;
    }
    // In every second sequence keys are not numbers and values are Inf where a neighbour's tile may reach them.
    const std::uint16_t inf = p.dtype == DType::bf16 ? 0x7f80 : 0x7c00;
    for (std::size_t n = 0; p.odd && n < p.keys.size(); n += 2) {
      for (std::int64_t i = of_keys[n] * p.shared * p.columns; i < of_keys[n + 1] * p.shared * p.columns; ++i)
        v[static_cast<std::size_t>(i)] = inf;
      for (std::int64_t i = of_keys[n] * p.shared * p.features; i < of_keys[n + 1] * p.shared * p.features; ++i)
        k[static_cast<std::size_t>(i)] = static_cast<std::uint16_t>(inf | 1);
    }
    narrow_queries.assign(of_queries.begin(), of_queries.end());
    narrow_keys.assign(of_keys.begin(), of_keys.end());
  }

  /// Tables in no order, which name no page where no key is. What lies behind a sequence's last key is no number.
  void keep_in_pages(const Packed& p) {
    of_keys.assign(p.keys.begin(), p.keys.end());
    for (std::size_t n = 0; n < p.keys.size(); ++n) {
      for (std::int64_t page = 0; page < p.pages; ++page) {
        const auto i = static_cast<std::int64_t>(n) * p.pages + page;
        table.push_back(page * p.page < p.keys[n] ? static_cast<std::int32_t>((i * 5 + 2) % p.pool()) : -7);
      }
      const std::uint16_t inf = p.dtype == DType::bf16 ? 0x7f80 : 0x7c00;
      for (std::int64_t key = p.keys[n]; key % p.page != 0; ++key) {
        const auto begin = static_cast<std::ptrdiff_t>(row(p, n, key) * p.shared);
        std::fill_n(k.begin() + begin * p.features, p.shared * p.features, static_cast<std::uint16_t>(inf | 1));
        std::fill_n(v.begin() + begin * p.columns, p.shared * p.columns, inf);
      }
    }
    narrow_queries.assign(of_queries.begin(), of_queries.end());
    narrow_keys.assign(of_keys.begin(), of_keys.end());
  }

  /// Where a sequence's key lies among all.
  std::int64_t row(const Packed& p, std::size_t n, std::int64_t key) const {
    if (p.page == 0) return of_keys[n] + key;
    const std::size_t entry = n * static_cast<std::size_t>(p.pages) + static_cast<std::size_t>(key / p.page);
    return table[entry] * p.page + key % p.page;
  }
};

bool visible(const Packed& p, std::int64_t row, std::int64_t key, std::int64_t rows, std::int64_t keys) {
  const std::int64_t place = row + keys - rows;
  return (p.right < 0 || key <= place + p.right) && (p.left < 0 || key >= place - p.left);
}

/// The worst error in units of a rounding of each weight and one of the result; `skipped`: sequences not looked at.
double worst_of(const Packed& p, const PackedData& data, const std::vector<std::uint16_t>& out) {
  const double relative = p.dtype == DType::bf16 ? 0x1p-8 : 0x1p-11;
  const auto number = [&](const std::vector<std::uint16_t>& from, std::int64_t at) {
    return static_cast<double>(of_bits(from[static_cast<std::size_t>(at)], p.dtype));
  };
  double worst = 0;
  for (std::size_t n = 0; n < p.queries.size(); ++n) {
    if (p.odd && n % 2 == 0 && p.keys[n] > 0) continue;
    const std::int64_t rows = p.queries[n], keys = p.keys[n], first = data.of_queries[n];
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t head = 0; head < p.heads; ++head) {
        const std::int64_t shared = head / (p.heads / p.shared);
        std::vector<double> x;
        double top = -INFINITY, total = 0;
        for (std::int64_t key = 0; key < keys; ++key) {
          double s = 0;
          for (std::int64_t f = 0; f < p.features; ++f)
            s += number(data.q, ((first + row) * p.heads + head) * p.features + f) *
                 number(data.k, (data.row(p, n, key) * p.shared + shared) * p.features + f);
          s *= p.scale > 0 ? p.scale : 1 / std::sqrt(static_cast<double>(p.features));
          x.push_back(visible(p, row, key, rows, keys) ? s : -INFINITY);
          top = std::max(top, x.back());
        }
        for (double& s : x) total += s = std::isinf(top) ? 0 : std::exp(s - top);
        for (std::int64_t c = 0; c < p.columns; ++c) {
          double sum = 0, size = 0;
          for (std::int64_t key = 0; key < keys; ++key) {
            const double term = x[static_cast<std::size_t>(key)] *
                                number(data.v, (data.row(p, n, key) * p.shared + shared) * p.columns + c);
            sum += term;
            size += std::abs(term);
          }
          if (total > 0) sum /= total, size /= total;
          const double got = number(out, ((first + row) * p.heads + head) * p.columns + c);
          const double error = std::abs(got - sum) / (relative * (size + std::abs(sum)) + 1e-6);
          worst = std::isnan(error) ? INFINITY : std::max(worst, error);
        }
      }
    }
  }
  return worst;
}

struct PackedCase {
  Packed packed;
  HalfTiling plan;
};

std::vector<PackedCase> packed_cases() {
  const DType bf16 = DType::bf16, f16 = DType::f16;
  return {
      // Sequences of no queries, of no keys, shorter than a tile and of several.
      {{.queries = {70, 0, 3, 140, 1}, .keys = {90, 5, 0, 33, 17}, .heads = 2, .dtype = bf16, .odd = true},
       {2, 32, 2, true, true, 2, true}},
      {{.queries = {70, 3, 130}, .heads = 4, .shared = 2, .features = 64, .columns = 64, .right = 0, .dtype = f16},
       {1, 48, 1, false, false, 4, true}},
      // Places count from the last key, so that the first queries see none.
      {{.queries = {80, 20, 9}, .keys = {40, 64, 9}, .heads = 2, .right = 0, .dtype = bf16, .odd = true},
       {2, 16, 3, true, false, 1}},
      {{.queries = {150, 65}, .heads = 1, .left = 40, .right = 0, .scale = 0.3, .dtype = bf16, .wide = true},
       {1, 16, 2, true, false, 1}},
      {{.queries = {66, 30, 5}, .keys = {50, 70, 3}, .heads = 2, .left = 9, .right = 4, .dtype = f16},
       {3, 16, 2, false, true, 1, true}},
      // Rows behind the last sequence, and more sequences than a warp has lanes.
      {{.queries = std::vector<int>(37, 3), .heads = 2, .right = 0, .dtype = bf16, .behind = 7},
       {1, 16, 2, true, false, 2}},
      // Keys in pages: sequences of none, of a part of a page, and of several tiles.
      {{.queries = {70, 3, 0, 130, 9}, .keys = {90, 5, 17, 0, 33}, .heads = 2, .dtype = bf16, .page = 16, .pages = 6},
       {2, 32, 2, true, true, 2, true}},
      {{.queries = {40, 66, 1},
        .keys = {100, 66, 129},
        .heads = 4,
        .shared = 2,
        .features = 64,
        .columns = 32,
        .right = 0,
        .dtype = f16,
        .wide = true,
        .behind = 4,
        .page = 64,
        .pages = 3},
       {1, 48, 1, false, false, 4, true}},
      {{.queries = {80, 20}, .keys = {40, 70}, .left = 20, .right = 3, .dtype = bf16, .page = 8, .pages = 9},
       {2, 16, 3, true, false, 1}},
  };
}

TEST_CASE("the device file of attention computes packed sequences on a CPU, whatever the tiles") {
  const std::vector<PackedCase> cases = packed_cases();
  static constexpr std::array<std::string_view, 1> files{"sm90/attention.cuh"};
  const std::array<DeviceFile, 2> instead{{{"sm90/ptx.cuh", sm90_ptx}, {"sm90/wgmma.cuh", sm90_wgmma}}};
  std::string source = std::string(sm90_language) + std::string(printing::prelude(false)) + device_text(files, instead);
  std::vector<attention::HalfKernel> printed;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    CAPTURE(i);
    const auto kernel = packed_kernel(cases[i].packed);
    REQUIRE_MESSAGE(kernel, kernel.error().message);
    const auto parts = attention_of(*kernel);
    REQUIRE(parts);
    const auto half = attention::half_attention_of(*kernel, *parts);
    REQUIRE_MESSAGE(half, half.error().message);
    REQUIRE(half->packing);
    CHECK(half->packing->count == static_cast<std::int64_t>(cases[i].packed.queries.size()));
    CHECK(half->tests.size() == (cases[i].packed.left >= 0 ? 1 : 0) + (cases[i].packed.right >= 0 ? 1 : 0));
    REQUIRE(attention::check(*half, cases[i].plan, 232448));
    printed.push_back(attention::print_half_kernel(*kernel, *parts, *half, cases[i].plan, 232448));
    std::string call;
    for (const int input : printed.back().inputs) {
      const Input& each = kernel->inputs[static_cast<std::size_t>(input)];
      call += fmt::format("(const {}*)args[{}], ", printing::storage_type(each.dtype), each.value);
    }
    std::string text = printed.back().printed;
    text.replace(text.find("extern \"C\""), 10, "");
    source += fmt::format(R"(namespace case{0} {{
{1}}}
extern "C" bool run{0}(void** args, int blocks, bool skew) {{
  skewed = skew;
  std::vector<char> maps(blocks * 384);
  unsigned counters[2] = {{0, 0}};
  const bool ended = run_blocks(blocks, {2}, [&] {{
    case{0}::planish_kernel({3}(unsigned short*)args[6], maps.data(){4});
  }});
  return ended && counters[0] == 0 && counters[1] == 0;
}}
)",
                          i, text, printed.back().threads, call, cases[i].plan.deals ? ", counters" : "");
  }
  for (std::size_t found = 0; (found = source.find("extern __shared__", found)) != source.npos;)
    source.replace(found, source.find('\n', found) - found, "using ::pl_smem;");
  const Compiled library(source, "-std=c++20 -O1 -w");
  for (std::size_t i = 0; i < cases.size(); ++i) {
    CAPTURE(i);
    const Packed& p = cases[i].packed;
    PackedData data(p);
    const auto run = library.function<bool(void**, int, bool)>(fmt::format("run{}", i));
    std::vector<std::uint16_t> out(static_cast<std::size_t>(p.tokens() * p.heads * p.columns), 0x7fff);
    void* const of_queries = p.wide ? static_cast<void*>(data.of_queries.data()) : data.narrow_queries.data();
    void* const of_keys = p.wide ? static_cast<void*>(data.of_keys.data()) : data.narrow_keys.data();
    void* args[7] = {data.q.data(), data.k.data(), data.v.data(), of_queries, of_keys, data.table.data(), out.data()};
    for (const bool skewed : {false, true}) {
      std::ranges::fill(out, 0x7fff);
      REQUIRE(run(args, static_cast<int>((printed[i].tiles + 1) / 2), skewed));
      CHECK(worst_of(p, data, out) < 1.2);
    }
    // Rows that no sequence has see no key.
    for (std::int64_t at = data.of_queries.back() * p.heads * p.columns; at < static_cast<std::int64_t>(out.size());
         ++at)
      CHECK(out[static_cast<std::size_t>(at)] == 0);
    // Offsets that no sequences have end a run, too, and write nothing outside.
    for (auto& each : data.narrow_queries) each = each * 37 % 101 - 20;
    for (auto& each : data.narrow_keys) each = 90 - each * 3;
    for (auto& each : data.of_queries) each = each * 37 % 101 - 20;
    CHECK(run(args, 2, false));
  }
}

TEST_CASE("packed sequences are lowered as a search, and read back with their places") {
  const Packed causal{
      .queries = {40, 60, 30, 2, 9}, .heads = 4, .shared = 2, .features = 64, .columns = 64, .right = 0};
  const auto kernel = packed_kernel(causal);
  REQUIRE_MESSAGE(kernel, kernel.error().message);
  CHECK(kernel->anchor == Anchor::attention);
  const auto parts = attention_of(*kernel);
  REQUIRE(parts);
  const auto half = attention::half_attention_of(*kernel, *parts);
  REQUIRE_MESSAGE(half, half.error().message);
  const auto& packing = *half->packing;
  CHECK(packing.count == 5);
  CHECK(packing.queries.input == packing.keys.input);
  CHECK(packing.queries.first == 0);
  CHECK(packing.queries.stride == 1);
  REQUIRE(half->tests.size() == 1);
  CHECK(half->tests[0].row == 1);
  CHECK(half->tests[0].key == -1);
  CHECK(half->tests[0].constant == 0);
  CHECK(half->plain);
  CHECK(half->rows == 141);
  CHECK(half->grouped == 2);
  // A block more for each sequence, at most.
  CHECK(attention::blocks_of_unit(*half, {2, 64, 2, true, true, 1}) == 2 + 5);
  // Work is what equal sequences have.
  const Packed one_more{
      .queries = {40, 60, 30, 2, 4, 5}, .heads = 4, .shared = 2, .features = 64, .columns = 64, .right = 0};
  CHECK(cost(*packed_kernel(one_more)).products == doctest::Approx(cost(*kernel).products * 5 / 6));
}

TEST_CASE("packed sequences have one schedule, on Hopper alone") {
  const Packed large{
      .queries = std::vector<int>(16, 512), .heads = 32, .shared = 8, .features = 128, .columns = 128, .right = 0};
  const auto kernel = packed_kernel(large);
  REQUIRE_MESSAGE(kernel, kernel.error().message);
  const auto guesses = seeds(*kernel, h200());
  REQUIRE_FALSE(guesses.empty());
  for (const Genome& guess : guesses) {
    const auto emitted = emit(*kernel, h200(), guess);
    REQUIRE(emitted);
    CHECK(emitted->after.empty());
    CHECK(emitted->args.size() == 7);
    CHECK(emitted->zeroed == std::vector<int>{1});
    CHECK(emitted->shared <= h200().shared_bytes);
    CHECK(emitted->grid[0] == h200().sms);
  }
  // Few queries too: what reads a cache row by row would read those of all sequences.
  const auto few = packed_kernel({.queries = {1, 1, 1}, .keys = {100, 50, 7}, .heads = 2});
  REQUIRE_MESSAGE(few, few.error().message);
  REQUIRE_FALSE(seeds(*few, h200()).empty());
  CHECK(emit(*few, h200(), seeds(*few, h200()).front())->source.contains("packed = true"));
  CHECK(seeds(*kernel, older("sm_80")).empty());
}

/// A layer: a product that gives q, k and v, attention of what lies in its result, a scale behind, and a product.
GraphBuilder packed_layer(std::int64_t tokens, std::int64_t sequences, std::int64_t heads, std::int64_t features) {
  const DType half = DType::bf16;
  const std::int64_t width = heads * features;
  GraphBuilder g;
  const int x = g.input({tokens, width}, half), offsets = g.input({sequences + 1}, DType::i32),
            weight = g.input({3 * width, width}, half), last = g.input({width, width}, half);
  const int all = g.node("linear.default", {V("input", x), V("weight", weight), N("bias")}, {tokens, 3 * width}, half);
  const std::vector<std::int64_t> strides{3 * width, width, features, 1}, own{3 * width, features, 1};
  const int parts = g.node("view.default", {V("self", all), L("size", {tokens, 3, heads, features})},
                           {tokens, 3, heads, features}, half, strides);
  const auto part = [&](std::int64_t n) {
    return g.node("select.int", {V("self", parts), I("dim", 1), I("index", n)}, {tokens, heads, features}, half, own);
  };
  const int q = part(0), k = part(1), v = part(2);
  const Shape shape{tokens, heads, features};
  const int attended =
      g.node("_flash_attention_forward.default",
             {V("query", q), V("key", k), V("value", v), V("cum_seq_q", offsets), V("cum_seq_k", offsets),
              I("max_q", tokens), I("max_k", tokens), F("dropout_p", 0.0), B("is_causal", true),
              B("return_debug_mask", false), N("scale"), N("window_size_left"), N("window_size_right"), N("seqused_k"),
              N("alibi_slopes"), N("block_table"), N("num_splits")},
             shape, half);
  for (int i = 0; i < 4; ++i) g.graph.nodes.back().outs.emplace_back();  // what nothing reads
  const int doubled = g.node("mul.Tensor", {V("self", attended), F("other", 2.0)}, shape, half);
  const int flat = g.node("view.default", {V("self", doubled), L("size", {tokens, width})}, {tokens, width}, half);
  g.output(g.node("linear.default", {V("input", flat), V("weight", last), N("bias")}, {tokens, width}, half));
  return g;
}

TEST_CASE("a layer of packed sequences is one program of kernels") {
  const auto program = composed_of_guesses(packed_layer(4096, 16, 16, 64));
  int packed = 0;
  for (const auto& kernel : program.kernels) {
    if (!kernel.source.contains("packed = true")) continue;
    ++packed;
    CHECK(kernel.source.contains("sequences = 16"));
    // Rows lie where the product has left them.
    CHECK(kernel.source.contains("tensor_map_stride<1>(map, 6144ull)"));
  }
  CHECK(packed == 1);
  CHECK(std::ranges::none_of(program.steps,
                             [](const auto& step) { return std::holds_alternative<program::Aten>(step); }));
  // On other GPUs the operator stays PyTorch's, and what is around it does not.
  PartitionOptions options;
  options.limits.contractions = options.limits.narrow_products = true;
  const GraphBuilder g = packed_layer(4096, 16, 16, 64);
  const auto cut = partition(g.graph, options);
  REQUIRE(cut.has_value());
  CHECK(std::ranges::none_of(cut->regions,
                             [](const Region& region) { return region.kernel.anchor == Anchor::attention; }));
}

TEST_CASE("what no schedule of packed sequences computes is not lowered") {
  const auto why = [](const Packed& p) {
    const auto kernel = packed_kernel(p);
    return kernel ? std::string() : kernel.error().message;
  };
  CHECK(why({.queries = {40}, .heads = 2}).contains("one sequence"));
  CHECK(why({.queries = {40, 20}, .heads = 2, .dtype = DType::f32}).contains("another dtype"));
  CHECK(why({.queries = {40, 20}, .heads = 2, .features = 20, .columns = 16}).contains("tensor maps"));
  CHECK(why({.queries = {40, 20}, .heads = 2, .used = true}).contains("more than offsets"));
  CHECK(why({.queries = {40, 20}, .page = 16, .pages = 4}).empty());
  CHECK(why({.queries = {40, 20}, .page = 4, .pages = 4}).contains("odd size"));
  CHECK(why({.queries = {1, 1}, .page = 16, .pages = 4, .longest = 1}).contains("few queries"));
  CHECK(why({.queries = {40, 20}, .heads = 2, .dropout = 0.1}).contains("dropout"));
  CHECK(why({.queries = {40, 20}, .heads = 2}).empty());
}

}  // namespace
}  // namespace planish::codegen
