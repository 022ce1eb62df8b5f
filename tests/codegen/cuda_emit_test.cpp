#include <doctest/doctest.h>

#include <string>

#include "codegen/emit/cuda_access.h"
#include "codegen/emit/cuda_plan.h"
#include "codegen/genome.h"
#include "sample_kernels.h"

using namespace planish;
using namespace planish::codegen;
using namespace planish::codegen::printing;

namespace {
Device h200() {
  Device device;
  device.target = Target::cuda;
  device.arch = "sm_90a";
  return device;
}
bool has(const std::string& source, std::string_view text) {
  return source.find(text) != std::string::npos;
}
std::string body(const Emitted& emitted) {
  return emitted.source.substr(emitted.source.find("// ---- kernel ----"));
}
}  // namespace

TEST_CASE("emission is a function of its arguments") {
  for (const auto& sample : samples::small_samples()) {
    const auto genome = seeds(sample.kernel, h200()).front();
    const auto a = emit(sample.kernel, h200(), genome);
    const auto b = emit(sample.kernel, h200(), genome);
    REQUIRE(a.has_value());
    CHECK(a->source == b->source);
    CHECK(a->args.size() == sample.kernel.inputs.size() + sample.kernel.outputs.size());
    CHECK_FALSE(has(a->source, "#include"));
  }
}

TEST_CASE("a pointwise kernel loads vectors, and its tail one by one") {
  const auto sample = samples::relu(1003);
  const Genome genome{{"threads", 64}, {"vector", 16}, {"unroll", 2}, {"hints", 0}, {"persistent", 0}, {"fast", 0}};
  const auto emitted = emit(sample.kernel, h200(), genome);
  REQUIRE(emitted.has_value());
  CHECK(emitted->grid[0] == 2);
  CHECK(has(body(*emitted), "pl_load<0, 4>(r0[u], in0 + (e0));"));
  CHECK(has(body(*emitted), "if (blockIdx.x == 1 && threadIdx.x < 3) {"));
  CHECK(has(body(*emitted), "if (q < 250) {"));
}

TEST_CASE("rows of odd length start anywhere, and never read outside") {
  const auto sample = samples::l2_norm(64, 65535);
  Genome genome{{"threads", 256}, {"vector", 16}, {"unroll", 2}, {"hints", 0},  {"min_blocks", 1}, {"residency", 2},
                {"rows", 1},      {"cluster", 4}, {"fast", 0},   {"online", 0}, {"walk", 0}};
  const auto plan = make_plan(sample.kernel, h200(), genome);
  CHECK(plan.shifted);
  CHECK(plan.vectors == 16385);
  const auto emitted = emit(sample.kernel, h200(), genome);
  REQUIRE(emitted.has_value());
  CHECK(has(body(*emitted), "const int shift = (int)((65535 * d0) & 3);"));
  CHECK(has(body(*emitted), "if (e0 >= 0 && e0 + 4 <= 65535) {"));
  CHECK(has(body(*emitted), "pl_cluster_sync();"));
  CHECK(emitted->cluster[0] == 4);
  CHECK(emitted->grid[0] == 256);
}

TEST_CASE("tensors beyond 2^31 elements are indexed with 64 bits") {
  const auto big = samples::softmax(3500000, 1000);
  const auto emitted = emit(big.kernel, h200(), seeds(big.kernel, h200()).front());
  REQUIRE(emitted.has_value());
  CHECK(has(emitted->source, "typedef long long ix;"));
  const auto small = samples::softmax(3500, 1000);
  CHECK(has(emit(small.kernel, h200(), seeds(small.kernel, h200()).front())->source, "typedef int ix;"));
}

