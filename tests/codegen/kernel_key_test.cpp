#include "codegen/kernel_key.h"

#include <doctest/doctest.h>

#include <functional>
#include <set>
#include <utility>
#include <vector>

#include "sample_kernels.h"

using namespace planish;
using namespace planish::codegen;

namespace {

Kernel softmax() {
  return samples::softmax(4, 8).kernel;
}

std::size_t first(const Kernel& kernel, Op op) {
  for (std::size_t n = 0; n < kernel.nodes.size(); ++n) {
    if (kernel.nodes[n].op == op) return n;
  }
  FAIL("the sample has no such operator");
  return 0;
}

}  // namespace

TEST_CASE("a kernel's place in its graph and what nobody looks at are not in its key") {
  const std::string key = kernel_key_bytes(softmax());
  Kernel moved = softmax();
  for (Input& in : moved.inputs) in.value += 100;
  for (Output& out : moved.outputs) out.value += 100;
  CHECK(kernel_key_bytes(moved) == key);
  Kernel odd = softmax();
  odd.nodes[first(odd, Op::exp)].input = 7;  // an operator that reads no input
  odd.nodes[first(odd, Op::exp)].bits = 3;
  CHECK(kernel_key_bytes(odd) == key);
}

TEST_CASE("whatever changes what is computed changes the key") {
  const std::vector<std::pair<const char*, std::function<void(Kernel&)>>> changes{
      {"an operator", [](Kernel& k) { k.nodes[first(k, Op::exp)].op = Op::exp2; }},
      {"a dtype", [](Kernel& k) { k.nodes[first(k, Op::exp)].dtype = DType::f64; }},
      {"wiring", [](Kernel& k) { std::swap(k.nodes[first(k, Op::sub)].args[0], k.nodes[first(k, Op::sub)].args[1]); }},
      {"which fold is read", [](Kernel& k) { k.nodes[first(k, Op::reduced)].reduction = 1; }},
      {"where it is read", [](Kernel& k) { k.nodes[first(k, Op::load)].index = ir::IndexExpr::variable(1); }},
      {"what it is outside",
       [](Kernel& k) { k.nodes[first(k, Op::load)].where = {{ir::IndexExpr::variable(1), 0, 4}}; }},
      {"a kind of fold", [](Kernel& k) { k.reductions[0].kind = ReduceKind::min; }},
      {"what a fold is kept in", [](Kernel& k) { k.reductions[1].accumulate = DType::f64; }},
      {"a phase", [](Kernel& k) { k.reductions[1].phase = 3; }},
      {"an extent", [](Kernel& k) { k.space.extents[0] = 5; }},
      {"how many are inner", [](Kernel& k) { k.inner = 2; }},
      {"an anchor", [](Kernel& k) { k.anchor = Anchor::scan; }},
      {"a direction", [](Kernel& k) { k.reversed = true; }},
      {"an input's strides", [](Kernel& k) { k.inputs[0].strides[0] = 9; }},
      {"an input's dtype", [](Kernel& k) { k.inputs[0].dtype = DType::bf16; }},
      {"an output's place", [](Kernel& k) { k.outputs[0].index = ir::IndexExpr::variable(1); }},
      {"what an output is of", [](Kernel& k) { k.outputs[0].node -= 1; }},
      {"where an output is written", [](Kernel& k) { k.outputs[0].per_row = true; }},
  };
  std::set<std::string> keys{kernel_key_bytes(softmax())};
  for (const auto& [what, change] : changes) {
    Kernel other = softmax();
    change(other);
    CHECK_MESSAGE(keys.insert(kernel_key_bytes(other)).second, what);
  }
}

TEST_CASE("constants count by their bits") {
  Kernel kernel = samples::softmax(4, 8).kernel;
  Node zero;
  zero.op = Op::constant;
  kernel.nodes.push_back(zero);
  const std::string key = kernel_key_bytes(kernel);
  kernel.nodes.back().value = -0.0;
  CHECK(kernel_key_bytes(kernel) != key);
  kernel.nodes.back().value = 0;
  kernel.nodes.back().bits = 5;  // of no meaning in a floating constant
  CHECK(kernel_key_bytes(kernel) == key);
}
