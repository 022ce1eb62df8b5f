// Attention of many queries whose keys and values lie in pages: found in a graph, and run by the device file of Hopper
// on the emulated machine.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "codegen/attention/cuda_half_attention.h"
#include "codegen/attention/half.h"
#include "codegen/attention/half_kernel.h"
#include "codegen/compiled.h"
#include "codegen/device/device_files.h"
#include "codegen/devices.h"
#include "codegen/emit/expression.h"
#include "codegen/half_attention_data.h"
#include "codegen/paged_samples.h"
#include "codegen/partition/partition.h"
#include "codegen/sm90_machine.h"
#include "codegen/templates/template.h"

namespace planish::codegen {
namespace {

using attention::HalfTiling;
using samples::Paged;
using Mask = samples::Paged::Mask;

struct PagedCase {
  Paged paged;
  HalfTiling plan;
  std::vector<std::int64_t> lengths = {};  ///< as the mask takes them, a sequence each
};

/// Tables in no order, some of whose entries count from the end. Behind the keys that count they name pages of others,
/// or where a mask of lengths says so none that there are.
struct PagedData {
  std::vector<std::uint16_t> q, k, v;
  std::vector<std::int64_t> table, lengths;
  std::vector<std::int32_t> narrow;

  explicit PagedData(const PagedCase& c) {
    const Paged& p = c.paged;
    const auto count = [](std::int64_t n) { return static_cast<std::size_t>(n); };
    q = half_numbers(count(p.batch * p.queries * p.heads * p.features), p.dtype, 1);
    k = half_numbers(count(p.pool() * p.page * p.shared * p.features), p.dtype, 2);
    v = half_numbers(count(p.pool() * p.page * p.shared * p.columns), p.dtype, 3);
    for (std::int64_t b = 0; b < p.batch; ++b) {
      for (std::int64_t row = 0; row < (p.mask == Mask::places ? p.queries : 1); ++row)
        lengths.push_back(c.lengths[count(b)] + (p.mask == Mask::places ? row * 3 % p.queries : 0));
    }
    for (std::int64_t b = 0; b < p.batch; ++b) {
      for (std::int64_t page = 0; page < p.pages; ++page) {
        const std::int64_t i = b * p.pages + page;
        const bool unread = behind(p, b) <= page * p.page;
        table.push_back(unread ? 1 << 20 : (i * 5 + 2) % p.pool() - (i % 4 == 1 ? p.pool() : 0));
      }
    }
    narrow.assign(table.begin(), table.end());
  }

  bool counts(const Paged& p, std::int64_t b, std::int64_t row, std::int64_t key) const {
    const auto length = [&](std::int64_t at) { return lengths[static_cast<std::size_t>(at)]; };
    switch (p.mask) {
      case Mask::none:
        return true;
      case Mask::length:
        return key < length(b);
      case Mask::causal:
        return key <= row + length(b);
      case Mask::window:
        return key <= row + length(b) && key > row + length(b) - p.window;
      case Mask::places:
        return key <= length(b * p.queries + row);
    }
    return false;
  }

  /// Keys up to the last one that any query counts.
  std::int64_t behind(const Paged& p, std::int64_t b) const {
    std::int64_t out = 0;
    for (std::int64_t row = 0; row < p.queries; ++row) {
      for (std::int64_t key = out; key < p.keys(); ++key) {
        if (counts(p, b, row, key)) out = key + 1;
      }
    }
    return out;
  }

