#pragma once

#include <cmath>
#include <memory>
#include <set>
#include <string>

#include "search/region.h"

namespace planish::search::testing {

/// Six genes of four to six choices. Genomes whose `tile` and `stages` are both large are illegal; the time has a
/// valley along a diagonal and a cliff, so that one gene after the other does not find its floor of 1 ms.
class Landscape : public coder::Domain {
 public:
  std::vector<codegen::Gene> genes() const override {
    return {{"threads", {32, 64, 128, 256, 512}},
            {"tile", {8, 16, 32, 64, 128, 256}},
            {"stages", {1, 2, 3, 4}},
            {"vector", {1, 2, 4, 8}},
            {"split", {1, 2, 4, 8, 16}},
            {"fixed", {7}},
            {"unroll", {1, 2, 4, 8}}};
  }
  static int at(const codegen::Gene& gene, const codegen::Genome& g) {
    for (std::size_t i = 0; i < gene.choices.size(); ++i) {
      if (gene.choices[i] == g.at(gene.name)) return static_cast<int>(i);
    }
    return -1;
  }
  bool legal(const codegen::Genome& g) const override {
    ++asked;
    return g.at("tile") * g.at("stages") <= 512;
  }
  std::vector<codegen::Genome> seeds() const override {
    return {{{"threads", 128}, {"tile", 32}, {"stages", 1}, {"vector", 1}, {"split", 1}, {"fixed", 7}, {"unroll", 1}},
            {{"threads", 256}, {"tile", 16}, {"stages", 2}, {"vector", 2}, {"split", 2}, {"fixed", 7}, {"unroll", 2}}};
  }
  codegen::Genome random(std::mt19937_64& rng) const override {
    while (true) {
      codegen::Genome g;
      for (const auto& gene : genes()) g[gene.name] = gene.choices[rng() % gene.choices.size()];
      if (legal(g)) return g;
    }
  }
  std::vector<codegen::Genome> neighbours(const codegen::Genome& g) const override {
    std::vector<codegen::Genome> out;
    for (const auto& gene : genes()) {
      for (const int to : {at(gene, g) - 1, at(gene, g) + 1}) {
        if (to < 0 || to >= static_cast<int>(gene.choices.size())) continue;
        codegen::Genome next = g;
        next[gene.name] = gene.choices[static_cast<std::size_t>(to)];
        if (legal(next)) out.push_back(next);
      }
    }
    return out;
  }
  codegen::Genome mutate(const codegen::Genome& g, std::mt19937_64& rng) const override {
    const auto all = genes();
    while (true) {
      codegen::Genome next = g;
      for (std::size_t c = 1 + rng() % 3; c-- > 0;) {
        const auto& gene = all[rng() % all.size()];
        next[gene.name] = gene.choices[rng() % gene.choices.size()];
      }
      if (legal(next)) return next;
    }
  }
  Result<coder::Candidate> build(const codegen::Genome& g) const override {
    coder::Candidate out;
    out.proposal = g;
    out.hash = codegen::text(g);
    out.program = out.hash;
    return out;
  }

  static double ms(const codegen::Genome& g) {
    const auto all = Landscape().genes();
    const auto place = [&](int i) { return static_cast<double>(at(all[static_cast<std::size_t>(i)], g)); };
    double out = 1 + 0.5 * std::abs(place(1) - place(0) - 1);  // the tile must suit the threads
    out += 0.2 * std::abs(place(0) - 3) + 0.15 * std::abs(place(3) - 2) + 0.1 * std::abs(place(6) - 1);
    out += place(4) > 2 ? 2.0 : 0.1 * std::abs(place(4) - 1);  // a cliff
    out += 0.15 * std::abs(place(2) - 1);
    return out;
  }
  static Told told(const codegen::Genome& g) {
    Told out;
    out.ok = true;
    out.median_ms = ms(g);
    out.lo_ms = 0.999 * out.median_ms;
    out.hi_ms = 1.001 * out.median_ms;
    out.seconds = 1;
    return out;
  }
  mutable int asked = 0;
};

inline RegionSpec landscape(const std::string& id = "r0") {
  RegionSpec out;
  out.id = id;
  out.key = "key-" + id;
  out.domain = std::make_shared<Landscape>();
  return out;
}

}  // namespace planish::search::testing
