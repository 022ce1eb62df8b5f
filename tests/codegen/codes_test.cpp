// Weights that a graph computes of 8 and 4 stored bits: which forms are taken apart how, that no kernel of its own
// dequantises them, and that the printed kernels are right, run on a CPU as in skinny_kernel_test.cpp.
#include "codegen/skinny/codes.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "codegen/compiled.h"
#include "codegen/compose/compose.h"
#include "codegen/device/device_files.h"
#include "codegen/devices.h"
#include "codegen/emit/expression.h"
#include "codegen/emit/float8.h"
#include "codegen/graph_builder.h"
#include "codegen/half_numbers.h"
#include "codegen/lower/lower.h"
#include "codegen/partition/partition.h"
#include "codegen/skinny/cuda_skinny.h"
#include "codegen/templates/template.h"

namespace planish::codegen {
namespace {

using skinny::Codes;

constexpr std::int64_t features = 1024, depth = 1024, tokens = 3;

/// A linear layer [tokens, depth] → [tokens, features] in bf16, and its inputs' values, by input.
struct Layer : GraphBuilder {
  int x = -1, codes = -1, scale = -1, zero = -1, table = -1;
  std::int64_t group = depth;

  int as_bf16(int v) { return node("_to_copy", {V("self", v)}, shape(v), DType::bf16); }
  Shape shape(int v) const { return graph.values[static_cast<std::size_t>(v)].shape; }
  DType dtype(int v) const { return graph.values[static_cast<std::size_t>(v)].dtype; }
  int viewed(int v, const Shape& to) { return node("view", {V("self", v), L("size", to)}, to, dtype(v)); }
  int grouped(int v) { return viewed(v, {features, depth / group, group}); }
  int with(const std::string& op, int a, int b, DType dtype = DType::bf16) {
    return node(op + ".Tensor", {V("self", a), V("other", b)}, shape(a), dtype);
  }
  int masked(int v) { return node("bitwise_and.Scalar", {V("self", v), I("other", 15)}, shape(v), dtype(v)); }
  int moved(int v, const char* way, int by) {
    return node(fmt::format("bitwise_{}_shift.Tensor_Scalar", way), {V("self", v), I("other", by)}, shape(v), dtype(v));
  }
  int beside(int a, int b) {
    Shape both = shape(a);
    both.push_back(2);
    const int pairs = node("stack", {VS("tensors", {a, b}), I("dim", -1)}, both, dtype(a));
    return viewed(pairs, {features, depth});
  }
  int factor(DType dtype = DType::bf16) { return scale = input({features, depth / group, 1}, dtype); }
  int row_factor(DType dtype) { return scale = input({features, 1}, dtype); }
  int shifts() { return node("arange.start_step", {I("start", 0), I("end", 32), I("step", 4)}, {8}, DType::i32); }
  /// Codes of words, whose place in the word is a dim of its own, behind the others or before the last one.
  int unpacked(int words, bool behind) {
    Shape one = shape(words), all = one;
    const auto at = static_cast<std::ptrdiff_t>(behind ? one.size() : one.size() - 1);
    one.insert(one.begin() + at, 1), all.insert(all.begin() + at, 8);
    const int word = node("unsqueeze", {V("self", words), I("dim", at)}, one, DType::i32);
    const int by = behind ? shifts() : node("unsqueeze", {V("self", shifts()), I("dim", -1)}, {8, 1}, DType::i32);
    return masked(node("bitwise_right_shift.Tensor", {V("self", word), V("other", by)}, all, DType::i32));
  }
  /// Codes of words [rows, columns / 8] whose nibbles are those of columns 0, 2, 4, 6, 1, 3, 5 and 7.
  int interleaved(int words) {
    const std::int64_t rows = shape(words)[0], columns = shape(words)[1] * 8;
    const int halves = viewed(unpacked(words, true), {rows, columns / 8, 2, 4});
    const Shape turned{rows, columns / 8, 4, 2};
    const int order =
        node("permute", {V("self", halves), L("dims", {0, 1, 3, 2})}, turned, DType::i32, {columns, 8, 1, 4});
    return viewed(node("clone", {V("self", order)}, turned, DType::i32), {rows, columns});
  }
  void product(int w) { output(node("mm", {V("self", x), V("mat2", w)}, {tokens, features}, DType::bf16)); }
  void linear(int w) { output(node("linear", {V("input", x), V("weight", w)}, {tokens, features}, DType::bf16)); }
};

struct Form {
  std::string name;
  std::function<void(Layer&)> build;
  Codes::Form form;
  Codes::Scale scaled;
  int bits;
  /// The code of an element, of the stored bytes.
  std::function<double(const unsigned char* stored, std::int64_t n, std::int64_t k)> code;
  double zero = 0;      ///< what is taken off beside the loaded zero point
  bool turned = false;  ///< scales and zero points lie by group and then by row, zero points in words and
  int less = 1;         ///< less that much
  std::array<int, 8> rows{0, 1, 2, 3, 4, 5, 6, 7};  ///< of the zero points of a word: whose each is
};

double low_first(const unsigned char* stored, std::int64_t n, std::int64_t k) {
  return stored[n * depth / 2 + k / 2] >> (k % 2 * 4) & 15;
}
double high_first(const unsigned char* stored, std::int64_t n, std::int64_t k) {
  return stored[n * depth / 2 + k / 2] >> ((k + 1) % 2 * 4) & 15;
}
double beside_others(const unsigned char* stored, std::int64_t n, std::int64_t k) {
  return stored[(k / 8 * features + n) * 4 + k % 8 / 2] >> (k % 2 * 4) & 15;
}
/// A table of 16 numbers.
double looked_up(int code) {
  return (code - 7) * std::abs(code - 7) / 64.0;
}
double two_complement(const unsigned char* stored, std::int64_t n, std::int64_t k) {
  const double v = low_first(stored, n, k);
  return v < 8 ? v : v - 16;
}
double of_e4m3(unsigned c) {
  const unsigned exponent = c >> 3 & 15, fraction = c & 7;
  const double size =
      exponent == 0 ? std::ldexp(fraction, -9) : std::ldexp(8 + fraction, static_cast<int>(exponent) - 10);
  return c >= 128 ? -size : size;
}

/// Whose codes, one after the other along k, mean themselves.
const std::vector<Form>& plain_forms() {
  const auto as_i8 = [](const unsigned char* stored, std::int64_t n, std::int64_t k) {
    return static_cast<double>(static_cast<signed char>(stored[n * depth + k]));
  };
  const auto as_u8 = [](const unsigned char* stored, std::int64_t n, std::int64_t k) {
    return static_cast<double>(stored[n * depth + k]);
  };
  static const std::vector<Form> all{
      {"int8, a scale a row",
       [](Layer& l) {
         l.linear(l.with("mul", l.as_bf16(l.codes = l.input({features, depth}, DType::i8)), l.row_factor(DType::bf16)));
       },
       Codes::Form::i8, Codes::Scale::row, 8, as_i8},
      {"e4m3, a scale a row in f32",
       [](Layer& l) {
         l.codes = l.input({features, depth}, DType::f8_e4m3);
         const int wide = l.node("_to_copy", {V("self", l.codes)}, {features, depth});
         l.linear(l.as_bf16(l.with("mul", wide, l.row_factor(DType::f32), DType::f32)));
       },
       Codes::Form::e4m3, Codes::Scale::row, 8,
       [](const unsigned char* stored, std::int64_t n, std::int64_t k) { return of_e4m3(stored[n * depth + k]); }},
      {"int8 in groups of 128",
       [](Layer& l) {
         l.group = 128;
         l.codes = l.input({features, depth}, DType::i8);
         l.linear(l.viewed(l.with("mul", l.as_bf16(l.grouped(l.codes)), l.factor()), {features, depth}));
       },
       Codes::Form::i8, Codes::Scale::step, 8, as_i8},
      {"uint8 with a zero point, in groups of 32",
       [](Layer& l) {
         l.group = 32;
         l.codes = l.input({features, depth}, DType::u8);
         l.zero = l.input({features, depth / 32, 1}, DType::bf16);
         const int off = l.with("sub", l.as_bf16(l.grouped(l.codes)), l.zero);
         l.linear(l.viewed(l.with("mul", off, l.factor()), {features, depth}));
       },
       Codes::Form::u8, Codes::Scale::piece, 8, as_u8},
      {"nibbles of bytes less 8, in groups of 128",
       [](Layer& l) {
         l.group = 128;
         l.codes = l.input({features, depth / 2}, DType::u8);
         const int q = l.beside(l.masked(l.codes), l.moved(l.codes, "right", 4));
         const int wide = l.as_bf16(l.grouped(q));
         const int off = l.node("sub.Tensor", {V("self", wide), I("other", 8)}, l.shape(wide), DType::bf16);
         l.linear(l.viewed(l.with("mul", off, l.factor()), {features, depth}));
       },
       Codes::Form::nibbles, Codes::Scale::step, 4, low_first, 8},
      {"nibbles of bytes, the upper ones first, in groups of 64",
       [](Layer& l) {
         l.group = 64;
         l.codes = l.input({features, depth / 2}, DType::u8);
         const int q = l.beside(l.moved(l.codes, "right", 4), l.masked(l.codes));
         l.linear(l.viewed(l.with("mul", l.as_bf16(l.grouped(q)), l.factor()), {features, depth}));
       },
       Codes::Form::nibbles, Codes::Scale::piece, 4, high_first},
      {"nibbles of words with a zero point, in groups of 128",
       [](Layer& l) {
         l.group = 128;
         l.codes = l.input({features, depth / 8}, DType::i32);
         l.zero = l.input({features, depth / 128, 1}, DType::bf16);
         const int word = l.node("unsqueeze", {V("self", l.codes), I("dim", -1)}, {features, depth / 8, 1}, DType::i32);
         const int shifts = l.node("arange.start_step", {I("start", 0), I("end", 32), I("step", 4)}, {8}, DType::i32);
         const int moved = l.node("bitwise_right_shift.Tensor", {V("self", word), V("other", shifts)},
                                  {features, depth / 8, 8}, DType::i32);
         const int off = l.with("sub", l.as_bf16(l.grouped(l.masked(moved))), l.zero);
         l.linear(l.viewed(l.with("mul", off, l.factor()), {features, depth}));
       },
       Codes::Form::nibbles, Codes::Scale::step, 4, low_first},
      {"nibbles of two's complement, a scale a row",
       [](Layer& l) {
         l.codes = l.input({features, depth / 2}, DType::i8);
         const int q = l.beside(l.moved(l.moved(l.codes, "left", 4), "right", 4), l.moved(l.codes, "right", 4));
         l.linear(l.with("mul", l.as_bf16(q), l.row_factor(DType::bf16)));
       },
       Codes::Form::nibbles, Codes::Scale::row, 4, two_complement},
      {"nibbles with scales in f32, in groups of 32",
       [](Layer& l) {
         l.group = 32;
         l.codes = l.input({features, depth / 2}, DType::u8);
         const int q = l.beside(l.masked(l.codes), l.moved(l.codes, "right", 4));
         const int wide = l.node("_to_copy", {V("self", l.grouped(q))}, {features, depth / 32, 32});
         l.linear(l.viewed(l.as_bf16(l.with("mul", wide, l.factor(DType::f32), DType::f32)), {features, depth}));
       },
       Codes::Form::computed, Codes::Scale::none, 4, low_first},
      {"squares of codes, a scale a row",
       [](Layer& l) {
         l.codes = l.input({features, depth}, DType::u8);
         const int wide = l.node("_to_copy", {V("self", l.codes)}, {features, depth});
         const int square = l.with("mul", wide, wide, DType::f32);
         l.linear(l.as_bf16(l.with("mul", square, l.row_factor(DType::f32), DType::f32)));
       },
       Codes::Form::computed, Codes::Scale::row, 8,
       [](const unsigned char* stored, std::int64_t n, std::int64_t k) {
         return std::pow(static_cast<double>(stored[n * depth + k]), 2);
       }},
  };
  return all;
}

/// Words that lie beside those of other rows (GPTQ), words of eight rows (AWQ), groups in no order (GPTQ's `g_idx`),
/// and codes that a table means (nf4).
std::vector<Form> other_forms() {
  return {{"nibbles of words beside those of other rows, with zero points in words, in groups of 128",
           [](Layer& l) {
             l.group = 128;
             l.codes = l.input({depth / 8, features}, DType::i32);
             l.zero = l.input({depth / 128, features / 8}, DType::i32);
             l.scale = l.input({depth / 128, features}, DType::bf16);
             const Shape groups{depth / 128, 1, features};
             const int zeros = l.viewed(l.unpacked(l.zero, true), groups);
             const int more = l.node("add.Tensor", {V("self", zeros), I("other", 1)}, groups, DType::i32);
             const Shape whole{depth / 128, 128, features};
             const int q = l.viewed(l.unpacked(l.codes, false), whole);
             const int off = l.node("sub.Tensor", {V("self", q), V("other", more)}, whole, DType::i32);
             const int factor = l.viewed(l.scale, groups);
             l.product(l.viewed(l.node("mul.Tensor", {V("self", factor), V("other", off)}, whole, DType::bf16),
                                {depth, features}));
           },
           Codes::Form::nibbles, Codes::Scale::step, 4, beside_others, 0, true},
          {"words of eight rows, with zero points alike, in groups of 128",
           [](Layer& l) {
             l.group = 128;
             l.codes = l.input({depth, features / 8}, DType::i32);
             l.zero = l.input({depth / 128, features / 8}, DType::i32);
             l.scale = l.input({depth / 128, features}, DType::bf16);
             const Shape whole{depth / 128, 128, features}, groups{depth / 128, 1, features};
             const int q = l.viewed(l.interleaved(l.codes), whole), zeros = l.viewed(l.interleaved(l.zero), groups);
             const int off = l.node("sub.Tensor", {V("self", q), V("other", zeros)}, whole, DType::i32);
             l.product(l.viewed(
                 l.node("mul.Tensor", {V("self", off), V("other", l.viewed(l.scale, groups))}, whole, DType::bf16),
                 {depth, features}));
           },
           Codes::Form::nibbles,
           Codes::Scale::step,
           4,
           [](const unsigned char* stored, std::int64_t n, std::int64_t k) {
             const std::int64_t nibble = n % 8 / 2 + n % 2 * 4;
             return static_cast<double>(stored[(k * features + n) / 8 * 4 + nibble / 2] >> (nibble % 2 * 4) & 15);
           },
           0,
           true,
           0,
           {0, 2, 4, 6, 1, 3, 5, 7}},
          {"words beside those of other rows, whose groups another tensor says",
           [](Layer& l) {
             l.group = 128;
             l.codes = l.input({depth / 8, features}, DType::i32);
             l.scale = l.input({depth / 128, features}, DType::bf16);
             l.table = l.input({depth}, DType::i64);
             const Shape whole{depth, features};
             const int q = l.viewed(l.unpacked(l.codes, false), whole);
             const int factor =
                 l.node("index.Tensor", {V("self", l.scale), VS("indices", {l.table})}, whole, DType::bf16);
             const int off = l.node("sub.Tensor", {V("self", q), I("other", 8)}, whole, DType::i32);
             l.product(l.node("mul.Tensor", {V("self", factor), V("other", off)}, whole, DType::bf16));
           },
           Codes::Form::computed, Codes::Scale::none, 4, beside_others, 8, true},
          {"codes of a table, in groups of 64",
           [](Layer& l) {
             l.group = 64;
             l.codes = l.input({features * depth / 2, 1}, DType::u8);
             l.table = l.input({16});
             const int high = l.moved(l.codes, "right", 4), low = l.masked(l.codes);
             const int pairs =
                 l.node("stack", {VS("tensors", {high, low}), I("dim", -1)}, {features * depth / 2, 1, 2}, DType::u8);
             const Shape whole{features, depth / 64, 64};
             const int wide = l.node("_to_copy", {V("self", l.viewed(pairs, whole))}, whole, DType::i64);
             const int value = l.node("index.Tensor", {V("self", l.table), VS("indices", {wide})}, whole);
             l.linear(l.viewed(l.as_bf16(l.with("mul", value, l.factor(DType::f32), DType::f32)), {features, depth}));
           },
           Codes::Form::computed, Codes::Scale::none, 4,
           [](const unsigned char* stored, std::int64_t n, std::int64_t k) {
             return looked_up(static_cast<int>(high_first(stored, n, k)));
           }}};
}

const std::vector<Form>& forms() {
  static const std::vector<Form> all = [] {
    std::vector<Form> found = other_forms();
    found.insert(found.end(), plain_forms().begin(), plain_forms().end());
    return found;
  }();
  return all;
}

/// The kernel that is a layer's only one.
Kernel only_kernel(const Form& form, Layer& layer) {
  layer.x = layer.input({tokens, depth}, DType::bf16);
  form.build(layer);
  PartitionOptions options;
  options.limits.contractions = true;
  const auto cut = partition(layer.graph, options);
  REQUIRE_MESSAGE(cut.has_value(), cut.error().message);
  LowerLimits limits;
  limits.contractions = true;
  const std::array<int, 1> outputs{layer.graph.outputs[0].value};
  const auto whole = lower(layer.graph, std::vector<bool>(layer.graph.nodes.size(), true), outputs, limits);
  REQUIRE_MESSAGE(whole.has_value(), whole.error().message);
  const auto why = skinny_of(*whole);
  REQUIRE_MESSAGE(cut->order.size() == 1, (why ? std::string("not fused") : why.error().message));
  return cut->regions[0].kernel;
}

TEST_CASE("weights of 8 and 4 bits are part of the product that reads them, whatever packs them") {
  for (const Form& form : forms()) {
    CAPTURE(form.name);
    Layer layer;
    const Kernel kernel = only_kernel(form, layer);
    const auto found = skinny_of(kernel);
    REQUIRE_MESSAGE(found.has_value(), found.error().message);
    REQUIRE(found->codes() != nullptr);
    CHECK(found->codes()->form == form.form);
    CHECK(found->codes()->scaled == form.scaled);
    CHECK(found->codes()->bits == form.bits);
    CHECK(found->codes()->zeroed == (layer.zero >= 0));
    CHECK((found->codes()->pitch > 0) == form.turned);
    CHECK(template_of(kernel).name() == "skinny");
    const auto guesses = seeds(kernel, h200());
    REQUIRE_FALSE(guesses.empty());
    const auto emitted = emit(kernel, h200(), guesses.front());
    REQUIRE_MESSAGE(emitted.has_value(), emitted.error().message);
    // As many bytes under way as of weights in 16 bits, in as many steps fewer.
    CHECK(emitted->source.find(fmt::format("bits = {}", form.bits)) != std::string::npos);
    // However codes take k apart, x lies along it and is read 16 bytes at a time.
    CHECK(emitted->source.find("= load_visible_16(in") != std::string::npos);
    if (const char* folder = std::getenv("PLANISH_SOURCES"); folder != nullptr)
      std::ofstream(fmt::format("{}/codes_{}.cu", folder, &form - forms().data())) << emitted->source;
  }
}

/// A linear layer of x with int4 weights [rows, depth] and a scale for each 128 of k.
int int4_linear(Layer& layer, std::int64_t rows) {
  const Shape whole{rows, depth}, groups{rows, depth / 128, 128};
  const int bytes = layer.input({rows, depth / 2}, DType::u8), scale = layer.input({rows, depth / 128, 1}, DType::bf16);
  const int pairs =
      layer.node("stack", {VS("tensors", {layer.masked(bytes), layer.moved(bytes, "right", 4)}), I("dim", -1)},
                 {rows, depth / 2, 2}, DType::u8);
  const int scaled = layer.with("mul", layer.viewed(layer.as_bf16(pairs), groups), scale);
  return layer.node("linear", {V("input", layer.x), V("weight", layer.viewed(scaled, whole))}, {tokens, rows},
                    DType::bf16);
}

TEST_CASE("gate and up in codes are one kernel with what reads them") {
  Layer layer;
  layer.x = layer.input({tokens, depth}, DType::bf16);
  const int gate = int4_linear(layer, features), up = int4_linear(layer, features);
  const int silu = layer.node("silu", {V("self", gate)}, {tokens, features}, DType::bf16);
  const int residual = layer.input({tokens, features}, DType::bf16);
  layer.output(layer.with("add", residual, layer.with("mul", silu, up)));
  PartitionOptions options;
  options.limits.contractions = true;
  const auto cut = partition(layer.graph, options);
  REQUIRE_MESSAGE(cut.has_value(), cut.error().message);
  REQUIRE(cut->order.size() == 1);
  const auto found = skinny_of(cut->regions[0].kernel);
  REQUIRE_MESSAGE(found.has_value(), found.error().message);
  CHECK(found->parts.size() == 2);
  CHECK(found->codes() != nullptr);
  const Kernel& kernel = cut->regions[0].kernel;
  const auto emitted = emit(kernel, h200(), seeds(kernel, h200()).front());
  REQUIRE_MESSAGE(emitted.has_value(), emitted.error().message);
  const std::string& source = emitted->source;
  CHECK(source.find("= load_visible_16(in") != std::string::npos);
  // The residual of a block's rows is asked for at its beginning.
  CHECK(source.find("(last - first) * 2, threadIdx.x") != std::string::npos);
}

TEST_CASE("a scale of rows that multiplies sums is brought to its type where they are") {
  const auto launches = [](bool bias) {
    Layer layer;
    layer.x = layer.input({tokens, depth}, DType::bf16);
    const int codes = layer.input({features, depth}, DType::i8);
    const int scale = layer.as_bf16(layer.input({features, 1}));  // stored in f32
    const int turned =
        layer.node("permute", {V("self", codes), L("dims", {1, 0})}, {depth, features}, DType::i8, {1, depth});
    int sums =
        layer.node("mm", {V("self", layer.x), V("mat2", layer.as_bf16(turned))}, {tokens, features}, DType::bf16);
    sums = layer.with("mul", sums, layer.viewed(scale, {features}));
    if (bias) sums = layer.with("add", sums, layer.as_bf16(layer.input({features})));
    layer.output(sums);
    PartitionOptions options;
    options.limits.contractions = true;
    const auto cut = partition(layer.graph, options);
    REQUIRE_MESSAGE(cut.has_value(), cut.error().message);
    const auto found = skinny_of(cut->regions.back().kernel);
    REQUIRE_MESSAGE(found.has_value(), found.error().message);
    CHECK(found->codes() != nullptr);
    return cut->order.size();
  };
  CHECK(launches(false) == 1);
  CHECK(launches(true) == 1);
}

TEST_CASE("products in codes that share a launch have tables for the blocks that each has there") {
  Layer layer;
  layer.x = layer.input({tokens, depth}, DType::bf16);
  layer.output(int4_linear(layer, 4 * features));
  layer.output(int4_linear(layer, features));
  PartitionOptions options;
  options.limits.contractions = true;
  const auto cut = partition(layer.graph, options);
  REQUIRE_MESSAGE(cut.has_value(), cut.error().message);
  REQUIRE(cut->regions.size() == 2);
  std::vector<Choice> choices;
  for (const Region& region : cut->regions) {
    const Genome genome{{"threads", 256},         {"rows", 16}, {"stages", 3}, {"min_blocks", 2}, {"residency", 2},
                        {"operand_residency", 1}, {"fast", 0}};
    auto emitted = emit(region.kernel, h200(), genome);
    REQUIRE_MESSAGE(emitted.has_value(), emitted.error().message);
    CHECK(emitted->source.find("table = true") != std::string::npos);
    const auto same = emitted->shared_by(132, emitted->block[0]);
    REQUIRE(same);
    CHECK(same->bytes == emitted->shared);
    CHECK(same->source == emitted->source);
    CHECK_FALSE(emitted->shared_by(1, emitted->block[0]));  // the scales of 1,024 rows and more
    choices.emplace_back(std::move(*emitted));
  }
  const auto whole = compose(layer.graph, *cut, choices, h200());
  REQUIRE(whole.has_value());
  REQUIRE(whole->steps.size() == 1);
  const auto& launch = std::get<program::Launch>(whole->steps[0]);
  const std::string& source = whole->kernels[static_cast<std::size_t>(launch.kernel)].source;
  const long share = std::lround(132 * 0.8);
  CHECK(source.find(fmt::format("blocks = {},", share)) != std::string::npos);
  CHECK(source.find(fmt::format("blocks = {},", 132 - share)) != std::string::npos);
}

TEST_CASE("what is no run of codes is refused with the reason") {
  const auto refused = [](const std::function<void(Layer&)>& build) {
    Layer layer;
    layer.x = layer.input({tokens, depth}, DType::bf16);
    build(layer);
    LowerLimits limits;
    limits.contractions = true;
    const std::array<int, 1> outputs{layer.graph.outputs[0].value};
    const auto kernel = lower(layer.graph, std::vector<bool>(layer.graph.nodes.size(), true), outputs, limits);
    REQUIRE(kernel.has_value());
    const auto found = skinny_of(*kernel);
    return found ? std::string() : found.error().message;
  };
  // Words along the rows of weights, as some packings have them.
  CHECK(refused([](Layer& l) {
          const int words = l.input({depth, features}, DType::i8);
          const int turned =
              l.node("permute", {V("self", words), L("dims", {1, 0})}, {features, depth}, DType::i8, {1, features});
          l.linear(l.with("mul", l.as_bf16(turned), l.row_factor(DType::bf16)));
        }).find("one after the other") != std::string::npos);
  CHECK(refused([](Layer& l) {
          const int w = l.input({features, depth});
          l.linear(l.as_bf16(l.with("mul", w, l.row_factor(DType::f32), DType::f32)));
        }).find("not quantised") != std::string::npos);
}

// ---- on a CPU ----

std::string run_text(std::size_t i, const Kernel& kernel, const Skinny& product, const SkinnyPlan& plan) {
  const auto printed = skinny::print(kernel, product, plan);
  const std::size_t begin = printed.source.find(skinny::begin_of_policy),
                    end = printed.source.find(skinny::begin_of_entry);
  std::string given;
  for (const int input : printed.inputs)
    given += fmt::format("(const {}*)p[{}], ",
                         printing::storage_type(kernel.inputs[static_cast<std::size_t>(input)].dtype), input);
  return fmt::format("namespace form{} {{\n{}}}\n", i, printed.source.substr(begin, end - begin)) +
         fmt::format(R"(extern "C" int run_{0}(void** p, const size_t* bytes, int count) {{
  const form{0}::Policy::Args args{{{1}(unsigned short*)p[count - 1]}};
  return emu_launch([&] {{ skinny_product<form{0}::Policy>(args, emu::block->dynamic.data(), blockIdx.x, {2}); }}, {2}, {3}, 1, false,
                    SkinnyLayout<form{0}::Policy>::shared_bytes, p, bytes, count);
}}
)",
                     i, given, plan.blocks, plan.warps * 32);
}

