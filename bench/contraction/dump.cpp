// planish-contraction-dump [--convolutions|--last|--layers|--transposed|--pooled|--folded|--spread|--attention|--eight|
// --int8|--grouped-eight] [--large] [--seeds N] [--random N] [--arch NAME] [--sms N] [--genome TEXT]...: emits products
// (or convolutions) of several shapes with their first seeds, N random genomes and the first seed changed as each TEXT
// says ("tile_n=192 pingpong=2"; where that is not legal, left out), as one JSON document that check.py compiles, runs,
// compares and times. `--packed TEXT` emits attention over packed sequences in place of products: of "16 34000 32 8 128
// -1 0" there are 16 in 34,000 tokens, 32 heads that share 8 of keys, 128 features, and a window without a left and
// with nothing right of the query (bench/attention/varlen.py times those); "… 16 4096" behind says that keys lie in
// pages of 16, at most 4,096 of a sequence. `--paged TEXT` emits attention of many queries over pages in place of
// products: of "8 512 2048 32 8 128 64 1" there are 8 sequences of 512 queries behind at most 2,048 keys, 32 heads that
// share 8 of keys, 128 features, and pages of 64 keys, in which heads lie beside each other (0: one after the other;
// bench/attention/paged.py times those). `--arch sm_80` emits what it would for an A100, which runs on later GPUs too,
// and leaves out what is PyTorch's there.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <string_view>
#include <vector>

#include "backend/architecture.h"
#include "codegen/attention_samples.h"
#include "codegen/contraction/contraction.h"
#include "codegen/contraction_samples.h"
#include "codegen/cost.h"
#include "codegen/eight_bit_samples.h"
#include "codegen/genome.h"
#include "codegen/grouped_samples.h"
#include "codegen/integer_samples.h"
#include "codegen/lower/narrow_products.h"
#include "codegen/packed_samples.h"
#include "codegen/paged_samples.h"

namespace {

using namespace planish;
using namespace planish::codegen;
using nlohmann::json;

json launch(const Emitted& one) {
  json args = json::array();
  for (const auto& arg : one.args) {
    using Kind = Emitted::Argument::Kind;
    args.push_back({arg.kind == Kind::input ? "input" : arg.kind == Kind::output ? "output" : "scratch", arg.index});
  }
  return {{"source", one.source}, {"grid", one.grid[0]},       {"block", one.block[0]},
          {"shared", one.shared}, {"cluster", one.cluster[0]}, {"args", args}};
}

json tensors(const auto& all) {
  json out = json::array();
  for (const auto& one : all)
    out.push_back({{"dtype", name(one.dtype)}, {"shape", one.shape}, {"strides", one.strides}, {"value", one.value}});
  return out;
}

/// Of fp32 factors, then of 16-bit ones.
std::vector<samples::ContractionSample> attention_cases(bool large) {
  auto all = samples::attention_samples(large);
  for (auto& sample : samples::half_attention_samples(large)) all.push_back(std::move(sample));
  return all;
}

/// Kernels know how many sequences and tokens there are, and no lengths.
Result<samples::ContractionSample> packed_case(const std::string& text) {
  std::istringstream in(text);
  std::int64_t count = 0;
  int tokens = 0;
  samples::Packed packed;
  in >> count >> tokens >> packed.heads >> packed.shared >> packed.features >> packed.left >> packed.right;
  if (!in || count < 1 || tokens < 1) return fail("usage", "not seven numbers: " + text);
  std::int64_t most = 0;
  if (in >> packed.page >> most && packed.page > 0) packed.pages = (most + packed.page - 1) / packed.page;
  packed.columns = packed.features;
  packed.queries = packed.keys = std::vector<int>(static_cast<std::size_t>(count), 0);
  packed.queries[0] = packed.keys[0] = tokens;
  PLANISH_TRY(auto kernel, samples::packed_kernel(packed));
  const double products = cost(kernel).products;
  return samples::ContractionSample{"packed", text, std::move(kernel), products};
}

/// Kernels know how many keys there are at most, and neither tables nor lengths.
Result<samples::ContractionSample> paged_case(const std::string& text) {
  std::istringstream in(text);
  std::int64_t context = 0;
  samples::Paged p;
  in >> p.batch >> p.queries >> context >> p.heads >> p.shared >> p.features >> p.page >> p.by_place;
  if (!in || p.page < 1) return fail("usage", "not eight numbers: " + text);
  p.columns = p.features;
  p.pages = (context + p.queries + p.page - 1) / p.page;
  p.wide = false;
  PLANISH_TRY(auto kernel, samples::paged_kernel(samples::paged_graph(p)));
  const double products = cost(kernel).products;
  return samples::ContractionSample{"paged", text, std::move(kernel), products};
}

}  // namespace

