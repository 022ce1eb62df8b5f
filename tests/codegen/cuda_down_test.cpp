// Outputs below each other that share the rows of their windows.
#include "codegen/emit/cuda_down.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "codegen/devices.h"
#include "codegen/emit/cuda_emit.h"
#include "interpreter.h"
#include "window_samples.h"

using namespace planish;
using namespace planish::codegen;
using namespace planish::codegen::printing;

namespace {

std::int64_t loads_of(const Kernel& kernel, int input) {
  return std::ranges::count_if(kernel.nodes, [&](const Node& n) { return n.op == Op::load && n.input == input; });
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

Genome complete(const Kernel& kernel, const Genome& changes) {
  Genome genome;
  for (const Gene& gene : genes(kernel, h200())) genome[gene.name] = gene.choices.front();
  for (const auto& [name, value] : changes) genome[name] = value;
  return genome;
}

std::string source(const Kernel& kernel, const Genome& changes) {
  const auto emitted = emit(kernel, h200(), complete(kernel, changes));
  REQUIRE_MESSAGE(emitted.has_value(), (emitted ? "" : emitted.error().message));
  return emitted->source.substr(emitted->source.find("planish_kernel"));
}

/// Both kernels computed point by point. Addresses outside of an input throw.
void same_meaning(const Kernel& kernel, int steps) {
  const int variable = down_variable(kernel);
  REQUIRE(variable == 2);
  Stepped stepped = step_down(kernel, variable, steps);
  std::vector<std::vector<double>> inputs;
  for (const Input& input : kernel.inputs) {
    auto& data = inputs.emplace_back();
    for (std::int64_t i = 0; i < input.storage_elements; ++i)
      data.push_back(static_cast<double>((i * 7919 + 13) % 1009) / 503 - 1);
  }
  const auto expected = Interpreter(kernel, inputs).run()[0];
  const std::int64_t rows = kernel.space.extents[2], cols = kernel.space.extents[3];
  REQUIRE(stepped.kernel.outputs.size() == static_cast<std::size_t>(steps));
  for (Output& output : stepped.kernel.outputs) output.shape[0] += 1;  // room for what is computed and not stored
  const auto got = Interpreter(stepped.kernel, inputs).run();
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(expected.size()); ++i) {
    const std::int64_t row = i / cols % rows;
    REQUIRE(got[static_cast<std::size_t>(row % steps)][static_cast<std::size_t>(i)] ==
            expected[static_cast<std::size_t>(i)]);
  }
  for (int step = 0; step < steps; ++step) {
    const bool everywhere = step < rows % steps || rows % steps == 0;
    CHECK(stepped.inside[static_cast<std::size_t>(step)].has_value() == !everywhere);
  }
}

}  // namespace

TEST_CASE("outputs below each other mean what each of them alone does") {
  for (const auto& sample : samples::window_samples()) {
    for (const int steps : {2, 3, 4, 8}) {
      CAPTURE(sample.family);
      CAPTURE(steps);
      if (sample.kernel.inputs[0].dtype == DType::f32) same_meaning(sample.kernel, steps);
    }
  }
}

TEST_CASE("rows that several steps look at are loaded once") {
  const auto rows = [](const samples::Square& window, int steps) {
    const auto sample = samples::depthwise({2, 3, 64, 64}, window);
    const Kernel made = step_down(sample.kernel, 2, steps).kernel;
    CHECK(loads_of(made, 1) == 9);  // weights do not depend on the row
    CHECK(loads_of(made, 2) == 1);
    return loads_of(made, 0) / 3;
  };
  CHECK(rows({3, 1, 1, 1}, 2) == 4);
  CHECK(rows({3, 1, 1, 1}, 4) == 6);
  CHECK(rows({3, 1, 1, 1}, 8) == 10);
  CHECK(rows({3, 1, 1, 0}, 4) == 6);
  CHECK(rows({3, 2, 1, 1}, 4) == 9);
  CHECK(rows({3, 1, 2, 2}, 4) == 8);
}

