#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "codegen/passes.h"
#include "session/optimize_flow.h"

/// A world in which `optimize` runs in milliseconds: programs are lines of text whose time is written in them.
namespace planish::session::testing {

/// One gene, speed 1 … 9; a higher one is faster. Where it approximates, every genome that is drawn has fast=1 as well.
class SpeedDomain : public coder::Domain {
 public:
  /// `rounds`: the fastest ones round their factors.
  explicit SpeedDomain(std::string region, bool approximates = false, bool rounds = false)
      : region_(std::move(region)), approximates_(approximates), rounds_(rounds) {}
  static codegen::Genome make(std::int64_t speed) { return {{"speed", speed}}; }
  std::vector<codegen::Gene> genes() const override {
    std::vector<codegen::Gene> out{{"speed", {1, 2, 3, 4, 5, 6, 7, 8, 9}}};
    if (approximates_) out.push_back({"fast", {1}});
    if (rounds_) out.push_back({"passes", {1, 3}});
    return out;
  }
  bool legal(const codegen::Genome& g) const override {
    return g.contains("fast") == approximates_ && codegen::rounds_factors(g) == (rounds_ && g.at("speed") >= fewest);
  }
  std::vector<codegen::Genome> seeds() const override { return {drawn(3)}; }
  codegen::Genome random(std::mt19937_64& rng) const override {
    return drawn(1 + static_cast<std::int64_t>(rng() % 9));
  }
  std::vector<codegen::Genome> neighbours(const codegen::Genome& g) const override {
    std::vector<codegen::Genome> out;
    if (g.at("speed") > 1) out.push_back(drawn(g.at("speed") - 1));
    if (g.at("speed") < 9) out.push_back(drawn(g.at("speed") + 1));
    return out;
  }
  codegen::Genome mutate(const codegen::Genome&, std::mt19937_64& rng) const override { return random(rng); }
  Result<coder::Candidate> build(const codegen::Genome& g) const override {
    coder::Candidate out;
    out.proposal = g;
    out.program = region_ + "=" + std::to_string(g.at("speed"));
    out.hash = sha256_hex(out.program.text());
    return out;
  }

 private:
  codegen::Genome drawn(std::int64_t speed) const {
    codegen::Genome out = make(speed);
    if (approximates_) out["fast"] = 1;
    if (rounds_) out["passes"] = speed >= fewest ? 1 : 3;
    return out;
  }

  static constexpr std::int64_t fewest = 8;  ///< speed of one that rounds
  std::string region_;
  bool approximates_, rounds_;
};

/// Regions r0, r1, …; the composed program lists the speeds chosen, with ~ where one approximates, ' where one rounds.
class FakePlan : public Plan {
 public:
  /// With `other_way` one more region in place of all of them.
  explicit FakePlan(int regions, bool approximates = false, bool other_way = false, bool rounds = false) {
    if (other_way) ++regions;
    for (int i = 0; i < regions; ++i) {
      PlannedRegion region;
      region.id = "r" + std::to_string(i);
      region.key = "key" + std::to_string(i);
      region.aten_program = region.id + "=aten";
      region.domain = std::make_shared<SpeedDomain>(region.id, approximates, rounds);
      regions_.push_back(std::move(region));
    }
    if (!other_way) return;
    PlannedFusion fusion;
    for (int i = 0; i + 1 < regions; ++i) fusion.replaces.push_back({"r" + std::to_string(i), 1});
    fusion.by.push_back({regions_.back().id, 1});
    regions_.back().alternative = true;
    fusions_.push_back(std::move(fusion));
  }
  const std::vector<PlannedRegion>& regions() const override { return regions_; }
  const std::vector<PlannedFusion>& fusions() const override { return fusions_; }
  int kept = 0;
  int kept_steps() const override { return kept; }
  double bytes() const override { return 1; }
  double flops() const override { return 1; }
  Result<std::string> aten_program() const override { return "whole"; }
  Result<std::string> compose(const std::map<std::string, coder::Proposal>& chosen,
                              const std::vector<std::size_t>& fusions, codegen::Packings) const override {
    std::string out = "whole";
    for (const std::size_t fusion : fusions) out += ";way" + std::to_string(fusion);
    for (const auto& [region, proposal] : chosen) {
      const codegen::Genome& genome = *coder::genome_of(proposal);
      out += ";" + region + "=" + std::to_string(genome.at("speed"));
      if (genome.contains("fast") && genome.at("fast") != 0) out += "~";
      if (codegen::rounds_factors(genome)) out += "'";
    }
    return out;
  }
  Result<Explanation> explain(const std::set<std::string>& used, const std::vector<std::size_t>&,
                              const std::string&) const override {
    Explanation out;
    out.before = {3, 4e6};
    out.after = {1, 1e6};
    for (const std::string& region : used)
      out.fused.push_back({region, "mul, relu", "fake.py:3-4", 1, {2, 2e6}, {1, 1e6}});
    return out;
  }

