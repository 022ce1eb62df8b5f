#include <doctest/doctest.h>

#include <algorithm>

#include "codegen/genome.h"
#include "sample_kernels.h"

using namespace planish;
using namespace planish::codegen;

namespace {
Device h200() {
  Device device;
  device.target = Target::cuda;
  device.arch = "sm_90a";
  return device;
}
}  // namespace

TEST_CASE("genome text round-trips and bad text is refused") {
  const Genome genome{{"threads", 256}, {"vector", 16}};
  CHECK(text(genome) == "threads=256 vector=16");
  CHECK(genome_from_text(text(genome)).value() == genome);
  for (const char* bad : {"threads", "=3", "threads=x", "threads=3x", "a=1 a=2"}) {
    INFO(bad);
    REQUIRE_FALSE(genome_from_text(bad).has_value());
    CHECK(genome_from_text(bad).error().kind == "bad_genome");
  }
}

TEST_CASE("every sample has legal seeds, and drawing keeps to the law") {
  const Device device = h200();
  for (const bool large : {false, true}) {
    for (const auto& sample : large ? samples::large_samples() : samples::small_samples()) {
      INFO(sample.family);
      const auto first = seeds(sample.kernel, device);
      REQUIRE_FALSE(first.empty());
      for (const auto& genome : first) CHECK(illegal(sample.kernel, device, genome).empty());
      std::mt19937_64 rng(7);
      for (int i = 0; i < 5; ++i) {
        const Genome drawn = random_genome(sample.kernel, device, rng);
        CHECK(illegal(sample.kernel, device, drawn).empty());
        const Genome mutant = mutate(sample.kernel, device, drawn, rng);
        CHECK(illegal(sample.kernel, device, mutant).empty());
      }
      for (const auto& next : neighbours(sample.kernel, device, first.front())) {
        CHECK(illegal(sample.kernel, device, next).empty());
        int differences = 0;
        for (const auto& [name, value] : next) differences += first.front().at(name) != value;
        CHECK(differences == 1);
      }
    }
  }
}

TEST_CASE("extreme shapes have legal seeds that can be emitted") {
  const std::vector<samples::Sample> extreme = {samples::row_stats(1, 10'000'000),
                                                samples::rms_channels(1, 100'000, 16),
                                                samples::softmax(1 << 20, 3),
                                                samples::relu(1),
                                                samples::l2_norm(2, 3),
                                                samples::softmax(1, 1),
                                                samples::softmax(100'000'000, 64),
                                                samples::transpose_add(17, 1 << 20),
                                                samples::softmax(8, 100'000'000)};
  for (const auto& sample : extreme) {
    INFO(sample.family);
    const auto first = seeds(sample.kernel, h200());
    REQUIRE_FALSE(first.empty());
    for (const auto& genome : first) CHECK(emit(sample.kernel, h200(), genome).has_value());
  }
}

TEST_CASE("the same generator draws the same genomes") {
  const auto sample = samples::softmax(4096, 8192);
  std::mt19937_64 a(3);
  std::mt19937_64 b(3);
  for (int i = 0; i < 20; ++i)
    CHECK(random_genome(sample.kernel, h200(), a) == random_genome(sample.kernel, h200(), b));
}

TEST_CASE("illegal genomes are named") {
  const auto sample = samples::softmax(4096, 65536);
  const Device device = h200();
  const Genome good = seeds(sample.kernel, device).front();
  Genome missing = good;
  missing.erase("threads");
  CHECK(illegal(sample.kernel, device, missing).find("threads") != std::string::npos);
  Genome odd = good;
  odd["threads"] = 100;
  CHECK_FALSE(illegal(sample.kernel, device, odd).empty());
  Genome unknown = good;
  unknown["colour"] = 1;
  CHECK(illegal(sample.kernel, device, unknown).find("colour") != std::string::npos);
  Genome large = good;
  large["residency"] = 2;
  large["cluster"] = 1;
  large["exchange"] = 0;
  large["keep"] = 0;
  large["rows"] = 1;
  large["min_blocks"] = 1;
  CHECK(illegal(sample.kernel, device, large).find("shared memory") != std::string::npos);
  const auto refused = emit(sample.kernel, device, large);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().kind == "illegal_genome");
  Kernel empty = sample.kernel;
  empty.outputs.clear();
  CHECK(emit(empty, device, good).error().kind == "unsupported");
}

TEST_CASE("the first seed for long rows keeps them on chip, for huge pointwise tensors it streams") {
  const Device device = h200();
  CHECK(seeds(samples::softmax(4096, 393216).kernel, device).front().at("residency") != 0);
  CHECK(seeds(samples::relu(1 << 30).kernel, device).front().at("hints") == 2);  // stores only
  CHECK(seeds(samples::relu(1 << 16).kernel, device).front().at("hints") == 0);
}
