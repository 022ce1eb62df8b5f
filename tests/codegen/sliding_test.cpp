#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "codegen/compiled.h"
#include "codegen/contraction/cuda_contraction.h"
#include "codegen/contraction/implicit_operand.h"
#include "codegen/contraction/product.h"
#include "codegen/contraction_samples.h"
#include "codegen/devices.h"
#include "codegen/factor_elements.h"
#include "codegen/partition/fusion_plans.h"
#include "codegen/partition/partition.h"

namespace planish::codegen {
namespace {

using contraction::ImplicitOperand;
using contraction::Operand;
using samples::conv_sample;
using samples::convolution_samples;
using Values = std::vector<std::int64_t>;

/// The point of `by_place` that a stored place stands for; nothing where a row of places ends before.
std::optional<Values> point_of(const Kernel& kernel, const ImplicitOperand& implicit, std::int64_t place,
                               std::int64_t channel) {
  Values at(kernel.space.extents.size(), 0);
  std::int64_t position = place % implicit.positions();
  std::int64_t phase = place / implicit.positions() / implicit.chunks;
  decode(kernel, implicit.apart, position / implicit.plane, at);
  decode(kernel, implicit.channels, channel, at);
  position %= implicit.plane;
  for (std::size_t i = implicit.dims.size(); i-- > 0;) {
    const auto& slide = implicit.dims[i];
    at[static_cast<std::size_t>(slide.row)] = position % slide.places * slide.stride + phase % slide.stride;
    position /= slide.places;
    phase /= slide.stride;
    if (at[static_cast<std::size_t>(slide.row)] >= slide.reach) return std::nullopt;
  }
  return at;
}

/// Checks the element at every point of the factor, batch aside, against what is stored where the tensor core reads it.
void check_places(const Kernel& kernel, const Contraction& c, const ImplicitOperand& implicit) {
  const Kernel stored = contraction::by_place(kernel, c, implicit);
  const int factor = implicit.operand == Operand::a ? c.first : c.second;
  const auto offsets = implicit.offsets();
  REQUIRE(static_cast<std::int64_t>(offsets.size()) == implicit.taps);
  std::vector<int> moving = implicit.apart;
  for (const auto& slide : implicit.dims) {
    moving.push_back(slide.row);
    if (slide.tap >= 0) moving.push_back(slide.tap);
  }
  moving.insert(moving.end(), implicit.channels.begin(), implicit.channels.end());
  Values at(kernel.space.extents.size(), 0);
  std::int64_t wrong = 0, points = 0;
  while (true) {
    std::int64_t position = 0, tap = 0, channel = 0;
    const auto extent = [&](int v) { return kernel.space.extents[static_cast<std::size_t>(v)]; };
    for (const int v : implicit.apart) position = position * extent(v) + at[static_cast<std::size_t>(v)];
    for (const auto& slide : implicit.dims) {
      position = position * slide.places + at[static_cast<std::size_t>(slide.row)];
      if (slide.tap >= 0) tap = tap * slide.taps + at[static_cast<std::size_t>(slide.tap)];
    }
    for (const int v : implicit.channels) channel = channel * extent(v) + at[static_cast<std::size_t>(v)];
    const std::int64_t place = offsets[static_cast<std::size_t>(tap)] + channel / 8 * implicit.positions() + position;
    const auto point = point_of(stored, implicit, place, channel);
    wrong += !point || element(kernel, factor, at) != element(stored, factor, *point);
    ++points;
    std::size_t i = moving.size();
    while (i > 0 && ++at[static_cast<std::size_t>(moving[i - 1])] == extent(moving[i - 1]))
      at[static_cast<std::size_t>(moving[--i])] = 0;
    if (i == 0) break;
  }
  CHECK(points > 1000);
  CHECK(wrong == 0);
}

LowerLimits with_convolutions() {
  LowerLimits limits;
  limits.contractions = true;
  return limits;
}

}  // namespace

TEST_CASE("convolutions over several channels are contractions, and their inputs slide where that repays") {
  std::size_t sliding_ones = 0;
  for (const auto& sample : convolution_samples(true)) {
    CAPTURE(sample.python);
    REQUIRE(sample.kernel.anchor == Anchor::contraction);
    const auto c = contraction_of(sample.kernel);
    REQUIRE(c);
    const auto implicit = contraction::implicit_operand_of(sample.kernel, *c);
    if (!implicit) continue;
    ++sliding_ones;
    CHECK(implicit->operand == Operand::b);  // positions are what memory of the output runs along
    CHECK(implicit->plane % 2 == 0);
    CHECK(implicit->longest_shift() < implicit->plane);
    for (const auto& slide : implicit->dims) CHECK(slide.places >= slide.rows);
  }
  CHECK(sliding_ones >= 15);
}

TEST_CASE("what the tensor core reads of a tap is what the convolution multiplies there") {
  for (const auto& sample : convolution_samples(false)) {
    CAPTURE(sample.python);
    const auto c = contraction_of(sample.kernel);
    REQUIRE(c);
    if (const auto implicit = contraction::implicit_operand_of(sample.kernel, *c))
      check_places(sample.kernel, *c, *implicit);
  }
  auto products = samples::transposed_samples(false);
  std::ranges::move(convolution_samples(false), std::back_inserter(products));
  for (const auto& sample : products) {
    CAPTURE(sample.python);
    const auto product = contraction::product_of(sample.kernel);
    REQUIRE(product);
    if (product->implicit) check_places(product->kernel, product->c, *product->implicit);
  }
}

TEST_CASE("few channels are filled up with taps of the last dim, and what lies within what slides stays there") {
  const auto implicit = [](const samples::Convolved& how) {
    const auto sample = conv_sample(how);
    REQUIRE(sample.kernel.anchor == Anchor::contraction);
    const auto c = contraction_of(sample.kernel);
    const auto out = contraction::implicit_operand_of(sample.kernel, *c);
    REQUIRE(out);
    check_places(sample.kernel, *c, *out);
    return *out;
  };
  const auto few = implicit({.x = {2, 3, 20, 20}, .w = {16, 3, 7, 7}, .stride = 2, .padding = 3});
  CHECK(few.channel_count == 21);
  CHECK(few.taps == 7);
  CHECK(few.dims.back().tap == -1);
  CHECK(few.phases == 2);
  const auto many = implicit({.x = {2, 16, 20, 20}, .w = {16, 16, 7, 7}, .stride = 2, .padding = 3});
  CHECK(many.channel_count == 16);
  CHECK(many.taps == 49);
  CHECK(many.phases == 4);
  const auto column = implicit({.x = {2, 16, 20, 20}, .w = {16, 16, 5, 1}, .padding = 2});
  CHECK(column.images == 2);
  CHECK(column.dims.size() == 2);
  CHECK(column.dims.back().tap == -1);
}

TEST_CASE("descriptors of a stage read each tap of the strips that its copies bring, and zeros behind them") {
  for (const Operand operand : {Operand::a, Operand::b}) {
    for (const auto& [taps, chunks, shift] : {std::array{3, 8, 1}, {3, 1, 2}, {7, 1, 1}, {1, 6, 0}, {5, 3, 4}}) {
      contraction::Im2col columns{
          .operand = operand, .positions = 4096, .planes = chunks, .chunks = chunks, .offsets = {}};
      columns.taps = taps;
      columns.shift = shift;
      columns.image = 1024;
      for (int strip = 0; strip < 3; ++strip) columns.offsets.push_back(strip * 32);
      contraction::Problem problem{.m = 128, .n = 256, .k = taps * chunks * 24, .im2col = columns};
      for (const auto& [scheme, runs] : {std::pair{contraction::Scheme::single, 1},
                                         {contraction::Scheme::split, 1},
                                         {contraction::Scheme::single, 4},
                                         {contraction::Scheme::split, 2}}) {
        if (runs > 1 && operand == Operand::a) continue;
        problem.folding.reset();
        if (runs > 1)
          problem.folding = {.runs = Values(static_cast<std::size_t>(runs)), .window = 2, .length = 64, .lines = {}};
        contraction::TilePlan plan;
        plan.scheme = scheme;
        plan.stages = 2;
        plan = contraction::with_strips(problem, plan);
        if (runs > 1) plan.exchange = 128;
        CAPTURE(contraction::to_text(plan));
        REQUIRE(contraction::check(problem, plan));
        const int rows = contraction::tile_rows(plan, operand) / runs, units = plan.strips * plan.strip_chunks * taps;
        // What lies where: (chunk of a strip, position) by 16 bytes; -1: a zero.
        const std::pair<int, int> nothing{-2, 0}, zero{-1, 0};
        std::vector<std::pair<int, int>> stage(static_cast<std::size_t>(contraction::stage_bytes(problem, plan) / 16),
                                               nothing);
        int copied = 0;
        for (const auto& copy : contraction::copies_of(problem, plan)) {
          copied += copy.bytes;
          for (int i = 0; i < copy.bytes / 16; ++i) {
            auto& place = stage.at(static_cast<std::size_t>(copy.target / 16 + i));
            CHECK(place == nothing);
            place = copy.operand == operand ? std::pair{copy.chunk * runs + copy.run, i} : std::pair{1000, i};
          }
        }
        CHECK(copied == contraction::copied_bytes(problem, plan));
        for (int part = 0; part < contraction::parts(plan); ++part) {
          const auto lacking = contraction::zeros_of(problem, plan, part);
          CHECK((lacking.bytes == 0) == (units % 2 == 0));
          for (int i = 0; i < lacking.bytes / 16; ++i) {
            auto& place = stage.at(static_cast<std::size_t>(lacking.target / 16 + i));
            CHECK(place == nothing);
            place = zero;
          }
        }
        int wrong = 0;
        for (const auto& step : contraction::steps_of(plan)) {
          const int part = operand == Operand::a ? step.a_part : step.b_part;
          for (int run = 0; run < runs; ++run) {
            const auto d = contraction::descriptor_of(problem, plan, operand, part, 0, step.k, run);
            CHECK(d.leading > 0);
            CHECK(d.leading / 16 < 1 << 14);
            for (int half = 0; half < 2; ++half) {
              const int unit = step.k / 8 + half;
              for (int row = 0; row < rows; ++row) {
                const int read = d.start + half * d.leading + row / 8 * d.stride + row % 8 * 16;
                const auto wanted =
                    unit < units ? std::pair{unit / taps * runs + run, row + unit % taps * shift} : zero;
                wrong += stage.at(static_cast<std::size_t>(read / 16)) != wanted;
              }
            }
          }
        }
        CHECK(wrong == 0);
      }
    }
  }
}

TEST_CASE("neighbouring taps are joined to strips where they are the same distance apart") {
  const auto strips = [](const samples::Convolved& convolution) {
    const auto sample = conv_sample(convolution);
    const auto product = contraction::product_of(sample.kernel);
    REQUIRE(product);
    REQUIRE(product->problem.im2col);
    const auto& columns = *product->problem.im2col;
    const auto offsets = product->implicit->offsets();
    for (std::size_t tap = 0; tap < offsets.size(); ++tap) {
      const auto taps = static_cast<std::size_t>(columns.taps);
      CHECK(offsets[tap] == columns.offsets[tap / taps] + static_cast<std::int64_t>(tap % taps) * columns.shift);
    }
    return std::pair{columns.taps, columns.shift};
  };
  CHECK(strips({.x = {2, 16, 32, 32}, .w = {32, 16, 3, 3}}) == std::pair{3, 1});
  CHECK(strips({.x = {2, 16, 32, 32}, .w = {32, 16, 3, 3}, .dilation = 2}) == std::pair{3, 2});
  CHECK(strips({.x = {2, 16, 32, 32}, .w = {32, 16, 5, 7}}) == std::pair{7, 1});
  // Neighbours of a stride are of different phases.
  CHECK(strips({.x = {2, 16, 32, 32}, .w = {32, 16, 3, 3}, .stride = 2}) == std::pair{1, 0});
}

TEST_CASE("windows that have nothing in common are packed row by row, and 1 x 1 ones are products") {
  const auto patches = conv_sample({.x = {4, 16, 32, 32}, .w = {32, 16, 4, 4}, .stride = 4});
  REQUIRE(patches.kernel.anchor == Anchor::contraction);
  CHECK_FALSE(contraction::implicit_operand_of(patches.kernel, *contraction_of(patches.kernel)));
  const auto pointwise = conv_sample({.x = {4, 16, 32, 32}, .w = {32, 16, 1, 1}});
  REQUIRE(pointwise.kernel.anchor == Anchor::contraction);
  CHECK_FALSE(contraction::implicit_operand_of(pointwise.kernel, *contraction_of(pointwise.kernel)));
}

TEST_CASE("every convolution has seeds of one and of three products, each legal and emitted") {
  for (const auto& sample : convolution_samples(true)) {
    CAPTURE(sample.python);
    const auto guesses = seeds(sample.kernel, h200());
    const bool slides = contraction::implicit_operand_of(sample.kernel, *contraction_of(sample.kernel)).has_value();
    const bool mends = contraction::wasted(*contraction::product_of(sample.kernel)).has_value();
    const auto with = [&](std::int64_t passes) {
      return std::ranges::any_of(guesses, [&](const Genome& g) { return value_of(g, "passes", 3) == passes; });
    };
    CHECK(with(3));
    const bool rounds = sample.kernel.inputs[0].dtype == DType::f32;  // 16 bits are multiplied as they are
    CHECK(with(1) == rounds);
    for (const Genome& genome : guesses) {
      CHECK(illegal(sample.kernel, h200(), genome) == "");
      const std::int64_t direct = value_of(genome, "direct", 0);
      CHECK_FALSE((value_of(genome, "passes", 3) == 1 && direct != 0 && !slides));
      const auto emitted = emit(sample.kernel, h200(), genome);
      REQUIRE(emitted);
      // Both packings, what is done again where magnitudes ask for it, the product, joining, and the fix-up.
      const std::size_t joins = genome.at("split") > 1 ? 1 : 0;
      // Where a factor is split in registers: the other one packed, the product, and all of it again in case. Where
      // strips are read: the product, and all but the other factor's packing again.
      const std::size_t again = direct == 3 ? 2 + joins : direct == 1 ? 1 + joins : 0;
      const std::size_t launches = 3 + again + (slides && rounds ? 1 : 0) + joins + (mends ? 1 : 0);
      CHECK(emitted->after.size() + 1 == launches);
      CHECK(emit(sample.kernel, h200(), genome)->source == emitted->source);
    }
  }
}

TEST_CASE("weights are packed channel by channel, of each its taps, and every chunk of a row once") {
  std::set<std::string> orders;
  std::string text = "#define PL_DEVICE static\n";
  std::vector<int> counts;
  std::vector<std::int64_t> chunks;  // of a row
  for (const auto& sample : convolution_samples(true)) {
    for (const Genome& genome : seeds(sample.kernel, h200())) {
      const auto emitted = emit(sample.kernel, h200(), genome);
      REQUIRE(emitted);
      std::vector<const Emitted*> stages{&*emitted};
      for (const auto& stage : emitted->after) stages.push_back(&stage);
      for (const Emitted* stage : stages) {
        const std::string& source = stage->source;
        const std::size_t begin = source.find("PL_DEVICE int chunk_at(int number) {"), bound = source.find("number < ");
        if (begin == std::string::npos) continue;
        REQUIRE(bound != std::string::npos);
        const int count = std::stoi(source.substr(bound + 9));
        const std::string order = source.substr(begin, source.find("\n}\n", begin) + 3 - begin);
        if (!orders.insert(order + std::to_string(count)).second) continue;
        text += fmt::format(
            "namespace order{} {{ {} }}\nextern \"C\" int chunk{}(int n) {{ return order{}::chunk_at(n); }}\n",
            counts.size(), order, counts.size(), counts.size());
        counts.push_back(count);
        // Of its scratch the parts come first, two bytes an element, and then an exponent of four bytes a row.
        std::vector<std::int64_t> bytes;
        for (const auto& arg : stage->args) {
          if (arg.kind == Emitted::Argument::Kind::scratch)
            bytes.push_back(emitted->scratch_bytes[static_cast<std::size_t>(arg.index)]);
        }
        const auto rows = std::ranges::find_if(bytes, [&](std::int64_t b) { return b != bytes.front(); });
        chunks.push_back(rows == bytes.end() ? 0 : bytes.front() / 2 / (*rows / 4) / 8);
      }
    }
  }
  CHECK(counts.size() > 5);
  CHECK(std::ranges::count_if(chunks, [](std::int64_t n) { return n > 0; }) > 5);
  const Compiled compiled(text, "-O1 -w -std=c++20");
  for (std::size_t i = 0; i < counts.size(); ++i) {
    auto* chunk = compiled.function<int(int)>(fmt::format("chunk{}", i).c_str());
    std::set<int> found;
    int none = 0;
    for (int number = 0; number < counts[i]; ++number) {
      const int at = chunk(number);
      if (at < 0)
        ++none;
      else
        CHECK_MESSAGE(found.insert(at).second, "a chunk twice");
    }
    REQUIRE(!found.empty());
    CHECK(*found.begin() == 0);
    CHECK(*found.rbegin() + 1 == static_cast<int>(found.size()));
    if (chunks[i] > 0) CHECK(static_cast<std::int64_t>(found.size()) == chunks[i]);
    CHECK(none < static_cast<int>(found.size()));
  }
}

TEST_CASE("a convolution is a region of its own, and what follows it can join it") {
  GraphBuilder g;
  const int x = g.input({8, 16, 32, 32}), w = g.input({32, 16, 3, 3});
  const int y = g.node("conv2d.default", {V("input", x), V("weight", w), L("padding", {1, 1})}, {8, 32, 32, 32});
  const int z = g.node("sigmoid.default", {V("self", y)}, {8, 32, 32, 32});
  g.output(g.node("mul.Tensor", {V("self", y), V("other", z)}, {8, 32, 32, 32}));
  PartitionOptions options;
  const auto without = partition(g.graph, options);
  REQUIRE(without);
  CHECK(without->regions.size() == 1);
  options.limits = with_convolutions();
  const auto with = partition(g.graph, options);
  REQUIRE(with);
  REQUIRE(with->regions.size() == 2);
  CHECK(with->regions[0].kernel.anchor == Anchor::contraction);
  FusionOptions fusion_options;
  fusion_options.limits = with_convolutions();
  const auto ways = fusion_plans(g.graph, *with, h200(), fusion_options);
  CHECK(std::ranges::any_of(ways, [](const FusionPlan& way) {
    return way.replaces.size() == 2 && way.by.size() == 1 && way.by[0].kernel.anchor == Anchor::contraction;
  }));
}

TEST_CASE("a depthwise convolution stays a stencil") {
  GraphBuilder g;
  const int x = g.input({2, 8, 16, 16}), w = g.input({8, 1, 3, 3});
  const int y =
      g.node("conv2d.default", {V("input", x), V("weight", w), L("padding", {1, 1}), I("groups", 8)}, {2, 8, 16, 16});
  g.output(y);
  PartitionOptions options;
  options.limits = with_convolutions();
  const auto cut = partition(g.graph, options);
  REQUIRE(cut);
  REQUIRE(cut->regions.size() == 1);
  CHECK(cut->regions[0].kernel.anchor == Anchor::pointwise);
}

}  // namespace planish::codegen
