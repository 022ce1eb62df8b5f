#include "model/cost_model.h"

#include <doctest/doctest.h>

#include <cmath>
#include <random>

#include "model/seeds.h"

using namespace planish;
using namespace planish::model;

namespace {

/// A made-up machine: time falls with bytes in flight until registers run out, where depends on the kernel.
double truth(double unroll, double threads, double weight) {
  const double flight = unroll + threads;
  return -std::min(flight, 9.0 - weight) * 0.2 + (unroll > 3 - weight ? 0.5 : 0.0);
}

Sample sample(const std::string& group, double unroll, double threads, double weight, double level) {
  Sample out;
  out.group = group;
  out.features = {{"g.unroll", unroll}, {"g.threads", threads}, {"k.weight", weight}};
  out.ok = threads < 9;
  out.log_ms = level + truth(unroll, threads, weight);
  return out;
}

std::vector<Sample> samples(const std::string& group, double weight, double level, std::size_t count,
                            std::uint64_t seed) {
  std::mt19937_64 rng(seed);
  std::vector<Sample> out;
  for (std::size_t i = 0; i < count; ++i)
    out.push_back(sample(group, static_cast<double>(rng() % 4), static_cast<double>(5 + rng() % 5), weight, level));
  return out;
}

double correlation(const CostModel& model, const std::vector<Sample>& on) {
  std::vector<double> guessed, measured;
  for (const Sample& s : on) {
    if (!s.ok) continue;
    guessed.push_back(model.guess(s.group, s.features).log_ms);
    measured.push_back(s.log_ms);
  }
  return rank_correlation(guessed, measured);
}

}  // namespace

TEST_CASE("rank correlation") {
  CHECK(rank_correlation({1, 2, 3}, {10, 20, 300}) == doctest::Approx(1));
  CHECK(rank_correlation({1, 2, 3}, {3, 2, 1}) == doctest::Approx(-1));
  CHECK(rank_correlation({1, 1, 2, 3}, {1, 2, 3, 4}) == doctest::Approx(0.9486833));
  CHECK(rank_correlation({1, 1}, {1, 2}) == 0);
  CHECK(rank_correlation({1}, {1}) == 0);
}

TEST_CASE("nothing learned, nothing said") {
  CostModel model;
  CHECK(!model.guess("a", {{"g.unroll", 1}}).known);
}

TEST_CASE("a run's own samples teach it to rank, on the scale of milliseconds") {
  CostModel model;
  for (Sample& s : samples("a", 1, -3, 40, 1)) model.observe(std::move(s));
  const auto test = samples("a", 1, -3, 60, 2);
  CHECK(correlation(model, test) > 0.85);
  CHECK(model.guess("a", test[0].features).log_ms ==
        doctest::Approx(-3 + truth(test[0].features.at("g.unroll"), test[0].features.at("g.threads"), 1)).epsilon(0.2));
  CHECK(model.guess("a", sample("a", 1, 9, 1, 0).features).failure > 0.5);
  CHECK(model.guess("a", sample("a", 1, 6, 1, 0).features).failure < 0.3);
}

TEST_CASE("earlier runs rank a kernel never seen, and its own samples improve on that") {
  std::vector<Sample> earlier;
  for (const double weight : {0.0, 1.0, 2.0}) {
    auto more = samples("k" + std::to_string(weight), weight, 10 * weight, 60, 3);
    earlier.insert(earlier.end(), more.begin(), more.end());
  }
  CostModel model;
  model.learn_prior(earlier);
  CHECK(model.has_prior());
  const auto test = samples("new", 1, 7, 60, 4);
  CHECK(correlation(model, test) > 0.6);
  CHECK(model.guess("new", sample("new", 1, 9, 1, 0).features).failure > 0.5);
  // This kernel is unlike the others in one thing: odd unrolling is bad here.
  const auto odd = [](Sample s) {
    if (std::fmod(s.features.at("g.unroll"), 2) == 1) s.log_ms += 2;
    return s;
  };
  for (const Sample& s : samples("new", 1, 7, 30, 5)) model.observe(odd(s));
  std::vector<Sample> odd_test;
  for (const Sample& s : test) odd_test.push_back(odd(s));
  CHECK(correlation(model, odd_test) > 0.85);
}

TEST_CASE("the order of samples decides, nothing else") {
  CostModel a, b;
  const auto train = samples("a", 1, 0, 50, 6);
  for (const Sample& s : train) a.observe(s);
  for (const Sample& s : train) b.observe(s);
  for (const Sample& s : samples("a", 1, 0, 20, 7))
    CHECK(a.guess("a", s.features).log_ms == b.guess("a", s.features).log_ms);
}

TEST_CASE("seeds come from the most alike kernels, the fastest first") {
  const KernelClass softmax{"row", "exp reduce_max reduce_sum sub", "f32 o10 i12", {}};
  const KernelClass longer{"row", "exp reduce_max reduce_sum sub", "f32 o10 i16", {}};
  const KernelClass norm{"row", "mul reduce_sum rsqrt", "f32 o10 i12", {}};
  const KernelClass gelu{"pointwise", "erf mul", "f32 o0 i22", {}};
  CHECK(likeness(softmax, "a", softmax, "a") == 1);
  CHECK(likeness(softmax, "a", longer, "b") > likeness(norm, "c", longer, "b"));
  CHECK(likeness(gelu, "d", softmax, "a") == 0);
  const auto genome = [](std::int64_t n) { return codegen::Genome{{"threads", n}}; };
  std::vector<Known> known{{norm, "c", genome(1), 1, 0},      {softmax, "a", genome(2), 2.1, 0},
                           {softmax, "a", genome(3), 2.0, 0}, {softmax, "a", genome(4), 9.0, 0},
                           {gelu, "d", genome(5), 0.1, 0},    {softmax, "a", genome(3), 2.05, 0},
                           {softmax, "a", genome(6), 0, 0}};
  CHECK(seeds_from(known, longer, "b", 8) == std::vector<codegen::Genome>{genome(3), genome(2), genome(1)});
  CHECK(seeds_from(known, longer, "b", 1) == std::vector<codegen::Genome>{genome(3)});
  CHECK(seeds_from(known, norm, "c", 1) == std::vector<codegen::Genome>{genome(1)});
}
