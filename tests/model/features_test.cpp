#include "model/features.h"

#include <doctest/doctest.h>

#include <cmath>
#include <memory>
#include <optional>
#include <random>

#include "../codegen/column_samples.h"
#include "../codegen/cpp_samples.h"
#include "../codegen/row_and_column_samples.h"
#include "../codegen/scan_samples.h"
#include "../codegen/segment_samples.h"
#include "codegen/genome.h"
#include "model/cost_model.h"

using namespace planish;
using namespace planish::model;
namespace samples = planish::codegen::samples;

TEST_CASE("features go to text and back") {
  const Features f{{"g.unroll", 2}, {"k.x", -0.1}, {"d.y", 1e-300}};
  const auto back = features_from_text(text(f));
  REQUIRE(back);
  CHECK(*back == f);
  CHECK(features_from_text("")->empty());
  for (const char* bad : {"a", "a=", "=1", "a=1x", "a=nan", "a=inf"}) CHECK(!features_from_text(bad));
  // Genes stored under earlier names; what is no gene keeps its name.
  CHECK(text(*features_from_text("g.ahead=1 g.team=7 g.threads=8 team=2")) ==
        "g.cooperative=7 g.pipeline_depth=1 g.threads=8 team=2");
}

TEST_CASE("a kernel is filed under what it does and how large it is, not under what it is called") {
  const auto a = classify(samples::softmax(1000, 4096).kernel), b = classify(samples::softmax(1024, 4096).kernel);
  CHECK(a.pattern == "row");
  CHECK(a.kinds == b.kinds);
  CHECK(a.kinds.find("reduce_max") != std::string::npos);
  CHECK(a.bucket == "f32 o10 i12");
  CHECK(b.bucket == a.bucket);
  CHECK(a.facts.at("k.log_inner") == 12);
  CHECK(classify(samples::softmax(64, 4096).kernel).bucket != a.bucket);
}

TEST_CASE("a genome's features follow the device") {
  const auto kernel = samples::softmax(1024, 4096).kernel;
  codegen::Device cpu;
  cpu.arch = "x86-64-v4";
  cpu.sms = 2;
  const Featurizer on_cpu(kernel, cpu);
  for (const auto& genome : codegen::seeds(kernel, cpu)) {
    const Features f = on_cpu.of(genome);
    CHECK(f.contains("d.log_bytes_a_thread"));
    CHECK(f.size() > genome.size());
  }
  codegen::Device gpu;
  gpu.target = &backend::cuda();
  gpu.arch = "sm_90a";
  const Featurizer on_gpu(kernel, gpu);
  const auto seeds = codegen::seeds(kernel, gpu);
  REQUIRE(!seeds.empty());
  for (const auto& genome : seeds) {
    const Features f = on_gpu.of(genome);
    CHECK(f.at("d.registers") > 8);
    CHECK(f.at("d.log_blocks") >= 0);
    CHECK(f.at("d.last_wave") <= 1);
  }
}

TEST_CASE("one genome after another is described as each alone; a model asked by places says the same as by names") {
  const auto kernel = samples::softmax(1024, 4096).kernel;
  codegen::Device cpu, gpu;
  cpu.arch = "x86-64-v4";
  cpu.sms = 2;
  gpu.target = &backend::cuda();
  gpu.arch = "sm_90a";
  for (const codegen::Device& device : {cpu, gpu}) {
    const auto features = std::make_shared<const Featurizer>(kernel, device);
    Describer describer(features);
    CostModel model;
    std::optional<CostModel::Places> places;
    std::mt19937_64 rng(5);
    for (int i = 0; i < 40; ++i) {
      const codegen::Genome genome = codegen::random_genome(kernel, device, rng);
      Features alone = features->of(genome);
      for (const auto& [name, value] : features->kernel_class().facts) alone.emplace(name, value);
      const Features& described = describer.of(genome);
      std::size_t known = 0;
      for (const auto& [name, value] : described) {
        if (std::isnan(value)) {
          CHECK_FALSE(alone.contains(name));
          continue;
        }
        ++known;
        REQUIRE(alone.contains(name));
        CHECK(alone.at(name) == value);
      }
      CHECK(known == alone.size());
      if (!places) places.emplace(described);
      const Guess by_name = model.guess("k", alone), by_place = model.guess("k", *places);
      CHECK(by_name.known == by_place.known);
      CHECK(by_name.log_ms == by_place.log_ms);
      CHECK(by_name.failure == by_place.failure);
      model.observe({"k", alone, i % 5 != 0, alone.at("g.threads") * 0.1 + i % 3});
    }
    CHECK(model.guess("k", *places).known);
  }
}

TEST_CASE("the model ranks a candidate by the plan that is emitted, whatever the template") {
  codegen::Device gpu;
  gpu.target = &backend::cuda();
  gpu.arch = "sm_90a";
  gpu.triton = true;
  int triton = 0;
  for (const auto& sample :
       {samples::scan_samples().front(), samples::column_samples().front(), samples::cross_samples().front(),
        samples::parts_samples().front(), samples::cpp_samples().front()}) {
    CAPTURE(sample.family);
    const Featurizer features(sample.kernel, gpu);
    for (const auto& genome : codegen::seeds(sample.kernel, gpu)) {
      const auto emitted = codegen::emit(sample.kernel, gpu, genome);
      REQUIRE(emitted);
      triton += emitted->language == "triton" ? 1 : 0;
      CHECK(features.of(genome).at("d.log_blocks") ==
            doctest::Approx(std::log2(static_cast<double>(emitted->grid[0]))));
    }
  }
  CHECK(triton > 0);
}
