// A target that nothing in src knows takes a task from the graph to a cell of the archive.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>

#include "backend/backend.h"
#include "base/file.h"
#include "codegen/compose/compose.h"
#include "codegen/graph_builder.h"
#include "codegen/partition/partition.h"
#include "codegen/templates/genomes.h"
#include "coder/source_text.h"
#include "evaluate/codec.h"
#include "evaluate/device.h"
#include "evaluate/device_host.h"
#include "evaluate/launches.h"
#include "made_up/abacus.h"
#include "search/cell.h"
#include "worker/kernel_compiler.h"

using namespace planish;
using codegen::Genome;
using codegen::I;
using codegen::L;
using codegen::V;

namespace {

codegen::Device on_abacus() {
  codegen::Device device;
  device.target = &made_up::abacus();
  device.arch = "bamboo";
  device.sms = 8;
  return device;
}

/// relu(x) summed along its rows: one region.
codegen::GraphBuilder row_sums() {
  codegen::GraphBuilder g;
  const int x = g.input({6, 100});
  const int positive = g.node("relu.default", {V("self", x)}, {6, 100});
  g.output(g.node("sum.dim_IntList", {V("self", positive), L("dim", {1})}, {6}));
  return g;
}

}  // namespace

TEST_CASE("a third target takes a task through emission, compilation and the archive") {
  const codegen::Device device = on_abacus();
  const auto g = row_sums();
  const auto cut = codegen::partition(g.graph).value();
  REQUIRE(cut.regions.size() == 1);

  // Genes, seeds and draws come from the target's own schedule.
  const codegen::Genomes genomes(cut.regions[0].kernel, device);
  const auto seeds = genomes.seeds();
  REQUIRE(seeds.size() == 2);
  CHECK(codegen::gene(seeds[0], "threads", 0) == 4);
  codegen::Device small = device;
  small.sms = 2;
  const codegen::Genomes fewer(cut.regions[0].kernel, small);
  REQUIRE(fewer.seeds().size() == 1);  // the other one is illegal there
  std::mt19937_64 rng(1);
  for (int i = 0; i < 20; ++i) CHECK(codegen::gene(fewer.random(rng), "threads", 0) <= 2);

  // The program is checked by the target's rules, and survives being written and read.
  const auto emitted = genomes.emit(seeds[0]).value();
  const auto program = codegen::compose(g.graph, cut, {emitted}, device).value();
  CHECK(program.target == "abacus");
  REQUIRE(program.kernels.size() == 1);
  CHECK(program.kernels[0].language == "tally");
  const auto again = program::parse(program::to_json(program));
  REQUIRE(again.has_value());
  CHECK(program::hash(*again) == program::hash(program));
  program::Program wrong = program;
  wrong.kernels[0].language = "cuda";
  CHECK(program::validate(wrong).error().message.contains("does not run on target abacus"));
  wrong = program;
  wrong.kernels[0].flags = {"-O3"};
  CHECK(program::validate(wrong).error().message.contains("not allowed"));

  // A person's source is in the target's language where it does not say.
  const auto source = coder::parse_source_text("count on 1 rods\n//@ launch count args=in0, out0\n", *device.target);
  REQUIRE(source.has_value());
  CHECK(source->language == "tally");
  CHECK(coder::parse_source_text("//@ kernel cpp\nx\n//@ launch f args=in0", *device.target)
            .error()
            .message.contains("does not run here: tally"));

  // Compiled, kept, and found again.
  const auto folder = TempDir::create("planish-test-").value();
  worker::Compilers compilers;
  compilers.add("tally", made_up::abacus_compiler());
  worker::CompileJob job{
      "tally",      program.kernels[0].source,         program.kernels[0].entry, program.kernels[0].flags,
      program.arch, (folder.path() / "cache").string()};
  const auto compiled = compilers.compile(job);
  REQUIRE(compiled.has_value());
  CHECK(compiled->path.ends_with(".beads"));
  CHECK_FALSE(compiled->cached);
  CHECK(compilers.compile(job)->cached);
  CHECK(compiled->instructions.at("fold") == 1);
  worker::CompileJob broken = job;
  broken.source = "x";
  CHECK(compilers.compile(broken).error().kind.name() == "compile_error");
  broken = job;
  broken.flags = {"-O3"};
  CHECK(compilers.compile(broken).error().message.contains("not on the list"));
  broken = job;
  broken.language = "cpp";
  CHECK(compilers.compile(broken).error().message.contains("no compiler"));

  // The archive's cells are the target's own.
  DeviceFacts facts = device_facts("abacus", {}, Nvml());
  CHECK(facts.arch == "bamboo");
  Evaluation evaluation;
  evaluation.compile = CompileReport{};
  KernelReport report;
  report.instructions = compiled->instructions;
  evaluation.compile->kernels = {report};
  evaluation.compile->launches = launches_of(program, evaluation.compile->kernels, facts);
  REQUIRE(evaluation.compile->launches.size() == 1);
  CHECK(evaluation.compile->launches[0].waves == doctest::Approx(6.0 / 8));  // six blocks, one a rod frame of eight
  const auto cell = search::cell_of(evaluation, "abacus");
  REQUIRE(cell.has_value());
  CHECK(search::text(*cell, "abacus") == "folding, some rods, alone");
}

