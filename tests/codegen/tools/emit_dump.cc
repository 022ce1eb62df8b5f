// planish-emit-dump [--small|--large] [--random N] [--seed S] [--with GENES]: emits sample kernels with their seed
// genomes, these again with the genes of GENES changed, and N random ones each, for sm_90a and prints one JSON
// document. tests/gpu/emit_check.py compiles, runs and compares them.
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <random>
#include <string_view>

#include "codegen/emit/cuda_plan.h"
#include "codegen/emit/expression.h"
#include "codegen/genome.h"
#include "sample_kernels.h"

namespace {

using namespace planish;
using namespace planish::codegen;
using nlohmann::json;

json describe(const samples::Sample& sample, const Device& device, const Genome& genome, bool seed) {
  const auto emitted = emit(sample.kernel, device, genome);
  json out = {{"genome", text(genome)}, {"seed", seed}};
  if (!emitted) {
    out["error"] = emitted.error().message;
    return out;
  }
  const auto plan = printing::make_plan(sample.kernel, device, genome);
  out["source"] = emitted->source;
  out["entry"] = emitted->entry;
  out["grid"] = emitted->grid;
  out["block"] = emitted->block;
  out["cluster"] = emitted->cluster;
  out["shared"] = emitted->shared;
  out["estimated_registers"] = plan.registers;
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  bool large = false;
  int random = 0;
  std::uint64_t seed = 1;
  Genome forced;
  for (int i = 1; i < argc; ++i) {
    const std::string_view arg = argv[i];
    if (arg == "--large")
      large = true;
    else if (arg == "--small")
      large = false;
    else if (arg == "--random" && i + 1 < argc)
      random = std::atoi(argv[++i]);
    else if (arg == "--with" && i + 1 < argc) {
      const auto genome = genome_from_text(argv[++i]);
      if (!genome) {
        std::fprintf(stderr, "error: %s\n", genome.error().message.c_str());
        return 2;
      }
      forced = *genome;
    } else if (arg == "--seed" && i + 1 < argc)
      seed = std::strtoull(argv[++i], nullptr, 10);
    else {
      std::fprintf(stderr,
                   "error: unknown argument %s\nhint: planish-emit-dump [--small|--large] [--random N] [--seed S] "
                   "[--with GENES]\n",
                   argv[i]);
      return 2;
    }
  }
  Device device;
  device.target = Target::cuda;
  device.arch = "sm_90a";
  json kernels = json::array();
  for (const auto& sample : large ? samples::large_samples() : samples::small_samples()) {
    json one = {{"family", sample.family}, {"parameters", json::object()}};
    for (const auto& [name, value] : sample.parameters) {
      if (name == "dtype")
        one["parameters"]["dtype"] = std::string(planish::name(samples::sized(value)));
      else
        one["parameters"][name] = value;
    }
    for (const auto& input : sample.kernel.inputs) {
      one["inputs"].push_back(
          {{"dtype", std::string(planish::name(input.dtype))}, {"shape", input.shape}, {"strides", input.strides}});
    }
    for (const auto& output : sample.kernel.outputs) {
      one["outputs"].push_back({{"dtype", std::string(planish::name(output.dtype))}, {"shape", output.shape}});
    }
    std::mt19937_64 rng(seed);
    for (const auto& genome : seeds(sample.kernel, device))
      one["variants"].push_back(describe(sample, device, genome, true));
    // Seeds with some genes changed, where that is legal.
    for (auto genome : forced.empty() ? std::vector<Genome>{} : seeds(sample.kernel, device)) {
      for (const auto& [name, value] : forced) {
        if (genome.contains(name)) genome[name] = value;
      }
      if (illegal(sample.kernel, device, genome).empty())
        one["variants"].push_back(describe(sample, device, genome, false));
    }
    for (int r = 0; r < random; ++r) {
      one["variants"].push_back(describe(sample, device, random_genome(sample.kernel, device, rng), false));
    }
    kernels.push_back(std::move(one));
  }
  const json document = {{"schema", "planish.emit-dump/1"},
                         {"cpp_prelude", std::string(printing::prelude(false))},
                         {"kernels", std::move(kernels)}};
  const std::string dumped = document.dump();
  std::fwrite(dumped.data(), 1, dumped.size(), stdout);
  std::fputc('\n', stdout);
  return 0;
}
