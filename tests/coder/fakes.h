#pragma once

#include <doctest/doctest.h>

#include <chrono>
#include <thread>

#include "base/clock.h"
#include "coder/coder.h"

namespace planish::coder::testing {

/// A region that has a description and nothing to build.
struct Nothing : Domain {
  std::vector<codegen::Gene> genes() const override { return {}; }
  bool legal(const codegen::Genome&) const override { return false; }
  std::vector<codegen::Genome> seeds() const override { return {}; }
  codegen::Genome random(std::mt19937_64&) const override { return {}; }
  std::vector<codegen::Genome> neighbours(const codegen::Genome&) const override { return {}; }
  codegen::Genome mutate(const codegen::Genome& g, std::mt19937_64&) const override { return g; }
  Result<Candidate> build(const codegen::Genome&) const override { return fail("unsupported", "nothing"); }
  std::string description() const override { return "in0: f32[4], contiguous\n"; }
};

/// Waits where somebody would for as long as it takes; a minute means never.
inline Coder::Answer answered(Coder& coder, const Brief& brief) {
  const TimePoint until = deadline_in(60);
  while (seconds_until(until) > 0) {
    auto answer = coder.ask(brief);
    if (answer.proposal || answer.finished) return answer;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  FAIL("no answer in a minute");
  return {};
}

}  // namespace planish::coder::testing
