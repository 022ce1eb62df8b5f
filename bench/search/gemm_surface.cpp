#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "made_up.h"

namespace planish::bench {
namespace {

using codegen::Gene;
using codegen::Genome;

struct Shape {
  const char* name;
  double m, n, k;
};

/// The genes of a tiled matrix product on a GPU with 132 multiprocessors. Nothing of it can be compiled.
class GemmDomain : public coder::Domain {
 public:
  std::vector<Gene> genes() const override {
    return {{"block_m", {32, 64, 128, 256}}, {"block_n", {32, 64, 128, 256}}, {"block_k", {16, 32, 64, 128}},
            {"warps", {2, 4, 8, 16}},        {"stages", {1, 2, 3, 4, 5, 6}},  {"split", {1, 2, 4, 8, 16}},
            {"raster", {1, 2, 4, 8, 16}},    {"persistent", {0, 1}},          {"precision", {0, 1, 2}},
            {"vector", {4, 8, 16}}};
  }
  static double registers(const Genome& g) {
    const double tile = static_cast<double>(g.at("block_m") * g.at("block_n"));
    return 40 + tile / static_cast<double>(g.at("warps") * 32) * (g.at("precision") == 2 ? 2.0 : 1.0);
  }
  static double shared(const Genome& g) {
    const double width = g.at("precision") == 0 ? 4 : g.at("precision") == 1 ? 2 : 4;
    return static_cast<double>((g.at("block_m") + g.at("block_n")) * g.at("block_k") * g.at("stages")) * width;
  }
  bool legal(const Genome& g) const override {
    return registers(g) <= 255 && shared(g) <= 227 * 1024 && g.at("block_m") * g.at("block_n") >= 256 * g.at("warps") &&
           !(g.at("persistent") == 1 && g.at("split") > 1);
  }
  static Genome make(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t w, std::int64_t s, std::int64_t p) {
    return {{"block_m", m}, {"block_n", n}, {"block_k", k},    {"warps", w},     {"stages", s},
            {"split", 1},   {"raster", 4},  {"persistent", 0}, {"precision", p}, {"vector", 16}};
  }
  std::vector<Genome> seeds() const override {
    return {make(128, 128, 32, 8, 3, 1), make(64, 64, 32, 4, 3, 0), make(128, 64, 32, 4, 4, 1),
            make(64, 128, 16, 4, 2, 0)};
  }
  Genome random(std::mt19937_64& rng) const override {
    while (true) {
      Genome g;
      for (const Gene& gene : genes()) g[gene.name] = gene.choices[rng() % gene.choices.size()];
      if (legal(g)) return g;
    }
  }
  std::vector<Genome> neighbours(const Genome& g) const override {
    std::vector<Genome> out;
    for (const Gene& gene : genes()) {
      const auto at = std::ranges::find(gene.choices, g.at(gene.name)) - gene.choices.begin();
      for (const std::ptrdiff_t to : {at - 1, at + 1}) {
        if (to < 0 || to >= static_cast<std::ptrdiff_t>(gene.choices.size())) continue;
        Genome next = g;
        next[gene.name] = gene.choices[static_cast<std::size_t>(to)];
        if (legal(next)) out.push_back(next);
      }
    }
    return out;
  }
  Genome mutate(const Genome& g, std::mt19937_64& rng) const override {
    const auto all = genes();
    for (int attempt = 0; attempt < 200; ++attempt) {
      Genome next = g;
      for (std::size_t c = 1 + rng() % 3; c-- > 0;) {
        const Gene& gene = all[rng() % all.size()];
        next[gene.name] = gene.choices[rng() % gene.choices.size()];
      }
      if (next != g && legal(next)) return next;
    }
    return random(rng);
  }
  Result<coder::Candidate> build(const Genome& g) const override {
    coder::Candidate out;
    out.proposal = g;
    out.hash = codegen::text(g);
    out.program = out.hash;
    return out;
  }
};

class GemmSurface : public MadeUp {
 public:
  GemmSurface(Shape shape, std::uint64_t seed)
      : MadeUp(std::make_shared<GemmDomain>(), seed, 0.03, 0.05), shape_(shape) {}
  std::string name() const override { return fmt::format("gemm-{}", shape_.name); }

 private:
  double model(const Genome& g) const override {
    const auto v = [&](const char* gene) { return static_cast<double>(g.at(gene)); };
    const double sms = 132;
    const double tiles = std::ceil(shape_.m / v("block_m")) * std::ceil(shape_.n / v("block_n")) * v("split");
    const double threads = 32 * v("warps");
    double held = std::min({2048 / threads, 65536 / (GemmDomain::registers(g) * threads),
                            228.0 * 1024 / (GemmDomain::shared(g) + 1024), 32.0});
    held = std::max(1.0, std::floor(held));
    const double k = std::ceil(shape_.k / v("split") / v("block_k")) * v("block_k");
    const double flops = 2 * v("block_m") * v("block_n") * k * (v("precision") == 2 ? 3 : 1);
    // Rate of a multiprocessor: by precision, by how well a warp's tile feeds it, and by what hides the latency.
    double rate = v("precision") == 0 ? 0.39e9 : 4.5e9;  // flops a millisecond
    const double per_warp = v("block_m") * v("block_n") / v("warps");
    rate *= per_warp / (per_warp + 900);
    const double in_flight = held * v("stages") * (v("block_m") + v("block_n")) * v("block_k") * 4;
    rate *= 1 - std::exp(-in_flight / 60000);
    rate *= std::min(1.0, 0.55 + 0.15 * held * v("warps") / 4);
    if (v("vector") < 16) rate *= v("vector") < 8 ? 0.8 : 0.93;
    if (GemmDomain::registers(g) > 200) rate *= 0.7;  // spills
    const double wave = std::ceil(tiles / (sms * held));
    const double compute = wave * held * flops / rate;
    const double width = v("precision") == 1 ? 2 : 4;
    const double reuse = 1 + std::abs(std::log2(v("raster")) - 3) * 0.12;
    const double bytes =
        tiles * (v("block_m") + v("block_n")) * k * width * 0.35 * reuse + shape_.m * shape_.n * 4 * v("split");
    double ms = std::max(compute, bytes / 4.3e9) + 0.25 * std::min(compute, bytes / 4.3e9) + 0.002;
    if (v("split") > 1) ms += 0.003 + shape_.m * shape_.n * 8 * v("split") / 4.3e9;
    if (v("persistent") > 0) ms *= wave > 1.5 ? 0.93 : 1.04;
    return ms;
  }
  Shape shape_;
};

}  // namespace

double measured_factor(std::mt19937_64& noise) {
  // Half a per cent either way, now and then a slow one.
  const auto uniform = [&] { return static_cast<double>(noise() >> 11U) * 0x1p-53; };
  double factor = 1 + 0.006 * (uniform() + uniform() + uniform() - 1.5);
  if (noise() % 50 == 0) factor *= 1 + 0.05 * uniform();
  return factor;
}

void add_gemm_surfaces(std::vector<std::unique_ptr<Surface>>& out) {
  const Shape shapes[] = {{"square", 4096, 4096, 4096}, {"long-k", 512, 512, 65536}, {"tall", 65536, 256, 512}};
  std::uint64_t seed = 101;
  for (const Shape& shape : shapes) out.push_back(std::make_unique<GemmSurface>(shape, seed++));
}

}  // namespace planish::bench
