// Attention of few queries over caches in pages, in 8 bits with scales, and both: the printed kernel on a CPU beside
// the definition.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "codegen/attention/decode.h"
#include "codegen/attention_samples.h"
#include "codegen/devices.h"
#include "codegen/graph_builder.h"
#include "codegen/half_numbers.h"
#include "codegen/lower/lower.h"
#include "codegen/partition/partition.h"
#include "codegen/run_decode.h"
#include "codegen/tools/pairs_cpu.h"

using namespace planish;
using namespace planish::codegen;

namespace {

/// How one of the two caches is kept.
struct Kept {
  DType stored = DType::bf16;
  enum class Scale : std::uint8_t { none, one, head, key } scale = Scale::none;
  bool divides = false;  ///< by the scale
};

struct PagedCase {
  std::int64_t batch = 2, kv_heads = 2, group = 4, page = 16, pages = 4, features = 64, columns = 64;
  bool by_place = true;  ///< pages lie as [place, head, feature], else [head, place, feature]
  DType dtype = DType::bf16;
  Kept keys = {}, values = {};
  DecodeTiling plan = {2, 2, 2, 1};
  std::vector<std::int64_t> lengths = {};  ///< of each sequence; none: different ones
  bool early = false;                      ///< keys are asked for before the launch waits
  std::int64_t keys_in_all() const { return page * pages; }
  std::int64_t pool() const { return batch * pages + 3; }
};

struct PagedGraph {
  GraphBuilder g;
  int q = -1, k = -1, v = -1, table = -1, lengths = -1, k_scale = -1, v_scale = -1, out = -1;
};

/// Pages by the table, and their scales, as keys or values of the batch.
int gathered(PagedGraph& m, const PagedCase& c, const Kept& kept, std::int64_t width, int& cache, int& scale) {
  GraphBuilder& g = m.g;
  const auto pages = [&](std::int64_t last, DType dtype) {
    const Shape one = c.by_place ? Shape{c.page, c.kv_heads, last} : Shape{c.kv_heads, c.page, last};
    const auto with = [&](Shape shape) {
      shape.insert(shape.end(), one.begin(), one.end());
      return shape;
    };
    const int lies = g.input(with({c.pool()}), dtype);
    const int taken =
        g.node("index.Tensor", {V("self", lies), VS("indices", {m.table})}, with({c.batch, c.pages}), dtype);
    return std::pair{lies, taken};
  };
  const auto turned = [&](int taken, std::int64_t last, DType dtype) {
    const std::int64_t n = c.keys_in_all(), block = c.kv_heads * c.page * last;
    const Shape shape{c.batch, c.kv_heads, n, last};
    if (c.by_place) {
      const int flat = g.node("view.default", {V("self", taken), L("size", {c.batch, n, c.kv_heads, last})},
                              {c.batch, n, c.kv_heads, last}, dtype);
      return g.node("permute.default", {V("self", flat), L("dims", {0, 2, 1, 3})}, shape, dtype,
                    {n * c.kv_heads * last, last, c.kv_heads * last, 1});
    }
    const int heads_first =
        g.node("permute.default", {V("self", taken), L("dims", {0, 2, 1, 3, 4})},
               {c.batch, c.kv_heads, c.pages, c.page, last}, dtype, {c.pages * block, c.page * last, block, last, 1});
    return g.node("reshape.default", {V("self", heads_first), L("shape", shape)}, shape, dtype);
  };
  const auto [lies, taken] = pages(width, kept.stored);
  cache = lies;
  int value = turned(taken, width, kept.stored);
  const Shape shape{c.batch, c.kv_heads, c.keys_in_all(), width};
  if (kept.stored != c.dtype) value = g.node("_to_copy.default", {V("self", value)}, shape, c.dtype);
  if (kept.scale == Kept::Scale::none) return value;
  int factor = -1;
  if (kept.scale == Kept::Scale::key) {
    const auto [own, of_keys] = pages(1, DType::f32);
    scale = own;
    factor = turned(of_keys, 1, DType::f32);
  } else {
    factor = scale = g.input(kept.scale == Kept::Scale::one ? Shape{} : Shape{1, c.kv_heads, 1, 1}, DType::f32);
  }
  const int product =
      g.node(kept.divides ? "div.Tensor" : "mul.Tensor", {V("self", value), V("other", factor)}, shape, DType::f32);
  return g.node("_to_copy.default", {V("self", product)}, shape, c.dtype);
}

PagedGraph paged_graph(const PagedCase& c) {
  PagedGraph m;
  GraphBuilder& g = m.g;
  const std::int64_t heads = c.kv_heads * c.group, n = c.keys_in_all();
  m.q = g.input({c.batch, heads, 1, c.features}, c.dtype);
  m.table = g.input({c.batch, c.pages}, DType::i32);
  const int k = gathered(m, c, c.keys, c.features, m.k, m.k_scale);
  const int v = gathered(m, c, c.values, c.columns, m.v, m.v_scale);
  m.lengths = g.input({c.batch, 1, 1, 1}, DType::i64);
  const int places = g.node("arange.start_step", {I("start", 0), I("end", n), I("step", 1)}, {n}, DType::i64);
  const int mask = g.node("lt.Tensor", {V("self", places), V("other", m.lengths)}, {c.batch, 1, 1, n}, DType::boolean);
  m.out = g.node("scaled_dot_product_attention.default",
                 {V("query", m.q), V("key", k), V("value", v), V("attn_mask", mask), B("enable_gqa", c.group > 1)},
                 {c.batch, heads, 1, c.columns}, c.dtype);
  g.output(m.out);
  return m;
}

Kernel whole(const PagedGraph& m) {
  LowerLimits limits;
  limits.contractions = true;
  const int outputs[] = {m.out};
  auto kernel = lower(m.g.graph, std::vector<bool>(m.g.graph.nodes.size(), true), outputs, limits);
  REQUIRE_MESSAGE(kernel.has_value(), (kernel ? "" : kernel.error().message));
  REQUIRE(kernel->anchor == Anchor::attention);
  return std::move(*kernel);
}

/// Elements of a pool, and what they are.
struct Pool {
  std::vector<unsigned char> bytes;
  std::vector<double> values;
};

Pool pool_of(std::int64_t elements, DType stored, double by) {
  Pool out;
  for (std::int64_t i = 0; i < elements; ++i) {
    const double x = std::sin(by * static_cast<double>(i) + by * by);
    if (is_half(stored)) {
      const std::uint32_t word = cpu::word_of(static_cast<float>(1.5 * x), stored == DType::bf16);
      out.bytes.insert(out.bytes.end(),
                       {static_cast<unsigned char>(word & 255), static_cast<unsigned char>(word >> 8)});
      out.values.push_back(cpu::value(word, 0, stored == DType::bf16));
      continue;
    }
    // Codes of all kinds, but for those that are no number.
    auto code = static_cast<unsigned char>(std::lround(127.5 + 127.5 * x));
    if (stored == DType::f8_e4m3 && (code & 127) == 127) code -= 1;
    if (stored == DType::f8_e5m2) code = static_cast<unsigned char>((code & 0x80) | (code & 0x7f) % 0x48);
    out.bytes.push_back(code);
    out.values.push_back(stored == DType::i8   ? static_cast<double>(static_cast<signed char>(code))
                         : stored == DType::u8 ? static_cast<double>(code)
                         : stored == DType::f8_e4m3
                             ? static_cast<double>(cpu::of_e4m3(code))
                             : static_cast<double>(cpu::value(static_cast<unsigned>(code) << 8, 0, false)));
  }
  return out;
}

/// Such that scores and values are of the order of one.
double scale_at(const Kept& kept, std::int64_t i) {
  if (kept.scale == Kept::Scale::none) return 1;
  const double cross_tile = 1 + 0.3 * std::sin(0.7 * static_cast<double>(i));
  const double size = is_half(kept.stored) ? 1 : kept.stored == DType::f8_e4m3 ? 1.0 / 128 : 1.0 / 100;
  return static_cast<double>(static_cast<float>(kept.divides ? 1 / (size * cross_tile) : size * cross_tile));
}

std::vector<float> scales_of(const PagedCase& c, const Kept& kept) {
  const std::int64_t count = kept.scale == Kept::Scale::key    ? c.pool() * c.page * c.kv_heads
                             : kept.scale == Kept::Scale::head ? c.kv_heads
                                                               : 1;
  std::vector<float> out;
  for (std::int64_t i = 0; i < count; ++i) out.push_back(static_cast<float>(scale_at(kept, i)));
  return out;
}

/// The largest difference from the definition, relative to the largest value. `entry`: the table's first one; where it
/// is no page, what counts its keys is no number, and nothing else.
double largest_paged_error(const PagedCase& c, std::optional<std::int32_t> entry = std::nullopt) {
  const PagedGraph m = paged_graph(c);
  const Kernel kernel = whole(m);
  const DecodeParts parts(kernel);
  const Decode& decode = parts.decode;
  CHECK(decode.rows == c.group);
  CHECK(decode.length == c.keys_in_all());
  CHECK(decode.keys.together == c.page);

  const std::int64_t heads = c.kv_heads * c.group;
  const Pool q = pool_of(c.batch * heads * c.features, c.dtype, 0.37),
             k = pool_of(c.pool() * c.page * c.kv_heads * c.features, c.keys.stored, 0.73),
             v = pool_of(c.pool() * c.page * c.kv_heads * c.columns, c.values.stored, 0.29);
  std::vector<std::int32_t> table;
  for (std::int64_t i = 0; i < c.batch * c.pages; ++i)
    table.push_back(static_cast<std::int32_t>((i * 5 + 2) % c.pool() - (i == 1 ? c.pool() : 0)));  // one from the end
  std::vector<std::int64_t> lengths = c.lengths;
  for (std::int64_t b = 0; b < c.batch && c.lengths.empty(); ++b)
    lengths.push_back(c.keys_in_all() - 3 - b * (c.keys_in_all() / 2));
  // Pages behind the end are no pages.
  for (std::int64_t b = 0; b < c.batch; ++b)
    for (std::int64_t p = (lengths[static_cast<std::size_t>(b)] + c.page - 1) / c.page; p < c.pages; ++p)
      table[static_cast<std::size_t>(b * c.pages + p)] = 1 << 20;
  if (entry) table[0] = *entry;
  const std::vector<float> k_scales = scales_of(c, c.keys), v_scales = scales_of(c, c.values);
  std::vector<std::uint16_t> result(static_cast<std::size_t>(c.batch * heads * c.columns), 0x7fc0);
  const AtSixteen queries(q.bytes.data(), q.bytes.size()), keys(k.bytes.data(), k.bytes.size()),
      values(v.bytes.data(), v.bytes.size());
  DecodeWrites writes;
  writes.early = c.early;
  run_decode(kernel, parts, c.plan, writes,
             {{m.q, queries.data()},
              {m.k, keys.data()},
              {m.v, values.data()},
              {m.table, table.data()},
              {m.lengths, lengths.data()},
              {m.k_scale, k_scales.data()},
              {m.v_scale, v_scales.data()}},
             {m.table, m.lengths}, result);

  double worst = 0, largest = 0;
  for (std::int64_t b = 0; b < c.batch; ++b) {
    for (std::int64_t h = 0; h < heads; ++h) {
      const std::int64_t kv = h / c.group;
      const auto row = [&](std::int64_t key) {
        std::int64_t page = table[static_cast<std::size_t>(b * c.pages + key / c.page)];
        if (page < 0) page += c.pool();
        return c.by_place ? (page * c.page + key % c.page) * c.kv_heads + kv
                          : (page * c.kv_heads + kv) * c.page + key % c.page;
      };
      const auto element = [&](const Pool& pool, const Kept& kept, std::int64_t width, std::int64_t key,
                               std::int64_t i) {
        const std::int64_t at = kept.scale == Kept::Scale::key ? row(key) : kept.scale == Kept::Scale::head ? kv : 0;
        if (row(key) < 0 || row(key) >= c.pool() * c.page * c.kv_heads) return static_cast<double>(NAN);
        const double scale = scale_at(kept, at), x = pool.values[static_cast<std::size_t>(row(key) * width + i)];
        return kept.divides ? x / scale : x * scale;
      };
      std::vector<double> weights;
      double total = 0;
      for (std::int64_t key = 0; key < lengths[static_cast<std::size_t>(b)]; ++key) {
        double x = 0;
        for (std::int64_t f = 0; f < c.features; ++f)
          x += q.values[static_cast<std::size_t>((b * heads + h) * c.features + f)] *
               element(k, c.keys, c.features, key, f);
        weights.push_back(std::exp(x / std::sqrt(static_cast<double>(c.features))));
        total += weights.back();
      }
      for (std::int64_t i = 0; i < c.columns; ++i) {
        double want = 0;
        for (std::size_t key = 0; key < weights.size(); ++key)
          want += weights[key] / total * element(v, c.values, c.columns, static_cast<std::int64_t>(key), i);
        const std::uint16_t bits = result[static_cast<std::size_t>((b * heads + h) * c.columns + i)];
        const double got = cpu::value(bits, 0, c.dtype == DType::bf16);
        CHECK(std::isnan(got) == std::isnan(want));
        if (std::isnan(want)) continue;
        worst = std::max(worst, std::abs(got - want));
        largest = std::max(largest, std::abs(want));
      }
    }
  }
  return worst / largest;
}

std::string why_none(const PagedCase& c) {
  return why_no_decode(whole(paged_graph(c)));
}

using Scale = Kept::Scale;
constexpr double of_bf16 = 1.5e-2,
                 of_f16 = 1.5e-3;  ///< half a unit of the last place of what is stored, and of weights

}  // namespace

