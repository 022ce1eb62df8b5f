// One launch in place of the packings of several products: every block does what a block of one of them does.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "codegen/compiled.h"
#include "codegen/compose/compose.h"
#include "codegen/compose/joint_zeros.h"
#include "codegen/contraction/product.h"
#include "codegen/contraction_samples.h"
#include "codegen/devices.h"
#include "codegen/genome.h"
#include "codegen/graph_builder.h"
#include "codegen/partition/fusion_plans.h"
#include "codegen/partition/partition.h"

using namespace planish;
using namespace planish::codegen;
using samples::conv_sample;

namespace {

PartitionOptions with_products() {
  PartitionOptions options;
  options.limits.contractions = true;
  return options;
}

/// Five layers, three of them alike; `computed`: the weight of the third of these is computed of a parameter.
struct Network {
  GraphBuilder g;
  Partition cut;
  std::vector<Choice> choices;

  explicit Network(bool computed = false) {
    int x = g.input({2, 16, 12, 12});
    const auto layer = [&](std::int64_t from, std::int64_t to, std::int64_t size, bool scaled) {
      int w = g.input({to, from, size, size});
      if (scaled) w = g.node("neg.default", {V("self", w)}, {to, from, size, size});
      x = g.node("conv2d.default", {V("input", x), V("weight", w), L("padding", {size / 2, size / 2})},
                 {2, to, 12, 12});
    };
    layer(16, 64, 3, false);
    layer(64, 64, 3, false);
    layer(64, 64, 3, false);
    layer(64, 64, 3, computed);
    layer(64, 128, 1, false);
    g.output(x);
    auto made = partition(g.graph, with_products());
    REQUIRE(made);
    cut = std::move(*made);
    for (const Region& region : cut.regions) {
      const auto guesses = seeds(region.kernel, h200());
      REQUIRE_FALSE(guesses.empty());
      auto emitted = emit(region.kernel, h200(), guesses.front());
      REQUIRE(emitted);
      choices.emplace_back(std::move(*emitted));
    }
  }

  program::Program composed(Packings packings) const {
    auto program = compose(g.graph, cut, choices, h200(), packings);
    REQUIRE_MESSAGE(program.has_value(), program.error().message);
    return std::move(*program);
  }
};

std::vector<int> buffers_of(const program::Launch& launch) {
  std::vector<int> out;
  for (const auto& arg : launch.args) out.push_back(std::get<program::BufferArg>(arg).buffer);
  return out;
}

std::vector<const program::Launch*> launches_of(const program::Program& program) {
  std::vector<const program::Launch*> out;
  for (const program::Step& step : program.steps) {
    if (const auto* launch = std::get_if<program::Launch>(&step)) out.push_back(launch);
  }
  return out;
}

bool is_joint(const program::Program& program, const program::Launch& launch) {
  return program.kernels[static_cast<std::size_t>(launch.kernel)].source.find("namespace pack0") != std::string::npos;
}

/// The text with every packing's body in place of a note of its block and its pointers, as C++ for the host.
std::string noting(const std::string& source) {
  constexpr std::string_view marker = "// ---- kernel ----\n", function = "PL_DEVICE void pack(const int block, ";
  std::string out = R"(#include <vector>
struct Place { int x; } blockIdx;
static std::vector<long long> seen;
)";
  const std::string text = source.substr(source.find(marker) + marker.size());
  std::size_t at = 0;
  for (int number = 0; (at = text.find(fmt::format("namespace pack{} {{", number))) != std::string::npos; ++number) {
    const std::size_t begin = text.find(function, at) + function.size();
    const std::string parameters = text.substr(begin, text.find(") {", begin) - begin);
    std::string stub =
        fmt::format("namespace pack{} {{ void pack(const int block, {}) {{ seen.push_back(block);", number, parameters);
    for (std::size_t from = 0; from < parameters.size();) {
      const std::size_t end = std::min(parameters.find(", ", from), parameters.size());
      const std::string one = parameters.substr(from, end - from);
      stub += fmt::format(" seen.push_back((long long){});", one.substr(one.rfind(' ') + 1));
      from = end + 2;
    }
    out += stub + " } }\n";
  }
  std::string kernel = text.substr(text.rfind("extern \"C\" __global__"));
  kernel.replace(0, kernel.find("planish_kernel("), "void ");
  return "#define __restrict__\n" + out + kernel;
}

}  // namespace

