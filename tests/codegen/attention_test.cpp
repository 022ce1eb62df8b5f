#include "codegen/attention/attention.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "codegen/attention/plan.h"
#include "codegen/attention_samples.h"
#include "codegen/contraction_executor.h"
#include "codegen/interpreter.h"
#include "codegen/partition/fusion_plans.h"
#include "codegen/templates/template.h"

namespace planish::codegen {
namespace {

using samples::attention_sample;
using samples::Heads;
using samples::written_attention_sample;

std::vector<double> numbers(std::size_t count, int seed) {
  std::vector<double> out;
  for (std::size_t i = 0; i < count; ++i)
    out.push_back(std::sin(0.7 * static_cast<double>(i) + seed) * 1.3 + 0.1 * std::cos(0.05 * static_cast<double>(i)));
  return out;
}

std::vector<std::vector<double>> data_for(const Kernel& kernel) {
  std::vector<std::vector<double>> all;
  for (const Input& input : kernel.inputs) {
    auto& mine =
        all.emplace_back(numbers(static_cast<std::size_t>(input.storage_elements), static_cast<int>(input.value)));
    if (input.dtype != DType::boolean) continue;
    for (std::size_t i = 0; i < mine.size(); ++i) mine[i] = i % 3 != 0 && i >= static_cast<std::size_t>(input.shape[1]);
  }
  return all;
}

/// The definition, over (batch, heads, rows, …); inputs in the order q, k, v, mask.
std::vector<double> naive(const Heads& h, const Kernel& kernel, const std::vector<std::vector<double>>& data,
                          bool zeros) {
  const auto of = [&](int value) -> const std::vector<double>& {
    for (std::size_t i = 0; i < kernel.inputs.size(); ++i) {
      if (kernel.inputs[i].value == value) return data[i];
    }
    throw std::runtime_error("an input is missing");
  };
  const std::int64_t keyed = h.keyed > 0 ? h.keyed : h.heads, columns = h.columns > 0 ? h.columns : h.features;
  std::vector<double> out;
  for (std::int64_t b = 0; b < h.batch; ++b)
    for (std::int64_t head = 0; head < h.heads; ++head)
      for (std::int64_t row = 0; row < h.queries; ++row) {
        std::vector<double> x;
        const std::int64_t shared = b * keyed + head / (h.heads / keyed);
        double top = -INFINITY, total = 0;
        for (std::int64_t key = 0; key < h.keys; ++key) {
          double s = 0;
          for (std::int64_t f = 0; f < h.features; ++f)
            s += of(0)[static_cast<std::size_t>(((b * h.heads + head) * h.queries + row) * h.features + f)] *
                 of(1)[static_cast<std::size_t>((shared * h.keys + key) * h.features + f)];
          s /= std::sqrt(static_cast<double>(h.features));
          if (h.causal && key > row) s = -INFINITY;
          if (h.mask == 1 && of(3)[static_cast<std::size_t>(row * h.keys + key)] == 0) s = -INFINITY;
          if (h.mask == 2) s += of(3)[static_cast<std::size_t>((head * h.queries + row) * h.keys + key)];
          x.push_back(s);
          top = std::max(top, s);
        }
        for (double& s : x) total += s = std::exp(s - (zeros && std::isinf(top) ? 0 : top));
        for (std::int64_t c = 0; c < columns; ++c) {
          double sum = 0;
          for (std::int64_t key = 0; key < h.keys; ++key)
            sum += x[static_cast<std::size_t>(key)] *
                   of(2)[static_cast<std::size_t>((shared * h.keys + key) * columns + c)];
          out.push_back(total == 0 && zeros ? 0 : sum / total);
        }
      }
  return out;
}

void check(const Heads& h, bool written) {
  const auto sample = written ? written_attention_sample(h) : attention_sample(h);
  CAPTURE(text(sample.kernel));
  REQUIRE(sample.kernel.anchor == Anchor::attention);
  const auto parts = attention_of(sample.kernel);
  REQUIRE(parts);
  CHECK(parts->scores.depth == h.features);
  CHECK(parts->scores.columns == h.keys);
  CHECK(parts->values.depth == h.keys);
  CHECK(parts->values.columns == (h.columns > 0 ? h.columns : h.features));
  CHECK(parts->scores.batches * parts->scores.rows == h.batch * h.heads * h.queries);
  CHECK(causal_of(sample.kernel, *parts).has_value() == h.causal);
  const auto data = data_for(sample.kernel);
  const auto mine = Interpreter(sample.kernel, data).run()[0], wanted = naive(h, sample.kernel, data, !written);
  REQUIRE(mine.size() == wanted.size());
  for (std::size_t i = 0; i < mine.size(); ++i) CHECK(mine[i] == doctest::Approx(wanted[i]).epsilon(1e-5));
}

TEST_CASE("attention, as an operator and as it is written, is one kernel with two products") {
  check({.batch = 2, .heads = 2, .queries = 3, .keys = 5, .features = 4, .columns = 6}, false);
  check({.batch = 1, .heads = 2, .queries = 4, .keys = 4, .features = 4}, false);
  check({.batch = 2, .heads = 2, .queries = 4, .keys = 6, .features = 3, .causal = true}, false);
  check({.batch = 2, .heads = 4, .keyed = 2, .queries = 4, .keys = 4, .features = 3, .causal = true}, false);
  check({.batch = 2, .heads = 2, .queries = 4, .keys = 5, .features = 3, .mask = 1}, false);
  check({.batch = 2, .heads = 2, .queries = 4, .keys = 5, .features = 3, .mask = 2}, false);
  check({.batch = 2, .heads = 2, .queries = 3, .keys = 5, .features = 4, .columns = 7}, true);
}

TEST_CASE("heads that share keys are rows of one product") {
  const auto sample = attention_sample({.batch = 2, .heads = 6, .keyed = 2, .queries = 8, .keys = 4, .features = 3});
  const auto parts = attention_of(sample.kernel);
  REQUIRE(parts);
  CHECK(parts->scores.batches == 4);
  CHECK(parts->scores.rows == 24);
}

TEST_CASE("written attention is found among the ways to fuse, and the operator is a region of its own") {
  PartitionOptions options;
  options.limits.contractions = true;
  Device device;
  device.target = &backend::cuda();
  device.arch = "sm_90a";
  for (const DType dtype : {DType::f32, DType::bf16}) {
    GraphBuilder g;
    const int q = g.input({4, 6, 8}, dtype), k = g.input({4, 8, 10}, dtype), v = g.input({4, 10, 8}, dtype);
    const int product = g.node("bmm.default", {V("self", q), V("mat2", k)}, {4, 6, 10}, dtype);
    const int scores = g.node("mul.Tensor", {V("self", product), F("other", 0.25)}, {4, 6, 10}, dtype);
    const int weights =
        g.node("_softmax.default", {V("self", scores), I("dim", -1), B("half_to_float", false)}, {4, 6, 10}, dtype);
    const int out = g.node("bmm.default", {V("self", weights), V("mat2", v)}, {4, 6, 8}, dtype);
    g.output(g.node("relu.default", {V("self", out)}, {4, 6, 8}, dtype));
    const auto cut = partition(g.graph, options);
    REQUIRE(cut);
    FusionOptions fusion;
    fusion.limits = options.limits;
    int found = 0;
    for (const FusionPlan& plan : fusion_plans(g.graph, *cut, device, fusion)) {
      if (plan.by.size() != 1 || plan.by[0].kernel.anchor != Anchor::attention) continue;
      CHECK((plan.replaces.size() == 3 || plan.replaces.size() == 4));
      CHECK(fuse_by(g.graph, *cut, {&plan}));
      ++found;
    }
    CHECK(found == 2);  // with the epilogue and without
  }

  GraphBuilder one;
  const int a = one.input({2, 2, 6, 8}), b = one.input({2, 2, 6, 8}), c = one.input({2, 2, 6, 8});
  one.output(
      one.node("scaled_dot_product_attention.default", {V("query", a), V("key", b), V("value", c)}, {2, 2, 6, 8}));
  const auto alone = partition(one.graph, options);
  REQUIRE(alone);
  REQUIRE(alone->regions.size() == 1);
  CHECK(alone->regions[0].kernel.anchor == Anchor::attention);
  CHECK(schedule_of(alone->regions[0].kernel, device)->emit(seeds(alone->regions[0].kernel, device).front()));
  options.limits.contractions = false;
  CHECK(partition(one.graph, options)->regions.empty());
}

TEST_CASE("an attention kernel moves its factors and results, and multiplies twice") {
  const auto sample =
      attention_sample({.batch = 2, .heads = 4, .queries = 64, .keys = 32, .features = 16, .columns = 8});
  const Cost of = cost(sample.kernel);
  CHECK(of.products == 2.0 * 2 * 4 * 64 * 32 * (16 + 8));
  CHECK(of.bytes == 4.0 * 2 * 4 * (64 * 16 + 32 * 16 + 32 * 8 + 64 * 8));
  CHECK(of.tensor_flops == 3 * of.products);
  CHECK(of.flops > of.products);
}

TEST_CASE("of keys that places hide no product is counted") {
  const samples::Heads all{.batch = 2, .heads = 4, .queries = 64, .keys = 64, .features = 16, .dtype = DType::bf16};
  samples::Heads causal = all, window = all;
  causal.causal = true;
  window.window = 10;
  const double whole = cost(attention_sample(all).kernel).products;
  CHECK(whole == 2.0 * 2 * 4 * 64 * 64 * (16 + 16));
  CHECK(cost(attention_sample(causal).kernel).products == doctest::Approx(whole * (64 * 65 / 2) / (64 * 64)));
  CHECK(cost(attention_sample(window).kernel).products == doctest::Approx(whole * (64 * 10 - 45) / (64 * 64)));
}

TEST_CASE("each guess for attention can be emitted, and what no block has room for is said") {
  Device device;
  device.target = &backend::cuda();
  device.arch = "sm_90a";
  for (const auto& sample : samples::attention_samples(true)) {
    const auto guesses = seeds(sample.kernel, device);
    REQUIRE_FALSE(guesses.empty());
    for (const Genome& guess : guesses) {
      const auto emitted = emit(sample.kernel, device, guess);
      REQUIRE(emitted);
      // Of 16 bits it is one launch; of fp32 three pack the factors.
      const bool packs = sample.kernel.outputs[0].dtype == DType::f32;
      CHECK(emitted->after.size() == (packs ? 3 : 0));
      CHECK((packs ? emitted->after.back() : *emitted).shared <= device.shared_bytes);
    }
  }
  const Kernel small = attention_sample({.queries = 8, .keys = 8, .features = 8}).kernel;
  CHECK_FALSE(illegal(small, device, {{"tile_m", 192}, {"tile_n", 16}, {"stages", 2}, {"min_blocks", 1}}).empty());
  device.arch = "sm_80";
  CHECK(seeds(small, device).empty());
}

TEST_CASE("what the tensor core reads of a tile is what packing put there") {
  for (const auto& sample : samples::attention_samples(false)) {
    const auto parts = attention_of(sample.kernel);
    REQUIRE(parts);
    for (const attention::Tiling tiling : {attention::Tiling{1, 48, 2, 1}, attention::Tiling{2, 64, 1, 1}}) {
      const auto layout = attention::layout_of(*parts, tiling);
      const std::int64_t columns = std::int64_t{layout.columns} * layout.column_blocks;
      const std::int64_t keys = parts->scores.columns, depth = parts->scores.depth, wide = parts->values.columns;
      const auto k = contraction::packed(layout.scores, layout.keys, layout.features, keys, depth, 0);
      const auto v = contraction::packed(layout.values, columns, layout.keys, wide, keys, 0);
      const auto q = contraction::packed(layout.scores, layout.rows, layout.features, parts->scores.rows, depth, 0);
      const auto id = [](std::int64_t row, std::int64_t at, std::int64_t rows, std::int64_t length) {
        return row < rows && at < length ? static_cast<std::uint32_t>(1 + row * length + at) * 2 : 0;
      };
      const auto read = [](const contraction::Image& image, std::int64_t copied, int begin,
                           const contraction::Descriptor& by, int row, int at) {
        const int place = contraction::address(contraction::encode(by), by.start - begin, row, at);
        return image.at(static_cast<std::size_t>(copied + place) / 2);
      };
      int wrong = 0;
      for (std::int64_t tile = 0; tile < layout.keys / tiling.keys; ++tile) {
        for (int row = 0; row < tiling.keys; ++row) {
          for (int at = 0; at < layout.features; ++at)
            wrong += read(k, tile * layout.key_bytes, 0, layout.keys_of(0, at / 16 * 16), row, at % 16) !=
                     id(tile * tiling.keys + row, at, keys, depth);
        }
        for (int block = 0; block < layout.column_blocks; ++block) {
          const std::int64_t copied = tile * tiling.keys * columns * 2 + block * std::int64_t{layout.value_bytes};
          for (int row = 0; row < layout.columns; ++row) {
            for (int at = 0; at < tiling.keys; ++at)
              wrong += read(v, copied, 2 * layout.key_bytes, layout.values_of(0, at / 16 * 16), row, at % 16) !=
                       id(block * std::int64_t{layout.columns} + row, tile * tiling.keys + at, wide, keys);
          }
        }
      }
      for (int row = 0; row < layout.scores.bm; ++row) {
        for (int at = 0; at < layout.features; ++at)
          wrong +=
              read(q, 0, 0, layout.queries_of(0, at / 16 * 16), row, at % 16) != id(row, at, parts->scores.rows, depth);
      }
      CHECK(wrong == 0);
      CHECK(layout.stages_at % 128 == 0);
      CHECK(layout.stage_bytes() % 128 == 0);
      CHECK(layout.barriers_at % 8 == 0);
    }
  }
}

TEST_CASE("attention with dropout, of 64 bits or with sums of its own is no such kernel") {
  const auto lowered = [](auto build) {
    GraphBuilder g;
    const std::vector<int> outputs = build(g);
    LowerLimits limits;
    limits.contractions = true;
    return lower(g.graph, std::vector<bool>(g.graph.nodes.size(), true), outputs, limits);
  };
  const auto plain = [](GraphBuilder& g, DType dtype, double dropout) {
    const int q = g.input({2, 4, 3}, dtype), k = g.input({2, 5, 3}, dtype), v = g.input({2, 5, 3}, dtype);
    return std::vector{g.node("scaled_dot_product_attention.default",
                              {V("query", q), V("key", k), V("value", v), F("dropout_p", dropout)}, {2, 4, 3}, dtype)};
  };
  CHECK(lowered([&](GraphBuilder& g) { return plain(g, DType::f32, 0); }));
  CHECK_FALSE(lowered([&](GraphBuilder& g) { return plain(g, DType::f32, 0.5); }));
  CHECK(lowered([&](GraphBuilder& g) { return plain(g, DType::f16, 0); }));
  CHECK_FALSE(lowered([&](GraphBuilder& g) { return plain(g, DType::f64, 0); }));
  CHECK_FALSE(lowered([&](GraphBuilder& g) {  // the scores are wanted too
    const int q = g.input({2, 4, 3}), k = g.input({2, 3, 5}), v = g.input({2, 5, 3});
    const int s = g.node("bmm.default", {V("self", q), V("mat2", k)}, {2, 4, 5});
    const int p = g.node("_softmax.default", {V("self", s), I("dim", -1), B("half_to_float", false)}, {2, 4, 5});
    return std::vector{s, g.node("bmm.default", {V("self", p), V("mat2", v)}, {2, 4, 3})};
  }));
}

}  // namespace
}  // namespace planish::codegen