TEST_CASE("heights that the steps do not divide load no more, and end where they end") {
  const auto sample = samples::depthwise({2, 3, 13, 32});
  const Stepped made = step_down(sample.kernel, 2, 4);
  CHECK(made.kernel.space.extents == std::vector<std::int64_t>{2, 3, 4, 32});
  CHECK(loads_of(made.kernel, 0) == 6 * 3);
  const std::string text = source(sample.kernel, {{"vector", 16}, {"stencil_reuse", 1}, {"down", 4}});
  CHECK(count(text, "pl_load_unit<4>") == 6);
  CHECK(count(text, "pl_store<") == 4);
  CHECK(text.find("if ((4 * d2 + 1) < 13) {") != std::string::npos);
  CHECK(text.find("if ((4 * d2) < 13)") == std::string::npos);
}

TEST_CASE("the variable is one that taps differ along, never that of the vectors") {
  CHECK(down_variable(samples::gradient({3, 1, 19, 64}).kernel) == 2);
  CHECK(down_variable(samples::bias_gelu(64, 64).kernel) == -1);
  CHECK(down_variable(samples::transpose_add(64, 64).kernel) == -1);
  // Taps along the last variable alone.
  samples::Build b;
  b.k.space.extents = {8, 62};
  const int in = b.input(DType::f32, {8, 64});
  const int sum = b.op(Op::add, {b.load(in, b.at({{0, 64}, {1, 1}})), b.load(in, b.at({{0, 64}, {1, 1}}, 2))});
  b.output(sum, DType::f32, {8, 62}, b.at({{0, 62}, {1, 1}}));
  CHECK(down_variable(b.k) == -1);
  const auto known = genes(b.k, h200());
  CHECK(std::ranges::find(known, "down", &Gene::name) == known.end());
}

TEST_CASE("loads of equal places under other bounds stay apart") {
  // Rows 0 … 9 of x for the upper tap, rows 0 … 7 for the lower one: what one step sees there, the other must not.
  samples::Build b;
  b.k.space.extents = {16, 32};
  const int in = b.input(DType::f32, {18, 32});
  const int upper = b.load(in, b.at({{0, 32}, {1, 1}}), {{b.at({{0, 1}}), 0, 10}});
  const int lower = b.load(in, b.at({{0, 32}, {1, 1}}, 32), {{b.at({{0, 1}}, 1), 0, 8}});
  b.output(b.op(Op::add, {upper, lower}), DType::f32, {16, 32}, b.at({{0, 32}, {1, 1}}));
  CHECK(loads_of(step_down(b.k, 0, 4).kernel, 0) == 8);
  CHECK(down_variable(b.k) == -1);
}

TEST_CASE("vectors lie in one row, steps share their output's pointer, and tiles have no steps") {
  const Kernel odd = samples::depthwise({2, 2, 11, 15}).kernel;
  CHECK(illegal(odd, h200(), complete(odd, {{"vector", 16}, {"down", 4}})) == "a vector would lie in two rows");
  CHECK(illegal(odd, h200(), complete(odd, {{"vector", 4}, {"down", 4}})).empty());
  const Kernel even = samples::gradient({3, 1, 16, 64}).kernel;
  const auto emitted = emit(even, h200(), complete(even, {{"vector", 16}, {"stencil_reuse", 1}, {"down", 8}}));
  REQUIRE(emitted.has_value());
  CHECK(emitted->args.size() == 4);
  CHECK(emitted->source.find("out1") == std::string::npos);
  CHECK(emitted->grid[0] == 2);  // 3 · 2 · 16 vectors, 64 threads
}

TEST_CASE("steps of one kernel are made once") {
  const Kernel kernel = samples::gradient({3, 1, 16, 64}).kernel;
  const PlanFacts facts(kernel);
  const Stepped* const made = facts.stepped(kernel, {{"down", 4}});
  REQUIRE(made != nullptr);
  CHECK(facts.stepped(kernel, {{"down", 4}}) == made);
  CHECK(facts.stepped(kernel, {{"down", 1}}) == nullptr);
  CHECK(facts.stepped(kernel, {}) == nullptr);
  CHECK(make_plan(kernel, facts, h200(), {{"down", 4}, {"vector", 16}}).strips.size() == 6);
}
