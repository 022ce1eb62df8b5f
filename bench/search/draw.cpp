// planish-search-draw --list [--cpu] | TASK [--count N] [--seed S] [--arch NAME]: prints one kernel with every genome
// of a small space as JSON lines, for bench/search/record.py. The first line says what is searched, each further one is
// a genome with its sources and launches, the coder's guesses first and the others shuffled.
//
// The space is the kernel's own with choices left out, at random but for those of the first guesses, until little
// more than N legal genomes remain; these are printed without exception. So a recording answers every question that a
// search of that space can ask, and no rule has to stand in for what was not measured.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "codegen/genome.h"
#include "column_samples.h"
#include "sample_kernels.h"

namespace planish::bench {
namespace {

using namespace codegen;
using nlohmann::json;

struct Task {
  const char* name;
  std::function<samples::Sample()> make;
};

/// Far beyond the last-level cache, and yet quick to time.
std::vector<Task> gpu_tasks() {
  using namespace samples;
  return {{"softmax_long", [] { return softmax(2048, 16384); }},
          {"layer_norm", [] { return layer_norm(32768, 1024); }},
          {"bias_gelu", [] { return bias_gelu(8192, 4096); }},
          {"rms_norm_bf16", [] { return rms_norm(16384, 4096, DType::bf16); }},
          {"transpose_add", [] { return transpose_add(8192, 4096); }},
          {"column_stats", [] { return column_stats(16, 4096, 512); }},
          {"batch_standardize", [] { return batch_standardize(64, 192, 56 * 56); }},
          {"causal_softmax", [] { return causal_softmax(6144, 6144); }},
          {"l2_norm_odd", [] { return l2_norm(8192, 4099); }},
          {"argmax_rows", [] { return extremes(8192, 4096, DType::f32, false); }},
          {"softmax_columns", [] { return softmax_columns(4096, 8192); }},
          {"logsumexp", [] { return logsumexp(4096, 12288); }},
          {"group_norm", [] { return group_norm(32, 32, 8, 64 * 64); }},
          {"softmax_short_bf16", [] { return softmax(131072, 256, DType::bf16); }},
          {"whole_moments", [] { return whole_moments(std::int64_t{1} << 26); }},
          {"row_stats", [] { return row_stats(1024, 65536); }},
          {"rms_channels", [] { return rms_channels(32, 256, 4096); }},
          {"standardize_gain", [] { return standardize_gain(4096, 8191); }}};
}

/// About the size of a first-level cache to that of a last-level one: what a busy machine times fairly.
std::vector<Task> cpu_tasks() {
  using namespace samples;
  return {{"cpu_softmax", [] { return softmax(256, 1000); }},
          {"cpu_layer_norm", [] { return layer_norm(256, 768); }},
          {"cpu_bias_gelu", [] { return bias_gelu(128, 1024); }},
          {"cpu_column_stats", [] { return column_stats(4, 256, 256); }},
          {"cpu_transpose_add", [] { return transpose_add(512, 384); }}};
}

double combinations(const std::vector<Gene>& genes) {
  double out = 1;
  for (const Gene& gene : genes) out *= static_cast<double>(gene.choices.size());
  return out;
}

Genome nth(const std::vector<Gene>& genes, std::uint64_t number) {
  Genome out;
  for (const Gene& gene : genes) {
    out[gene.name] = gene.choices[number % gene.choices.size()];
    number /= gene.choices.size();
  }
  return out;
}

class Thinner {
 public:
  Thinner(const Kernel& kernel, const Device& device, std::uint64_t seed)
      : kernel_(kernel), device_(device), rng_(seed), genes_(codegen::genes(kernel, device)) {}