  /// Elements from the beginning of the cache on.
  std::int64_t place(const Paged& p, std::int64_t b, std::int64_t head, std::int64_t key, std::int64_t width) const {
    std::int64_t page = table[static_cast<std::size_t>(b * p.pages + key / p.page)];
    if (page < 0) page += p.pool();
    const std::int64_t in = p.by_place ? key % p.page * p.shared + head : head * p.page + key % p.page;
    return (page * p.page * p.shared + in) * width;
  }
};

/// The worst error of a row in units of a rounding of each weight and one of the result; a query that sees no key gives
/// zeros. `nowhere`: a page of the table's first sequence that is none: rows that count its keys have no numbers.
double worst_of_pages(const Paged& p, const PagedData& data, const std::vector<std::uint16_t>& out,
                      std::int64_t nowhere = -1) {
  const double relative = p.dtype == DType::bf16 ? 0x1p-8 : 0x1p-11;
  const auto number = [&](const std::vector<std::uint16_t>& from, std::int64_t at) {
    const std::uint16_t bits = from[static_cast<std::size_t>(at)];
    if (p.dtype == DType::f16 && (bits & 0x7fff) > 0x7c00) return static_cast<double>(NAN);
    return static_cast<double>(of_bits(bits, p.dtype));
  };
  double worst = 0;
  for (std::int64_t b = 0; b < p.batch; ++b)
    for (std::int64_t row = 0; row < p.queries; ++row)
      for (std::int64_t head = 0; head < p.heads; ++head) {
        const std::int64_t shared = head / (p.heads / p.shared), at = (b * p.queries + row) * p.heads + head;
        std::vector<std::pair<std::int64_t, double>> x;
        double top = -INFINITY, total = 0;
        bool odd = false;
        for (std::int64_t key = 0; key < p.keys(); ++key) {
          if (!data.counts(p, b, row, key)) continue;
          odd = odd || (b == 0 && key / p.page == nowhere);
          if (odd) break;
          double s = 0;
          const std::int64_t place = data.place(p, b, shared, key, p.features);
          for (std::int64_t f = 0; f < p.features; ++f)
            s += number(data.q, at * p.features + f) * number(data.k, place + f);
          x.emplace_back(key, s / std::sqrt(static_cast<double>(p.features)));
          top = std::max(top, x.back().second);
        }
        for (auto& [key, s] : x) total += s = std::exp(s - top);
        for (std::int64_t c = 0; c < p.columns; ++c) {
          const double got = number(out, at * p.columns + c);
          // Of a tile's other keys there may be no numbers either.
          if (nowhere >= 0 && b == 0 && (odd || std::isnan(got))) {
            if (odd != std::isnan(got) && odd) return INFINITY;
            continue;
          }
          double sum = 0, size = 0;
          for (const auto& [key, weight] : x) {
            const double term = weight * number(data.v, data.place(p, b, shared, key, p.columns) + c);
            sum += term;
            size += std::abs(term);
          }
          if (total > 0) sum /= total, size /= total;
          const double error = std::abs(got - sum) / (relative * (size + std::abs(sum)) + 1e-6);
          worst = std::isnan(error) ? INFINITY : std::max(worst, error);
        }
      }
  return worst;
}

std::vector<PagedCase> paged_cases() {
  const DType f16 = DType::f16;
  return {
      // Tiles of several pages, of one, and pages of several tiles; a context, and rows that see no key at all.
      {{.page = 16, .pages = 7}, {2, 32, 2, true, true, 2}, {30, -9}},
      {{.shared = 1, .page = 8, .pages = 11, .by_place = false, .dtype = f16}, {1, 48, 1, false, false, 1}, {17, 3}},
      {{.batch = 3, .heads = 2, .page = 64, .pages = 3, .features = 64, .columns = 32, .wide = false},
       {2, 16, 3, true, false, 3},
       {100, 61, 0}},
      {{.page = 32, .pages = 4, .by_place = false, .mask = Mask::window}, {1, 48, 2, true, false, 1}, {40, 25}},
      // No mask, a mask of lengths, and places that queries have.
      {{.batch = 1, .page = 24, .pages = 3, .mask = Mask::none, .dtype = f16}, {1, 32, 2, true, false, 1}, {0}},
      {{.queries = 130, .page = 16, .pages = 4, .mask = Mask::length}, {3, 32, 2, false, true, 1}, {49, 0}},
      {{.queries = 100, .page = 16, .pages = 8, .mask = Mask::places}, {1, 16, 2, true, false, 1}, {10, 30}},
      // Lengths beyond what there is.
      {{.batch = 2, .queries = 66, .page = 256, .pages = 2}, {2, 32, 2, true, true, 1}, {1ll << 40, 300}},
  };
}

TEST_CASE("the device file of attention reads keys and values in pages on a CPU, whatever pages and tiles") {
  const std::vector<PagedCase> cases = paged_cases();
  static constexpr std::array<std::string_view, 1> files{"sm90/attention.cuh"};
  const std::array<DeviceFile, 2> instead{{{"sm90/ptx.cuh", sm90_ptx}, {"sm90/wgmma.cuh", sm90_wgmma}}};
  std::string source = std::string(sm90_language) + std::string(printing::prelude(false)) + device_text(files, instead);
  std::vector<attention::HalfKernel> printed;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    CAPTURE(i);
    const auto graph = samples::paged_graph(cases[i].paged);
    const auto kernel = samples::paged_kernel(graph);
    REQUIRE_MESSAGE(kernel, kernel.error().message);
    const auto parts = attention_of(*kernel);
    REQUIRE_MESSAGE(parts, parts.error().message);
    const auto half = attention::half_attention_of(*kernel, *parts);
    REQUIRE_MESSAGE(half, half.error().message);
    CHECK(attention::in_pages(*half));
    CHECK(half->plain);
    REQUIRE(attention::check(*half, cases[i].plan, 232448));
    printed.push_back(attention::print_half_kernel(*kernel, *parts, *half, cases[i].plan, 232448));
    const std::vector<int> values{graph.q, graph.k, graph.v, graph.table, graph.lengths};
    std::string call;
    for (const int input : printed.back().inputs) {
      const Input& each = kernel->inputs[static_cast<std::size_t>(input)];
      call += fmt::format("(const {}*)args[{}], ", printing::storage_type(each.dtype),
                          std::ranges::find(values, each.value) - values.begin());
    }
    std::string text = printed.back().printed;
    text.replace(text.find("extern \"C\""), 10, "");
    source += fmt::format(R"(namespace case{0} {{
{1}}}
extern "C" bool run{0}(void** args, int blocks, bool skew) {{
  skewed = skew;
  std::vector<char> maps(blocks * 384);
  return run_blocks(blocks, {2}, [&] {{
    case{0}::planish_kernel({3}(unsigned short*)args[5], maps.data());
  }});
}}
)",
                          i, text, printed.back().threads, call);
  }
  for (std::size_t found = 0; (found = source.find("extern __shared__", found)) != source.npos;)
    source.replace(found, source.find('\n', found) - found, "using ::pl_smem;");
  const Compiled library(source, "-std=c++17 -O1 -w");
  for (std::size_t i = 0; i < cases.size(); ++i) {
    CAPTURE(i);
    const Paged& p = cases[i].paged;
    PagedData data(cases[i]);
    const auto run = library.function<bool(void**, int, bool)>(fmt::format("run{}", i));
    std::vector<std::uint16_t> out(static_cast<std::size_t>(p.batch * p.queries * p.heads * p.columns), 0x7fff);
    void* const table = p.wide ? static_cast<void*>(data.table.data()) : data.narrow.data();
    void* args[6] = {data.q.data(), data.k.data(), data.v.data(), table, data.lengths.data(), out.data()};
    for (const bool skewed : {false, true}) {
      std::ranges::fill(out, 0x7fff);
      REQUIRE(run(args, static_cast<int>((printed[i].tiles + 1) / 2), skewed));
      CHECK(worst_of_pages(p, data, out) < 1.2);
    }
    // A page that there is not, in the first sequence: others are right.
    for (const std::int64_t entry : {std::int64_t{1} << 20, -p.pool() - 1}) {
      data.table[1] = entry;
      data.narrow[1] = static_cast<std::int32_t>(entry);
      REQUIRE(run(args, 2, false));
      CHECK(worst_of_pages(p, data, out, 1) < 1.2);
    }
  }
}

