#include "model/features.h"

#include <doctest/doctest.h>

#include "../codegen/cpp_samples.h"

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
  gpu.target = codegen::Target::cuda;
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