TEST_CASE("every block of a joint packing is a block of one of those in its place") {
  const Network network;
  const auto apart = network.composed(Packings::apart), together = network.composed(Packings::together);
  const auto before = launches_of(apart), after = launches_of(together);
  std::set<std::vector<int>> kept;
  for (const program::Launch* launch : after) kept.insert(buffers_of(*launch));
  // Blocks by the buffers of what the joint launches replace.
  std::map<std::vector<int>, std::int64_t> expected, found;
  for (const program::Launch* launch : before) {
    if (!kept.contains(buffers_of(*launch))) expected[buffers_of(*launch)] = launch->grid[0];
  }
  CHECK(expected.size() >= 3);
  CHECK(after.size() < before.size());
  for (const program::Launch* launch : after) {
    if (!is_joint(together, *launch)) continue;
    const std::vector<int> buffers = buffers_of(*launch);
    CHECK(launch->args.size() <= 240);
    std::string run =
        "extern \"C\" int run(int block, long long* out) { seen.clear(); blockIdx.x = block; planish_kernel(";
    const std::string& source = together.kernels[static_cast<std::size_t>(launch->kernel)].source;
    const std::string signature = source.substr(source.rfind("planish_kernel("));
    std::size_t at = 0;
    for (std::size_t a = 0; a < buffers.size(); ++a) {
      const std::size_t begin = a == 0 ? std::string_view("planish_kernel(").size() : at + 2;
      at = std::min(signature.find(", ", begin), signature.find(") {", begin));
      const std::string one = signature.substr(begin, at - begin);
      run +=
          fmt::format("{}({})(long long){}", a == 0 ? "" : ", ", one.substr(0, one.find(" __restrict__")), buffers[a]);
    }
    run += "); int n = 0; for (long long v : seen) out[n++] = v; return n; }\n";
    const Compiled compiled(noting(source) + run, "-O0 -w -std=c++20");
    auto* one = compiled.function<int(int, long long*)>("run");
    std::map<std::vector<int>, std::set<long long>> blocks;
    for (int block = 0; block < launch->grid[0]; ++block) {
      long long noted[64];
      const int count = one(block, noted);
      REQUIRE(count > 1);
      std::vector<int> named(noted + 1, noted + count);
      CHECK_MESSAGE(blocks[named].insert(noted[0]).second, "a block twice");
    }
    for (const auto& [named, each] : blocks) {
      CHECK(*each.begin() == 0);
      CHECK(*each.rbegin() + 1 == static_cast<std::int64_t>(each.size()));
      CHECK(each.size() % static_cast<std::size_t>(launch->cluster[0]) == 0);
      found[named] = static_cast<std::int64_t>(each.size());
    }
  }
  CHECK(found == expected);
  CHECK(network.composed(Packings::together).kernels.size() == together.kernels.size());
}

TEST_CASE("packings that tell each other something stay in their order") {
  // Where zeros are multiplied with what may be infinite and nothing slides, one packing notes what the other's has
  // cleared.
  auto all = samples::convolution_samples(false);
  for (auto& sample : samples::transposed_samples(false)) all.push_back(std::move(sample));
  all.push_back(conv_sample({.x = {2, 2, 24, 24}, .w = {4, 2, 4, 4}, .stride = 4}));
  int found = 0;
  for (const auto& sample : all) {
    CAPTURE(sample.python);
    const auto product = contraction::product_of(sample.kernel);
    REQUIRE(product.has_value());
    const bool tells = contraction::wasted(*product).has_value() && !product->implicit.has_value();
    found += tells ? 1 : 0;
    for (const Genome& genome : seeds(sample.kernel, h200())) {
      const auto emitted = emit(sample.kernel, h200(), genome);
      REQUIRE(emitted.has_value());
      const auto packs = (emitted->packs ? 1 : 0) + std::ranges::count_if(emitted->after, &Emitted::packs);
      if (tells) CHECK(packs == 0);
      if (product->implicit) CHECK(packs == 1);
    }
  }
  CHECK(found > 0);
  const auto slides = conv_sample({.x = {4, 16, 30, 30}, .w = {32, 16, 3, 3}, .padding = 1});
  CHECK(emit(slides.kernel, h200(), seeds(slides.kernel, h200()).front())->packs);
}