int main(int argc, char** argv) {
  bool large = false, convolutions = false, last = false, layers = false, transposed = false, pooled = false,
       folded = false, cross_tile = false, attention = false, eight = false, integers = false, grouped_eight = false;
  std::size_t seeds_each = 2;
  Device device;
  device.target = &backend::cuda();
  device.arch = "sm_90a";
  int random = 0;
  std::vector<Genome> changes;
  std::vector<samples::ContractionSample> packed;
  for (int i = 1; i < argc; ++i) {
    const std::string_view arg = argv[i];
    if (arg == "--large") {
      large = true;
    } else if (arg == "--convolutions") {
      convolutions = true;
    } else if (arg == "--last") {
      last = true;
    } else if (arg == "--layers") {
      layers = true;
    } else if (arg == "--attention") {
      attention = true;
    } else if (arg == "--eight") {
      eight = true;
    } else if (arg == "--int8") {
      integers = true;
    } else if (arg == "--grouped-eight") {
      grouped_eight = true;
    } else if (arg == "--transposed") {
      transposed = true;
    } else if (arg == "--pooled") {
      pooled = true;
    } else if (arg == "--folded") {
      folded = true;
    } else if (arg == "--spread") {
      cross_tile = true;
    } else if (arg == "--seeds" && i + 1 < argc) {
      seeds_each = static_cast<std::size_t>(std::atoi(argv[++i]));
    } else if (arg == "--arch" && i + 1 < argc) {
      device.arch = argv[++i];
      device.shared_bytes = backend::architecture(device.arch).block_shared_bytes;
    } else if (arg == "--sms" && i + 1 < argc) {
      device.sms = std::atoi(argv[++i]);
    } else if (arg == "--random" && i + 1 < argc) {
      random = std::atoi(argv[++i]);
    } else if ((arg == "--packed" || arg == "--paged") && i + 1 < argc) {
      auto one = arg == "--packed" ? packed_case(argv[++i]) : paged_case(argv[++i]);
      if (!one) {
        std::fprintf(stderr, "error: %s\n", one.error().message.c_str());
        return 2;
      }
      packed.push_back(std::move(*one));
    } else if (arg == "--genome" && i + 1 < argc) {
      auto change = genome_from_text(argv[++i]);
      if (!change) {
        std::fprintf(stderr, "error: %s\n", change.error().message.c_str());
        return 2;
      }
      changes.push_back(std::move(*change));
    } else {
      std::fprintf(
          stderr,
          "usage: %s [--convolutions|--last|--layers|--transposed|--pooled|--folded|--spread|--attention|--eight|"
          "--int8|--grouped-eight] [--large] "
          "[--seeds N] [--random N] [--arch NAME] [--sms N] [--genome TEXT]... [--packed TEXT]... [--paged TEXT]...\n",
          argv[0]);
      return 2;
    }
  }
  if (!large && packed.empty())
    device.l2_bytes = 1;  // small ones stand for large ones, whose results are many times the cache
  std::mt19937_64 rng(1);
  json out = json::array();
  for (const auto& sample : !packed.empty() ? packed
                            : attention     ? attention_cases(large)
                            : eight         ? samples::eight_bit_samples(large)
                            : integers      ? samples::integer_samples(large)
                            : grouped_eight ? samples::scaled_groups_samples(large)
                            : transposed    ? samples::transposed_samples(large)
                            : pooled        ? samples::pooled_samples(large)
                            : folded        ? samples::folded_samples(large)
                            : cross_tile    ? samples::spread_samples(large)
                            : layers        ? samples::layer_samples()
                            : last          ? samples::channels_last_samples(large)
                            : convolutions  ? samples::convolution_samples(large)
                                            : samples::contraction_samples(large)) {
    if (tensor_cores(device) != TensorCores::warpgroups && multiplies_wide(sample.kernel)) continue;
    auto genomes = seeds(sample.kernel, device);
    if (convolutions || last || layers || transposed || pooled || folded ||
        cross_tile) {  // the best guesses of one product, and of three
      const auto three = std::ranges::stable_partition(
          genomes, [](const Genome& genome) { return value_of(genome, "passes", 3) == 1; });
      if (three.size() > seeds_each) genomes.resize(genomes.size() - three.size() + seeds_each);
      const auto ones = static_cast<std::ptrdiff_t>(genomes.size() - std::min(three.size(), seeds_each));
      if (ones > static_cast<std::ptrdiff_t>(seeds_each))
        genomes.erase(genomes.begin() + static_cast<std::ptrdiff_t>(seeds_each), genomes.begin() + ones);
    } else if (genomes.size() > seeds_each) {
      genomes.resize(seeds_each);
    }
    for (const Genome& change : changes) {
      Genome changed = genomes.front();
      for (const auto& [gene, value] : change) changed[gene] = value;
      if (illegal(sample.kernel, device, changed).empty()) genomes.push_back(std::move(changed));
    }
    for (int i = 0; i < random; ++i) genomes.push_back(random_genome(sample.kernel, device, rng));
    json variants = json::array();
    for (const Genome& genome : genomes) {
      const auto emitted = emit(sample.kernel, device, genome);
      if (!emitted) {
        std::fprintf(stderr, "error: %s %s: %s\n", sample.name.c_str(), text(genome).c_str(),
                     emitted.error().message.c_str());
        return 1;
      }
      json launches = json::array({launch(*emitted)});
      for (const Emitted& next : emitted->after) launches.push_back(launch(next));
      variants.push_back({{"genome", text(genome)},
                          {"launches", launches},
                          {"scratch_bytes", emitted->scratch_bytes},
                          {"zeroed", emitted->zeroed}});
    }
    out.push_back({{"name", sample.name},
                   {"python", sample.python},
                   {"definition", sample.definition},
                   {"products", sample.products},
                   {"inputs", tensors(sample.kernel.inputs)},
                   {"outputs", tensors(sample.kernel.outputs)},
                   {"variants", variants}});
  }
  std::printf("%s\n", out.dump().c_str());
  return 0;
}
