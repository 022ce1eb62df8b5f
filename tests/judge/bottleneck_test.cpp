#include <doctest/doctest.h>

#include <algorithm>

#include "samples.h"

using namespace planish;
using namespace planish::judge;
using namespace planish::judge::testing;

TEST_CASE("at the roofline there is nothing to say") {
  const Verdict v = Asked(timed(1.03)).verdict();
  CHECK(v.kind == Kind::none);
  CHECK(v.issue == "speed_of_light");
  CHECK(v.moves.empty());
  CHECK(fact(v, "achieved_bandwidth")->value == doctest::Approx(4300 / 1.03));
}

TEST_CASE("only a device of its own waits for the host") {
  Asked asked(timed(2));
  asked.evaluation.bench->host_us = 1e5;
  asked.genes.clear();  // nothing that could be tried comes before it
  CHECK(asked.verdict().issue == "host_submission");
  // On a CPU the host's time is the kernel's: what a call takes longer there is no submission.
  asked.device.target = &backend::cpu();
  const Verdict v = asked.verdict();
  CHECK(v.issue != "host_submission");
  CHECK(fact(v, "host") == nullptr);
}

TEST_CASE("who does less than the graph has is not told that nothing is left") {
  const Verdict v = Asked(timed(0.5)).verdict();
  CHECK(v.kind == Kind::none);
  CHECK(v.issue == "beyond_roofline");
  CHECK(v.message.find("nothing is left") == std::string::npos);
}

TEST_CASE("spills come first where they cost most, and more registers are asked for") {
  Asked asked(timed(2));
  asked.evaluation.compile->kernels[0].spill_bytes = 400;
  asked.evaluation.compile->kernels[0].registers = 64;
  asked.genome["min_blocks"] = 4;
  const Verdict v = asked.verdict();
  CHECK(v.kind == Kind::bottleneck);
  CHECK(v.issue == "spills");
  CHECK(fact(v, "spilled")->value == 400);
  CHECK(moves(v, "min_blocks", -1));
  CHECK(moves(v, "unroll", -1));
}

TEST_CASE("registers that leave room for one block are found from the compiler's report alone") {
  Asked asked(timed(2));
  asked.evaluation.compile->kernels[0].registers = 200;
  asked.genome["unroll"] = 2;
  asked.genome["vector"] = 8;
  const Verdict v = asked.verdict();
  CHECK(v.issue == "occupancy_registers");
  CHECK(fact(v, "occupancy")->value == doctest::Approx(8.0 / 64));
  CHECK(moves(v, "min_blocks", +1));
}

TEST_CASE("few bytes under way: more of them at once") {
  Asked asked(timed(2));
  asked.genome["unroll"] = 1;
  asked.genome["vector"] = 4;
  asked.genome["threads"] = 64;
  asked.launches[0].threads = 64;
  const Verdict v = asked.verdict();
  CHECK(v.issue == "bytes_in_flight");
  CHECK(moves(v, "unroll", +1));
  CHECK(moves(v, "vector", +1));
  CHECK(!moves(v, "unroll", -1));
}

TEST_CASE("a grid smaller than the device, and a last wave that is nearly empty") {
  Asked small(timed(4));
  small.launches[0].blocks = 20;
  CHECK(small.verdict().issue == "grid_too_small");
  Asked ragged(timed(2));
  ragged.launches[0].blocks = 132 * 8 + 40;
  const Verdict v = ragged.verdict();
  CHECK(v.issue == "tail_wave");
  CHECK(fact(v, "waves")->value == doctest::Approx(1096.0 / 1056));
  CHECK(moves(v, "threads", -1));
}

TEST_CASE("rows that are read again are seen in the bytes that the time is worth") {
  Asked asked(timed(1.9));
  asked.genome["residency"] = 0;
  const double out = 4.12e6;
  asked.evaluation.roofline->bytes = 2 * out;  // one tensor in, one out
  asked.evaluation.roofline->bound_ms = 2 * out / 4300e6;
  asked.evaluation.bench->median_ms = 3 * out / 4300e6;
  const Verdict v = asked.verdict();
  CHECK(v.issue == "read_again");
  REQUIRE(!v.moves.empty());
  CHECK(v.moves.front().gene == "residency");
  CHECK(v.moves.front().expected_gain < 0.34);
}

TEST_CASE("the CPU has its own reading") {
  Asked asked(timed(4));
  asked.device.target = &backend::cpu();
  asked.device.l2_bytes = 32 << 20;
  asked.genes = {{"bits", {256, 512}}, {"threads", {1, 2, 4}}, {"unroll", {1, 2}}, {"nt", {0, 1}}};
  asked.genome = {{"bits", 512}, {"threads", 1}, {"unroll", 1}, {"nt", 0}};
  asked.launches = {{1, 1, 0, 0}};
  const Verdict one = asked.verdict();
  CHECK(one.issue == "too_few_threads");
  CHECK(moves(one, "threads", +1));

  asked.genome["threads"] = 4;
  const double out = 4.12e6 * 50;
  asked.evaluation.roofline = Roofline{2 * out, 1, 2 * out / 10e6, "memory", 0.7};
  asked.evaluation.bench->median_ms = 3 * out / 10e6;
  const Verdict v = judge::judge(
      {asked.evaluation, asked.genome, asked.genes, asked.device, asked.launches, {{50000, 1030}}, {"f32"}});
  CHECK(v.issue == "write_allocate");
  REQUIRE(!v.moves.empty());
  CHECK(v.moves.front().gene == "nt");
}

TEST_CASE("without launches and roofline there is still a verdict, and no division by what is not there") {
  Asked asked(timed(3));
  asked.launches.clear();
  asked.evaluation.roofline.reset();
  asked.evaluation.outcome = Outcome::given_up;
  const Verdict v = asked.verdict();
  CHECK(v.kind == Kind::bottleneck);
  CHECK(!v.moves.empty());
  asked.evaluation.bench.reset();
  CHECK(asked.verdict().issue == "not_timed");
}

TEST_CASE("moves exist, are ordered, and promise no more than the distance to the roofline") {
  for (const double ms : {1.2, 2.0, 10.0, 1e4}) {
    for (const std::int64_t registers : {16, 64, 168, 255}) {
      for (const std::int64_t blocks : {1, 100, 140, 4000}) {
        Asked asked(timed(ms));
        asked.evaluation.compile->kernels[0].registers = registers;
        asked.launches[0].blocks = blocks;
        const Verdict v = asked.verdict();
        REQUIRE(v.kind == Kind::bottleneck);
        CHECK(std::ranges::is_sorted(v.moves, std::ranges::greater{}, &Move::expected_gain));
        for (const Move& move : v.moves) {
          CHECK(move.expected_gain > 0);
          CHECK(move.expected_gain <= 1 - 1 / ms + 1e-12);
          const auto gene = std::ranges::find(asked.genes, move.gene, &codegen::Gene::name);
          REQUIRE(gene != asked.genes.end());
          if (move.direction > 0) CHECK(asked.genome[move.gene] != gene->choices.back());
          if (move.direction < 0) CHECK(asked.genome[move.gene] != gene->choices.front());
        }
      }
    }
  }
}