TEST_CASE("what is packed of computed values waits for them") {
  const Network plain, computed(true);
  const auto joined = [](const program::Program& program) {
    std::size_t args = 0;
    for (const program::Launch* launch : launches_of(program))
      args += is_joint(program, *launch) ? launch->args.size() : 0;
    return args;
  };
  const auto all = plain.composed(Packings::together), fewer = computed.composed(Packings::together);
  CHECK(joined(fewer) < joined(all));
  CHECK(joined(plain.composed(Packings::apart)) == 0);
}

TEST_CASE("a joint launch of zeros writes all words of its buffers, and nothing else") {
  std::vector<std::pair<int, std::int64_t>> buffers{{7, 4096}, {9, 4}, {11, 1028}};
  const auto [source, launch] = joint_zeros(h200(), buffers);
  CHECK(buffers_of(launch) == std::vector<int>{7, 9, 11});
  REQUIRE(launch.grid[0] == 3);
  std::string text = source.source;
  text.replace(0, text.find("planish_kernel("), "void ");
  const Compiled compiled(R"(#define __restrict__
struct Place { int x; } blockIdx, threadIdx;
)" + text + R"(extern "C" void run(unsigned* a, unsigned* b, unsigned* c, int blocks, int threads) {
  for (blockIdx.x = 0; blockIdx.x < blocks; ++blockIdx.x)
    for (threadIdx.x = 0; threadIdx.x < threads; ++threadIdx.x) planish_kernel(a, b, c);
})",
                          "-O0 -w -std=c++20");
  auto* run = compiled.function<void(unsigned*, unsigned*, unsigned*, int, int)>("run");
  std::vector<std::vector<unsigned>> memory;
  for (const auto& [buffer, bytes] : buffers) memory.emplace_back(static_cast<std::size_t>(bytes / 4 + 1), 5u);
  run(memory[0].data(), memory[1].data(), memory[2].data(), static_cast<int>(launch.grid[0]),
      static_cast<int>(launch.block[0]));
  for (const auto& each : memory) {
    CHECK(std::ranges::count(each, 0u) == static_cast<std::ptrdiff_t>(each.size()) - 1);
    CHECK(each.back() == 5u);
  }
  CHECK(can_be_zeroed_jointly(h200(), 1024));
  CHECK_FALSE(can_be_zeroed_jointly(h200(), 1023));
  CHECK_FALSE(can_be_zeroed_jointly(h200(), std::int64_t{1} << 30));
  Device host;
  host.target = &backend::cpu();
  CHECK_FALSE(can_be_zeroed_jointly(host, 1024));
}

TEST_CASE("products take in what follows them element by element before anything is searched") {
  GraphBuilder g;
  int x = g.input({2, 16, 12, 12});
  for (int layer = 0; layer < 2; ++layer) {
    x = g.node("conv2d.default", {V("input", x), V("weight", g.input({16, 16, 3, 3})), L("padding", {1, 1})},
               {2, 16, 12, 12});
    x = g.node("relu.default", {V("self", x)}, {2, 16, 12, 12});
  }
  const int rows = g.node("_softmax.default", {V("self", x), I("dim", -1), I("half_to_float", 0)}, {2, 16, 12, 12});
  g.output(rows);
  auto cut = partition(g.graph, with_products());
  REQUIRE(cut);
  FusionOptions options;
  options.limits = with_products().limits;
  const Partition joined = with_epilogues(g.graph, std::move(*cut), h200(), options);
  const auto products = std::ranges::count(joined.regions, Anchor::contraction,
                                           [](const Region& region) { return region.kernel.anchor; });
  CHECK(products == 2);
  // Both with their relu; rows stay apart.
  CHECK(joined.regions.size() == 3);
  const auto ways = fusion_plans(g.graph, joined, h200(), options);
  CHECK(std::ranges::any_of(ways, [](const FusionPlan& way) {
    return way.replaces.size() == 1 && way.by.size() == 2 && way.by[0].kernel.anchor == Anchor::contraction &&
           way.by[0].nodes.size() == 1;
  }));
}

