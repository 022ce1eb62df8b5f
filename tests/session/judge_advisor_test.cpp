#include "session/judge_advisor.h"

#include <doctest/doctest.h>

#include "search/region.h"

using namespace planish;

TEST_CASE("the judge's moves name genes that exist, best first") {
  Evaluation evaluation;
  evaluation.level = "screen";
  evaluation.outcome = Outcome::compile_error;
  evaluation.tier = Tier::compile;
  evaluation.message = "ptxas error: too much shared data (0x40000 bytes, 0x38c00 max)";
  evaluation.compile = CompileReport{};
  evaluation.compile->log = evaluation.message;
  const std::vector<codegen::Gene> genes = {
      {"threads", {128, 256, 512}}, {"residency", {0, 1, 2}}, {"rows", {1, 2, 4}}};
  const codegen::Genome genome = {{"threads", 256}, {"residency", 2}, {"rows", 2}};
  const session::JudgeAdvisor advisor{codegen::Device{}};
  const auto moves = advisor.advise(search::RegionSpec{}, evaluation, genome, genes, false).moves;
  REQUIRE(!moves.empty());
  for (std::size_t i = 0; i < moves.size(); ++i) {
    CHECK(genome.contains(moves[i].gene));
    if (i > 0) CHECK(moves[i].expected_gain <= moves[i - 1].expected_gain);
  }
}