TEST_CASE("keys and values in pages are read where a table says, whatever the size of a page and how it lies") {
  for (const bool by_place : {true, false}) {
    for (const std::int64_t page : {1, 8, 16, 64}) {
      CAPTURE(by_place);
      CAPTURE(page);
      CHECK(largest_paged_error({.page = page, .pages = 96 / page + 1, .by_place = by_place}) < of_bf16);
    }
  }
  CHECK(largest_paged_error({.kv_heads = 1,
                             .group = 8,
                             .page = 32,
                             .pages = 3,
                             .features = 128,
                             .columns = 128,
                             .dtype = DType::f16,
                             .keys = {DType::f16},
                             .values = {DType::f16},
                             .plan = {3, 3, 1, 1}}) < of_f16);
}

TEST_CASE("sequences of any lengths are right, those of one key among them, however many blocks share one") {
  CHECK(DecodeParts(whole(paged_graph({}))).decode.ragged);
  for (const int splits : {1, 3, 8}) {
    for (const std::int64_t page : {1, 16}) {
      CAPTURE(splits);
      CAPTURE(page);
      CHECK(largest_paged_error({.batch = 5,
                                 .page = page,
                                 .pages = 320 / page,
                                 .plan = {.warps = 2, .stages = 2, .splits = splits},
                                 .lengths = {1, 320, 17, 100, 3}}) < of_bf16);
    }
  }
  const Kept kept{DType::f8_e4m3, Scale::key};
  CHECK(largest_paged_error({.batch = 4,
                             .group = 9,
                             .pages = 12,
                             .keys = kept,
                             .values = kept,
                             .plan = {.warps = 3, .stages = 3, .splits = 2},
                             .lengths = {16, 190, 1, 64}}) < of_bf16);
}

