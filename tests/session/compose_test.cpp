// Which winners of regions make up the whole, where the whole does not pass with all of them.
#include "session/compose.h"

#include <doctest/doctest.h>

#include "fakes.h"

using namespace planish;
using namespace planish::session;

namespace {

/// The whole's program lists what was chosen: "r0~" with approximations, "r0=" without.
class Listing : public Plan {
 public:
  bool joins = false;  ///< whether it makes a difference that packings run together
  const std::vector<PlannedRegion>& regions() const override { return none_; }
  const std::vector<PlannedFusion>& fusions() const override { return no_ways_; }
  double bytes() const override { return 1; }
  double flops() const override { return 1; }
  Result<std::string> aten_program() const override { return "whole"; }
  Result<std::string> compose(const std::map<std::string, coder::Proposal>& chosen, const std::vector<std::size_t>&,
                              codegen::Packings packings) const override {
    std::string out = joins && packings == codegen::Packings::together ? "whole, packed together" : "whole";
    for (const auto& [region, proposal] : chosen)
      out += " " + region + (coder::genome_of(proposal)->at("fast") != 0 ? "~" : "=");
    return out;
  }
  Result<Explanation> explain(const std::set<std::string>&, const std::vector<std::size_t>&,
                              const std::string&) const override {
    return Explanation{};
  }

 private:
  std::vector<PlannedRegion> none_;
  std::vector<PlannedFusion> no_ways_;
};

Choice choice(const std::string& region, double gain, bool fast) {
  Choice out{region, codegen::Genome{{"fast", fast ? 1 : 0}}, gain, std::nullopt};
  if (fast) out.exact = codegen::Genome{{"fast", 0}};
  return out;
}

/// Composes r0 … with a check under which programs that hold one of `wrong` fail.
Composed compose(std::vector<Choice> choices, const std::vector<std::string>& wrong, int* checks = nullptr) {
  auto composed = compose_choices(Listing(), {}, std::move(choices), [&](const std::string& program, bool full) {
    CHECK(full);
    if (checks != nullptr) ++*checks;
    Evaluation out;
    out.tier = Tier::bench;
    out.outcome = Outcome::ok;
    for (const std::string& bad : wrong) {
      if (program.find(bad) != std::string::npos) out.outcome = Outcome::wrong;
    }
    return Result<Evaluation>(out);
  });
  REQUIRE(composed.has_value());
  return *composed;
}

std::vector<std::string> exact_regions(const Composed& composed) {
  std::vector<std::string> out;
  for (const auto& [region, form] : composed.used) {
    if (form.is_exact) out.push_back(region);
  }
  return out;
}

}  // namespace

TEST_CASE("what passes together is checked once") {
  int checks = 0;
  const Composed out = compose({choice("r0", 1, true), choice("r1", 2, false)}, {}, &checks);
  CHECK(out.program == "whole r0~ r1=");
  CHECK(checks == 1);
  CHECK(exact_regions(out).empty());
}

TEST_CASE("a whole that fails with approximations is tried without them before anything is dropped") {
  const Composed out = compose({choice("r0", 1, true), choice("r1", 2, false)}, {"r0~"});
  CHECK(out.program == "whole r0= r1=");
  CHECK(exact_regions(out) == std::vector<std::string>{"r0"});
  CHECK(out.dropped.empty());
  CHECK(compose({choice("r0", 1, true)}, {"r0~"}).program == "whole r0=");
}

TEST_CASE("a whole that fails because packings run together has them apart") {
  Listing plan;
  plan.joins = true;
  int checks = 0;
  auto composed = compose_choices(plan, {}, {choice("r0", 1, false)}, [&](const std::string& program, bool) {
    ++checks;
    Evaluation out;
    out.outcome = program.find("together") == std::string::npos ? Outcome::ok : Outcome::compile_error;
    return Result<Evaluation>(out);
  });
  REQUIRE(composed.has_value());
  CHECK(composed->program == "whole r0=");
  CHECK(composed->dropped.empty());
  CHECK(checks == 2);
}

TEST_CASE("each region keeps the form with which the whole passes, or is dropped") {
  const Composed out =
      compose({choice("r0", 1, true), choice("r1", 2, true), choice("r2", 3, true)}, {"r0~", "r2~", "r2="});
  CHECK(out.program == "whole r0= r1~");
  CHECK(exact_regions(out) == std::vector<std::string>{"r0"});
  CHECK(out.dropped == std::vector<std::string>{"r2"});
  CHECK(compose({choice("r0", 1, true)}, {"r0"}).dropped == std::vector<std::string>{"r0"});
}

TEST_CASE("of many, the few with which the whole fails are found by halves") {
  std::vector<Choice> choices;
  for (int i = 0; i < 64; ++i) choices.push_back(choice("r" + std::to_string(100 + i), 100 - i, false));
  int checks = 0;
  const Composed out = compose(choices, {"r117", "r150"}, &checks);
  CHECK(out.dropped == std::vector<std::string>{"r117", "r150"});
  CHECK(out.used.size() == 62);
  CHECK(out.program.find("r163") != std::string::npos);
  CHECK(checks <= 30);  // one for each would be 66
}

TEST_CASE("the exact form turns approximations off, where there are some and it is legal") {
  struct Domain : testing::SpeedDomain {
    Domain() : SpeedDomain("r0") {}
    bool legal(const codegen::Genome& g) const override { return g.at("speed") < 5; }
  } domain;
  CHECK(without_approximations(domain, codegen::Genome{{"fast", 1}, {"speed", 3}}) ==
        coder::Proposal(codegen::Genome{{"fast", 0}, {"speed", 3}}));
  CHECK_FALSE(without_approximations(domain, codegen::Genome{{"fast", 1}, {"speed", 7}}));
  CHECK_FALSE(without_approximations(domain, codegen::Genome{{"fast", 0}, {"speed", 3}}));
  CHECK_FALSE(without_approximations(domain, codegen::Genome{{"speed", 3}}));
  CHECK_FALSE(without_approximations(domain, coder::Source{"a kernel"}));
}

TEST_CASE("exact choices are the exact forms of those that have one") {
  const auto exact = exact_choices({choice("r0", 1, true), choice("r1", 2, false)});
  REQUIRE(exact);
  CHECK(coder::genome_of(exact->front().proposal)->at("fast") == 0);
  CHECK(coder::genome_of(exact->back().proposal)->at("fast") == 0);
  CHECK_FALSE(exact_choices(*exact));
}