attention::HalfAttention half_of(const Kernel& kernel) {
  const auto parts = attention_of(kernel);
  REQUIRE_MESSAGE(parts, parts.error().message);
  const auto half = attention::half_attention_of(kernel, *parts);
  REQUIRE_MESSAGE(half, half.error().message);
  return *half;
}

TEST_CASE("what a mask of lengths says bounds the keys that are walked through, and is no part of a score") {
  const Paged p{.queries = 256, .page = 64, .pages = 20, .features = 128, .columns = 128, .mask = Mask::window};
  const auto kernel = samples::paged_kernel(samples::paged_graph(p));
  REQUIRE(kernel);
  const auto half = half_of(*kernel);
  REQUIRE(half.tests.size() == 2);
  CHECK(half.tests[0].row == 1);
  CHECK(half.tests[0].key == -1);
  CHECK(half.tests[0].known.size() == 1);
  CHECK(half.tests[1].key == 1);
  CHECK(half.keys.pages->size == 64);
  CHECK(half.keys.pages->count == p.pool());
  CHECK(half.key_count == 1280);
  // As if the last query saw all keys, and the first as many less.
  const HalfTiling plan{2, 128, 2, true, true, 1};
  CHECK(attention::key_tiles(half, plan, 0).end == 9);
  CHECK(attention::key_tiles(half, plan, 128).end == 10);
  CHECK(attention::key_tiles(half, plan, 128).begin == 8);
  // As many keys as a copy brings of a page.
  CHECK(attention::box_of(half, {2, 96, 2, true, true, 1}) == 32);
  CHECK(attention::box_of(half, {2, 256, 2, true, true, 1}) == 64);
}