  /// Every legal genome of what is left: `least` at least, where there are that many.
  std::vector<Genome> all(std::size_t least) {
    const std::vector<Genome> guesses = codegen::seeds(kernel_, device_);
    const std::span<const Genome> kept(guesses.data(), std::min<std::size_t>(4, guesses.size()));
    // Too many to look at: as many are left out as an estimate allows.
    while (combinations(genes_) > 4e5 && fraction() * combinations(genes_) > 4.0 * static_cast<double>(least)) {
      const auto gone = droppable(kept);
      if (!gone) break;
      drop(*gone);
    }
    std::vector<Genome> out = legal();
    constexpr int most_misses = 24;
    for (int misses = 0; misses < most_misses && out.size() > least * 5 / 4;) {
      const auto gone = droppable(kept);
      if (!gone) break;
      const auto has = [&](const Genome& genome) { return genome.at(genes_[gone->first].name) == value(*gone); };
      const auto gone_with_it = static_cast<std::size_t>(std::ranges::count_if(out, has));
      if (out.size() - gone_with_it < least) {
        ++misses;
        continue;
      }
      std::erase_if(out, has);
      drop(*gone);
    }
    return out;
  }
  const std::vector<Gene>& genes() const { return genes_; }

 private:
  using Choice = std::pair<std::size_t, std::size_t>;  ///< gene and its choice

  bool fine(const Genome& genome) const { return illegal(kernel_, device_, genome).empty(); }
  std::int64_t value(Choice choice) const { return genes_[choice.first].choices[choice.second]; }
  std::vector<Genome> legal() const {
    std::vector<Genome> out;
    for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(combinations(genes_)); ++i) {
      if (Genome genome = nth(genes_, i); fine(genome)) out.push_back(std::move(genome));
    }
    return out;
  }
  double fraction() {
    constexpr int draws = 4000;
    int found = 0;
    for (int i = 0; i < draws; ++i) {
      Genome genome;
      for (const Gene& gene : genes_) genome[gene.name] = gene.choices[rng_() % gene.choices.size()];
      found += fine(genome) ? 1 : 0;
    }
    return std::max(found, 1) / static_cast<double>(draws);
  }
  /// A choice that none of the guesses has. Rarely of a gene with two choices: many genes with few choices are harder
  /// to search than the other way round, and nearer to the whole space.
  std::optional<Choice> droppable(std::span<const Genome> kept) {
    std::vector<Choice> many, two;
    for (std::size_t g = 0; g < genes_.size(); ++g) {
      const std::size_t choices = genes_[g].choices.size();
      for (std::size_t c = 0; c < choices && choices > 1; ++c) {
        const auto used = [&](const Genome& guess) { return guess.at(genes_[g].name) == genes_[g].choices[c]; };
        if (std::ranges::none_of(kept, used)) (choices > 2 ? many : two).emplace_back(g, c);
      }
    }
    const auto& from = many.empty() || (!two.empty() && rng_() % 8 == 0) ? two : many;
    if (from.empty()) return std::nullopt;
    return from[rng_() % from.size()];
  }
  void drop(Choice choice) {
    auto& choices = genes_[choice.first].choices;
    choices.erase(choices.begin() + static_cast<std::ptrdiff_t>(choice.second));
  }

