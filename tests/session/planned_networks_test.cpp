// Whole tasks of examples/suite, planned for a Hopper GPU without one: from its first guesses each is launches alone.
// One operator of PyTorch's among them makes every call the interpreter's.
//
// tests/session/graphs holds what `planish.capture.capture` made of them, with sorted keys.
#include <doctest/doctest.h>

#include <filesystem>
#include <map>
#include <string>
#include <variant>

#include "base/file.h"
#include "program/program.h"
#include "session/planner.h"

namespace planish::session {
namespace {

DeviceFacts hopper() {
  DeviceFacts facts;
  facts.target = "cuda";
  facts.name = "a GPU";
  facts.arch = "sm_90a";
  facts.uuid = "GPU-0";
  facts.sms = 132;
  facts.l2_bytes = 50 << 20;
  facts.shared_bytes = 232448;
  facts.bandwidth_gbs = 3000;
  facts.peak_gflops = 60000;
  facts.tensor_gflops = 900000;
  facts.memory_bytes = std::int64_t{80} << 30;
  facts.cores = 16;
  return facts;
}

/// Operators of PyTorch's in the task put together from first guesses.
std::string left_to_pytorch(const std::string& graph, int& launches) {
  const auto plan = make_planner()->plan(graph, hopper());
  REQUIRE_MESSAGE(plan.has_value(), plan.error().message);
  std::map<std::string, coder::Proposal> chosen;
  for (const PlannedRegion& region : (*plan)->regions()) {
    if (region.alternative) continue;
    const auto guesses = region.domain->seeds();
    if (!guesses.empty()) chosen.emplace(region.id, coder::Proposal(guesses.front()));
  }
  const auto text = (*plan)->compose(chosen, {}, codegen::Packings::together);
  REQUIRE_MESSAGE(text.has_value(), text.error().message);
  const auto program = program::parse(*text);
  REQUIRE_MESSAGE(program.has_value(), program.error().message);
  std::string left;
  for (const program::Step& step : program->steps) {
    if (const auto* aten = std::get_if<program::Aten>(&step)) left += aten->op + " ";
    launches += std::holds_alternative<program::Launch>(step) ? 1 : 0;
  }
  return left;
}

TEST_CASE("networks are launches alone") {
  int graphs = 0;
  for (const auto& entry : std::filesystem::directory_iterator(PLANISH_TEST_GRAPHS)) {
    CAPTURE(entry.path().filename().string());
    const auto text = read_file(entry.path());
    REQUIRE(text.has_value());
    int launches = 0;
    CHECK(left_to_pytorch(*text, launches) == "");
    CHECK(launches > 0);
    ++graphs;
  }
  CHECK(graphs >= 15);
}

}  // namespace
}  // namespace planish::session