TEST_CASE("names of targets are asked in one place") {
  const auto& third = made_up::abacus();
  CHECK(backend::find("abacus") == &third);
  CHECK(backend::find("cuda") == &backend::cuda());
  CHECK(backend::find("cpu") == &backend::cpu());
  CHECK(backend::find("gpu") == nullptr);
  CHECK(backend::choices() == "auto, abacus, cpu or cuda");
  CHECK(resolve_target("abacus") == "abacus");
  CHECK(resolve_target("auto") != "abacus");
  CHECK(backend::find_language("tally")->binary == "beads");
  CHECK(backend::find_language("triton")->threads({"--num-warps=8"}) == 256);
  CHECK(backend::find_language("fortran") == nullptr);
  CHECK(backend::cuda().language_names() == "cuda or triton");
}

TEST_CASE("a target that nobody knows is neither of the two") {
  const backend::Backend& unknown = backend::named("vulkan");
  CHECK(unknown.languages.empty());
  CHECK_FALSE(unknown == backend::cpu());
  CHECK_FALSE(unknown == backend::cuda());
  CHECK(probe_of(unknown) == nullptr);
  codegen::Device device;
  device.target = &unknown;
  const auto g = row_sums();
  const auto cut = codegen::partition(g.graph).value();
  CHECK(codegen::genes(cut.regions[0].kernel, device).empty());
  CHECK(codegen::seeds(cut.regions[0].kernel, device).empty());
  CHECK(codegen::emit(cut.regions[0].kernel, device, {}).error().kind.name() == "unsupported");
  CHECK_FALSE(search::cell_of(Evaluation{}, "vulkan"));
}

TEST_CASE("facts about a device of an unknown target are refused") {
  DeviceFacts facts;
  facts.target = "cuda";
  const Json known = codec::write(facts);
  DeviceFacts read;
  CHECK(codec::read(known, read).has_value());
  Json other = known;
  other["target"] = "vulkan";
  const auto refused = codec::read(other, read);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().kind.name() == "protocol");
  CHECK(refused.error().message.contains("vulkan"));
}

TEST_CASE("flags that a program may bring") {
  const auto allowed = [](const char* language, const char* flag) {
    return backend::find_language(language)->allows(flag);
  };
  CHECK(allowed("cuda", "--maxrregcount=64"));
  CHECK(allowed("cuda", "-DN=4"));
  CHECK(allowed("cpp", "-O3"));
  CHECK(allowed("triton", "--num-warps=4"));
  CHECK_FALSE(allowed("cuda", "-O3"));
  CHECK_FALSE(allowed("cpp", "--use_fast_math"));
  CHECK_FALSE(allowed("cpp", "-fplugin=x"));
  CHECK_FALSE(allowed("triton", "-DN=4"));
  CHECK_FALSE(allowed("triton", "--num-warps=3"));
  CHECK_FALSE(allowed("cuda", "-DN=/etc/passwd"));
}
