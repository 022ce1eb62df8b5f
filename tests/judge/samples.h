#pragma once

#include "judge/judge.h"

/// Evaluations as the evaluator would write them, to be bent by each test.
namespace planish::judge::testing {

inline std::vector<codegen::Gene> row_genes() {
  return {{"cluster", {1, 2, 4}},   {"fast", {0, 1}},
          {"hints", {0, 1, 2, 3}},  {"min_blocks", {1, 2, 4}},
          {"online", {0, 1}},       {"residency", {0, 1, 2}},
          {"rows", {1, 2, 4}},      {"threads", {32, 64, 128, 256, 512, 1024}},
          {"unroll", {1, 2, 4, 8}}, {"vector", {4, 8, 16}}};
}

inline codegen::Genome row_genome() {
  return {{"cluster", 1},   {"fast", 0}, {"hints", 0},     {"min_blocks", 1}, {"online", 0},
          {"residency", 1}, {"rows", 1}, {"threads", 256}, {"unroll", 4},     {"vector", 16}};
}

/// Ran, right, at so many milliseconds against a bound of one: 4.3 GB at 4,300 GB/s.
inline Evaluation timed(double ms) {
  Evaluation e;
  e.tier = Tier::bench;
  e.outcome = Outcome::ok;
  e.level = "screen";
  e.compile = CompileReport{0.1, false, "", {{"k", 32, 0, 0, 0}}};
  e.bench = BenchReport{};
  e.bench->median_ms = ms;
  e.bench->host_us = 5;
  e.roofline = Roofline{4.3e9, 1e9, 1.0, "memory", 1.0 / ms};
  return e;
}

/// Ran and was wrong in its last case, which is the second one.
inline Evaluation wrong(const std::string& regime, OutputErrors errors, Outcome outcome = Outcome::wrong) {
  Evaluation e;
  e.tier = Tier::test;
  e.outcome = outcome;
  e.level = "full";
  e.test = TestReport{};
  TestCase passed;
  passed.regime = "normal";
  passed.ok = true;
  passed.outputs.push_back({1e-7, 2e-7, 1e-6, 1e-6, 1e-7, 2e-7, {}});
  TestCase failed;
  failed.regime = regime;
  failed.problem = "mismatch";
  failed.outputs.push_back(std::move(errors));
  e.test->cases = {passed, failed};
  return e;
}

inline OutputErrors errors(double fro, double max, std::vector<std::int64_t> index, double expected, double actual) {
  OutputErrors out{fro, max, 1e-6, 1e-6, 1e-7, 2e-7, {}};
  out.worst = WorstElement{std::move(index), expected, actual, expected};
  return out;
}

/// A question on a row kernel with one f32 output of 1000 × 1030 elements, launched as 4,000 blocks.
struct Asked {
  Evaluation evaluation;
  codegen::Genome genome = row_genome();
  std::vector<codegen::Gene> genes = row_genes();
  codegen::Device device;
  std::vector<Launch> launches{{40000, 256, 0, 0}};

  explicit Asked(Evaluation e) : evaluation(std::move(e)) {
    device.target = &backend::cuda();
    device.arch = "sm_90a";
  }
  Verdict verdict() const { return judge({evaluation, genome, genes, device, launches, {{1000, 1030}}, {"f32"}}); }
};

inline const Fact* fact(const Verdict& verdict, const std::string& name) {
  for (const Fact& f : verdict.evidence) {
    if (f.name == name) return &f;
  }
  return nullptr;
}

inline bool moves(const Verdict& verdict, const std::string& gene, int direction) {
  for (const Move& move : verdict.moves) {
    if (move.gene == gene && move.direction == direction) return true;
  }
  return false;
}

}  // namespace planish::judge::testing