/// Two convolutions of one input.
Partition two_of(GraphBuilder& g) {
  const int x = g.input({2, 16, 12, 12});
  std::vector<int> results;
  for (const std::int64_t channels : {64, 128}) {
    const int w = g.input({channels, 16, 3, 3});
    results.push_back(
        g.node("conv2d.default", {V("input", x), V("weight", w), L("padding", {1, 1})}, {2, channels, 12, 12}));
  }
  for (const int y : results) g.output(y);
  auto cut = partition(g.graph, with_products());
  REQUIRE(cut);
  REQUIRE(cut->regions.size() == 2);
  return std::move(*cut);
}

TEST_CASE("a launch that is left out still has its kernel's scratch zeroed, and zeroed scratch is nobody else's") {
  using Kind = Emitted::Argument::Kind;
  for (const bool zeroes_what_derives : {false, true}) {
    GraphBuilder g;
    const Partition cut = two_of(g);
    std::vector<Choice> choices;
    for (std::size_t r = 0; r < 2; ++r) {
      Emitted first;
      first.language = "cuda", first.entry = "k", first.source = "derives";
      first.args = {{Kind::input, 0}, {Kind::scratch, 0}};
      first.derives = true;
      first.scratch_bytes = {64, 32};
      first.zeroed = {zeroes_what_derives ? 0 : 1};
      Emitted then;
      then.language = "cuda", then.entry = "k", then.source = fmt::format("folds {}", r);
      then.args = {{Kind::scratch, 0}, {Kind::scratch, 1}, {Kind::output, 0}};
      first.after = {then};
      choices.emplace_back(std::move(first));
    }
    for (const Packings packings : {Packings::apart, Packings::together}) {
      const auto program = compose(g.graph, cut, choices, h200(), packings);
      REQUIRE(program);
      const auto launches = launches_of(*program);
      std::vector<const program::Launch*> folds;
      for (const program::Launch* launch : launches) {
        if (program->kernels[static_cast<std::size_t>(launch->kernel)].source.starts_with("folds"))
          folds.push_back(launch);
      }
      REQUIRE(folds.size() == 2);
      const auto a = buffers_of(*folds[0]), b = buffers_of(*folds[1]);
      CHECK((a[0] == b[0]) == !zeroes_what_derives);
      CHECK(a[1] != b[1]);
      // Each of them, by a step of its own or by one launch for all.
      const std::size_t which = zeroes_what_derives ? 0 : 1;
      std::set<int> zeroed;
      for (const program::Step& step : program->steps) {
        if (const auto* set = std::get_if<program::Set>(&step)) zeroed.insert(set->buffer);
        const auto* launch = std::get_if<program::Launch>(&step);
        if (launch == nullptr) continue;
        const std::string& source = program->kernels[static_cast<std::size_t>(launch->kernel)].source;
        if (source == "derives" || source.starts_with("folds")) continue;
        for (const int buffer : buffers_of(*launch)) zeroed.insert(buffer);
      }
      CHECK(zeroed.contains(a[which]));
      CHECK(zeroed.contains(b[which]));
    }
  }
}