/// The group of a place of k, where another tensor says it: each place has one of another neighbourhood.
std::int64_t drawn_group(std::int64_t k) {
  return (k * 37 + 11) % (depth / 128);
}

void fill_table(std::vector<unsigned char>& bytes) {
  if (bytes.size() == static_cast<std::size_t>(depth) * 8) {
    for (std::int64_t k = 0; k < depth; ++k) {
      const std::int64_t group = drawn_group(k);
      std::memcpy(&bytes[static_cast<std::size_t>(k) * 8], &group, 8);
    }
    return;
  }
  for (int code = 0; code < 16; ++code) {
    const auto value = static_cast<float>(looked_up(code));
    std::memcpy(&bytes[static_cast<std::size_t>(code) * 4], &value, 4);
  }
}

/// Words of nibbles, each as much less as the form says than what is taken off.
std::vector<double> fill_zero_points(const Form& form, std::vector<unsigned char>& bytes,
                                     const std::function<unsigned()>& draw) {
  std::vector<double> zeros(bytes.size() * 2);
  for (auto& byte : bytes) byte = static_cast<unsigned char>(draw());
  for (std::size_t i = 0; i < zeros.size(); ++i)
    zeros[i / 8 * 8 + static_cast<std::size_t>(form.rows[i % 8])] = (bytes[i / 2] >> (i % 2 * 4) & 15) + form.less;
  return zeros;
}