TEST_CASE("keys are asked for before the wait, by tables and lengths that are there") {
  const PagedGraph m = paged_graph({});
  const Kernel kernel = whole(m);
  const DecodeParts parts(kernel);
  std::set<int> early;
  for (const int input : inputs_of_keys(kernel, parts.attention, parts.decode))
    early.insert(kernel.inputs[static_cast<std::size_t>(input)].value);
  CHECK(early == std::set<int>{m.k, m.v, m.table, m.lengths});
  for (const std::int64_t page : {1, 16})
    CHECK(largest_paged_error({.page = page, .pages = 96 / page, .early = true}) < of_bf16);
}

TEST_CASE("caches in 8 bits are taken apart on their way, with a scale in all, of a head or of a key") {
  for (const DType stored : {DType::f8_e4m3, DType::f8_e5m2, DType::i8, DType::u8}) {
    for (const Scale scale : {Scale::one, Scale::head, Scale::key}) {
      CAPTURE(name(stored));
      CAPTURE(static_cast<int>(scale));
      const bool integers = stored == DType::i8 || stored == DType::u8;
      if (integers && scale != Scale::key) continue;  // below
      const Kept kept{stored, scale, scale == Scale::head};
      CHECK(largest_paged_error({.features = 128, .columns = 128, .keys = kept, .values = kept}) < of_bf16);
    }
  }
  // Each by itself, and other widths.
  CHECK(largest_paged_error({.page = 8, .features = 96, .keys = {DType::f8_e4m3, Scale::one}}) < of_bf16);
  CHECK(largest_paged_error({.features = 64, .columns = 128, .values = {DType::i8, Scale::key}}) < of_bf16);
  CHECK(largest_paged_error(
            {.dtype = DType::f16, .keys = {DType::i8, Scale::key}, .values = {DType::f8_e4m3, Scale::head}}) < of_f16);
}

