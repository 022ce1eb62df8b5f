#include "codegen/fold.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>

#include "codegen/emit/cuda_fold.h"
#include "codegen/emit/expression.h"
#include "codegen/emit/triton_value.h"
#include "codegen/templates/genomes.h"
#include "column_samples.h"
#include "devices.h"
#include "sample_kernels.h"

namespace planish::codegen {
namespace {

TEST_CASE("every kind of fold has a row that is whole") {
  std::set<std::string_view> names;
  for (const FoldInfo& one : table_of_folds::all) {
    CAPTURE(one.name);
    CHECK(&info(one.kind) == &one);
    CHECK(names.insert(one.name).second);
    CHECK(finds_position(one.kind) == one.name.starts_with("arg"));
    CHECK(info(one.value).identity == one.identity);
    CHECK(info(one.op).arity == 2);
    CHECK(one.truth == info(one.op).truth);
    CHECK_FALSE((one.truth && one.adds));
    // Ranks are no folds of two states: their schedules put rows in order.
    if (ranks(one.kind)) {
      CHECK((one.cuda.real.empty() && one.cpp.into.empty() && one.triton.empty()));
      continue;
    }
    // Every backend can say it; positions have functions of their own on GPUs.
    CHECK(one.cuda.real.empty() == finds_position(one.kind));
    CHECK(one.cuda.whole.empty() == finds_position(one.kind));
    CHECK(one.triton.empty() == finds_position(one.kind));
    CHECK_FALSE(one.cpp.into.empty());
    CHECK_FALSE(one.cpp.lanes.empty());
  }
  CHECK(info(ReduceKind::argmin).value == ReduceKind::min);
}

TEST_CASE("a state is merged as its row says, in floats and in whole numbers that wrap") {
  using printing::combine;
  CHECK(combine(ReduceKind::sum, DType::f32, "a", "b") == "(a + b)");
  CHECK(combine(ReduceKind::product, DType::i64, "a", "b") ==
        "(long long)((unsigned long long)a * (unsigned long long)b)");
  CHECK(combine(ReduceKind::min, DType::i32, "a", "b") == "pl_min(a, b)");
  CHECK(combine(ReduceKind::all, DType::boolean, "a", "b") == "(bool)((a != 0) & (b != 0))");
}

TEST_CASE("what a fold begins with changes nothing") {
  using printing::neutral;
  CHECK(neutral(ReduceKind::sum, DType::f32) == "0x0p+0f");
  CHECK(neutral(ReduceKind::product, DType::i32) == "1");
  CHECK(neutral(ReduceKind::max, DType::u8) == "0");
  CHECK(neutral(ReduceKind::argmax, DType::f64) == neutral(ReduceKind::max, DType::f64));
  CHECK(neutral(ReduceKind::any, DType::boolean) == neutral(ReduceKind::sum, DType::boolean));
}

TEST_CASE("Triton's functions follow the type") {
  const auto of = [](ReduceKind kind, DType dtype) {
    Reduction reduction;
    reduction.kind = kind;
    reduction.accumulate = dtype;
    return printing::triton_fold(reduction);
  };
  CHECK(of(ReduceKind::max, DType::f32).combine == "pl_max");
  CHECK(of(ReduceKind::max, DType::f64).combine == "pl_max64");
  CHECK(of(ReduceKind::max, DType::i16).combine == "pl_larger");
  CHECK(of(ReduceKind::sum, DType::i16).type == DType::i32);
  CHECK(of(ReduceKind::all, DType::boolean).neutral == "1");
}

TEST_CASE("what a language cannot fold is not offered in it") {
  Device device = h200();
  device.triton = true;
  int positions = 0;
  for (const auto& sample : samples::column_samples()) {
    const auto& folds = sample.kernel.reductions;
    if (std::ranges::none_of(folds, [](const Reduction& r) { return finds_position(r.kind); })) continue;
    ++positions;
    CHECK(find_gene(genes(sample.kernel, device), "language") == nullptr);
  }
  CHECK(positions > 0);
}

TEST_CASE("two folds that one sweep finds share a state, whose object says all of it") {
  using namespace printing;
  const auto state_of = [](const Kernel& kernel, JointKind kind) {
    const auto pairs = online_pairs(kernel);
    REQUIRE(pairs.size() == 1);
    CHECK(pairs[0].kind == kind);
    CHECK(kernel.reductions[static_cast<std::size_t>(pairs[0].leader)].kind == info(kind).leader);
    CHECK(kernel.reductions[static_cast<std::size_t>(pairs[0].follower)].kind == info(kind).follower);
    CHECK(folds_of(kernel, pairs, 1).empty());
    const auto folds = folds_of(kernel, pairs, 0);
    REQUIRE(folds.size() == 1);
    REQUIRE(folds[0].joint != nullptr);
    CHECK(folds[0].joint->kind() == kind);
    CHECK(folds[0].follower == pairs[0].follower);
    // Nothing of a state is left out where two of them become one.
    const auto named = [](const char* prefix) { return [=](const std::string& suffix) { return prefix + suffix; }; };
    const std::string merged = folds[0].state->merge(kernel, folds[0], "expf", named("mine_"), named("theirs_"));
    for (const FoldField& field : folds[0].fields) {
      CHECK(merged.find("mine_" + field.suffix) != std::string::npos);
      CHECK(merged.find("theirs_" + field.suffix) != std::string::npos);
    }
    CHECK(folds[0].state->finish(folds[0], named("mine_"), "leader", "follower").size() == 2);
    return folds[0];
  };
  const Fold softmax = state_of(samples::softmax(8, 256).kernel, JointKind::exponentials);
  CHECK(softmax.joint->relative());
  CHECK(softmax.fields[0].neutral == fold_bottom);
  const Fold norm = state_of(samples::layer_norm(8, 256).kernel, JointKind::deviations);
  CHECK_FALSE(norm.joint->relative());
  CHECK(std::ranges::count_if(norm.fields, &FoldField::counts) == 1);
  // Without the pair the same folds keep a value each.
  const Kernel apart = samples::softmax(8, 256).kernel;
  for (const int phase : {0, 1}) {
    const auto folds = folds_of(apart, {}, phase);
    REQUIRE(folds.size() == 1);
    CHECK(folds[0].joint == nullptr);
    CHECK(folds[0].fields.size() == 1);
  }
}

}  // namespace
}  // namespace planish::codegen
