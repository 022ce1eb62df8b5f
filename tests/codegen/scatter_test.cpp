#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <optional>

#include "codegen/compiled.h"
#include "codegen/compose/compose.h"
#include "codegen/devices.h"
#include "codegen/emit/cuda_limits.h"
#include "codegen/genome.h"
#include "codegen/graph_builder.h"
#include "codegen/interpreter.h"
#include "codegen/lower/lower.h"
#include "codegen/partition/partition.h"

// Values that are another one but at some places: kernels write these places alone.
using namespace planish;
using namespace planish::codegen;

namespace {

using Index = std::vector<std::int64_t>;

Device processor() {
  Device device;
  device.arch = "x86-64";
  device.sms = 2;
  device.l2_bytes = 32 << 20;
  return device;
}

Result<Kernel> lowered(const GraphBuilder& g, const std::vector<int>& outputs) {
  return lower(g.graph, std::vector<bool>(g.graph.nodes.size(), true), outputs);
}

double real(int value, std::size_t at) {
  return std::sin(static_cast<double>(at * 7 + static_cast<std::size_t>(value) * 13 + 1));
}

std::vector<std::vector<double>> data_of(const Kernel& kernel, const std::map<int, std::vector<double>>& integers) {
  std::vector<std::vector<double>> data;
  for (const Input& input : kernel.inputs) {
    if (const auto given = integers.find(input.value); given != integers.end()) {
      data.push_back(given->second);
      continue;
    }
    data.emplace_back();
    for (std::int64_t i = 0; i < input.storage_elements; ++i)
      data.back().push_back(real(input.value, static_cast<std::size_t>(i)));
  }
  return data;
}

/// What the kernel writes of a dense output, by its linear place.
std::map<std::size_t, double> written(const Kernel& kernel, const std::map<int, std::vector<double>>& integers) {
  std::map<std::size_t, double> out;
  const auto all = Interpreter(kernel, data_of(kernel, integers)).run()[0];
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i] != Interpreter::unwritten) out[i] = all[i];
  }
  return out;
}

/// The same of the printed C++, f32, for each genome that is a seed.
std::map<std::size_t, double> run_cpp(const Kernel& kernel, const std::map<int, std::vector<double>>& integers) {
  const Device device = processor();
  const auto data = data_of(kernel, integers);
  std::map<std::size_t, double> out;
  for (Genome genome : seeds(kernel, device)) {
    genome["threads"] = 1;  // OpenMP's library is not to be unloaded under its threads
    const auto emitted = emit(kernel, device, genome);
    REQUIRE_MESSAGE(emitted.has_value(), (emitted ? "" : emitted.error().message));
    const Compiled compiled(emitted->source, "-O1 -march=x86-64 -std=c++17 -fno-math-errno -Wno-psabi");
    std::vector<std::vector<std::byte>> memory;
    for (std::size_t i = 0; i < kernel.inputs.size(); ++i) {
      const bool integer = kernel.inputs[i].dtype == DType::i64;
      memory.emplace_back(data[i].size() * 8);
      for (std::size_t k = 0; k < data[i].size(); ++k) {
        if (integer) {
          const auto value = static_cast<std::int64_t>(data[i][k]);
          std::memcpy(memory.back().data() + 8 * k, &value, 8);
        } else {
          const auto value = static_cast<float>(data[i][k]);
          std::memcpy(memory.back().data() + 4 * k, &value, 4);
        }
      }
    }
    std::size_t elements = 1;
    for (const std::int64_t extent : kernel.outputs[0].shape) elements *= static_cast<std::size_t>(extent);
    constexpr float marked = -12345.0F;
    std::vector<float> result(elements, marked);
    std::vector<void*> args;
    for (auto& each : memory) args.push_back(each.data());
    args.push_back(result.data());
    compiled.function<void(void**)>("k0")(args.data());
    std::map<std::size_t, double> now;
    for (std::size_t i = 0; i < elements; ++i) {
      if (result[i] != marked) now[i] = static_cast<double>(result[i]);
    }
    if (!out.empty()) CHECK(now == out);
    out = std::move(now);
  }
  return out;
}