TEST_CASE("a page that there is not makes what counts it no number, and nothing else") {
  CHECK(largest_paged_error({}, 1 << 20) < of_bf16);
  CHECK(largest_paged_error({.page = 8, .pages = 6}, -(1 << 20)) < of_bf16);
  CHECK(largest_paged_error({.keys = {DType::f8_e4m3, Scale::one}, .values = {DType::f8_e5m2}}, 1 << 20) < of_bf16);
  CHECK(largest_paged_error({.keys = {DType::i8, Scale::key}, .values = {DType::i8, Scale::key}}, 1 << 20) < of_bf16);
}

TEST_CASE("what such rows cannot be is said") {
  CHECK(why_none({}).empty());
  CHECK(why_none({.keys = {DType::i8, Scale::one}}) == "integers at looked-up places without a scale from there");
  CHECK(why_none({.dtype = DType::f16, .keys = {DType::f16}, .values = {DType::i8, Scale::key}}) ==
        "values with a scale for each key in f16");
  CHECK(why_none({.keys = {DType::f8_e4m3_fnuz}}) == "keys or values that are computed");
}

TEST_CASE("a product that wraps, and a cast that may overflow, are no scale and no rounding") {
  const auto why = [](DType stored, DType between, DType product) {
    PagedGraph m;
    GraphBuilder& g = m.g;
    const Shape shape{2, 2, 64, 64};
    m.q = g.input({2, 4, 1, 64}, DType::bf16);
    m.k = g.input(shape, stored);
    m.v = g.input(shape, DType::bf16);
    int k = m.k;
    if (between != stored) k = g.node("_to_copy.default", {V("self", k)}, shape, between);
    k = g.node("mul.Tensor", {V("self", k), I("other", 2)}, shape, product);
    if (product != DType::bf16) k = g.node("_to_copy.default", {V("self", k)}, shape, DType::bf16);
    m.out = g.node("scaled_dot_product_attention.default",
                   {V("query", m.q), V("key", k), V("value", m.v), B("enable_gqa", true)}, {2, 4, 1, 64}, DType::bf16);
    return why_no_decode(whole(m));
  };
  CHECK(why(DType::i8, DType::bf16, DType::bf16).empty());
  CHECK(why(DType::i8, DType::i8, DType::i8) == "keys or values that are computed");
  CHECK(why(DType::u8, DType::u8, DType::u8) == "keys or values that are computed");
  CHECK(why(DType::bf16, DType::bf16, DType::bf16).empty());
  CHECK(why(DType::bf16, DType::f16, DType::f16) == "keys or values that are computed");
  CHECK(why(DType::i8, DType::f16, DType::f16).empty());
}

