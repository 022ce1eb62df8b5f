// planish-emit-dump [--small|--large] [--columns|--scans|--windows|--cross|--early|--parts|--orders] [--triton]
// [--teams]
// [--most N]
// [--random N]
// [--seed S]
// [--with GENES]
// [--sms N] [--shared BYTES] [--cpu ARCH] [--genes]: emits sample kernels with their seed genomes, these again with the
// genes of GENES changed, and N random ones each, for sm_90a and prints one JSON document. --columns takes the samples
// of column_samples.h,
// --scans those of scan_samples.h, --windows those of window_samples.h, --cross those of row_and_column_samples.h,
// --early those of early_samples.h, --parts those of segment_samples.h, --orders those of order_samples.h.
// tests/gpu/emit_check.py compiles, runs and
// compares them. With few multiprocessors
// (--sms) persistent blocks have many rows to do even where a kernel is small. --genomes: only the genomes listed in
// FILE. --triton: genomes of that language only, and kernels that have some. --teams: genomes with teams of blocks only
// (with few multiprocessors and little shared memory small kernels have some, too). --cpu: C++ for the processor ARCH
// (an -march value), of --sms cores. --genes: each kernel's genes, with their choices, as well.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <ranges>
#include <string_view>

#include "activation_samples.h"
#include "codegen/emit/cuda_math.h"
#include "codegen/emit/expression.h"
#include "codegen/genome.h"
#include "codegen/templates/template.h"
#include "column_samples.h"
#include "cooperative_genomes.h"
#include "early_samples.h"
#include "gather_samples.h"
#include "order_samples.h"
#include "row_and_column_samples.h"
#include "sample_kernels.h"
#include "scan_samples.h"
#include "segment_samples.h"
#include "triton_genomes.h"
#include "window_samples.h"

