#include "codegen/attention/decode.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>

#include "codegen/compiled.h"
#include "codegen/decode_machine.h"
#include "codegen/device/device_files.h"
#include "codegen/devices.h"
#include "codegen/emit/cuda_limits.h"
#include "codegen/emit/expression.h"
#include "codegen/graph_builder.h"
#include "codegen/lower/lower.h"
#include "codegen/partition/partition.h"

using namespace planish;
using namespace planish::codegen;

namespace {

/// One attention: `queries` rows of each head, whose heads come in groups.
struct Case {
  std::int64_t batch = 1, kv_heads = 1, group = 1, queries = 1, keys = 16, features = 64, columns = 64;
  bool by_place = false;  ///< keys lie as [batch, place, head, feature]
  DType dtype = DType::bf16;
  enum class Mask : std::uint8_t { none, flags, added, length } mask = Mask::none;
  bool negated = false;  ///< queries are computed: what is given, times -1
  DecodeTiling plan = {};
};

struct Made {
  GraphBuilder g;
  int q = -1, k = -1, v = -1, mask = -1, position = -1, out = -1;
};

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
  const auto [k, k_seen] = cache(c.features);
  const auto [v, v_seen] = cache(c.columns);
  m.k = k;
  m.v = v;
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
  auto kernel = lower(m.g.graph, std::vector<bool>(m.g.graph.nodes.size(), true), outputs, limits);
  REQUIRE_MESSAGE(kernel.has_value(), (kernel ? "" : kernel.error().message));
  CHECK(kernel->anchor == Anchor::attention);
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

/// Runs the printed kernel on the machine of this folder, and gives the largest difference from the definition.
double largest_error(const Case& c) {
  const Made m = graph_of(c);
  const Kernel kernel = lowered(m);
  const auto parts = attention_of(kernel);
  REQUIRE(parts.has_value());
  const auto decode = decode_of(kernel, *parts);
  REQUIRE_MESSAGE(decode.has_value(), (decode ? "" : decode.error().message));
  CHECK(decode->rows == c.group * c.queries);
  CHECK(decode->units == c.batch * c.kv_heads);
  const DecodeText text = print_decode(kernel, *parts, *decode, c.plan);
  const std::array<DeviceFile, 1> instead{{{"sm90/ptx.cuh", decode_instructions}}};
  const std::array<std::string_view, 1> files{"sm90/decode_attention.cuh"};
  std::string source = "#include <cmath>\n#include <cstdint>\n" + std::string(printing::prelude(false)) +
                       decode_language + device_text(files, instead) + text.printed;
  std::string call;
  for (std::size_t i = 0; i < text.inputs.size(); ++i)
    call += fmt::format("(decltype(P::Args::in{})){}, ", text.inputs[i], fmt::format("args[{}]", i));
  const std::size_t count = text.inputs.size();
  call += fmt::format("(unsigned short*)args[{}]", count);
  if (c.plan.splits > 1) call += fmt::format(", (float*)args[{}], (u32*)args[{}]", count + 1, count + 2);
  CHECK(decode->computed == c.negated);
  const std::int64_t blocks = decode->units * c.plan.splits + 1;  // one has nothing to do
  source += fmt::format("extern \"C\" void run(void** args) {{ run_blocks({}, {}, [=] {{ planish_kernel({}); }}); }}\n",
                        blocks, c.plan.warps * 32, call);
  REQUIRE(decode_shared_bytes(*decode, c.plan) <= (1 << 18));
  const Compiled compiled(source, "-O1 -std=c++20 -w");

  const std::int64_t heads = c.kv_heads * c.group;
  const Memory q = filled(c.batch * heads * c.queries * c.features, 0.37, c.dtype),
               k = filled(c.batch * c.kv_heads * c.keys * c.features, 0.73, c.dtype),
               v = filled(c.batch * c.kv_heads * c.keys * c.columns, 0.29, c.dtype),
               added = filled(c.queries * c.keys, 1.31, c.dtype);
  std::vector<unsigned char> flags;
  for (std::int64_t i = 0; i < c.batch * c.queries * c.keys; ++i) flags.push_back(i % 5 != 2);
  const std::int64_t position = c.keys - 7;
  Memory result(static_cast<std::size_t>(c.batch * heads * c.queries * c.columns), 0x7fc0);
  std::vector<float> partial(static_cast<std::size_t>(blocks * decode_partial_bytes(*decode) / 4), NAN);
  std::vector<unsigned> arrived(static_cast<std::size_t>(decode->units), 0);
  std::vector<const void*> args;
  // Copies want multiples of 16 bytes.
  std::vector<std::vector<unsigned char>> aligned;
  const auto at_sixteen = [&](const void* from, std::size_t bytes) {
    auto& memory = aligned.emplace_back(bytes + 16);
    auto* to = memory.data() + (16 - reinterpret_cast<std::uintptr_t>(memory.data()) % 16) % 16;
    std::memcpy(to, from, bytes);
    return to;
  };
  aligned.reserve(8);
  for (const int input : text.inputs) {
    const int value = kernel.inputs[static_cast<std::size_t>(input)].value;
    if (value == m.q)
      args.push_back(at_sixteen(q.data(), 2 * q.size()));
    else if (value == m.k)
      args.push_back(at_sixteen(k.data(), 2 * k.size()));
    else if (value == m.v)
      args.push_back(at_sixteen(v.data(), 2 * v.size()));
    else if (value == m.position)
      args.push_back(&position);
    else if (c.mask == Case::Mask::flags)
      args.push_back(flags.data());
    else
      args.push_back(added.data());
  }
  args.push_back(result.data());
  args.push_back(partial.data());
  args.push_back(arrived.data());
  const auto run = compiled.function<void(void**)>("run");
  run(const_cast<void**>(args.data()));
  CHECK(std::ranges::all_of(arrived, [](unsigned n) { return n == 0; }));
  const Memory first = result;
  run(const_cast<void**>(args.data()));
  CHECK(result == first);

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

TEST_CASE("more rows, other widths and factors that are computed are for another kernel") {
  const auto why = [](const Case& c, const std::function<void(Made&)>& change = {}) {
    Made m = graph_of(c);
    if (change) change(m);
    const Kernel kernel = lowered(m);
    const auto parts = attention_of(kernel);
    REQUIRE(parts.has_value());
    const auto decode = decode_of(kernel, *parts);
    return decode ? std::string() : decode.error().message;
  };
  CHECK(why({.kv_heads = 2, .group = 4, .keys = 64}).empty());
  CHECK(why({.kv_heads = 2, .group = 4, .queries = 5, .keys = 64}) == "more rows of queries than a fragment has");
  CHECK(why({.kv_heads = 2, .group = 4, .keys = 64, .columns = 96}) == "heads of another width");
  CHECK(why({.kv_heads = 2, .group = 4, .keys = 64, .dtype = DType::f32}) == "keys of another dtype than f16 and bf16");
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