 private:
  std::vector<PlannedRegion> regions_;
  std::vector<PlannedFusion> fusions_;
};

class FakePlanner : public Planner {
 public:
  int regions = 1;
  bool approximates = false, other_way = false, rounds = false;
  int kept_steps = 0;
  Result<std::unique_ptr<Plan>> plan(const std::string&, const DeviceFacts&) override {
    auto plan = std::make_unique<FakePlan>(regions, approximates, other_way, rounds);
    plan->kept = kept_steps;
    return plan;
  }
};

class FakeShipper : public Shipper {
 public:
  std::vector<ShipRequest> shipped;
  Status ship(const ShipRequest& request) override {
    shipped.push_back(request);
    return {};
  }
};

/// A region's aten form takes 10 ms, speed n takes 10 − n ms; the whole takes 10 ms a region, less what its choices
/// save.
class FakeEvaluator : public EvaluatorApi {
 public:
  int regions = 1;
  double kept_ms = 0;               ///< of the whole: what no region replaces
  double way_ms = 0;                ///< what the whole takes beside, where it is cut another way
  std::set<std::string> no_region;  ///< that cannot be described
  std::vector<std::string> described;
  std::set<std::string> wrong;          ///< programs of the whole with one of these in them fail
  std::set<std::string> wrong_at_full;  ///< the same, through the whole contract
  std::optional<ErrorKind> open_fails;
  int gone_after = 0;  ///< evaluations until the evaluator dies; 0: never
  bool shipped_verifies = true;
  std::string unverified;  ///< shipped programs with this in them do not verify
  int program_runs = 10;   ///< of ten calls that verify the shipped module
  std::set<std::string> unverified_baselines;
  Outcome fault = Outcome::wrong;            ///< of what does not verify
  std::string wrong_when_timed;              ///< a baseline that is
  std::set<std::string> crashing_baselines;  ///< there is no verdict on them
  std::map<std::string, double> baseline_ms = {
      {"eager", 10}, {"compile", 8}, {"max_autotune_no_cudagraphs", 7}, {"max_autotune", 6}};
  double shipped_ms = 4, shipped_spread = 0.1;
  double busy = 0;                                   ///< threads of others that want each processor
  double shipped_kept_ms = 0, baseline_kept_ms = 0;  ///< where the caller keeps results; baselines' beside their own
  double bandwidth_gbs = 0;
  double compile_seconds = 0;  ///< of each program
  int cores = 0;
  double disturbed_ms = 0;                ///< what else the machine does while the whole is timed for the first time
  double aten_ms = 0;                     ///< of a region's aten form; 0: 10
  std::map<std::string, double> spread;   ///< of baselines, where it is not 0.1
  std::map<std::string, double> host_us;  ///< until a call returns, where it is not 5
  FakeClock* clock = nullptr;             ///< moved by what a call takes
  double evaluate_seconds = 0, verify_seconds = 0;
  double proof_seconds = 0;                       ///< that a program of the whole says to have been tested for
  std::string late;                               ///< the call (open, evaluate, verify, claim) that runs out of time
  std::string late_mode;                          ///< a baseline that does while it is compiled, or `shipped`
  std::vector<std::string> degenerate;            ///< of the task
  std::vector<std::string> degenerate_in_region;  ///< of each region
  std::vector<Note> notes;
  std::vector<std::string> evaluated;
  std::vector<ClaimRequest> claims;
  CancelToken cancel;
  int cancel_after = 0;
  std::string cancel_in;    ///< what a person interrupts: compose, verify, verify a baseline, claim
  bool ends_calls = false;  ///< from now on that ends them
  FakeShipper* shipper = nullptr;