TEST_CASE("a cache's pages and scales are part of the attention that alone reads them") {
  PartitionOptions options;
  options.limits.contractions = true;
  const PagedCase c{.group = 4,
                    .pages = 64,
                    .features = 128,
                    .columns = 128,
                    .keys = {DType::f8_e4m3, Scale::key},
                    .values = {DType::f8_e4m3, Scale::key}};
  for (const bool shown : {false, true}) {
    CAPTURE(shown);
    PagedGraph m = paged_graph(c);
    // A gathered cache that somebody else reads is made once.
    const auto gather = std::ranges::find(m.g.graph.nodes, std::string("aten.index.Tensor"), &ir::GraphNode::op);
    if (shown) m.g.output(*gather->outs[0]);
    const auto cut = partition(m.g.graph, options);
    REQUIRE(cut.has_value());
    CHECK(cut->regions.size() == (shown ? 2 : 1));
    const auto attention =
        std::ranges::find_if(cut->regions, [](const Region& r) { return r.kernel.anchor == Anchor::attention; });
    REQUIRE(attention != cut->regions.end());
    const Device device = h200();
    const auto genomes = seeds(attention->kernel, device);
    REQUIRE_FALSE(genomes.empty());
    for (const Genome& genome : genomes) CHECK(emit(attention->kernel, device, genome).has_value());
  }
}