void check_same(const std::map<std::size_t, double>& found, const std::map<std::size_t, double>& wanted) {
  REQUIRE(found.size() == wanted.size());
  for (const auto& [at, value] : wanted) {
    REQUIRE(found.contains(at));
    CHECK(found.at(at) == doctest::Approx(value).epsilon(1e-6));
  }
}

ir::Arg indices(std::vector<std::optional<int>> ids) {
  return {"indices", ir::ValueList{std::move(ids)}};
}

/// A cache that a call changes, as the captured graph has it.
int state(GraphBuilder& g, const Shape& shape) {
  const int id = g.input(shape);
  g.graph.inputs.back().kind = "buffer";
  g.graph.inputs.back().name = "cache";
  return id;
}
void changed(GraphBuilder& g, int value) {
  g.graph.outputs.push_back({"mutate_buffer", value, "cache", -1, ""});
}

}  // namespace

TEST_CASE("an index_copy writes what its source holds, where its index says, and nothing where that is no place") {
  GraphBuilder g;
  const int cache = state(g, {2, 3, 8, 4}), at = g.input({3}, DType::i64), x = g.input({2, 3, 3, 4});
  const int twice = g.node("mul.Scalar", {V("self", x), F("other", 2)}, {2, 3, 3, 4});
  const int y =
      g.node("index_copy.default", {V("self", cache), I("dim", 2), V("index", at), V("source", twice)}, {2, 3, 8, 4});
  changed(g, y);
  const auto kernel = lowered(g, {y});
  REQUIRE_MESSAGE(kernel.has_value(), (kernel ? "" : kernel.error().message));
  CHECK(text(*kernel) ==
        "scatter space [6, 3, 4] inner 0\n"
        "in0: f32 [2, 3, 3, 4] strides [36, 12, 4, 1]\n"
        "in1: i64 [3] strides [1]\n"
        "%0 = load f32 in0[12*d0 + 4*d1 + d2]\n"
        "%1 = constant f32 0x1p+1\n"
        "%2 = mul f32 %0 %1\n"
        "%3 = load i64 in1[d1]\n"
        "out0: f32 [2, 3, 8, 4] strides [96, 32, 4, 1] [32*d0 + d2] = %2 moved 4*(%3 < 8) over others\n");
  const std::map<int, std::vector<double>> places{{at, {5, 8, 0}}};
  std::map<std::size_t, double> wanted;
  for (std::size_t h = 0; h < 6; ++h) {
    for (std::size_t d = 0; d < 4; ++d) {
      wanted[h * 32 + 5 * 4 + d] = 2 * real(x, h * 12 + d);
      wanted[h * 32 + d] = 2 * real(x, h * 12 + 8 + d);
    }
  }
  check_same(written(*kernel, places), wanted);
  check_same(run_cpp(*kernel, places), wanted);

  // On devices that launch early it waits by itself, and has the place of any other such launch; elsewhere neither.
  const auto hopper = emit(*kernel, h200(), {{"threads", 64}});
  REQUIRE(hopper.has_value());
  REQUIRE(hopper->early.has_value());
  CHECK(hopper->early->empty());
  CHECK(hopper->grid[0] == h200().sms);
  CHECK(hopper->shared == printing::half_shared(h200()));
  const std::size_t waits = hopper->source.rfind("dependency_wait();");
  REQUIRE(waits != std::string::npos);
  CHECK(hopper->source.find("load_visible(in0", waits) != std::string::npos);
  CHECK(hopper->source.find("pl_ldg(in", waits) == std::string::npos);
  Device ampere = h200();
  ampere.arch = "sm_80";
  const auto before = emit(*kernel, ampere, {{"threads", 64}});
  REQUIRE(before.has_value());
  CHECK_FALSE(before->early.has_value());
  CHECK(before->grid[0] == 2);
  CHECK(before->source.find("dependency_wait") == std::string::npos);
}

