// The CUDA scan schedule: which genomes are legal, and what is printed for them. What the text computes is checked by
// tools/emit_emulate.py and on a GPU by tests/gpu/emit_check.py.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "codegen/devices.h"
#include "codegen/genome.h"
#include "codegen/templates/scan/cuda_scan_plan.h"
#include "scan_samples.h"

using namespace planish;
using namespace planish::codegen;
using namespace planish::codegen::printing;

namespace {

std::string body(const Emitted& emitted) {
  return emitted.source.substr(emitted.source.find("// The state that the lane d"));
}
bool has(const std::string& source, std::string_view text) {
  return source.find(text) != std::string::npos;
}
int count(const std::string& source, std::string_view text) {
  int n = 0;
  for (auto at = source.find(text); at != std::string::npos; at = source.find(text, at + 1)) ++n;
  return n;
}

/// The genome with every gene that it does not name at its first choice.
Emitted emitted(const Kernel& kernel, Genome genome) {
  for (const auto& one : genes(kernel, h200())) genome.try_emplace(one.name, one.choices.front());
  REQUIRE(illegal(kernel, h200(), genome) == "");
  auto out = emit(kernel, h200(), genome);
  REQUIRE(out.has_value());
  return *out;
}

}  // namespace

TEST_CASE("every scan sample has legal seeds, and drawing keeps to the law") {
  for (const bool large : {false, true}) {
    for (const auto& sample : large ? samples::large_scan_samples() : samples::scan_samples()) {
      INFO(sample.family);
      const auto first = seeds(sample.kernel, h200());
      REQUIRE_FALSE(first.empty());
      for (const auto& genome : first) CHECK(illegal(sample.kernel, h200(), genome).empty());
      std::mt19937_64 rng(7);
      for (int i = 0; i < 3; ++i) {
        const Genome drawn = random_genome(sample.kernel, h200(), rng);
        CHECK(illegal(sample.kernel, h200(), drawn).empty());
        CHECK(illegal(sample.kernel, h200(), mutate(sample.kernel, h200(), drawn, rng)).empty());
      }
      const auto a = emit(sample.kernel, h200(), first.front());
      REQUIRE(a.has_value());
      CHECK(a->source == emit(sample.kernel, h200(), first.front())->source);
      CHECK_FALSE(has(a->source, "#include"));
    }
  }
}

TEST_CASE("rows of one element, and lengths that no vector divides, have seeds too") {
  for (const auto& sample : {samples::cumsum(1, 1), samples::cumsum(3, 2), samples::cumsum(1, 1000003),
                             samples::scans(1, 7, 3), samples::cumulative_softmax(1, 1048579)}) {
    const auto first = seeds(sample.kernel, h200());
    REQUIRE_FALSE(first.empty());
    CHECK(emit(sample.kernel, h200(), first.front()).has_value());
  }
}

TEST_CASE("a block exchanges totals with one barrier a chunk, a warp with none") {
  const auto sample = samples::plain_cumsum(512, 32768);
  const auto block =
      emitted(sample.kernel, {{"threads", 256}, {"split", 256}, {"unroll", 4}, {"vector", 16}, {"pipeline_depth", 1}});
  CHECK(block.grid[0] == 512);
  CHECK(block.after.empty());
  CHECK(has(body(block), "for (int k = 0; k < 8; ++k) {"));
  CHECK(count(body(block), "__syncthreads") == 1);
  // Loaded ahead: before the loop, and in it.
  CHECK(count(body(block), "pl_load<0, 4>(r0[u], in0") == 2);
  CHECK(has(body(block), "PlRunSum<double> c0 = PlRunSum<double>{0};"));
  const auto rows = samples::plain_cumsum(512, 512);
  const auto warp = emitted(rows.kernel, {{"threads", 128}, {"split", 32}, {"unroll", 4}, {"vector", 16}});
  CHECK(warp.grid[0] == 128);
  CHECK(count(body(warp), "__syncthreads") == 0);
}

TEST_CASE("a reversed scan turns positions, not addresses") {
  const auto sample = samples::plain_cumsum(64, 4096, 1, true);
  const auto source = body(emitted(sample.kernel, {{"threads", 128}, {"split", 128}, {"unroll", 2}, {"vector", 16}}));
  CHECK(has(source, "const ix t = upto - 1 - i;"));
  CHECK(has(source, "for (int j = 3; j >= 0; --j) {"));
  CHECK(has(source, "pl_load<0, 4>(r0[u], in0"));
  CHECK(has(source, "pl_store<0, 4>(out0"));
}

TEST_CASE("a sliced row is two launches with the totals between them; reductions forbid it") {
  const auto sample = samples::plain_cumsum(2, 1 << 20);
  const auto two =
      emitted(sample.kernel, {{"threads", 256}, {"split", 256}, {"unroll", 2}, {"vector", 16}, {"grid_split", 64}});
  REQUIRE(two.after.size() == 1);
  CHECK(two.scratch_bytes == std::vector<std::int64_t>{64 * 2 * 8});
  CHECK(two.grid[0] == 128);
  CHECK_FALSE(has(body(two), "pl_store"));
  CHECK(has(body(two.after[0]), "for (int i = y; i < slice; i += 256) {"));
  CHECK(two.args.back().kind == Emitted::Argument::Kind::scratch);
  const auto soft = samples::cumulative_softmax(2, 1 << 20);
  const auto all = genes(soft.kernel, h200());
  CHECK(std::ranges::find(all, "grid_split", &Gene::name)->choices.size() == 1);
}

TEST_CASE("illegal scan genomes are refused with the reason") {
  const auto sample = samples::plain_cumsum(64, 4096);
  Genome genome;
  for (const auto& one : genes(sample.kernel, h200())) genome[one.name] = one.choices.front();
  const auto why = [&](const Genome& changes) {
    Genome next = genome;
    for (const auto& [name, value] : changes) next[name] = value;
    return illegal(sample.kernel, h200(), next);
  };
  CHECK(has(why({{"threads", 64}, {"split", 128}}), "than a block has"));
  CHECK(has(why({{"threads", 1024}, {"split", 1024}, {"unroll", 16}}), "half of a chunk"));
  CHECK(has(why({{"threads", 1024}, {"split", 4}}), "no row"));
  CHECK(has(why({{"threads", 1024}, {"split", 1024}, {"vector", 16}, {"pipeline_depth", 1}}), "next chunk"));
}
