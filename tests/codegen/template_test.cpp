#include "codegen/templates/template.h"

#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <random>
#include <set>

#include "activation_samples.h"
#include "attention_samples.h"
#include "codegen/graph_builder.h"
#include "codegen/lower/lower.h"
#include "codegen/templates/genomes.h"
#include "column_samples.h"
#include "cooperative_genomes.h"
#include "cpp_samples.h"
#include "devices.h"
#include "early_samples.h"
#include "order_samples.h"
#include "recurrence_samples.h"
#include "row_and_column_samples.h"
#include "sample_kernels.h"
#include "scan_samples.h"
#include "scatter_samples.h"
#include "segment_samples.h"
#include "triton_genomes.h"
#include "window_samples.h"

namespace planish::codegen {
namespace {

/// a @ b
samples::Sample product(std::int64_t rows, std::int64_t columns, std::int64_t depth) {
  samples::Build b;
  b.k.anchor = Anchor::contraction;
  b.k.space.extents = {rows, columns, depth};
  b.k.inner = 1;
  const int x = b.load(b.input(DType::f32, {rows, depth}), b.at({{0, depth}, {2, 1}}));
  const int y = b.load(b.input(DType::f32, {depth, columns}), b.at({{2, columns}, {1, 1}}));
  b.output(b.reduce(ReduceKind::sum, b.op(Op::mul, {x, y}), 0), DType::f32, {rows, columns},
           b.at({{0, columns}, {1, 1}}), true);
  return {"product", {}, std::move(b.k)};
}

/// A linear layer of two rows in 16 bits.
samples::Sample few_rows() {
  GraphBuilder g;
  const int x = g.input({2, 1024}, DType::bf16), weights = g.input({512, 1024}, DType::bf16);
  const std::vector<int> y{g.node("linear", {V("input", x), V("weight", weights)}, {2, 512}, DType::bf16)};
  LowerLimits limits;
  limits.contractions = true;
  return {"few_rows", {}, *lower(g.graph, {true}, y, limits)};
}

/// Rows of three groups, each with a matrix of its own.
samples::Sample groups_of_rows() {
  GraphBuilder g;
  const int x = g.input({64, 40}), matrices = g.input({3, 40, 48}), ends = g.input({3}, DType::i32);
  const std::vector<int> y{g.node("_grouped_mm", {V("self", x), V("mat2", matrices), V("offs", ends)}, {64, 48})};
  LowerLimits limits;
  limits.grouped = true;
  return {"groups_of_rows", {}, *lower(g.graph, {true}, y, limits)};
}

std::vector<samples::Sample> some_of_each() {
  std::vector<samples::Sample> out;
  for (auto some : {samples::small_samples, samples::row_samples, samples::activation_samples, samples::column_samples,
                    samples::scan_samples, samples::window_samples, samples::cross_samples, samples::early_samples,
                    samples::parts_samples}) {
    auto all = some();
    for (std::size_t i = 0; i < all.size(); i += std::max<std::size_t>(1, all.size() / 6)) out.push_back(all[i]);
  }
  out.push_back(product(64, 48, 200));
  out.push_back(few_rows());
  out.push_back(groups_of_rows());
  out.push_back({"attention", {}, samples::attention_sample({.queries = 200, .keys = 100, .features = 32}).kernel});
  out.push_back({"recurrence", {}, samples::recurrence_sample()});
  out.push_back(samples::scatter_sample(6, 50, 40));
  for (const auto& sample : samples::order_samples(false)) out.push_back(sample);
  return out;
}

Device gpu() {
  Device device = h200();
  device.triton = true;
  return device;
}

/// What was planned is what is launched.
void check_outline(const Schedule& schedule, const Genomes& genomes, const Genome& genome) {
  CAPTURE(text(genome));
  const auto emitted = genomes.emit(genome);
  REQUIRE(emitted);
  const Outline outline = schedule.outline(genome);
  if (gene(genome, "tile_m", 0) != 0 ||
      genome.contains("wavefront")) {  // packing, products, parts joined: no one launch stands for all
    CHECK(!emitted->after.empty());
    CHECK(std::isnan(outline.blocks));
    return;
  }
  CHECK(outline.blocks == static_cast<double>(emitted->grid[0] * emitted->grid[1] * emitted->grid[2]));
  CHECK(outline.threads == static_cast<double>(emitted->block[0]));
  CHECK(outline.registers > 8);
  CHECK(outline.trips >= 1);
  CHECK(outline.flight_bytes > 0);
  if (emitted->language == "cuda") CHECK(outline.shared_bytes >= static_cast<double>(emitted->shared));
}

TEST_CASE("templates have names of their own, and each takes some kernels before the last takes all") {
  std::set<std::string_view> names;
  for (const Template* one : all_templates()) {
    CHECK(!one->name().empty());
    CHECK(names.insert(one->name()).second);
  }
  std::set<std::string_view> taken;
  for (const auto& sample : some_of_each()) taken.insert(template_of(sample.kernel).name());
  CHECK(taken == names);
}

TEST_CASE("every template says of a genome what its own launch will be, in both languages of a GPU") {
  const Device device = gpu();
  std::map<std::string_view, int> seen;
  for (const auto& sample : some_of_each()) {
    CAPTURE(sample.family);
    const auto schedule = schedule_of(sample.kernel, device);
    const Genomes genomes(sample.kernel, device);
    std::mt19937_64 rng(11);
    for (int i = 0; i < 3; ++i) check_outline(*schedule, genomes, genomes.random(rng));
    check_outline(*schedule, genomes, genomes.seeds().back());  // Triton, where it has a seed
    ++seen[template_of(sample.kernel).name()];
  }
  CHECK(seen.size() == all_templates().size());
}

TEST_CASE("a team's outline is that of the team") {
  Device device = gpu();
  device.shared_bytes = 4096;  // rows of small kernels then need one
  int teams = 0;
  for (const auto& sample : some_of_each()) {
    CAPTURE(sample.family);
    const auto schedule = schedule_of(sample.kernel, device);
    const Genomes genomes(sample.kernel, device);
    std::mt19937_64 rng(3);
    const auto genome = samples::random_team_genome(sample.kernel, device, rng);
    if (!genome) continue;
    ++teams;
    check_outline(*schedule, genomes, *genome);
    CHECK(genomes.emit(*genome)->cooperative);
  }
  CHECK(teams > 0);
}

TEST_CASE("a processor's outline follows its genome") {
  Device device;
  device.arch = "x86-64-v4";
  device.sms = 4;
  for (const auto& sample : some_of_each()) {
    const auto schedule = schedule_of(sample.kernel, device);
    const Genomes genomes(sample.kernel, device);
    for (const Genome& genome : genomes.seeds()) {
      const Outline outline = schedule->outline(genome);
      CHECK(outline.threads == static_cast<double>(genome.at("threads")));
      CHECK(std::isnan(outline.blocks));
      CHECK(std::isnan(outline.registers));
    }
  }
}

}  // namespace
}  // namespace planish::codegen
