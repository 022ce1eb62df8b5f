#pragma once

#include <cmath>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "base/clock.h"
#include "search/run.h"

namespace planish::search::testing {

/// Genes a and b, each 0 … size-1; programs are named after the genome (or its coarse form, to make duplicates).
class GridDomain : public coder::Domain {
 public:
  explicit GridDomain(int size = 16, int coarse = 1) : size_(size), coarse_(coarse) {}
  std::vector<codegen::Gene> genes() const override {
    std::vector<std::int64_t> all(static_cast<std::size_t>(size_));
    for (int i = 0; i < size_; ++i) all[static_cast<std::size_t>(i)] = i;
    return {{"a", all}, {"b", all}};
  }
  bool legal(const codegen::Genome& g) const override { return g.size() == 2; }
  std::vector<codegen::Genome> seeds() const override { return {make(0, 0), make(size_ - 1, size_ - 1)}; }
  codegen::Genome random(std::mt19937_64& rng) const override {
    const auto n = static_cast<std::uint64_t>(size_);
    const auto a = static_cast<std::int64_t>(rng() % n);
    return make(a, static_cast<std::int64_t>(rng() % n));
  }
  std::vector<codegen::Genome> neighbours(const codegen::Genome& g) const override {
    std::vector<codegen::Genome> out;
    for (const auto& [name, value] : g) {
      for (const std::int64_t step : {-1, 1}) {
        codegen::Genome next = g;
        next[name] = value + step;
        if (next[name] >= 0 && next[name] < size_) out.push_back(next);
      }
    }
    return out;
  }
  codegen::Genome mutate(const codegen::Genome& g, std::mt19937_64& rng) const override {
    codegen::Genome next = g;
    next[rng() % 2 == 0 ? "a" : "b"] = static_cast<std::int64_t>(rng() % static_cast<std::uint64_t>(size_));
    return next;
  }
  Result<coder::Candidate> build(const codegen::Genome& g) const override {
    if (broken) return fail("unsupported", "cannot be emitted");
    coder::Candidate out;
    out.proposal = g;
    out.hash = "p" + std::to_string(g.at("a") / coarse_) + "," + std::to_string(g.at("b") / coarse_);
    out.program = out.hash;
    return out;
  }
  /// A source is the genome's text with "at " before it, of places beside the grid too; anything else is broken.
  Result<coder::Candidate> build_source(std::string_view source) const override {
    if (!source.starts_with("at ")) return fail("bad_source", "line 1: no place");
    const auto g = codegen::genome_from_text(source.substr(3));
    if (!g || !g->contains("a") || !g->contains("b")) return fail("bad_source", "line 1: no place");
    coder::Candidate out;
    out.proposal = coder::Source{std::string(source)};
    out.hash = "p" + std::to_string(g->at("a") / coarse_) + "," + std::to_string(g->at("b") / coarse_);
    out.program = out.hash;
    return out;
  }
  Result<std::string> source(const codegen::Genome& g) const override { return "at " + codegen::text(g); }
  static codegen::Genome place_of(const coder::Proposal& proposal) {
    const GridDomain domain(16);
    return codegen::genome_from_text(coder::source_of(domain, proposal)->substr(3)).value();
  }
  static codegen::Genome make(std::int64_t a, std::int64_t b) { return {{"a", a}, {"b", b}}; }
  bool broken = false;

 private:
  int size_, coarse_;
};

/// A valley with its floor at (11, 3), different for each region by `scale`; takes a second of fake time each.
class ValleyEvaluator : public Evaluator {
 public:
  explicit ValleyEvaluator(FakeClock* clock = nullptr) : clock_(clock) {}
  static double valley(const codegen::Genome& g, double floor_ms, double scale) {
    return floor_ms +
           scale * (std::abs(static_cast<double>(g.at("a")) - 11) + std::abs(static_cast<double>(g.at("b")) - 3));
  }
  Result<Evaluation> evaluate(const RegionSpec& region, const coder::Candidate& c, bool full, double) override {
    const std::scoped_lock lock(mutex_);
    if (clock_ != nullptr) clock_->advance(std::chrono::seconds(full ? final_seconds : 1));
    ++calls[region.id];
    log.push_back(region.id + (full ? "!" : ":") + c.hash);
    if (fail_after > 0 && static_cast<int>(log.size()) > fail_after) return fail("closed", "the evaluator is gone");
    Evaluation e;
    e.waited_seconds = waited_seconds;
    if (clock_ != nullptr) clock_->advance(std::chrono::seconds(waited_seconds));
    e.program = c.hash;
    e.region = region.id;
    e.level = full ? "full" : "screen";
    e.tier = Tier::bench;
    e.outcome = wrong_when_full.contains(c.hash) && full ? Outcome::wrong : Outcome::ok;
    if (always_wrong) e.outcome = Outcome::wrong;
    if (e.ok()) {
      e.bench = BenchReport{};
      e.bench->median_ms =
          valley(GridDomain::place_of(c.proposal), floor_ms, scales.contains(region.id) ? scales[region.id] : 0.1);
    }
    return e;
  }
  std::map<std::string, int> calls;
  std::vector<std::string> log;
  std::map<std::string, double> scales;
  std::map<std::string, bool> wrong_when_full;
  double floor_ms = 1;
  int final_seconds = 1;   ///< of the clock, for a candidate at level full
  int waited_seconds = 0;  ///< of the clock, for other processes, before each
  int fail_after = 0;
  bool always_wrong = false;

 private:
  FakeClock* clock_;
  std::mutex mutex_;
};

class Recorder : public EvaluationSink {
 public:
  Status record(const RegionSpec& region, const Ask& ask, const coder::Candidate& candidate,
                const Evaluation& evaluation, Answer, bool recalled) override {
    asks.push_back(ask);
    kept[region.key + "/" + candidate.hash + (ask.full ? "/full" : "/screen")] = evaluation;
    order.push_back(candidate.hash);
    recalls += recalled ? 1 : 0;
    if (cancel_after > 0 && static_cast<int>(order.size()) == cancel_after) cancel.cancel();
    return {};
  }
  void duplicate(const RegionSpec&) override { ++duplicates; }
  Status not_built(const RegionSpec&, const Ask&, const Error&) override {
    ++unbuilt;
    return {};
  }
  Status turn(const RegionSpec& region, const Ask& ask) override {
    turns.turns[ask.serial] = {ask.region, ask.origin.seat, ask.proposal, ask.dry};
    turns.until = std::max(turns.until, ask.serial);
    (void)region;
    return {};
  }
  std::vector<Ask> asks;
  RecordedTurns turns;
  std::map<std::string, Evaluation> kept;
  std::vector<std::string> order;
  int duplicates = 0, unbuilt = 0, recalls = 0, cancel_after = 0;
  CancelToken cancel;
};

class Remembered : public History {
 public:
  explicit Remembered(std::map<std::string, Evaluation> kept) : kept_(std::move(kept)) {}
  std::optional<Evaluation> recall(const RegionSpec& region, const std::string& program, bool full) override {
    const auto found = kept_.find(region.key + "/" + program + (full ? "/full" : "/screen"));
    if (found == kept_.end()) return std::nullopt;
    return found->second;
  }

 private:
  std::map<std::string, Evaluation> kept_;
};

inline RegionSpec spec(const std::string& id, double bound_ms = 0.5, int count = 1, int coarse = 1) {
  RegionSpec out;
  out.id = id;
  out.key = "key-" + id;
  out.count = count;
  out.bound_ms = bound_ms;
  out.domain = std::make_shared<GridDomain>(16, coarse);
  return out;
}

}  // namespace planish::search::testing
