#include <doctest/doctest.h>

#include <limits>

#include "samples.h"

using namespace planish;
using namespace planish::judge;
using namespace planish::judge::testing;

namespace {

std::string issue_of(Evaluation e) {
  return Asked(std::move(e)).verdict().issue;
}

/// Values that are off by `fro` in all, and nearest to so many times what is right.
OutputErrors scaled(double fro, double slope) {
  OutputErrors out = errors(fro, fro, {17, 3}, 1, slope);
  out.slope = slope;
  return out;
}

constexpr double no_number = std::numeric_limits<double>::quiet_NaN();

}  // namespace

TEST_CASE("what is wrong is read from where, how much and on which data") {
  struct Row {
    const char* issue;
    Evaluation evaluation;
  };
  // The output has rows of 1,030: with vectors of four, two elements are left over.
  const std::vector<Row> rows{
      {"race", wrong("task", errors(1e-3, 0.1, {3, 4}, 1, 1.1), Outcome::nondeterministic)},
      {"stale_between_runs", wrong("task", errors(1, 1, {0, 0}, 1, 2), Outcome::wrong_when_timed)},
      {"missing_tail", wrong("task", errors(1e300, 1e300, {0, 1028}, 1, no_number), Outcome::unwritten)},
      {"missing_tail", wrong("task", errors(1e300, 1e300, {999, 0}, 1, no_number), Outcome::unwritten)},
      {"nothing_written", wrong("task", errors(1e300, 1e300, {0, 0}, 1, no_number), Outcome::unwritten)},
      {"missing_part", wrong("task", errors(1e300, 1e300, {500, 12}, 1, no_number), Outcome::unwritten)},
      {"missing_tail", wrong("task", errors(0.02, 0.9, {17, 1029}, 2, 0), Outcome::wrong)},
      {"left_zero", wrong("task", errors(0.9, 1, {17, 100}, 2, 0))},
      {"miscounted", wrong("task", errors(0.9, 1, {17, 100}, 2, 8))},
      {"wrong_values", wrong("task", errors(0.9, 1, {17, 100}, 2, 7.3))},
      {"wrong_places", wrong("task", errors(0.01, 1, {17, 100}, 2, 7.3))},
      {"overflow", wrong("wide", errors(1e300, 1e300, {17, 3}, 1, no_number), Outcome::nan)},
      {"special_values", wrong("special", errors(1e300, 1e300, {17, 3}, no_number, 1), Outcome::nan)},
      {"special_values", wrong("special", errors(1e300, 1e300, {17, 3}, 1, no_number), Outcome::nan)},
      {"uninitialised", wrong("task", errors(1e300, 1e300, {17, 3}, 1, no_number), Outcome::nan)},
      {"cancellation", wrong("offset", errors(1e-4, 1e-3, {17, 3}, 1, 1.001))},
      {"range", wrong("wide", errors(1e-4, 1e-3, {17, 3}, 1, 1.001))},
      {"rounded_to_11_bits", wrong("task", errors(2.8e-4, 5e-4, {17, 3}, 1, 1.0005))},
      {"rounded_to_bf16", wrong("task", errors(2.2e-3, 4e-3, {17, 3}, 1, 1.004))},
      {"rounded_to_bf16", wrong("task", scaled(2.2e-3, 1.00002))},
      {"scaled", wrong("task", scaled(0.01, 1.01))},
      {"scaled", wrong("task", scaled(0.0022, 0.9978))},
      {"scaled", wrong("task", scaled(0.3, 1.3))},
      {"coarse", wrong("task", scaled(0.012, 1.001))},
      {"coarse", wrong("task", errors(3.4e-3, 3.9e-2, {17, 3}, 1, 1.04))},
      {"accumulation", wrong("task", errors(3e-6, 2e-5, {17, 3}, 1, 1.00002))},
  };
  for (const Row& row : rows) {
    const Verdict v = Asked(row.evaluation).verdict();
    CHECK(v.kind == Kind::mismatch);
    CHECK(v.issue == row.issue);
    CHECK(v.message.find("data") != std::string::npos);
  }
}