TEST_CASE("index_put and scatter write each element where its own index says; negative ones count from the end") {
  GraphBuilder g;
  const int self = g.input({4, 5}), i = g.input({3}, DType::i64), j = g.input({3}, DType::i64), x = g.input({3});
  const int put = g.node("index_put.default", {V("self", self), indices({i, j}), V("values", x)}, {4, 5});
  const int where = g.input({2, 5}, DType::i64), y = g.input({3, 5});
  const int scattered = g.node("scatter.src", {V("self", self), I("dim", 0), V("index", where), V("src", y)}, {4, 5});
  const auto one = lowered(g, {put});
  REQUIRE(one.has_value());
  const std::map<int, std::vector<double>> places{
      {i, {-1, 2, 0}}, {j, {4, -5, 9}}, {where, {3, 0, 1, -1, 2, 0, 1, 2, 3, 3}}};
  const std::map<std::size_t, double> put_there{{19, real(x, 0)}, {10, real(x, 1)}};
  check_same(written(*one, places), put_there);
  check_same(run_cpp(*one, places), put_there);
  const auto two = lowered(g, {scattered});
  REQUIRE(two.has_value());
  std::map<std::size_t, double> wanted;
  for (std::size_t k = 0; k < 10; ++k) {
    if (const double row = places.at(where)[k]; row >= 0)
      wanted[static_cast<std::size_t>(row) * 5 + k % 5] = real(y, k);
  }
  check_same(written(*two, places), wanted);
  check_same(run_cpp(*two, places), wanted);
}

TEST_CASE("a part of a state is written in place; of another tensor the whole is one kernel as before") {
  GraphBuilder g;
  const int cache = state(g, {2, 8, 4}), x = g.input({2, 3, 4});
  const int y =
      g.node("slice_scatter.default",
             {V("self", cache), V("src", x), I("dim", 1), I("start", 2), I("end", 5), I("step", 1)}, {2, 8, 4});
  const auto whole = lowered(g, {y});
  REQUIRE(whole.has_value());
  CHECK(whole->anchor == Anchor::pointwise);
  changed(g, y);
  const auto part = lowered(g, {y});
  REQUIRE(part.has_value());
  CHECK(part->anchor == Anchor::scatter);
  CHECK(part->outputs[0].base == cache);
  std::map<std::size_t, double> wanted;
  for (std::size_t k = 0; k < 24; ++k) wanted[k / 12 * 32 + 8 + k % 12] = real(x, k);
  check_same(written(*part, {}), wanted);
  check_same(run_cpp(*part, {}), wanted);
}

TEST_CASE("what is read, or folded, or accumulated is not written in place") {
  GraphBuilder g;
  const int cache = state(g, {6, 4}), at = g.input({6}, DType::i64);
  const int twice = g.node("mul.Scalar", {V("self", cache), F("other", 2)}, {6, 4});
  const int moved =
      g.node("index_copy.default", {V("self", cache), I("dim", 0), V("index", at), V("source", twice)}, {6, 4});
  // A value of which nobody finds a change is copied, and the copy is written.
  CHECK(lowered(g, {moved}).has_value());
  changed(g, moved);
  const auto why = lowered(g, {moved});
  REQUIRE_FALSE(why.has_value());
  CHECK(why.error().message == "places written in what is read");
  const int x = g.input({6, 4, 3});
  const int sum = g.node("sum.dim_IntList", {V("self", x), L("dim", {2})}, {6, 4});
  const int folded =
      g.node("index_copy.default", {V("self", cache), I("dim", 0), V("index", at), V("source", sum)}, {6, 4});
  const auto folds = lowered(g, {folded});
  REQUIRE_FALSE(folds.has_value());
  CHECK(folds.error().message == "places written beside folds");
  const int added =
      g.node("index_put.default", {V("self", cache), indices({at}), V("values", twice), B("accumulate", true)}, {6, 4});
  CHECK_FALSE(lowered(g, {added}).has_value());
  const int y = g.input({6, 4});
  const int view = g.node("view.default", {V("self", g.input({24})), L("size", {6, 4})}, {6, 4});
  const int over = g.node("index_copy.default", {V("self", view), I("dim", 0), V("index", at), V("source", y)}, {6, 4});
  CHECK_FALSE(lowered(g, {over}).has_value());
}