  const Kernel& kernel_;
  const Device& device_;
  std::mt19937_64 rng_;
  std::vector<Gene> genes_;
};

json launch(const Emitted& one) {
  json args = json::array();
  for (const auto& arg : one.args) {
    using Kind = Emitted::Argument::Kind;
    args.push_back({arg.kind == Kind::input ? "input" : arg.kind == Kind::output ? "output" : "scratch", arg.index});
  }
  return {{"language", one.language}, {"source", one.source}, {"entry", one.entry},
          {"flags", one.flags},       {"grid", one.grid},     {"block", one.block},
          {"cluster", one.cluster},   {"shared", one.shared}, {"args", args}};
}

void print(const json& line) {
  const std::string text = line.dump();
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fputc('\n', stdout);
}

void draw(const Task& task, const Device& device, std::size_t count, std::uint64_t seed) {
  const samples::Sample sample = task.make();
  Thinner thinner(sample.kernel, device, seed);
  std::vector<Genome> all = thinner.all(count);
  std::mt19937_64 rng(seed + 1);
  for (std::size_t i = all.size(); i > 1; --i) std::swap(all[i - 1], all[rng() % i]);
  std::vector<Genome> first;
  for (const Genome& guess : codegen::seeds(sample.kernel, device)) {
    if (std::ranges::find(all, guess) != all.end()) first.push_back(guess);
  }
  const std::set<Genome> seeds(first.begin(), first.end());
  json head = {{"schema", "planish.search_draw/1"},
               {"name", task.name},
               {"family", sample.family},
               {"parameters", json::object()},
               {"genomes", all.size()},
               {"target", device.target->name},
               {"arch", device.arch},
               {"seeds", json::array()}};
  for (const auto& [name, value] : sample.parameters) {
    if (name == "dtype") {
      head["parameters"]["dtype"] = std::string(planish::name(samples::sized(value)));
    } else {
      head["parameters"][name] = value;
    }
  }
  for (const auto& input : sample.kernel.inputs)
    head["inputs"].push_back(
        {{"dtype", std::string(planish::name(input.dtype))}, {"shape", input.shape}, {"strides", input.strides}});
  for (const auto& output : sample.kernel.outputs)
    head["outputs"].push_back({{"dtype", std::string(planish::name(output.dtype))}, {"shape", output.shape}});
  for (const Gene& gene : thinner.genes()) head["genes"].push_back({{"name", gene.name}, {"choices", gene.choices}});
  for (const Genome& genome : first) head["seeds"].push_back(text(genome));
  print(head);
  std::vector<Genome> order = first;
  for (const Genome& genome : all) {
    if (!seeds.contains(genome)) order.push_back(genome);
  }
  for (const Genome& genome : order) {
    json line = {{"genome", text(genome)}};
    if (const auto emitted = emit(sample.kernel, device, genome)) {
      line["scratch_bytes"] = emitted->scratch_bytes;
      line["launches"].push_back(launch(*emitted));
      for (const Emitted& next : emitted->after) line["launches"].push_back(launch(next));
    } else {
      line["error"] = emitted.error().message;
    }
    print(line);
  }
}

int run(int argc, char** argv) {
  std::string wanted;
  std::size_t count = 1100;
  std::uint64_t seed = 1;
  bool list = false, cpu = false;
  std::string arch;
  for (int i = 1; i < argc; ++i) {
    const std::string_view arg = argv[i];
    if (arg == "--list") {
      list = true;
    } else if (arg == "--cpu") {
      cpu = true;
    } else if (arg == "--count" && i + 1 < argc) {
      count = std::max<std::size_t>(1, std::strtoull(argv[++i], nullptr, 10));
    } else if (arg == "--seed" && i + 1 < argc) {
      seed = std::strtoull(argv[++i], nullptr, 10);
    } else if (arg == "--arch" && i + 1 < argc) {
      arch = argv[++i];
    } else if (!arg.starts_with("--") && wanted.empty()) {
      wanted = arg;
    } else {
      fmt::print(stderr,
                 "error: unknown argument {}\nhint: planish-search-draw --list [--cpu] | TASK [--count N] [--seed S] "
                 "[--arch NAME]\n",
                 arg);
      return 2;
    }
  }
  for (const bool on_cpu : {false, true}) {
    Device device;
    device.target = on_cpu ? &backend::cpu() : &backend::cuda();
    device.arch = arch.empty() ? (on_cpu ? "x86-64-v3" : "sm_90a") : arch;
    if (on_cpu) device.sms = 1;
    for (const Task& task : on_cpu ? cpu_tasks() : gpu_tasks()) {
      if (list && on_cpu == cpu) fmt::print("{}\n", task.name);
      if (list || wanted != task.name) continue;
      draw(task, device, count, seed);
      return 0;
    }
  }
  if (list) return 0;
  fmt::print(stderr, "error: there is no task '{}'\nhint: planish-search-draw --list\n", wanted);
  return 2;
}

}  // namespace
}  // namespace planish::bench

int main(int argc, char** argv) {
  return planish::bench::run(argc, argv);
}