TEST_CASE("pages, and the mask that lengths say, are part of the attention that alone reads them") {
  PartitionOptions options;
  options.limits.contractions = true;
  const Paged p{.queries = 256, .page = 32, .pages = 40, .features = 128, .columns = 128};
  const auto in_pages = [](const Region& region) {
    return region.kernel.anchor == Anchor::attention && attention::in_pages(half_of(region.kernel));
  };
  for (const bool shown : {false, true}) {
    CAPTURE(shown);
    samples::PagedGraph m = samples::paged_graph(p);
    // Keys that somebody else reads, too, are gathered once, and values then as well.
    const auto gather = std::ranges::find(m.g.graph.nodes, std::string("aten.index.Tensor"), &ir::GraphNode::op);
    if (shown) m.g.output(*gather->outs[0]);
    const auto cut = partition(m.g.graph, options);
    REQUIRE(cut.has_value());
    CHECK(std::ranges::count_if(cut->regions, in_pages) == (shown ? 0 : 1));
    if (shown) continue;
    CHECK(cut->regions.size() == 1);
    const Device device = h200();
    const auto genomes = seeds(cut->regions[0].kernel, device);
    REQUIRE_FALSE(genomes.empty());
    for (const Genome& genome : genomes) CHECK(emit(cut->regions[0].kernel, device, genome).has_value());
  }
  // What other GPUs have reads keys that lie one after the other.
  options.limits.narrow_products = true;
  const samples::PagedGraph m = samples::paged_graph(p);
  const auto cut = partition(m.g.graph, options);
  REQUIRE(cut.has_value());
  CHECK(std::ranges::none_of(cut->regions, in_pages));
  CHECK(cut->regions.size() > 1);
}

TEST_CASE("a first guess has tiles of few copies, where pages are long") {
  for (const std::int64_t page : {64, 128, 256}) {
    CAPTURE(page);
    const auto kernel = samples::paged_kernel(samples::paged_graph({.batch = 8,
                                                                    .queries = 512,
                                                                    .heads = 32,
                                                                    .shared = 8,
                                                                    .page = page,
                                                                    .pages = 4096 / page,
                                                                    .features = 128,
                                                                    .columns = 128}));
    REQUIRE(kernel);
    const auto genomes = seeds(*kernel, h200());
    REQUIRE_FALSE(genomes.empty());
    CHECK(std::gcd(page, gene(genomes.front(), "tile_n", 0)) >= 32);
  }
}

TEST_CASE("keys that no copy of a page's part brings are left to a kernel of their own") {
  const auto why = [](const Paged& p) {
    const auto kernel = samples::paged_kernel(samples::paged_graph(p));
    REQUIRE_MESSAGE(kernel, kernel.error().message);
    const auto parts = attention_of(*kernel);
    REQUIRE(parts);
    const auto half = attention::half_attention_of(*kernel, *parts);
    return half ? std::string() : half.error().message;
  };
  CHECK(why({}).empty());
  CHECK(why({.page = 4}).contains("odd size"));
  CHECK(why({.features = 24}).contains("odd size"));
  CHECK(why({.dtype = DType::f32}).contains("16 bits"));
}

}  // namespace
}  // namespace planish::codegen
