#include "codegen/gene.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "activation_samples.h"
#include "codegen/genome.h"
#include "column_samples.h"
#include "contraction_samples.h"
#include "cpp_samples.h"
#include "devices.h"
#include "early_samples.h"
#include "gather_samples.h"
#include "recurrence_samples.h"
#include "row_and_column_samples.h"
#include "sample_kernels.h"
#include "scan_samples.h"
#include "scatter_samples.h"
#include "segment_samples.h"
#include "window_samples.h"

namespace planish::codegen {
namespace {

std::vector<samples::Sample> every_sample() {
  std::vector<samples::Sample> out;
  for (auto some : {samples::small_samples, samples::row_samples, samples::gather_samples, samples::activation_samples,
                    samples::column_samples, samples::scan_samples, samples::window_samples, samples::cross_samples,
                    samples::early_samples, samples::parts_samples}) {
    for (auto& one : some()) out.push_back(std::move(one));
  }
  for (auto& one : samples::contraction_samples(false)) out.push_back({one.name, {}, std::move(one.kernel)});
  for (auto& one : samples::convolution_samples(false)) out.push_back({one.name, {}, std::move(one.kernel)});
  out.push_back({"recurrence", {}, samples::recurrence_sample()});
  out.push_back(samples::scatter_sample(6, 50, 40));
  return out;
}

TEST_CASE("every gene is described once: name, kind, what it decides, and what it serves") {
  REQUIRE(gene_catalogue().size() == gene_names.size());
  std::set<std::string_view> names;
  for (std::size_t g = 0; g < gene_names.size(); ++g) {
    const GeneInfo& info = gene_catalogue()[g];
    CAPTURE(info.name);
    CHECK(info.name == gene_names[g]);
    CHECK(names.insert(info.name).second);
    CHECK(find_gene(info.name) == &info);
    CHECK(!name(info.kind).empty());
    CHECK(!info.decides.empty());
    REQUIRE(!info.effects.empty());
    for (const GeneEffect& effect : info.effects) {
      CHECK(std::abs(effect.direction) <= 1);
      CHECK(effect.part > 0);
      CHECK(effect.part <= 1);
    }
  }
  CHECK(find_gene("thread") == nullptr);
}

TEST_CASE("whatever a schedule asks for is in the catalogue, and every gene there is asked for by some schedule") {
  std::set<std::string_view> seen;
  for (const backend::Backend* target : {&backend::cuda(), &backend::cpu()}) {
    for (const int sms : {132, 64, 8}) {
      Device device;
      device.target = target;
      device.arch = target == &backend::cuda() ? "sm_90a" : "x86-64-v4";
      device.sms = sms;
      device.triton = true;
      if (sms == 8) device.shared_bytes = 4096;  // small kernels then have teams, too
      if (sms == 64) device.l2_bytes = 4096;     // or results that are many times the cache
      for (const samples::Sample& sample : every_sample()) {
        for (const Gene& gene : genes(sample.kernel, device)) {
          CAPTURE(gene.name);
          const GeneInfo* info = find_gene(gene.name);
          REQUIRE(info != nullptr);
          seen.insert(info->name);
          // Where "larger" serves an aim, a later choice is larger.
          const bool directed = std::ranges::any_of(info->effects, [](const auto& e) { return e.direction != 0; });
          CHECK((!directed || std::ranges::is_sorted(gene.choices)));
        }
      }
    }
  }
  for (const GeneInfo& info : gene_catalogue()) {
    CAPTURE(info.name);
    CHECK(seen.contains(info.name));
  }
}

TEST_CASE("a genome's value is looked up by a name that exists, and may be missing") {
  const Genome genome{{"threads", 256}, {"vector", 8}};
  CHECK(gene(genome, "threads", 1) == 256);
  CHECK(gene(genome, "unroll", 4) == 4);
  CHECK(value_of(genome, "vector", 4) == 8);
  CHECK(value_of(genome, "of another coder", -1) == -1);
}

}  // namespace
}  // namespace planish::codegen