TEST_CASE("the evidence holds the numbers, and precision is mended by exactness") {
  Asked asked(wrong("task", errors(3e-6, 2e-5, {17, 3}, 1, 1.00002)));
  asked.genome["fast"] = 1;
  const Verdict v = asked.verdict();
  CHECK(fact(v, "cases_passed")->value == 1);
  CHECK(fact(v, "times_the_gate")->value == doctest::Approx(20));
  CHECK(fact(v, "row_ragged")->value == 2);
  CHECK(fact(v, "share_of_wrong_elements")->value == doctest::Approx(0.0225));
  CHECK(moves(v, "fast", -1));
  CHECK(!moves(v, "fast", +1));
}

TEST_CASE("without the output's shape or any case the judge still speaks") {
  const Evaluation e = wrong("task", errors(0.02, 0.9, {17, 1029}, 2, 0));
  const codegen::Genome genome = row_genome();
  const std::vector<codegen::Gene> genes = row_genes();
  CHECK(judge::judge({e, genome, genes, {}, {}, {}, {}}).issue == "left_zero");
  Evaluation bare;
  bare.outcome = Outcome::wrong;
  bare.message = "the check failed";
  CHECK(judge::judge({bare, genome, genes, {}, {}, {}, {}}).kind == Kind::mismatch);
}

TEST_CASE("compilers are read by their first error") {
  Evaluation e;
  e.outcome = Outcome::compile_error;
  e.compile = CompileReport{};
  e.compile->log = "note: nothing\nkernel.cu(12): error: identifier \"foo\" is undefined\nkernel.cu(14): error: more\n";
  Verdict v = Asked(e).verdict();
  CHECK(v.kind == Kind::compile_error);
  CHECK(v.issue == "undefined_name");
  CHECK(fact(v, "source_line")->value == 12);
  e.compile->log = "k.cpp: In function 'void k0(void**)':\nk.cpp:31:7: error: expected ';' before '}' token";
  v = Asked(e).verdict();
  CHECK(v.issue == "syntax");
  CHECK(fact(v, "source_line")->value == 31);
  e.compile->log = "ptxas error   : Entry function 'k' uses too much shared data (0x10000 bytes, 0xc000 max)";
  Asked asked(e);
  asked.genome["rows"] = 4;
  v = asked.verdict();
  CHECK(v.issue == "shared_too_large");
  CHECK(moves(v, "rows", -1));
  CHECK(fact(v, "source_line") == nullptr);
  e.compile->log = "";
  e.message = "gone";
  CHECK(issue_of(e) == "compile_error");
  e.outcome = Outcome::compile_timeout;
  CHECK(issue_of(e) == "compile_timeout");
}

TEST_CASE("faults: what was launched and did not end well") {
  Asked asked(timed(1));
  asked.evaluation.outcome = Outcome::launch_failed;
  asked.evaluation.compile->kernels[0].registers = 128;
  asked.launches[0].threads = 1024;
  CHECK(asked.verdict().issue == "registers_too_many");
  asked.launches[0].threads = 256;
  asked.launches[0].dynamic_shared = 300000;
  CHECK(asked.verdict().issue == "shared_too_large");
  asked.evaluation.outcome = Outcome::out_of_bounds;
  Verdict v = asked.verdict();
  CHECK(v.kind == Kind::fault);
  CHECK(v.issue == "out_of_bounds");
  CHECK(moves(v, "vector", -1));
  asked.evaluation.outcome = Outcome::infrastructure;
  CHECK(asked.verdict().kind == Kind::none);
  asked.evaluation.outcome = Outcome::duplicate;
  CHECK(asked.verdict().moves.empty());
}

TEST_CASE("a verdict as text and as JSON") {
  Verdict v;
  v.kind = Kind::bottleneck;
  v.issue = "spills";
  v.message = "\"<b>\"";
  v.evidence = {{"spilled", 400, "bytes a thread"}, {"odd", no_number, ""}};
  v.moves = {{"unroll", -1, 0.125}};
  CHECK(to_text(v).find("try unroll") != std::string::npos);
  CHECK(
      to_json(v) ==
      R"({"evidence":[{"name":"spilled","unit":"bytes a thread","value":400.0},{"name":"odd","unit":"","value":"nan"}],)"
      R"("issue":"spills","kind":"bottleneck","message":"\"<b>\"","moves":[{"direction":-1,"expected_gain":0.125,"gene":"unroll"}]})");
}
