// planish-graph-programs: answers requests, one JSON line each, until its input ends. A request is a graph document and
// a device; the answer holds the graph as `aten` steps alone, and composed from emitted kernels with random genomes.
// Drives tests/random_graphs, which capture thousands of modules in one process and have no time for a `planish` for
// each.
//
//   {"graph": {…}, "target": "cpu", "arch": "x86-64-v4", "programs": 2, "seed": 7, "genes": "unroll=2", "max_nodes":
//   400, "triton": false, "ways": true}
//   {"aten": {…}, "regions": [{"nodes": […], "kernel": "…"}], "programs": [{"genomes": ["…"], "program": {…}}]}
//
// With `rewrite` the graph is rewritten before it is cut, and the answer names the rules (`rewrites`); with `own` as
// where kernels of ours compute products, which are kernels here too where the device has such.
// With `best` every genome is its kernel's first seed, but for what is forced.
// With `ways` every other program is cut another way, drawn at random (its genomes begin with the number of the way).
// With `triton` (and target cuda) every kernel is in Triton, and regions that it has no genome for stay aten steps
// (their genome reads "aten").
// `genes` (optional) are forced on every genome that stays legal with all of them, else with each. What cannot be done
// is {"error": {kind, message}}.
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <string>

#include "codegen/compose/compose.h"
#include "codegen/compose/staged.h"
#include "codegen/contraction/contraction.h"
#include "codegen/genome.h"
#include "codegen/order/order.h"
#include "codegen/partition/fusion_plans.h"
#include "codegen/partition/partition.h"
#include "ir/graph.h"
#include "program/program.h"
#include "rewrite/rewrite.h"
#include "triton_genomes.h"