TEST_CASE("pairs that one sweep can compute are found by structure") {
  const auto pairs = online_pairs(samples::logsumexp(8, 64).kernel);
  REQUIRE(pairs.size() == 1);
  CHECK(pairs[0].kind == OnlinePair::Kind::exponentials);
  REQUIRE(online_pairs(samples::layer_norm(8, 64).kernel).size() == 1);
  CHECK(online_pairs(samples::layer_norm(8, 64).kernel)[0].kind == OnlinePair::Kind::deviations);
  CHECK(online_pairs(samples::rms_norm(8, 64).kernel).empty());
  // A divisor other than the row's length is no mean.
  auto odd = samples::standardize(8, 64);
  for (auto& node : odd.kernel.nodes) {
    if (node.op == Op::constant && node.value == 64) node.value = 65;
  }
  CHECK(online_pairs(odd.kernel).empty());
  // Nor does a sum of exponentials follow the maximum of something else.
  auto other = samples::softmax(8, 64);
  other.kernel.reductions[0].kind = ReduceKind::min;
  CHECK(online_pairs(other.kernel).empty());
}

TEST_CASE("an online softmax sweeps once, and a walk refills what it wrote") {
  const auto sample = samples::softmax(4096, 8192);
  Genome genome{{"threads", 256}, {"vector", 16}, {"unroll", 2}, {"hints", 0},  {"min_blocks", 1}, {"residency", 2},
                {"rows", 1},      {"cluster", 1}, {"fast", 0},   {"online", 0}, {"walk", 0}};
  const auto barriers = [&](const Genome& g) {
    const auto emitted = emit(sample.kernel, h200(), g);
    REQUIRE(emitted.has_value());
    const std::string source = body(*emitted);
    int count = 0;
    for (auto at = source.find("__syncthreads"); at != std::string::npos; at = source.find("__syncthreads", at + 1))
      ++count;
    return count;
  };
  CHECK(barriers(genome) == 2);
  genome["online"] = 1;
  CHECK(barriers(genome) == 1);
  genome["walk"] = 16;
  const auto walking = emit(sample.kernel, h200(), genome);
  REQUIRE(walking.has_value());
  CHECK(walking->grid[0] == 256);
  CHECK(has(body(*walking), "if (group + 1 < upto) {"));
  CHECK(has(body(*walking), "expf("));
  genome["fast"] = 1;
  CHECK_FALSE(has(body(*emit(sample.kernel, h200(), genome)), "expf("));
  genome["residency"] = 0;
  CHECK(illegal(sample.kernel, h200(), genome) == "walking refills shared memory");
}

TEST_CASE("vector access needs proof of alignment and of contiguity") {
  ir::Space space{{8, 64}};
  const auto at = [&](std::int64_t a, std::int64_t b, std::int64_t c) {
    return add(add(scale(ir::IndexExpr::variable(0), a), scale(ir::IndexExpr::variable(1), b), space),
               ir::IndexExpr::constant(c), space);
  };
  Lanes lanes;
  lanes.width = 4;
  lanes.variable = 1;
  using K = Access::Kind;
  const auto of = [&](const ir::IndexExpr& e) { return classify(e, {}, DType::f32, space, lanes); };
  CHECK(of(at(64, 1, 0)).kind == K::vector);
  CHECK(of(at(64, 1, 0)).unit == 4);
  CHECK(of(at(64, 1, 2)).unit == 2);
  CHECK(of(at(65, 1, 0)).unit == 1);
  CHECK(of(at(64, -1, 63)).kind == K::reversed);
  CHECK(of(at(64, -1, 63)).unit == 4);
  CHECK(of(at(1, 0, 0)).kind == K::invariant);
  CHECK(of(at(1, 8, 0)).kind == K::elements);
  CHECK(classify(at(64, 1, 0), {}, DType::f64, space, lanes).unit == 2);
  const auto div = floor_div(ir::IndexExpr::variable(1), 16, space);
  CHECK(of(div).kind == K::invariant);
  CHECK(of(floor_div(ir::IndexExpr::variable(1), 6, space)).kind == K::elements);
  CHECK(of(mod(ir::IndexExpr::variable(1), 16, space)).kind == K::vector);
  const ir::Bound inside{ir::IndexExpr::variable(1), 0, 60};
  CHECK(classify(at(64, 1, 0), {&inside, 1}, DType::f32, space, lanes).kind == K::elements);
}

TEST_CASE("a reduction over a strided dimension lays threads along the contiguous one") {
  CHECK(prefers_columns(samples::rms_channels(4, 64, 1024).kernel));
  CHECK_FALSE(prefers_columns(samples::softmax(64, 1024).kernel));
}
