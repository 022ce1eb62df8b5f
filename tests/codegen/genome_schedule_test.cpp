#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>

#include "codegen/devices.h"
#include "codegen/emit/cuda_access.h"
#include "codegen/genome.h"
#include "codegen/templates/genomes.h"
#include "column_samples.h"
#include "gather_samples.h"
#include "row_and_column_samples.h"
#include "sample_kernels.h"
#include "scan_samples.h"

using namespace planish;
using namespace planish::codegen;

TEST_CASE("genome text round-trips and bad text is refused") {
  const Genome genome{{"threads", 256}, {"vector", 16}};
  CHECK(text(genome) == "threads=256 vector=16");
  CHECK(genome_from_text(text(genome)).value() == genome);
  for (const char* bad : {"threads", "=3", "threads=x", "threads=3x", "a=1 a=2"}) {
    INFO(bad);
    REQUIRE_FALSE(genome_from_text(bad).has_value());
    CHECK(genome_from_text(bad).error().kind.name() == "bad_genome");
  }
}

TEST_CASE("genomes stored under earlier names of genes mean what they meant") {
  const auto old =
      genome_from_text("ahead=2 hold=1 keep=0 rest=1 skip=2 slices=8 strips=1 team=132 threads=256 walk=4");
  REQUIRE(old);
  CHECK(text(*old) ==
        "cooperative=132 grid_split=8 operand_residency=1 partial_residency=0 persistent_rows=4 pipeline_depth=2 "
        "predication=2 register_residency=1 stencil_reuse=1 threads=256");
  for (const auto& [name, value] : *old) CHECK(find_gene(name) != nullptr);
  CHECK(genome_from_text("walk=4 persistent_rows=4").error().kind.name() == "bad_genome");
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

TEST_CASE("tiny kernels have legal genomes, and drawing finds them") {
  std::vector<samples::Sample> tiny;
  for (const std::int64_t rows : {1, 2, 5, 10, 33}) {
    tiny.push_back(samples::relu(rows));
    for (const std::int64_t cols : {1, 2, 3, 17, 65}) {
      tiny.push_back(samples::transpose_add(rows, cols));
      tiny.push_back(samples::softmax(rows, cols));
      tiny.push_back(samples::softmax_columns(rows, cols));
      tiny.push_back(samples::batch_standardize(rows, cols, 3));
      tiny.push_back(samples::cumsum(rows, cols));
      tiny.push_back(samples::cumsum(rows, 5, cols));
      tiny.push_back(samples::scans(rows, cols, 2));
      tiny.push_back(samples::embedding_scale(rows, 3, cols));
      if (rows == 1 || rows == 5) {  // guesses take long to make for these
        tiny.push_back(samples::both_folds(3, rows, cols, DType::bf16));
        tiny.push_back(samples::softmax_sums(rows, cols, cols % 2 == 0));
      }
      for (const bool columns : {false, true}) {
        tiny.push_back(samples::reductions(rows, cols, columns));
        for (const DType dtype : {DType::f32, DType::bf16, DType::f64})
          tiny.push_back(samples::extremes(rows, cols, dtype, columns));
      }
    }
  }
  std::vector<Device> devices{h200(), h200(), Device{}};
  devices[1].triton = true;
  devices[2].arch = "x86-64-v4";
  for (const Device& device : devices) {
    for (const auto& sample : tiny) {
      INFO(sample.family);
      for (const auto& [name, value] : sample.parameters) INFO(name, "=", value);
      REQUIRE_FALSE(seeds(sample.kernel, device).empty());
      std::mt19937_64 rng(11);
      const Genome drawn = random_genome(sample.kernel, device, rng);
      CHECK(illegal(sample.kernel, device, drawn) == "");
      CHECK(emit(sample.kernel, device, drawn).has_value());
    }
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
  large["partial_residency"] = 0;
  large["rows"] = 1;
  large["min_blocks"] = 1;
  CHECK(illegal(sample.kernel, device, large).find("shared memory") != std::string::npos);
  const auto refused = emit(sample.kernel, device, large);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().kind.name() == "illegal_genome");
  Kernel empty = sample.kernel;
  empty.outputs.clear();
  CHECK(emit(empty, device, good).error().kind.name() == "unsupported");
}

TEST_CASE("the first seed for long rows keeps them on chip, for huge pointwise tensors it streams") {
  const Device device = h200();
  CHECK(seeds(samples::softmax(4096, 393216).kernel, device).front().at("residency") != 0);
  CHECK(seeds(samples::relu(1 << 30).kernel, device).front().at("hints") == 2);  // stores only
  CHECK(seeds(samples::relu(1 << 16).kernel, device).front().at("hints") == 0);
}

namespace {
/// Everything that makes a launch.
std::string identity(const Emitted& emitted) {
  std::string out = emitted.source + "|" + std::to_string(emitted.shared);
  for (int i = 0; i < 3; ++i) {
    for (const std::int64_t n : {emitted.grid[i], emitted.block[i], emitted.cluster[i]}) out += "," + std::to_string(n);
  }
  for (const auto& flag : emitted.flags) out += " " + flag;
  for (const auto& next : emitted.after) out += "\n" + identity(next);
  return out;
}
}  // namespace

TEST_CASE("genomes that differ print different programs, nearly always") {
  // A genome whose program is another one's costs nothing but the thought; where that is common, genes have no effect.
  const Device device = h200();
  const std::vector<samples::Sample> all{
      samples::bias_gelu(8192, 4096),       samples::softmax(2048, 16384),
      samples::logsumexp(4096, 12288),      samples::row_stats(1024, 65536),
      samples::causal_softmax(6144, 6144),  samples::extremes(8192, 4096, DType::f32, false),
      samples::column_stats(16, 4096, 512), samples::whole_moments(std::int64_t{1} << 26)};
  for (const auto& sample : all) {
    INFO(sample.family);
    const Genomes genomes(sample.kernel, device);
    std::mt19937_64 rng(11);
    std::map<std::string, std::pair<int, int>> same_of;  // by gene: pairs with the same program, pairs
    for (int i = 0; i < 10; ++i) {
      const Genome genome = genomes.random(rng);
      const auto emitted = emit(sample.kernel, device, genome);
      if (!emitted) continue;
      for (const Gene& gene : genomes.genes()) {
        Genome other = genome;
        other[gene.name] = gene.choices[rng() % gene.choices.size()];
        if (other == genome || !genomes.legal(other)) continue;
        const auto printed = genomes.emit(other);
        if (!printed) continue;
        auto& [same, pairs] = same_of[gene.name];
        ++pairs;
        same += identity(*printed) == identity(*emitted) ? 1 : 0;
      }
    }
    int same_of_all = 0, pairs_of_all = 0;
    for (const auto& [name, counts] : same_of) {
      const auto [same, pairs] = counts;
      INFO(name, ": ", same, " of ", pairs);
      // What has no effect beside some other choice is tolerated; what never has any is no gene.
      CHECK((pairs < 6 || same < pairs));
      same_of_all += same;
      pairs_of_all += pairs;
    }
    CHECK(same_of_all <= pairs_of_all * 6 / 100);
  }
}

TEST_CASE("stores that do not exist get no hint") {
  const Device device = h200();
  for (const auto& sample : {samples::logsumexp(4096, 12288), samples::whole_moments(std::int64_t{1} << 26)}) {
    INFO(sample.family);
    const auto known = genes(sample.kernel, device);
    CHECK(std::ranges::find(known, "hints", &Gene::name)->choices == std::vector<std::int64_t>{0, 1});
    CHECK(seeds(sample.kernel, device).size() > 1);
  }
}

TEST_CASE("what is found once is what the functions find") {
  const Device device = h200();
  const auto sample = samples::layer_norm(4096, 1024);
  const Genomes genomes(sample.kernel, device);
  CHECK(genomes.seeds() == seeds(sample.kernel, device));
  std::mt19937_64 a(3), b(3);
  for (int i = 0; i < 3; ++i) {
    const Genome genome = genomes.random(a);
    CHECK(genome == random_genome(sample.kernel, device, b));
    CHECK(genomes.legal(genome));
    CHECK(genomes.mutate(genome, a) == mutate(sample.kernel, device, genome, b));
    CHECK(genomes.neighbours(genome) == neighbours(sample.kernel, device, genome));
  }
}

TEST_CASE("indices without division are taken apart as those with it") {
  const ir::Space space{{6, 1, 8, 32}};
  const std::vector<int> domain{1, 2, 3};
  std::vector<ir::IndexExpr> zeros;
  for (int v = 0; v < 4; ++v) zeros.push_back(v == 0 ? ir::IndexExpr::variable(0) : ir::IndexExpr::constant(0));
  const auto sum = [&](std::initializer_list<std::pair<int, std::int64_t>> terms) {
    ir::IndexExpr out = ir::IndexExpr::constant(5);
    for (const auto& [v, by] : terms) out = ir::add(out, ir::scale(ir::IndexExpr::variable(v), by), space);
    return out;
  };
  const std::vector<std::pair<ir::IndexExpr, bool>> cases{{sum({{0, 256}, {2, 32}, {3, 1}}), true},
                                                          {sum({{2, 32}, {3, 1}}), true},
                                                          {sum({{0, 256}, {1, 7}, {2, 32}, {3, 1}}), false},
                                                          {sum({{0, 256}, {2, 31}, {3, 1}}), false},
                                                          {sum({{0, 256}, {3, 1}}), false}};
  for (const auto& [index, linear] : cases) {
    INFO(index.text());
    const ir::IndexExpr outside = printing::outside_domain(index, domain, space);
    CHECK(outside == ir::substitute(index, zeros, space));
    CHECK(printing::is_linear(index, domain, space) == linear);
  }
}