TEST_CASE("printed products of weights in 8 and 4 bits are right on a CPU") {
  const std::array<DeviceFile, 1> instead{{{"sm90/ptx.cuh", "#include <skinny_cpu.h>\n"}}};
  const std::array<std::string_view, 1> names{"sm90/skinny.cuh"};
  std::vector<Layer> layers(forms().size());
  std::vector<Kernel> kernels;
  std::string policies, elements;
  for (std::size_t i = 0; i < forms().size(); ++i) {
    kernels.push_back(only_kernel(forms()[i], layers[i]));
    const auto product = skinny_of(kernels.back());
    REQUIRE(product.has_value());
    SkinnyPlan plan;
    plan.tiles = i % 2 == 0 && !forms()[i].turned ? 1 : 2;
    plan.warps = 4;
    plan.stages = 3;
    plan.blocks = 2;
    plan.x_shared = i % 3 != 1;
    plan.table = i % 4 != 3 && product->codes()->table_pieces();
    policies += run_text(i, kernels.back(), *product, plan);
    const std::string source = skinny::print(kernels.back(), *product, plan).source;
    const std::size_t from = source.find("PL_DEVICE u16 skinny_half");
    elements = source.substr(from, source.find(skinny::begin_of_policy) - from);
  }
  std::string source = "#include <bit>\n#include <cmath>\n#include <cstdint>\n" + device_text(names, instead) +
                       std::string(printing::prelude(false)) + std::string(printing::float8_prelude()) + elements +
                       policies;
  const Compiled compiled(source, fmt::format("-std=c++20 -O1 -w -I{}/tests/codegen/tools", PLANISH_SOURCE_DIR));
  for (std::size_t i = 0; i < forms().size(); ++i) {
    const Form& form = forms()[i];
    const Layer& layer = layers[i];
    CAPTURE(form.name);
    // Values of each input of the kernel, and what they mean.
    std::vector<std::vector<unsigned char>> memory;
    std::vector<double> x, scales, zeros;
    const unsigned char* stored = nullptr;
    unsigned state = 12345;
    const auto draw = [&] { return (state = state * 1664525U + 1013904223U) >> 16; };
    for (const Input& input : kernels[i].inputs) {
      const auto count = static_cast<std::size_t>(input.storage_elements),
                 size = static_cast<std::size_t>(size_of(input.dtype));
      auto& bytes = memory.emplace_back(count * size);
      if (input.value == layer.codes) {
        for (auto& byte : bytes)
          byte = static_cast<unsigned char>(input.dtype == DType::f8_e4m3 ? draw() & 0xb7U : draw());
        continue;
      }
      if (input.value == layer.table) {
        fill_table(bytes);
        continue;
      }
      if (input.value == layer.zero && input.dtype == DType::i32) {
        zeros = fill_zero_points(form, bytes, draw);
        continue;
      }
      std::vector<double>& meaning = input.value == layer.x ? x : input.value == layer.scale ? scales : zeros;
      for (std::size_t e = 0; e < count; ++e) {
        const double value = input.value == layer.x       ? static_cast<double>(draw() % 512) / 256 - 1
                             : input.value == layer.scale ? static_cast<double>(1 + draw() % 64) / 1024
                                                          : static_cast<double>(draw() % 16);
        if (input.dtype == DType::f32) {
          const auto narrow = static_cast<float>(value);
          std::memcpy(&bytes[e * 4], &narrow, 4);
          meaning.push_back(narrow);
        } else {
          const std::uint16_t narrow = to_bits(value, DType::bf16);
          std::memcpy(&bytes[e * 2], &narrow, 2);
          meaning.push_back(static_cast<double>(of_bits(narrow, DType::bf16)));
        }
      }
    }
    for (std::size_t e = 0; e < memory.size(); ++e)
      if (kernels[i].inputs[e].value == layer.codes) stored = memory[e].data();
    memory.emplace_back(static_cast<std::size_t>(tokens * features) * 2);
    std::vector<void*> pointers;
    std::vector<std::size_t> sizes;
    for (auto& bytes : memory) pointers.push_back(bytes.data()), sizes.push_back(bytes.size());
    const auto run = compiled.function<int(void**, const std::size_t*, int)>(fmt::format("run_{}", i));
    CHECK(run(pointers.data(), sizes.data(), static_cast<int>(pointers.size())) == 0);
    int wrong = 0;
    for (std::int64_t n = 0; n < features; n += 5) {
      for (std::int64_t m = 0; m < tokens; ++m) {
        double exact = 0, squares = 0;
        for (std::int64_t k = 0; k < depth; ++k) {
          const std::int64_t group = form.turned && layer.table >= 0 ? drawn_group(k) : k / layer.group;
          const auto g = static_cast<std::size_t>(form.turned ? group * features + n
                                                              : n * (depth / layer.group) + k / layer.group);
          double w = form.code(stored, n, k) - form.zero;
          if (!zeros.empty()) w -= zeros[g];
          const double term = w * scales[g] * x[static_cast<std::size_t>(m * depth + k)];
          exact += term;
          squares += term * term;
        }
        std::uint16_t bits = 0;
        std::memcpy(&bits, &memory.back()[static_cast<std::size_t>(m * features + n) * 2], 2);
        const double got = static_cast<double>(of_bits(bits, DType::bf16));
        if (!(std::abs(got - exact) <= std::abs(exact) / 256 + 0.01 * std::sqrt(squares))) ++wrong;
      }
    }
    CHECK(wrong == 0);
  }
}

}  // namespace
}  // namespace planish::codegen