  Result<OpenReply> open(const OpenRequest& request) override {
    if (open_fails) return fail(*open_fails, "the task is no good", "write another");
    if (late == "open") return fail("out_of_time", "too late");
    OpenReply out;
    out.session = "s";
    out.task_name = "fake";
    out.task_sha256 = source;
    out.device.target = request.target == "auto" ? "cpu" : request.target;
    out.device.name = "a fake";
    out.device.cores = cores;
    out.device.bandwidth_gbs = bandwidth_gbs;
    return out;
  }
  Result<RegionReply> region(const RegionRequest& request) override {
    const std::scoped_lock lock(mutex_);
    if (!searched && cut(request.region == "task" ? "check" : "prepare")) return fail("interrupted", "interrupted");
    if (no_region.contains(request.region)) return fail("unsupported", "no such inputs");
    described.push_back(request.region);
    RegionReply out;
    out.degenerate = request.region == "task" ? degenerate : degenerate_in_region;
    out.notes = notes;
    return out;
  }
  Result<Evaluation> evaluate(const EvaluateRequest& request) override {
    const std::scoped_lock lock(mutex_);
    if (late == "evaluate") return fail("out_of_time", "too late");
    if (cut(searched ? "compose" : request.region == "task" ? "check" : "prepare"))
      return fail("interrupted", "interrupted");
    evaluated.push_back(request.program.text());
    if (clock != nullptr) clock->advance(std::chrono::milliseconds(static_cast<int>(1e3 * evaluate_seconds)));
    if (gone_after > 0 && static_cast<int>(evaluated.size()) > gone_after)
      return fail("closed", "the evaluator is gone");
    if (cancel_after > 0 && static_cast<int>(evaluated.size()) == cancel_after) cancel.cancel();
    Evaluation out;
    out.program = sha256_hex(request.program.text());
    out.region = request.region;
    out.level = request.level;
    out.tier = Tier::bench;
    if (request.level == "screen" && !request.again &&
        !screened_.emplace(request.region, request.program.text()).second) {
      out.outcome = Outcome::duplicate;
      return out;
    }
    const bool whole = request.region == "task";
    out.outcome = Outcome::ok;
    for (const std::string& bad : wrong) {
      if (whole && request.program.text().find(bad) != std::string::npos) out.outcome = Outcome::wrong;
    }
    for (const std::string& bad : wrong_at_full) {
      if (whole && request.level == "full" && request.program.text().find(bad) != std::string::npos)
        out.outcome = Outcome::wrong;
    }
    if (!out.ok()) return out;
    out.bench = BenchReport{};
    out.bench->median_ms = whole ? 10.0 * regions + kept_ms + std::exchange(disturbed_ms, 0) : 10.0;
    if (!whole && aten_ms > 0 && request.program.text().ends_with("=aten")) {
      out.bench->median_ms = aten_ms;
      return out;
    }
    const std::string& text = request.program.text();
    for (std::size_t at = text.find('='); at != std::string::npos; at = text.find('=', at + 1)) {
      const char speed = text[at + 1];
      if (speed >= '1' && speed <= '9') out.bench->median_ms -= speed - '0';
    }
    if (text.find(";way") != std::string::npos) out.bench->median_ms += way_ms;
    out.roofline = Roofline{1, 1, 0.1, "memory", 0.1 / out.bench->median_ms};
    if (compile_seconds > 0) out.compile = CompileReport{compile_seconds, false, {}, {}};
    if (whole && proof_seconds > 0) {
      out.test.emplace();
      out.test->seconds = proof_seconds;
    }
    return out;
  }
  Result<VerifyReply> verify(const VerifyRequest&) override {
    if (clock != nullptr) clock->advance(std::chrono::milliseconds(static_cast<int>(1e3 * verify_seconds)));
    if (late == "verify") return fail("out_of_time", "too late");
    if (cut(shipper->shipped.back().baseline.empty() ? "verify" : "verify a baseline"))
      return fail("interrupted", "interrupted");
    ++verified;
    VerifyReply out;
    const std::string baseline =
        shipper != nullptr && !shipper->shipped.empty() ? shipper->shipped.back().baseline : "";
    out.verified = baseline.empty() ? shipped_verifies : !unverified_baselines.contains(baseline);
    if (!unverified.empty() && shipper->shipped.back().program.find(unverified) != std::string::npos)
      out.verified = false;
    out.outcome = out.verified ? Outcome::ok : fault;
    if (!out.verified) out.message = "25 % of it is nothing";
    if (crashing_baselines.contains(baseline)) {
      out.verified = false;
      out.outcome = Outcome::crash;
    }
    TestCase test;
    test.regime = "task";
    test.ok = out.verified;
    test.outputs.push_back({2e-7, 4e-7, 1e-6, 1e-6, 1e-7, 2e-7, {}});
    out.cases.push_back(test);
    if (baseline.empty()) out.program = ProgramCalls{10, program_runs, program_runs < 10 ? "no such luck" : ""};
    return out;
  }
  Result<ClaimReply> claim(const ClaimRequest& request) override {
    claims.push_back(request);
    if (late == "claim") return fail("out_of_time", "too late");
    if (cut("claim")) return fail("interrupted", "interrupted");
    ClaimReply out;
    const auto add = [&](const std::string& name, double ms, double wide) {
      ClaimTime time;
      time.name = name;
      time.median_ms = ms;
      time.lo_ms = ms - wide;
      time.hi_ms = ms + wide;
      time.host_us = host_us.contains(name) ? host_us[name] : 5;
      time.samples_ms = {ms, ms};
      time.busy = busy;
      if (shipped_kept_ms > 0) {
        time.kept_ms = name == "shipped" ? shipped_kept_ms : ms + baseline_kept_ms;
        time.kept_lo_ms = time.kept_ms - wide;
        time.kept_hi_ms = time.kept_ms + wide;
      }
      out.times.push_back(time);
    };
    if (!request.path.empty()) {
      add("shipped", shipped_ms, shipped_spread);
      if (late_mode == "shipped") out.times.back().error = Error{"out_of_time", "too late", {}, {}};
    }
    for (const std::string& mode : request.modes) {
      add(mode, baseline_ms[mode], spread.contains(mode) ? spread[mode] : 0.1);
      if (mode == wrong_when_timed) out.times.back().error = Error{"wrong_when_timed", "it returned NaN", {}, {}};
      if (mode == late_mode) out.times.back().error = Error{"out_of_time", "too late", {}, {}};
    }
    return out;
  }
  Status close(const std::string&) override { return {}; }
  void end_when_interrupted(bool ends) override {
    ends_calls = ends;
    searched = searched || !ends;
  }
  bool searched = false;  ///< the search has begun
  std::string source = "sha";
  int verified = 0;  ///< calls of verify() that were answered

 private:
  bool cut(std::string_view what) {
    if (ends_calls && cancel_in == what) cancel.cancel();
    return ends_calls && cancel.cancelled();
  }

  std::mutex mutex_;
  std::set<std::pair<std::string, std::string>> screened_;  ///< regions and programs
};

}  // namespace planish::session::testing
