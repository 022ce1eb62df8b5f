#include "codegen/attention/decode.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <set>

#include "codegen/attention/decode_writes.h"
#include "codegen/attention/last_keys.h"
#include "codegen/devices.h"
#include "codegen/emit/cuda_limits.h"
#include "codegen/emit/expression.h"
#include "codegen/graph_builder.h"
#include "codegen/lower/lower.h"
#include "codegen/partition/partition.h"
#include "codegen/run_decode.h"

using namespace planish;
using namespace planish::codegen;

namespace {

/// One attention: `queries` rows of each head, whose heads come in groups.
struct Case {
  std::int64_t batch = 1, kv_heads = 1, group = 1, queries = 1, keys = 16, features = 64, columns = 64;
  bool by_place = false;  ///< keys lie as [batch, place, head, feature]
  DType dtype = DType::bf16;
  enum class Mask : std::uint8_t { none, flags, added, length } mask = Mask::none;
  bool negated = false;                 ///< queries are computed: what is given, times -1
  std::int64_t written = 0, first = 0;  ///< keys that the launch writes, from this place on: what is given, times -1
  bool early = false;
  DecodeTiling plan = {};
};

struct Made {
  GraphBuilder g;
  int q = -1, k = -1, v = -1, mask = -1, position = -1, out = -1;
  int new_k = -1, new_v = -1, places = -1, k_after = -1, v_after = -1;
  std::set<int> writing;  ///< nodes
};

/// A cache whose rows from a place on are others.
int written_cache(Made& m, const Case& c, int cache, std::int64_t width, int source) {
  GraphBuilder& g = m.g;
  const Shape shape{c.batch, c.kv_heads, c.written, width};
  const auto begin = static_cast<int>(g.graph.nodes.size());
  const int other = g.node("neg.default", {V("self", source)}, shape, c.dtype);
  const int after =
      g.node("index_copy.default", {V("self", cache), I("dim", 2), V("index", m.places), V("source", other)},
             {c.batch, c.kv_heads, c.keys, width}, c.dtype);
  for (int n = begin; n < static_cast<int>(g.graph.nodes.size()); ++n) m.writing.insert(n);
  return after;
}

Made graph_of(const Case& c) {
  Made m;
  GraphBuilder& g = m.g;
  const std::int64_t heads = c.kv_heads * c.group;
  m.q = g.input({c.batch, heads, c.queries, c.features}, c.dtype);
  const auto cache = [&](std::int64_t width) {
    if (!c.by_place) return std::pair{g.input({c.batch, c.kv_heads, c.keys, width}, c.dtype), -1};
    const int lies = g.input({c.batch, c.keys, c.kv_heads, width}, c.dtype);
    const Shape strides{c.keys * c.kv_heads * width, width, c.kv_heads * width, 1};
    return std::pair{lies, g.node("permute.default", {V("self", lies), L("dims", {0, 2, 1, 3})},
                                  {c.batch, c.kv_heads, c.keys, width}, c.dtype, strides)};
  };
  auto [k, k_seen] = cache(c.features);
  auto [v, v_seen] = cache(c.columns);
  m.k = k;
  m.v = v;
  if (c.written > 0) {
    m.places = g.input({c.written}, DType::i64);
    m.new_k = g.input({c.batch, c.kv_heads, c.written, c.features}, c.dtype);
    m.new_v = g.input({c.batch, c.kv_heads, c.written, c.columns}, c.dtype);
    m.k_after = k_seen = written_cache(m, c, k, c.features, m.new_k);
    m.v_after = v_seen = written_cache(m, c, v, c.columns, m.new_v);
  }
  const int q =
      c.negated ? g.node("neg.default", {V("self", m.q)}, {c.batch, heads, c.queries, c.features}, c.dtype) : m.q;
  std::vector<ir::Arg> args{V("query", q), V("key", k_seen < 0 ? k : k_seen), V("value", v_seen < 0 ? v : v_seen)};
  if (c.mask == Case::Mask::flags) m.mask = g.input({c.batch, 1, c.queries, c.keys}, DType::boolean);
  if (c.mask == Case::Mask::added) m.mask = g.input({1, 1, c.queries, c.keys}, c.dtype);
  if (c.mask == Case::Mask::length) {
    m.position = g.input({1}, DType::i64);
    const int places =
        g.node("arange.start_step", {I("start", 0), I("end", c.keys), I("step", 1)}, {c.keys}, DType::i64);
    m.mask = g.node("le.Tensor", {V("self", places), V("other", m.position)}, {c.keys}, DType::boolean);
  }
  if (m.mask >= 0) args.push_back(V("attn_mask", m.mask));
  args.push_back(B("enable_gqa", c.group > 1));
  m.out = g.node("scaled_dot_product_attention.default", args, {c.batch, heads, c.queries, c.columns}, c.dtype);
  return m;
}

Kernel lowered(const Made& m) {
  const int outputs[] = {m.out};
  LowerLimits limits;
  limits.contractions = true;
  std::vector<bool> inside(m.g.graph.nodes.size(), true);
  for (const int n : m.writing) inside[static_cast<std::size_t>(n)] = false;
  auto kernel = lower(m.g.graph, inside, outputs, limits);
  REQUIRE_MESSAGE(kernel.has_value(), (kernel ? "" : kernel.error().message));
  CHECK(kernel->anchor == Anchor::attention);
  return std::move(*kernel);
}

/// The kernel that writes the cache.
Kernel scatter_of(const Made& m) {
  const int outputs[] = {m.k_after, m.v_after};
  std::vector<bool> inside(m.g.graph.nodes.size(), false);
  for (const int n : m.writing) inside[static_cast<std::size_t>(n)] = true;
  auto kernel = lower(m.g.graph, inside, outputs);
  REQUIRE_MESSAGE(kernel.has_value(), (kernel ? "" : kernel.error().message));
  CHECK(kernel->anchor == Anchor::scatter);
  return std::move(*kernel);
}

std::uint16_t stored(double value, DType dtype) {
  if (dtype == DType::f16) {
    const auto half = static_cast<_Float16>(value);
    std::uint16_t bits = 0;
    std::memcpy(&bits, &half, 2);
    return bits;
  }
  const auto f = static_cast<float>(value);
  std::uint32_t bits = 0;
  std::memcpy(&bits, &f, 4);
  return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
double value_of(std::uint16_t bits, DType dtype) {
  if (dtype == DType::f16) {
    _Float16 half{};
    std::memcpy(&half, &bits, 2);
    return static_cast<double>(half);
  }
  const std::uint32_t wide = static_cast<std::uint32_t>(bits) << 16;
  float f = 0;
  std::memcpy(&f, &wide, 4);
  return static_cast<double>(f);
}

using Memory = std::vector<std::uint16_t>;
Memory filled(std::int64_t elements, double by, DType dtype) {
  Memory out;
  for (std::int64_t i = 0; i < elements; ++i)
    out.push_back(stored(std::sin(by * static_cast<double>(i) + by * by) * 1.5, dtype));
  return out;
}

/// A cache whose written rows are what is given, times -1; or no numbers.
Memory with_rows(Memory cache, const Memory& rows, const Case& c, std::int64_t width) {
  for (std::int64_t unit = 0; unit < c.batch * c.kv_heads; ++unit) {
    for (std::int64_t r = 0; r < c.written; ++r) {
      for (std::int64_t i = 0; i < width && c.first + r < c.keys; ++i) {
        auto& to = cache[static_cast<std::size_t>((unit * c.keys + c.first + r) * width + i)];
        to = rows.empty() ? 0x7fff : rows[static_cast<std::size_t>((unit * c.written + r) * width + i)] ^ 0x8000;
      }
    }
  }
  return cache;
}

/// Runs the printed kernel on the machine of this folder, and gives the largest difference from the definition.
double largest_error(const Case& c) {
  const Made m = graph_of(c);
  const Kernel kernel = lowered(m);
  const DecodeParts parts(kernel);
  const Decode& decode = parts.decode;
  CHECK(decode.rows == c.group * c.queries);
  CHECK(decode.units == c.batch * c.kv_heads);
  DecodeWrites writes;
  DecodeTiling plan = c.plan;
  std::optional<Kernel> scatter;
  if (c.written > 0) {
    scatter = scatter_of(m);
    auto rows = written_rows(kernel, decode, *scatter, 0, 1);
    REQUIRE_MESSAGE(rows.has_value(), (rows ? "" : rows.error().message));
    CHECK(rows->rows == c.written);
    writes = {&*scatter, std::move(*rows), c.early};
    plan.written = static_cast<int>(c.written);
  }
  CHECK(decode.computed == c.negated);
  const std::int64_t heads = c.kv_heads * c.group;
  Memory q = filled(c.batch * heads * c.queries * c.features, 0.37, c.dtype),
         k = filled(c.batch * c.kv_heads * c.keys * c.features, 0.73, c.dtype),
         v = filled(c.batch * c.kv_heads * c.keys * c.columns, 0.29, c.dtype),
         new_k = filled(c.batch * c.kv_heads * c.written * c.features, 0.91, c.dtype),
         new_v = filled(c.batch * c.kv_heads * c.written * c.columns, 0.57, c.dtype),
         added = filled(c.queries * c.keys, 1.31, c.dtype);
  // What a cache has where the launch writes is no number; afterwards it is what was written.
  const Memory before_k = with_rows(k, {}, c, c.features), before_v = with_rows(v, {}, c, c.columns);
  k = with_rows(k, new_k, c, c.features), v = with_rows(v, new_v, c, c.columns);
  std::vector<std::int64_t> places;
  for (std::int64_t i = 0; i < c.written; ++i) places.push_back(c.first + i);
  std::vector<unsigned char> flags;
  for (std::int64_t i = 0; i < c.batch * c.queries * c.keys; ++i) flags.push_back(i % 5 != 2);
  const std::int64_t position = c.keys - 7;
  Memory result(static_cast<std::size_t>(c.batch * heads * c.queries * c.columns), 0x7fc0);
  const AtSixteen queries(q.data(), 2 * q.size()), cache_k(before_k.data(), 2 * k.size()),
      cache_v(before_v.data(), 2 * v.size());
  std::map<int, const void*> memory{{m.q, queries.data()},
                                    {c.written > 0 ? m.k_after : m.k, cache_k.data()},
                                    {c.written > 0 ? m.v_after : m.v, cache_v.data()},
                                    {m.new_k, new_k.data()},
                                    {m.new_v, new_v.data()},
                                    {m.places, places.data()},
                                    {m.position, &position}};
  if (c.mask == Case::Mask::flags) memory[m.mask] = flags.data();
  if (c.mask == Case::Mask::added) memory[m.mask] = added.data();
  run_decode(kernel, parts, plan, writes, memory, {m.position}, result);
  CHECK(std::memcmp(cache_k.data(), k.data(), 2 * k.size()) == 0);
  CHECK(std::memcmp(cache_v.data(), v.data(), 2 * v.size()) == 0);

  double worst = 0;
  for (std::int64_t b = 0; b < c.batch; ++b) {
    for (std::int64_t h = 0; h < heads; ++h) {
      const std::int64_t kv = h / c.group;
      const auto place = [&](std::int64_t key, std::int64_t i, std::int64_t width) {
        return static_cast<std::size_t>(c.by_place ? ((b * c.keys + key) * c.kv_heads + kv) * width + i
                                                   : ((b * c.kv_heads + kv) * c.keys + key) * width + i);
      };
      for (std::int64_t r = 0; r < c.queries; ++r) {
        std::vector<double> weights;
        double total = 0;
        for (std::int64_t key = 0; key < c.keys; ++key) {
          double x = 0;
          for (std::int64_t f = 0; f < c.features; ++f)
            x += value_of(q[static_cast<std::size_t>(((b * heads + h) * c.queries + r) * c.features + f)], c.dtype) *
                 value_of(k[place(key, f, c.features)], c.dtype);
          x /= std::sqrt(static_cast<double>(c.features)) * (c.negated ? -1 : 1);
          const auto at = static_cast<std::size_t>(r * c.keys + key);
          bool seen = true;
          if (c.mask == Case::Mask::flags) seen = flags[static_cast<std::size_t>(b * c.queries * c.keys) + at] != 0;
          if (c.mask == Case::Mask::added) x += value_of(added[at], c.dtype);
          if (c.mask == Case::Mask::length) seen = key <= position;
          weights.push_back(seen ? std::exp(x) : 0);
          total += weights.back();
        }
        for (std::int64_t i = 0; i < c.columns; ++i) {
          double want = 0;
          for (std::int64_t key = 0; key < c.keys; ++key)
            want += weights[static_cast<std::size_t>(key)] / total * value_of(v[place(key, i, c.columns)], c.dtype);
          const auto at = static_cast<std::size_t>(((b * heads + h) * c.queries + r) * c.columns + i);
          worst = std::max(worst, std::abs(value_of(result[at], c.dtype) - want));
        }
      }
    }
  }
  return worst;
}

}  // namespace

TEST_CASE("few queries over many keys: groups, masks, lengths known on the device, and blocks that share keys") {
  using Mask = Case::Mask;
  const std::vector<Case> cases{
      {.batch = 2, .kv_heads = 2, .group = 4, .keys = 83, .mask = Mask::flags, .plan = {2, 2, 1, 1}},
      {.kv_heads = 3,
       .keys = 150,
       .features = 128,
       .columns = 128,
       .by_place = true,
       .mask = Mask::length,
       .plan = {2, 3, 3, 1}},
      {.kv_heads = 2,
       .group = 4,
       .queries = 3,
       .keys = 49,
       .features = 96,
       .columns = 64,
       .dtype = DType::f16,
       .mask = Mask::added,
       .plan = {1, 2, 2, 1}},
      {.batch = 2, .kv_heads = 1, .group = 2, .keys = 5, .plan = {4, 4, 1, 1}},
      {.batch = 2, .kv_heads = 2, .group = 5, .keys = 90, .mask = Mask::flags, .negated = true, .plan = {3, 1, 2, 1}},
  };
  for (std::size_t i = 0; i < cases.size(); ++i) {
    CAPTURE(i);
    // Half a unit of the last place of what is stored, and of weights.
    CHECK(largest_error(cases[i]) < (cases[i].dtype == DType::f16 ? 2e-3 : 1.2e-2));
  }
}

TEST_CASE("keys and values of its own step are written by the launch that reads them, whatever was asked for before") {
  using Mask = Case::Mask;
  const std::vector<Case> cases{
      {.kv_heads = 2,
       .group = 4,
       .keys = 80,
       .mask = Mask::flags,
       .written = 1,
       .first = 70,
       .early = true,
       .plan = {2, 2, 3, 1}},
      {.batch = 2,
       .kv_heads = 2,
       .group = 2,
       .keys = 90,
       .negated = true,
       .written = 1,
       .early = true,
       .plan = {2, 1, 2, 1}},
      // Several, two of them behind the end of the cache; and rows that a warp asks for only later.
      {.kv_heads = 2,
       .keys = 100,
       .features = 128,
       .columns = 128,
       .written = 4,
       .first = 98,
       .early = true,
       .plan = {1, 2, 1, 1}},
      {.kv_heads = 3,
       .group = 2,
       .keys = 150,
       .dtype = DType::f16,
       .mask = Mask::length,
       .written = 3,
       .first = 62,
       .plan = {2, 2, 2, 1}},
      {.kv_heads = 2,
       .group = 4,
       .keys = 100,
       .mask = Mask::length,
       .written = 1,
       .first = 93,
       .early = true,
       .plan = {2, 2, 3, 1}},
      // No key of its own counts: what is written is kept all the same.
      {.kv_heads = 1, .group = 2, .keys = 64, .mask = Mask::length, .written = 2, .first = 60, .plan = {1, 2, 2, 1}},
  };
  for (std::size_t i = 0; i < cases.size(); ++i) {
    CAPTURE(i);
    CHECK(largest_error(cases[i]) < (cases[i].dtype == DType::f16 ? 2e-3 : 1.2e-2));
  }
}

TEST_CASE("inputs that say which keys count are those of a length, and none of a mask of flags") {
  for (const auto mask : {Case::Mask::length, Case::Mask::flags}) {
    const Made m = graph_of({.kv_heads = 2, .keys = 64, .mask = mask});
    const Kernel kernel = lowered(m);
    const auto parts = attention_of(kernel);
    REQUIRE(parts.has_value());
    const std::vector<int> inputs = inputs_of_end(kernel, *parts);
    if (mask == Case::Mask::flags) {
      CHECK(inputs.empty());
    } else {
      REQUIRE(inputs.size() == 1);
      CHECK(kernel.inputs[static_cast<std::size_t>(inputs[0])].value == m.position);
    }
  }
}

TEST_CASE("writes that a block of attention could not do by itself stay a launch") {
  const auto why = [](const Case& c, const Case& other) {
    const Kernel kernel = lowered(graph_of(c)), scatter = scatter_of(graph_of(other));
    const auto rows = written_rows(kernel, DecodeParts(kernel).decode, scatter, 0, 1);
    return rows ? std::string() : rows.error().message;
  };
  const Case one{.kv_heads = 4, .keys = 64, .written = 1};
  CHECK(why(one, one).empty());
  CHECK(why(one, {.kv_heads = 4, .keys = 80, .written = 1}) == "writes that are no whole keys and values");
  CHECK(why(one, {.kv_heads = 2, .keys = 64, .written = 1}) == "units that the write counts otherwise");
  CHECK(why(one, {.kv_heads = 4, .keys = 64, .written = 9}) == "too many keys at once");
}

TEST_CASE("more rows, other widths and factors that are computed are for another kernel") {
  const auto why = [](const Case& c, const std::function<void(Made&)>& change = {}) {
    Made m = graph_of(c);
    if (change) change(m);
    return why_no_decode(lowered(m));
  };
  CHECK(why({.kv_heads = 2, .group = 4, .keys = 64}).empty());
  CHECK(why({.kv_heads = 2, .group = 4, .queries = 5, .keys = 64}) == "more rows of queries than a fragment has");
  CHECK(why({.kv_heads = 2, .group = 4, .keys = 64, .columns = 96}) == "heads of another width");
  CHECK(why({.kv_heads = 2, .group = 4, .keys = 64, .dtype = DType::f32}) ==
        "queries of another dtype than f16 and bf16");
}

TEST_CASE("queries that are made for attention alone are made by it; what others read, too, is not") {
  for (const bool shown : {false, true}) {
    CAPTURE(shown);
    Made m = graph_of({.kv_heads = 8, .group = 4, .keys = 2048, .features = 128, .columns = 128, .negated = true});
    m.g.output(m.out);
    if (shown) m.g.output(*m.g.graph.nodes[0].outs[0]);
    PartitionOptions options;
    options.limits.contractions = true;
    const auto cut = partition(m.g.graph, options);
    REQUIRE(cut.has_value());
    CHECK(cut->regions.size() == (shown ? 2 : 1));
    const auto attention =
        std::ranges::find_if(cut->regions, [](const Region& r) { return r.kernel.anchor == Anchor::attention; });
    REQUIRE(attention != cut->regions.end());
    CHECK(attention->nodes.size() == (shown ? 1 : 2));
  }
}

TEST_CASE("attention that is written down is one kernel, unless its scores are wanted, too") {
  for (const bool shown : {false, true}) {
    CAPTURE(shown);
    GraphBuilder g;
    const Shape all{2, 8, 1, 512};
    const int q = g.input({2, 8, 1, 64}, DType::bf16), k = g.input({2, 8, 512, 64}, DType::bf16),
              v = g.input({2, 8, 512, 64}, DType::bf16);
    const int turned = g.node("permute.default", {V("self", k), L("dims", {0, 1, 3, 2})}, {2, 8, 64, 512}, DType::bf16,
                              {8 * 512 * 64, 512 * 64, 1, 64});
    const int product = g.node("matmul.default", {V("self", q), V("other", turned)}, all, DType::bf16);
    const int scores = g.node("mul.Tensor", {V("self", product), F("other", 0.125)}, all, DType::bf16);
    const int weights =
        g.node("_softmax.default", {V("self", scores), I("dim", -1), B("half_to_float", false)}, all, DType::bf16);
    g.output(g.node("matmul.default", {V("self", weights), V("other", v)}, {2, 8, 1, 64}, DType::bf16));
    if (shown) g.output(product);
    PartitionOptions options;
    options.limits.contractions = true;
    const auto cut = partition(g.graph, options);
    REQUIRE(cut.has_value());
    const auto count =
        std::ranges::count_if(cut->regions, [](const Region& r) { return r.kernel.anchor == Anchor::attention; });
    CHECK(count == (shown ? 0 : 1));
    // Whatever makes it, every result is there.
    for (const ir::GraphOutput& output : g.graph.outputs) {
      const bool of_region = std::ranges::any_of(
          cut->regions, [&](const Region& r) { return std::ranges::find(r.outputs, output.value) != r.outputs.end(); });
      const bool of_step = std::ranges::any_of(cut->order, [&](const Item& item) {
        return !item.is_region && g.graph.nodes[static_cast<std::size_t>(item.index)].outs[0] == output.value;
      });
      CHECK((of_region || of_step));
    }
  }
}

TEST_CASE("what a product of few rows is made with is not computed by attention again") {
  GraphBuilder g;
  const int x = g.input({4, 512}, DType::bf16), w = g.input({64, 512}, DType::bf16), b = g.input({64}, DType::bf16);
  const int k = g.input({1, 1, 4096, 64}, DType::bf16), v = g.input({1, 1, 4096, 64}, DType::bf16);
  const int q = g.node("linear.default", {V("input", x), V("weight", w), N("bias")}, {4, 64}, DType::bf16);
  const int sum = g.node("add.Tensor", {V("self", q), V("other", b), I("alpha", 1)}, {4, 64}, DType::bf16);
  const int seen = g.node("view.default", {V("self", sum), L("size", {1, 1, 4, 64})}, {1, 1, 4, 64}, DType::bf16);
  g.output(g.node("scaled_dot_product_attention.default", {V("query", seen), V("key", k), V("value", v)}, {1, 1, 4, 64},
                  DType::bf16));
  PartitionOptions options;
  options.limits.contractions = true;
  const auto cut = partition(g.graph, options);
  REQUIRE(cut.has_value());
  std::set<int> computed;
  for (const Region& region : cut->regions)
    for (const int n : region.nodes)
      if (g.graph.nodes[static_cast<std::size_t>(n)].op != "aten.view.default") CHECK(computed.insert(n).second);
}

TEST_CASE("the schedule of such attention fills the device once, and takes what a genome says") {
  const Kernel kernel = lowered(graph_of({.kv_heads = 8, .group = 4, .keys = 2048, .features = 128, .columns = 128}));
  const Device device = h200();
  const auto first = seeds(kernel, device);
  REQUIRE_FALSE(first.empty());
  CHECK(gene(first.front(), "split", 0) * 8 <= device.sms);
  for (const Genome& genome : first) {
    const auto emitted = emit(kernel, device, genome);
    REQUIRE_MESSAGE(emitted.has_value(), (emitted ? "" : emitted.error().message));
    // A few keys: a block a multiprocessor, which leaves room for another launch's.
    CHECK(emitted->grid[0] == device.sms);
    CHECK(emitted->shared == printing::half_shared(device));
    REQUIRE(emitted->early.has_value());
    CHECK(emitted->early->empty());
    CHECK(emitted->scratch_bytes.size() == (gene(genome, "split", 1) > 1 ? 2 : 0));
  }
  // Many keys: as many blocks as share them.
  const Kernel many = lowered(graph_of({.kv_heads = 8, .group = 4, .keys = 65536, .features = 128, .columns = 128}));
  for (const Genome& genome : seeds(many, device)) {
    const auto emitted = emit(many, device, genome);
    REQUIRE(emitted.has_value());
    CHECK(emitted->grid[0] == 8 * gene(genome, "split", 1));
  }
  // Without a group there is one row, of no variable.
  CHECK_FALSE(seeds(lowered(graph_of({.kv_heads = 4, .keys = 512})), device).empty());
}
