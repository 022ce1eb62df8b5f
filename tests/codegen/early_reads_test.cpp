// Attention over a cache that the program only reads asks for keys before launches before it have ended.
#include "codegen/compose/early_reads.h"

#include <doctest/doctest.h>

#include <string>

#include "codegen/composed_of_guesses.h"
#include "codegen/graph_builder.h"

using namespace planish;
using namespace planish::codegen;

namespace {

/// A product of queries, which another launch computes, and attention behind it. `made`: keys are computed as well.
std::string attention_of_program(bool made) {
  GraphBuilder g;
  const Shape cache{1, 8, 2048, 128};
  const int x = g.input({1, 512}, DType::bf16), w = g.input({512, 4096}, DType::bf16);
  const int k = g.input(cache, DType::bf16), v = g.input(cache, DType::bf16);
  const int keys = made ? g.node("cumsum.default", {V("self", k), I("dim", -1)}, cache, DType::bf16) : k;
  const int product = g.node("mm.default", {V("self", x), V("mat2", w)}, {1, 4096}, DType::bf16);
  const int q = g.node("view.default", {V("self", product), L("size", {1, 32, 1, 128})}, {1, 32, 1, 128}, DType::bf16);
  g.output(g.node("scaled_dot_product_attention.default",
                  {V("query", q), V("key", keys), V("value", v), B("enable_gqa", true)}, {1, 32, 1, 128}, DType::bf16));
  const program::Program program = composed_of_guesses(g);
  for (const auto& kernel : program.kernels) {
    const std::size_t at = kernel.source.find("decode_attention<P", kernel.source.find("planish_kernel("));
    if (at != std::string::npos) return kernel.source.substr(at, kernel.source.find('(', at) - at);
  }
  return {};
}

}  // namespace

TEST_CASE("keys of a cache that no launch writes are asked for before the wait; keys that are computed are not") {
  CHECK(attention_of_program(false) == "decode_attention<P, NoneWritten, true>");
  CHECK(attention_of_program(true) == "decode_attention<P>");
}