namespace {

using namespace planish;
using namespace planish::codegen;
using nlohmann::json;

/// How a launch is made: its arguments as [kind, index].
json launch(const Emitted& one) {
  json args = json::array();
  for (const auto& arg : one.args) {
    using Kind = Emitted::Argument::Kind;
    args.push_back({arg.kind == Kind::input ? "input" : arg.kind == Kind::output ? "output" : "scratch", arg.index});
  }
  return {{"language", one.language},
          {"flags", one.flags},
          {"source", one.source},
          {"entry", one.entry},
          {"grid", one.grid},
          {"block", one.block},
          {"cluster", one.cluster},
          {"shared", one.shared},
          {"cooperative", one.cooperative},
          {"args", args}};
}

json describe(const samples::Sample& sample, const Device& device, const Genome& genome, bool seed) {
  const auto emitted = emit(sample.kernel, device, genome);
  json out = {{"genome", text(genome)}, {"seed", seed}};
  if (!emitted) {
    out["error"] = emitted.error().message;
    return out;
  }
  out.update(launch(*emitted));
  for (const Emitted& next : emitted->after) out["after"].push_back(launch(next));
  out["scratch_bytes"] = emitted->scratch_bytes;
  out["zeroed"] = emitted->zeroed;
  const double registers = schedule_of(sample.kernel, device)->outline(genome).registers;
  if (!std::isnan(registers)) out["estimated_registers"] = static_cast<int>(registers);
  return out;
}

/// "layer_norm" or "layer_norm:cols=16384".
bool names(std::string_view text, const samples::Sample& sample) {
  const auto colon = std::min(text.find(':'), text.size());
  if (text.substr(0, colon) != sample.family) return false;
  if (colon == text.size()) return true;
  return std::ranges::any_of(sample.parameters, [&](const auto& parameter) {
    return text.substr(colon + 1) == parameter.first + "=" + std::to_string(parameter.second);
  });
}

/// Lines "FAMILY[:PARAMETER=value] gene=value …"; empty lines and those that start with # say nothing.
std::vector<std::pair<std::string, Genome>> read_choice(const char* path) {
  std::vector<std::pair<std::string, Genome>> out;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line.front() == '#') continue;
    const auto space = std::min(line.find(' '), line.size());
    const auto genome = genome_from_text(std::string_view(line).substr(space));
    if (genome) {
      out.emplace_back(line.substr(0, space), *genome);
    } else {
      std::fprintf(stderr, "error: %s: %s\n", path, genome.error().message.c_str());
    }
  }
  if (out.empty()) std::fprintf(stderr, "error: no genome in %s\n", path);
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  bool large = false, columns = false, scans = false, windows = false, cross = false, early = false, parts = false,
       orders = false, teams = false, show_genes = false;
  int random = 0;
  std::size_t most = 1000;  // seeds of a sample
  std::uint64_t seed = 1;
  Device device;
  device.target = &backend::cuda();
  device.arch = "sm_90a";
  Genome forced;
  std::vector<std::pair<std::string, Genome>> chosen;
  for (int i = 1; i < argc; ++i) {
    const std::string_view arg = argv[i];
    if (arg == "--large")
      large = true;
    else if (arg == "--small")
      large = false;
    else if (arg == "--columns")
      columns = true;
    else if (arg == "--scans")
      scans = true;
    else if (arg == "--windows")
      windows = true;
    else if (arg == "--cross")
      cross = true;
    else if (arg == "--early")
      early = true;
    else if (arg == "--parts")
      parts = true;
    else if (arg == "--orders")
      orders = true;
    else if (arg == "--teams")
      teams = true;
    else if (arg == "--triton")
      device.triton = true;
    else if (arg == "--genes")
      show_genes = true;
    else if (arg == "--cpu" && i + 1 < argc) {
      device.target = &backend::cpu();
      device.arch = argv[++i];
    } else if (arg == "--most" && i + 1 < argc)
      most = std::strtoull(argv[++i], nullptr, 10);
    else if (arg == "--random" && i + 1 < argc)
      random = std::atoi(argv[++i]);
    else if (arg == "--genomes" && i + 1 < argc)
      chosen = read_choice(argv[++i]);
    else if (arg == "--sms" && i + 1 < argc)
      device.sms = std::max(1, std::atoi(argv[++i]));
    else if (arg == "--shared" && i + 1 < argc)
      device.shared_bytes = std::max(1024, std::atoi(argv[++i]));
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
                   "error: unknown argument %s\nhint: planish-emit-dump [--small|--large] "
                   "[--columns|--scans|--windows|--cross|--early|--parts|--orders] "
                   "[--triton] [--teams] [--most N] "
                   "[--random N] [--seed S] [--with GENES] [--sms N] [--shared BYTES] [--genomes FILE] [--cpu ARCH] "
                   "[--genes]\n",
                   argv[i]);
      return 2;
    }
  }
  json kernels = json::array();
  auto all = large ? samples::large_samples() : samples::small_samples();
  if (!large) {
    for (auto& sample : samples::row_samples()) all.push_back(std::move(sample));
    for (auto& sample : samples::gather_samples()) all.push_back(std::move(sample));
  }
  for (auto& sample : samples::interleaved_samples(large)) all.push_back(std::move(sample));
  for (auto& sample : large ? samples::large_activation_samples() : samples::activation_samples())
    all.push_back(std::move(sample));
  if (columns) all = large ? samples::large_column_samples() : samples::column_samples();
  if (scans) all = large ? samples::large_scan_samples() : samples::scan_samples();
  if (windows) all = large ? samples::large_window_samples() : samples::window_samples();
  if (cross) all = large ? samples::large_cross_samples() : samples::cross_samples();
  if (early) all = large ? samples::large_early_samples() : samples::early_samples();
  if (orders) all = samples::order_samples(large);
  if (parts) all = large ? samples::large_parts_samples() : samples::parts_samples();
  for (const auto& sample : all) {
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
    if (show_genes) {
      for (const auto& gene : genes(sample.kernel, device)) one["genes"].push_back({gene.name, gene.choices});
    }
    if (!chosen.empty()) {
      // Genes that a line does not name are at their first choice.
      for (const auto& [family, some] : chosen) {
        if (!names(family, sample)) continue;
        Genome genome = some;
        for (const auto& gene : genes(sample.kernel, device)) genome.try_emplace(gene.name, gene.choices.front());
        const auto problem = illegal(sample.kernel, device, genome);
        if (problem.empty()) {
          one["variants"].push_back(describe(sample, device, genome, false));
        } else {
          std::fprintf(stderr, "%s [%s]: %s\n", family.c_str(), text(genome).c_str(), problem.c_str());
        }
      }
      if (one.contains("variants")) kernels.push_back(std::move(one));
      continue;
    }
    std::mt19937_64 rng(seed);
    if (device.triton) {
      for (const auto& genome : seeds(sample.kernel, device)) {
        if (genome.contains("language") && genome.at("language") == 1)
          one["variants"].push_back(describe(sample, device, genome, true));
      }
      for (int r = 0; r < random; ++r) {
        if (const auto genome = samples::random_triton_genome(sample.kernel, device, rng))
          one["variants"].push_back(describe(sample, device, *genome, false));
      }
      if (one.contains("variants")) kernels.push_back(std::move(one));
      continue;
    }
    if (teams) {
      const auto of_team = [](const Genome& g) { return g.contains("cooperative") && g.at("cooperative") != 0; };
      for (const auto& genome : seeds(sample.kernel, device) | std::views::filter(of_team) | std::views::take(most))
        one["variants"].push_back(describe(sample, device, genome, true));
      for (int r = 0; r < random; ++r) {
        if (const auto genome = samples::random_team_genome(sample.kernel, device, rng))
          one["variants"].push_back(describe(sample, device, *genome, false));
      }
      if (one.contains("variants")) kernels.push_back(std::move(one));
      continue;
    }
    for (const auto& genome : seeds(sample.kernel, device) | std::views::take(most))
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
                         {"cpp_prelude", std::string(printing::prelude(false)) + std::string(printing::math_prelude())},
                         {"kernels", std::move(kernels)}};
  const std::string dumped = document.dump();
  std::fwrite(dumped.data(), 1, dumped.size(), stdout);
  std::fputc('\n', stdout);
  return 0;
}