TEST_CASE("a program copies what is overwritten in part, then writes; what reads the result comes after") {
  GraphBuilder g;
  const int cache = state(g, {8, 4}), at = g.input({2}, DType::i64), x = g.input({2, 4});
  const int half = g.node("mul.Scalar", {V("self", x), F("other", 0.5)}, {2, 4});
  const int y =
      g.node("index_copy.default", {V("self", cache), I("dim", 0), V("index", at), V("source", half)}, {8, 4});
  const int sums = g.node("sum.dim_IntList", {V("self", y), L("dim", {1})}, {8});
  g.output(sums);
  changed(g, y);
  const auto parts = partition(g.graph);
  REQUIRE(parts.has_value());
  REQUIRE(parts->regions.size() == 2);
  CHECK(parts->regions[0].kernel.anchor == Anchor::scatter);
  CHECK(parts->regions[0].nodes.size() == 2);
  for (const Device& device : {processor(), h200()}) {
    std::vector<Choice> choices;
    for (const Region& region : parts->regions) {
      const auto first = seeds(region.kernel, device);
      REQUIRE_FALSE(first.empty());
      choices.emplace_back(*emit(region.kernel, device, first.front()));
    }
    const auto program = compose(g.graph, *parts, choices, device);
    REQUIRE_MESSAGE(program.has_value(), (program ? "" : program.error().message));
    REQUIRE(program->steps.size() == 3);
    const auto* copy = std::get_if<program::Copy>(&program->steps[0]);
    REQUIRE(copy != nullptr);
    CHECK(program->buffers[static_cast<std::size_t>(copy->from)].role == program::Role::state);
    CHECK(program->buffers[static_cast<std::size_t>(copy->to)].role == program::Role::output);
  }
}

TEST_CASE(
    "zeros that are overwritten in part are memory that holds zeros before the program's first launch, or a step") {
  for (const bool large : {false, true}) {
    GraphBuilder g;
    const std::int64_t rows = large ? 1 << 18 : 64;
    const int at = g.input({8}, DType::i64), x = g.input({8});
    const int zeros = g.node("full.default", {L("size", {rows}), I("fill_value", 0)}, {rows});
    const int half = g.node("mul.Scalar", {V("self", x), F("other", 0.5)}, {8});
    const int y =
        g.node("index_copy.default", {V("self", zeros), I("dim", 0), V("index", at), V("source", half)}, {rows});
    const auto kernel = lowered(g, {y});
    REQUIRE(kernel.has_value());
    CHECK(kernel->anchor == Anchor::scatter);
    CHECK(kernel->outputs[0].base == -1);
    CHECK(kernel->outputs[0].over_zeros);
    g.output(g.node("neg.default", {V("self", y)}, {rows}));
    const auto parts = partition(g.graph);
    REQUIRE(parts.has_value());
    REQUIRE(parts->regions.size() == 2);
    std::vector<Choice> choices;
    for (const Region& region : parts->regions)
      choices.emplace_back(*emit(region.kernel, h200(), seeds(region.kernel, h200()).front()));
    const auto program = compose(g.graph, *parts, choices, h200(), Packings::together);
    REQUIRE_MESSAGE(program.has_value(), (program ? "" : program.error().message));
    REQUIRE(program->steps.size() == 3);
    CHECK(std::holds_alternative<program::Set>(program->steps[0]) == large);
    const auto* const written = std::get_if<program::Launch>(&program->steps[1]);
    REQUIRE(written != nullptr);
    if (const auto* const first = std::get_if<program::Launch>(&program->steps[0]))
      CHECK(std::get<program::BufferArg>(first->args[0]).buffer ==
            std::get<program::BufferArg>(written->args.back()).buffer);
  }
  // Another number is not what memory holds by itself.
  GraphBuilder g;
  const int ones = g.node("full.default", {L("size", {64}), I("fill_value", 1)}, {64});
  const int y =
      g.node("index_copy.default",
             {V("self", ones), I("dim", 0), V("index", g.input({8}, DType::i64)), V("source", g.input({8}))}, {64});
  CHECK_FALSE(lowered(g, {y}).has_value());
}