TEST_CASE("images that two kernels multiply are packed once, whatever their tiles are") {
  GraphBuilder g;
  const Partition cut = two_of(g);
  const auto composed = [&](std::int64_t passes, std::int64_t width) {
    std::vector<Choice> choices;
    for (const Region& region : cut.regions) {
      Genome genome = seeds(region.kernel, h200()).front();
      genome["direct"] = 0;
      genome["passes"] = choices.empty() ? 3 : passes;
      genome["tile_n"] = choices.empty() ? 32 : width;
      genome["tile_m"] = 64, genome["pingpong"] = 0, genome["min_blocks"] = 1;
      REQUIRE(illegal(region.kernel, h200(), genome) == "");
      auto emitted = emit(region.kernel, h200(), genome);
      REQUIRE(emitted);
      choices.emplace_back(std::move(*emitted));
    }
    auto program = compose(g.graph, cut, choices, h200(), Packings::together);
    REQUIRE_MESSAGE(program.has_value(), program.error().message);
    return std::move(*program);
  };
  const auto packing = [](const program::Program& program) {
    std::vector<const program::Launch*> out;
    for (const program::Launch* launch : launches_of(program)) {
      const std::string& source = program.kernels[static_cast<std::size_t>(launch->kernel)].source;
      if (source.find("note_magnitude(notes") != std::string::npos || source.find("is_safe(most)") != std::string::npos)
        out.push_back(launch);
    }
    return out;
  };
  const auto main_loops = [](const program::Program& program) {
    std::vector<const program::Launch*> out;
    for (const program::Launch* launch : launches_of(program)) {
      if (program.kernels[static_cast<std::size_t>(launch->kernel)].source.find("multiply(") != std::string::npos)
        out.push_back(launch);
    }
    return out;
  };
  const program::Program shared = composed(3, 64);
  REQUIRE(packing(shared).size() == 2);  // elements, and images that have to be scaled
  const auto loops = main_loops(shared);
  REQUIRE(loops.size() == 2);
  const auto planes = buffers_of(*packing(shared).front());
  for (const program::Launch* loop : loops) {
    const auto read = buffers_of(*loop);
    for (const int part : {planes[1], planes[2]}) CHECK(std::ranges::find(read, part) != read.end());
  }
  // No kernel is there for nothing.
  std::set<int> launched;
  for (const program::Launch* launch : launches_of(shared)) launched.insert(launch->kernel);
  CHECK(launched.size() == shared.kernels.size());
  // One part is other planes than two.
  CHECK(packing(composed(1, 64)).size() == 4);
}

TEST_CASE("weights that are packed by taps are packed together, and counters of parts are zero all the same") {
  GraphBuilder g;
  const Shape image{2, 64, 16, 16}, last = samples::channels_last(image);
  const int x = g.input(image, DType::bf16, last);
  for (int i = 0; i < 2; ++i) {
    const int w = g.input({64, 64, 3, 3}, DType::bf16);
    g.output(g.node("conv2d.default", {V("input", x), V("weight", w), L("padding", {1, 1})}, image, DType::bf16, last));
  }
  const auto cut = partition(g.graph, with_products());
  REQUIRE(cut);
  std::vector<Choice> choices;
  for (const Region& region : cut->regions) {
    Genome genome = seeds(region.kernel, h200()).front();
    genome["split"] = 2;
    auto emitted = emit(region.kernel, h200(), genome);
    REQUIRE(emitted);
    REQUIRE(emitted->packs);
    REQUIRE(emitted->zeroed.size() == 1);
    choices.emplace_back(std::move(*emitted));
  }
  const auto program = compose(g.graph, *cut, choices, h200(), Packings::together);
  REQUIRE(program);
  std::set<int> zeroed, counters;
  int joint = 0;
  for (const program::Step& step : program->steps) {
    if (const auto* set = std::get_if<program::Set>(&step)) zeroed.insert(set->buffer);
    const auto* launch = std::get_if<program::Launch>(&step);
    if (launch == nullptr) continue;
    const std::string& source = program->kernels[static_cast<std::size_t>(launch->kernel)].source;
    if (is_joint(*program, *launch))
      ++joint;
    else if (source.find("product<Policy>") != std::string::npos)
      counters.insert(buffers_of(*launch).back());
    else
      for (const int buffer : buffers_of(*launch)) zeroed.insert(buffer);
  }
  CHECK(joint == 1);
  CHECK(counters.size() == 2);
  CHECK(std::ranges::includes(zeroed, counters));
}
