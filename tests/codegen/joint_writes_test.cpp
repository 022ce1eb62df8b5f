// A step's cache write and the attention that reads the cache as one launch of a program.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "codegen/composed_of_guesses.h"
#include "codegen/graph_builder.h"

using namespace planish;
using namespace planish::codegen;

namespace {

struct Step {
  bool watched = false;  ///< another launch reads a cache before the write
  bool apart = false;    ///< a launch between the write and the attention
  bool noted = false;    ///< and another scatter between, of something else
};

constexpr std::int64_t heads = 8, group = 4, places = 2048, width = 128;

int state(GraphBuilder& g, const std::string& name, const Shape& shape = {1, heads, places, width}) {
  const int id = g.input(shape, DType::bf16);
  g.graph.inputs.back() = {id, "buffer", name, -1, ""};
  return id;
}

program::Program composed(const Step& step) {
  GraphBuilder g;
  const int q = g.input({1, heads * group, 1, width}, DType::bf16);
  const int k = g.input({1, heads, 1, width}, DType::bf16), v = g.input({1, heads, 1, width}, DType::bf16);
  const int place = g.input({1}, DType::i64);
  const int keys = state(g, "keys"), values = state(g, "values");
  if (step.watched)
    g.output(g.node("amax.default", {V("self", keys), L("dim", {-1}), B("keepdim", false)}, {1, heads, places},
                    DType::bf16));
  const auto write = [&](int cache, int source) {
    const int doubled = g.node("mul.Scalar", {V("self", source), F("other", 2)}, {1, heads, 1, width}, DType::bf16);
    return g.node("index_copy.default", {V("self", cache), I("dim", 2), V("index", place), V("source", doubled)},
                  {1, heads, places, width}, DType::bf16);
  };
  const int new_keys = write(keys, k), new_values = write(values, v);
  if (step.noted) {
    const int table = state(g, "table", {64, 32});
    const int row = g.input({1, 32}, DType::bf16);
    const int noted = g.node("index_copy.default", {V("self", table), I("dim", 0), V("index", place), V("source", row)},
                             {64, 32}, DType::bf16);
    g.graph.outputs.push_back({"mutate_buffer", noted, "table", -1, ""});
  }
  const int seen =
      step.apart ? g.node("neg.default", {V("self", new_keys)}, {1, heads, places, width}, DType::bf16) : new_keys;
  if (step.apart) g.output(seen);
  const int numbers =
      g.node("arange.start_step", {I("start", 0), I("end", places), I("step", 1)}, {places}, DType::i64);
  const int mask = g.node("le.Tensor", {V("self", numbers), V("other", place)}, {places}, DType::boolean);
  g.output(g.node("scaled_dot_product_attention.default",
                  {V("query", q), V("key", seen), V("value", new_values), V("attn_mask", mask), B("enable_gqa", true)},
                  {1, heads * group, 1, width}, DType::bf16));
  g.graph.outputs.push_back({"mutate_buffer", new_keys, "keys", -1, ""});
  g.graph.outputs.push_back({"mutate_buffer", new_values, "values", -1, ""});
  return composed_of_guesses(g);
}

/// The last of the launches whose text has this.
const program::Launch* launch_with(const program::Program& program, const std::string& text) {
  const program::Launch* found = nullptr;
  for (const auto& step : program.steps) {
    const auto* const launch = std::get_if<program::Launch>(&step);
    if (launch != nullptr && program.kernels[static_cast<std::size_t>(launch->kernel)].source.contains(text))
      found = launch;
  }
  return found;
}

bool writes_apart(const program::Program& program) {
  return launch_with(program, "decode_attention<P>(") != nullptr;
}

}  // namespace

TEST_CASE(
    "a cache write before its attention, with a mask made in between, is part of that launch, which asks for keys "
    "before it waits") {
  const program::Program program = composed({});
  const program::Launch* const launch = launch_with(program, "decode_attention<P, W, true>(");
  REQUIRE(launch != nullptr);
  CHECK(launch->programmatic);
  CHECK(program.kernels.size() == static_cast<std::size_t>(std::ranges::count_if(program.steps, [](const auto& step) {
          return std::holds_alternative<program::Launch>(step);
        })));
  // Both caches are written by this launch, and no other is given one of them.
  const auto& source = program.kernels[static_cast<std::size_t>(launch->kernel)].source;
  const std::string entry = source.substr(source.rfind("planish_kernel("));
  std::set<int> caches;
  std::size_t at = 0, place = 0;
  for (; at < entry.find(")"); ++place) {
    const std::size_t end = std::min(entry.find(", ", at), entry.find(")"));
    const std::string parameter = entry.substr(at, end - at);
    if (parameter.contains("unsigned short* in") && !parameter.contains("const "))
      caches.insert(std::get<program::BufferArg>(launch->args[place]).buffer);
    at = end + 2;
  }
  CHECK(caches.size() == 2);
  CHECK(place == launch->args.size());
  for (const auto& step : program.steps) {
    const auto* const other = std::get_if<program::Launch>(&step);
    if (other == nullptr || other == launch) continue;
    for (const auto& arg : other->args) {
      const auto* const buffer = std::get_if<program::BufferArg>(&arg);
      CHECK_FALSE((buffer != nullptr && caches.contains(buffer->buffer)));
    }
  }
}

TEST_CASE("keys wait where another launch has to do with the cache") {
  CHECK(launch_with(composed({.watched = true}), "decode_attention<P, W, false>(") != nullptr);
}

TEST_CASE("a write joins its attention past another one, of something else") {
  CHECK(launch_with(composed({.noted = true}), "decode_attention<P, W, ") != nullptr);
}

TEST_CASE("a write that another launch comes behind stays by itself") {
  CHECK(writes_apart(composed({.apart = true})));
}
