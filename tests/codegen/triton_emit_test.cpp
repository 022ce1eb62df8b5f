// The Triton emitter's genomes and launches. tests/triton_emit runs what it prints.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "backend/flags.h"
#include "codegen/genome.h"
#include "sample_kernels.h"
#include "triton_genomes.h"

using namespace planish;
using namespace planish::codegen;

namespace {

Device gpu(bool triton) {
  Device device;
  device.target = &backend::cuda();
  device.arch = "sm_90a";
  device.triton = triton;
  return device;
}

bool has_language(const Kernel& kernel, const Device& device) {
  return std::ranges::any_of(genes(kernel, device), [](const Gene& gene) { return gene.name == "language"; });
}

}  // namespace

TEST_CASE("Triton is a gene where the machine has it, and tried by seeds alone") {
  int with = 0;
  for (const auto& sample : samples::small_samples()) {
    CHECK(!has_language(sample.kernel, gpu(false)));
    const Device device = gpu(true);
    if (!has_language(sample.kernel, device)) continue;
    ++with;
    const auto all = seeds(sample.kernel, device);
    const auto in_triton = std::ranges::count_if(all, [](const Genome& g) { return g.at("language") == 1; });
    CHECK_MESSAGE((in_triton >= 1 && in_triton <= 2), sample.family);
    CHECK(all.front().at("language") == 0);
    std::mt19937_64 rng(3);
    for (int i = 0; i < 5; ++i) CHECK(random_genome(sample.kernel, device, rng).at("language") == 0);
    // Around a Triton genome there are others.
    const auto seed = std::ranges::find_if(all, [](const Genome& g) { return g.at("language") == 1; });
    for (const auto& near : neighbours(sample.kernel, device, *seed))
      CHECK(illegal(sample.kernel, device, near).empty());
  }
  CHECK(with >= 10);
}

TEST_CASE("a launch of emitted Triton fits its flags, and equal code has one genome") {
  const Device device = gpu(true);
  std::mt19937_64 rng(5);
  for (const auto& sample : samples::small_samples()) {
    const Kernel& kernel = sample.kernel;
    // With one element to a row there is nothing for hints to be about.
    if (kernel.inner_extent() * (kernel.anchor == Anchor::row ? 1 : kernel.outer_extent()) == 1) continue;
    std::map<std::string, std::string> known;
    for (int i = 0; i < 12; ++i) {
      const auto genome = samples::random_triton_genome(sample.kernel, device, rng);
      if (!genome) break;
      const auto emitted = emit(sample.kernel, device, *genome);
      REQUIRE_MESSAGE(emitted.has_value(), sample.family);
      CHECK(emitted->language == "triton");
      CHECK(emitted->block[0] == 32 * backend::triton_warps(emitted->flags));
      CHECK(emitted->shared == 0);
      CHECK(emitted->args.size() == sample.kernel.inputs.size() + sample.kernel.outputs.size());
      for (const auto& flag : emitted->flags) CHECK_MESSAGE(backend::cuda().language("triton")->allows(flag), flag);
      const std::string code = emitted->source + emitted->flags[0] + std::to_string(emitted->grid[0]);
      const auto [at, fresh] = known.emplace(code, text(*genome));
      CHECK_MESSAGE((fresh || at->second == text(*genome)),
                    sample.family << ": " << at->second << " | " << text(*genome));
    }
  }
}

TEST_CASE("genes that mean nothing to Triton stay where they are") {
  const Device device = gpu(true);
  int refused = 0;
  for (const auto& sample : samples::small_samples()) {
    const auto all = seeds(sample.kernel, device);
    const auto seed =
        std::ranges::find_if(all, [](const Genome& g) { return g.contains("language") && g.at("language") == 1; });
    if (seed == all.end()) continue;
    for (const auto& gene : genes(sample.kernel, device)) {
      if (gene.name != "persistent" && gene.name != "min_blocks") continue;
      Genome other = *seed;
      other[gene.name] = gene.choices.back();
      refused += !illegal(sample.kernel, device, other).empty();
    }
  }
  CHECK(refused >= 10);
}