TEST_CASE("a sink beside the keys is part of a row's sums, also where no key counts") {
  const samples::Heads h{
      .batch = 2, .heads = 3, .queries = 3, .keys = 50, .features = 64, .mask = 1, .dtype = DType::bf16, .sink = true};
  const auto sample = samples::attention_sample(h);
  const DecodeParts parts(sample.kernel);
  const Pool q = pool_of(h.batch * h.heads * h.queries * h.features, h.dtype, 0.37),
             k = pool_of(h.batch * h.heads * h.keys * h.features, h.dtype, 0.73),
             v = pool_of(h.batch * h.heads * h.keys * h.features, h.dtype, 0.29);
  const std::vector<double> sinks{-200, 1.5, 30};
  std::vector<std::uint16_t> stored;
  for (const double sink : sinks)
    stored.push_back(static_cast<std::uint16_t>(cpu::word_of(static_cast<float>(sink), true)));
  std::vector<unsigned char> mask;  // the first query sees no key
  for (std::int64_t i = 0; i < h.queries * h.keys; ++i) mask.push_back(i % 3 != 0 && i >= h.keys ? 1 : 0);
  const AtSixteen queries(q.bytes.data(), q.bytes.size()), keys(k.bytes.data(), k.bytes.size()),
      values(v.bytes.data(), v.bytes.size());
  for (const int splits : {1, 3}) {
    std::vector<std::uint16_t> result(q.values.size(), 0x7fc0);
    run_decode(sample.kernel, parts, {2, 2, splits, 1}, {},
               {{0, queries.data()}, {1, keys.data()}, {2, values.data()}, {3, stored.data()}, {4, mask.data()}}, {},
               result);
    for (std::int64_t head = 0; head < h.batch * h.heads; ++head) {
      for (std::int64_t row = 0; row < h.queries; ++row) {
        const double sink = sinks[static_cast<std::size_t>(head % h.heads)];
        std::vector<double> scores;
        double top = sink;
        for (std::int64_t key = 0; key < h.keys; ++key) {
          double x = 0;
          for (std::int64_t f = 0; f < h.features; ++f)
            x += q.values[static_cast<std::size_t>((head * h.queries + row) * h.features + f)] *
                 k.values[static_cast<std::size_t>((head * h.keys + key) * h.features + f)];
          scores.push_back(mask[static_cast<std::size_t>(row * h.keys + key)] != 0 ? x / 8 : -INFINITY);
          top = std::max(top, scores.back());
        }
        double total = std::exp(sink - top);
        for (double& x : scores) total += x = std::exp(x - top);
        for (std::int64_t i = 0; i < h.features; ++i) {
          double want = 0;
          for (std::int64_t key = 0; key < h.keys; ++key)
            want += scores[static_cast<std::size_t>(key)] / total *
                    v.values[static_cast<std::size_t>((head * h.keys + key) * h.features + i)];
          const auto got =
              cpu::value(result[static_cast<std::size_t>((head * h.queries + row) * h.features + i)], 0, true);
          CHECK(std::abs(got - want) < of_bf16);
        }
      }
    }
  }
}