namespace {

using namespace planish;
using namespace planish::codegen;
using nlohmann::json;

struct Request {
  std::string graph;
  Device device;
  PartitionOptions options;
  Genome forced;
  int programs = 1;
  std::uint64_t seed = 1;
  bool describe = false;
  bool fusions = false;
  bool rewrite = false;
  bool own = false;
  bool best = false;
};

Result<Request> read(const std::string& line) {
  const json text = json::parse(line, nullptr, false);
  if (!text.is_object() || !text.contains("graph")) return fail("bad_request", "a request is an object with a graph");
  Request request;
  request.graph = text["graph"].dump();
  request.device.target = &backend::named(text.value("target", "cpu"));
  request.device.triton = text.value("triton", false);
  request.device.arch = text.value("arch", request.device.target == &backend::cuda() ? "sm_90a" : "x86-64");
  request.device.sms = text.value("sms", request.device.target == &backend::cuda() ? 132 : 2);
  request.options.limits.max_nodes = text.value("max_nodes", request.options.limits.max_nodes);
  request.programs = text.value("programs", request.programs);
  request.seed = text.value("seed", request.seed);
  request.describe = text.value("describe", false);
  request.fusions = text.value("ways", false);
  request.rewrite = text.value("rewrite", false);
  request.own = text.value("own", false);
  request.best = text.value("best", false);
  request.options.limits.longest_order = longest_order(request.device);
  request.options.limits.contractions = request.own && schedules_contractions(request.device);
  request.options.limits.grouped = request.own;
  PLANISH_TRY(request.forced, genome_from_text(text.value("genes", "")));
  return request;
}

/// A seed now and then: they are what a search tries first.
Genome draw(const Kernel& kernel, const Request& request, std::mt19937_64& rng) {
  Genome genome = request.best ? Genome{} : random_genome(kernel, request.device, rng);
  const auto good = request.best || rng() % 4 == 0 ? seeds(kernel, request.device) : std::vector<Genome>{};
  if (!good.empty()) genome = request.best ? good.front() : good[rng() % good.size()];
  Genome all = genome;
  for (const auto& [name, value] : request.forced) {
    if (all.contains(name)) all[name] = value;
  }
  if (illegal(kernel, request.device, all).empty()) return all;
  for (const auto& [name, value] : request.forced) {
    Genome changed = genome;
    if (changed.contains(name)) changed[name] = value;
    if (illegal(kernel, request.device, changed).empty()) genome = std::move(changed);
  }
  return genome;
}

Result<json> answer(const Request& request) {
  PLANISH_TRY(const ir::Graph graph, ir::parse_graph(request.graph));
  PLANISH_TRY(const auto aten, aten_program(graph, request.device));
  json out{{"aten", json::parse(program::to_json(aten))}, {"regions", json::array()}, {"programs", json::array()}};
  if (request.programs == 0) return out;
  FusionOptions fusion_options;
  fusion_options.limits = request.options.limits;
  // Where a search would begin: products take in what lies behind them.
  const bool take_in = request.best && request.own;
  PLANISH_TRY(Partition cut, partition(graph, request.options));
  if (take_in) cut = with_epilogues(graph, std::move(cut), request.device, fusion_options);
  if (request.rewrite) {
    rewrite::Options options{.library_products = !request.own};
    if (!request.device.target->on_host) options.norms_by_channels = 1 << 20;
    const rewrite::Rewritten less = rewrite::rewrite(graph, options);
    for (const rewrite::Applied& one : less.applied) out["rewrites"].push_back(one.rule);
    if (!less.applied.empty() || !take_in) {
      PLANISH_TRY(cut,
                  take_in ? rewritten_with_epilogues(graph, cut, less.graph, less.local, request.device, fusion_options)
                          : partition_rewritten(graph, cut, less.graph, less.local, request.options));
    }
  }
  for (const Region& region : cut.regions) {
    json one{{"nodes", region.nodes}};
    if (request.describe) one["kernel"] = text(region.kernel);
    out["regions"].push_back(std::move(one));
  }
  std::vector<FusionPlan> fusions;
  if (request.fusions && request.programs > 1) fusions = fusion_plans(graph, cut, request.device, fusion_options);
  std::mt19937_64 rng(request.seed);
  for (int p = 0; p < request.programs; ++p) {
    std::vector<Choice> choices;
    json genomes = json::array();
    Partition whole_cut = cut;
    if (p % 2 == 1 && !fusions.empty()) {
      const std::size_t fusion = rng() % fusions.size();
      PLANISH_TRY(whole_cut, fuse_by(graph, cut, {&fusions[fusion]}));
      genomes.push_back("way " + std::to_string(fusion));
    }
    for (const Region& region : whole_cut.regions) {
      const Kernel& searched = searched_kernel(region, request.device);
      std::optional<Genome> in_triton;
      if (request.device.triton) {
        in_triton = samples::random_triton_genome(searched, request.device, rng);
        if (!in_triton) {
          choices.emplace_back(std::nullopt);
          genomes.push_back("aten");
          continue;
        }
      }
      const Genome genome = in_triton ? *in_triton : region.library ? Genome{} : draw(searched, request, rng);
      auto emitted = emit(region, request.device, genome);
      if (!emitted) {
        return wrap(emitted.error(), "genome [" + text(genome) + "] of the kernel\n" + text(region.kernel));
      }
      choices.emplace_back(std::move(*emitted));
      genomes.push_back(text(genome));
    }
    PLANISH_TRY(const auto whole, compose(graph, whole_cut, choices, request.device));
    out["programs"].push_back({{"genomes", std::move(genomes)}, {"program", json::parse(program::to_json(whole))}});
  }
  return out;
}

}  // namespace

int main() {
  std::string line;
  while (std::getline(std::cin, line)) {
    const auto request = read(line);
    const auto result = request ? answer(*request) : std::unexpected(request.error());
    json reply;
    if (result) {
      reply = *result;
    } else {
      std::string message = result.error().message;
      for (const auto& cause : result.error().causes) message += ": " + cause;
      reply["error"] = {{"kind", result.error().kind.name()}, {"message", message}};
    }
    std::cout << reply.dump() << "\n" << std::flush;
  }
  return 0;
}
