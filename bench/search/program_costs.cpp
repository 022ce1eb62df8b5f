// What a candidate's program costs the supervisor between the coder and the runner: written, read, hashed.
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <functional>
#include <vector>

#include "base/json.h"
#include "codegen/compose/compose.h"
#include "codegen/compose/staged.h"
#include "codegen/partition/partition.h"
#include "codegen/templates/genomes.h"
#include "evaluate/dedup.h"
#include "graph_builder.h"
#include "program/checked.h"

using namespace planish;
using codegen::F;
using codegen::I;
using codegen::L;
using codegen::V;

namespace {

/// Processor time: what else the machine does is of no interest.
double us_each(std::size_t count, const std::function<void()>& work) {
  double best = 1e30;
  for (int pass = 0; pass < 7; ++pass) {
    const std::clock_t began = std::clock();
    work();
    best =
        std::min(best, static_cast<double>(std::clock() - began) * 1e6 / CLOCKS_PER_SEC / static_cast<double>(count));
  }
  return best;
}

/// softmax(x * 0.5) of (64, 4096), and gelu of it, its sum with it: a region of some size.
ir::Graph graph() {
  codegen::GraphBuilder g;
  const int x = g.input({64, 4096});
  const int half = g.node("mul.Scalar", {V("self", x), F("other", 0.5)}, {64, 4096});
  const int soft =
      g.node("_softmax.default", {V("self", half), I("dim", 1), codegen::B("half_to_float", false)}, {64, 4096});
  const int both = g.node("add.Tensor", {V("self", soft), V("other", x)}, {64, 4096});
  g.output(g.node("gelu.default", {V("self", both)}, {64, 4096}));
  g.output(g.node("sum.dim_IntList", {V("self", both), L("dim", {1})}, {64}));
  return g.graph;
}

void costs(const backend::Backend& target, const char* arch) {
  codegen::Device device;
  device.target = &target;
  device.arch = arch;
  const ir::Graph task = graph();
  const auto cut = codegen::partition(task).value();
  std::vector<program::Program> programs;
  double emitting = 0;
  std::mt19937_64 rng(1);
  for (const auto& region : cut.regions) {
    const codegen::Genomes genomes(codegen::searched_kernel(region, device), device);
    std::vector<codegen::Genome> drawn = genomes.seeds();
    for (int i = 0; i < 40; ++i) drawn.push_back(genomes.random(rng));
    emitting += us_each(1, [&] {
      programs.clear();
      for (const auto& genome : drawn) {
        const auto emitted = genomes.emit(genome);
        if (!emitted) continue;
        if (auto made = codegen::region_program(task, region, *emitted, device)) programs.push_back(std::move(*made));
      }
    });
  }
  if (programs.empty()) {
    fmt::print("{}: nothing was emitted\n", target.name);
    return;
  }
  const std::vector<std::string> binaries(8, std::string(64, 'a'));
  std::size_t bytes = 0, sink = 0;
  for (const auto& one : programs) bytes += program::to_json(one).size();
  // Each stage for itself, from text to text.
  const double apart = us_each(programs.size(), [&] {
    for (const auto& one : programs) {
      const std::string text = program::to_json(one);
      sink += program::hash(one).size() + program::normalised_hash(one).size();
      const auto read = program::parse(text).value();
      sink += program::hash(read).size() + program::normalised_hash(read).size();
      sink += Dedup::binary_key(read, binaries).size();
      const auto json = parse_json(program::to_json(read), "bad_program", "program").value();
      sink += dump_json(json).size();
    }
  });
  // As one value that is handed on.
  const double handed = us_each(programs.size(), [&] {
    for (const auto& one : programs) {
      const program::Checked made(one);
      sink += made.variant().size();
      const auto given = program::Given(made).checked().value();
      sink += given.hash().size() + given.variant().size();
      sink += Dedup::binary_key(given.program(), binaries).size();
      sink += dump_json(program::document(given.program())).size();
    }
  });
  fmt::print(
      "{}: {} programs of {} bytes; emitted and composed in {:.1f} us; then {:.1f} us stage by stage, {:.1f} us as one "
      "value ({})\n",
      target.name, programs.size(), bytes / programs.size(), emitting / static_cast<double>(programs.size()), apart,
      handed, sink);
}

}  // namespace

int main() {
  costs(backend::cuda(), "sm_90a");
  costs(backend::cpu(), "x86-64-v4");
}
