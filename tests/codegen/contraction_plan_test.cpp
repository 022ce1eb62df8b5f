#include <doctest/doctest.h>

#include <array>
#include <cstring>
#include <set>

#include "codegen/contraction/main_loop.h"
#include "codegen/contraction/plan.h"
#include "codegen/contraction_executor.h"

namespace planish::codegen::contraction {
namespace {

const std::vector<std::string> plans{"",
                                     "bk=32 stages=6 promote_k=128",
                                     "bm=64 consumers=1 bn=48 stages=5 raster=2",
                                     "bk=128 stages=2 bn=32 promote_k=128",
                                     "split_k=3 bn=96 promote_k=128",
                                     "scheme=plain bn=256 stages=4",
                                     "scheme=plain bm=192 consumers=3 bn=192 element=bf16",
                                     "scheme=plain bm=64 ping_pong=1 bn=256"};
const std::vector<std::string> brought{"scheme=plain bn=256 stages=3 load_mode_a=along_k load_mode_b=along_rows",
                                       "scheme=plain bk=128 stages=2 load_mode_b=along_k element=bf16"};

TilePlan plan_of(const std::string& text) {
  const auto plan = from_text(text);
  REQUIRE(plan);
  return *plan;
}

std::string refusal(const Problem& problem, const std::string& text) {
  const Status status = check(problem, plan_of(text));
  if (status) return {};
  CHECK(status.error().kind.name() == "illegal_plan");
  return status.error().message;
}

/// One stage as the copies of tile rows (row, column) and stage k leave it.
Image stage_of(const TilePlan& plan, const std::array<std::vector<Image>, 2>& operands, const Extents& e,
               std::int64_t row, std::int64_t column, std::int64_t k) {
  Image stage(static_cast<std::size_t>(stage_bytes({}, plan)) / 2, 0xffffffff);
  for (const Copy& copy : copies_of({}, plan)) {
    const bool is_a = copy.operand == Operand::a;
    const Image& from = operands[is_a ? 0 : 1][static_cast<std::size_t>(copy.part)];
    // As the producer computes it: stages of k of all rows, then the tile's rows.
    const std::int64_t source = k * (is_a ? e.rows_a : e.rows_b) * plan.bk * 2 + (is_a ? row : column) * plan.bk * 2;
    REQUIRE(source % 16 == 0);
    REQUIRE(copy.target % 16 == 0);
    REQUIRE(copy.bytes % 16 == 0);
    for (int i = 0; i < copy.bytes / 2; ++i) {
      auto& place = stage.at(static_cast<std::size_t>(copy.target / 2 + i));
      CHECK(place == 0xffffffff);  // nobody else's
      place = from.at(static_cast<std::size_t>(source / 2 + i));
    }
  }
  return stage;
}

}  // namespace

TEST_CASE("a tile plan survives its text") {
  for (const auto* const all : {&plans, &brought}) {
    for (const auto& text : *all) CHECK(plan_of(to_text(plan_of(text))) == plan_of(text));
  }
  for (const char* const bad : {"bm", "bm=x", "bm=12x", "width=3", "scheme=fast"}) {
    const auto plan = from_text(bad);
    REQUIRE_FALSE(plan);
    CHECK(plan.error().kind.name() == "bad_plan");
    CHECK(plan.error().message.find(bad) != std::string::npos);
  }
}

TEST_CASE("what a plan may not be is refused by name") {
  const Problem problem{1000, 777, 530};
  for (const auto& text : plans) CHECK(refusal(problem, text) == "");
  CHECK(refusal(problem, "bm=128 consumers=1").find("bm") != std::string::npos);
  CHECK(refusal(problem, "bm=128 ping_pong=1").find("turn") != std::string::npos);
  CHECK(refusal(problem, "bm=64 consumers=1 ping_pong=1").find("turns") != std::string::npos);
  CHECK(refusal(problem, "bn=100").find("bn") != std::string::npos);
  CHECK(refusal(problem, "bk=48").find("bk") != std::string::npos);
  CHECK(refusal(problem, "stages=1").find("stages") != std::string::npos);
  CHECK(refusal(problem, "stages=4").find("shared memory") != std::string::npos);
  CHECK(refusal(problem, "bn=136 stages=2").find("registers") != std::string::npos);
  CHECK(refusal(problem, "promote_k=32").find("promote_k") != std::string::npos);
  CHECK(refusal(problem, "promote_k=96").find("promote_k") != std::string::npos);
  CHECK(refusal(problem, "element=bf16").find("fp16") != std::string::npos);
  CHECK(refusal(problem, "split_k=65").find("split_k") != std::string::npos);
  CHECK(refusal({0, 1, 1}, "").find("extents") != std::string::npos);
  CHECK(refusal({std::int64_t{1} << 31, 1, 1}, "").find("2^31") != std::string::npos);
}

TEST_CASE("packed operands hold every element once, wherever rows and columns end") {
  for (const auto& text : plans) {
    const TilePlan plan = plan_of(text);
    const Extents e = extents_of({70, 50, 150}, plan);
    CHECK(e.rows_a % plan.bm == 0);
    CHECK(e.rows_b % plan.bn == 0);
    CHECK(e.depth % (plan.bk * plan.split_k) == 0);
    std::set<std::int64_t> seen;
    for (std::int64_t y = 0; y < e.rows_a; ++y) {
      for (std::int64_t x = 0; x < e.depth; ++x) {
        const std::int64_t place = place_in_operand(plan, e.rows_a, y, x);
        CHECK(place >= 0);
        CHECK(place + 2 <= e.rows_a * e.depth * 2);
        CHECK(place % 2 == 0);
        seen.insert(place);
      }
    }
    CHECK(static_cast<std::int64_t>(seen.size()) == e.rows_a * e.depth);
  }
}

TEST_CASE("each register set gets each product of its parts once, over all k of a stage") {
  for (const auto& text : plans) {
    const TilePlan plan = plan_of(text);
    std::multiset<std::array<int, 4>> seen;
    for (const Step& step : steps_of(plan)) seen.insert({step.accumulator, step.k, step.a_part, step.b_part});
    std::multiset<std::array<int, 4>> wanted;
    for (int k = 0; k < plan.bk; k += 16) {
      wanted.insert({0, k, 0, 0});
      if (plan.scheme == Scheme::split) wanted.insert({1, k, 0, 1});
      if (plan.scheme == Scheme::split) wanted.insert({1, k, 1, 0});
    }
    CHECK(seen == wanted);
  }
}

TEST_CASE("a warpgroup's registers are a bijection onto its tile") {
  for (const int columns : {8, 48, 128, 256}) {
    std::set<std::pair<int, int>> seen;
    for (int thread = 0; thread < 128; ++thread) {
      for (int index = 0; index < columns / 2; ++index) {
        const Place place = fragment(thread, index);
        CHECK(place.row < 64);
        CHECK(place.column < columns);
        seen.insert({place.row, place.column});
      }
    }
    CHECK(seen.size() == static_cast<std::size_t>(64 * columns));
  }
}

TEST_CASE("what the tensor core reads through descriptors is what was packed") {
  for (const auto& text : plans) {
    CAPTURE(text);
    const TilePlan plan = plan_of(text);
    const Problem problem{plan.bm + 9, plan.bn + 21, 3 * plan.bk - 5};
    const Extents e = extents_of(problem, plan);
    std::array<std::vector<Image>, 2> operands;
    for (int part = 0; part < parts(plan); ++part) {
      operands[0].push_back(packed(plan, e.rows_a, e.depth, problem.m, problem.k, static_cast<std::uint32_t>(part)));
      operands[1].push_back(packed(plan, e.rows_b, e.depth, problem.n, problem.k, static_cast<std::uint32_t>(part)));
    }
    std::int64_t wrong = 0;
    for (const std::int64_t tile : {0, 1}) {
      const std::int64_t row = tile * plan.bm, column = tile * plan.bn;
      for (std::int64_t k = 0; k < e.depth / plan.bk; ++k) {
        const Image stage = stage_of(plan, operands, e, row, column, k);
        for (const auto id : stage) CHECK(id != 0xffffffff);  // copies fill the stage
        for (const Step& step : steps_of(plan)) {
          const auto look = [&](Operand operand, int part, int first, int count, std::int64_t at, std::int64_t limit) {
            const Descriptor d = descriptor_of({}, plan, operand, part, first, step.k);
            CHECK(d.start % 16 == 0);
            for (int r = 0; r < count; ++r) {
              for (int c = 0; c < 16; ++c) {
                const std::int64_t y = at + first + r, x = k * plan.bk + step.k + c;
                const auto wanted = y < limit && x < problem.k ? static_cast<std::uint32_t>(1 + y * problem.k + x) * 2 +
                                                                     static_cast<std::uint32_t>(part)
                                                               : 0u;
                const int place = address(encode(d), d.start, r, c);
                wrong += stage.at(static_cast<std::size_t>(place / 2)) != wanted;
              }
            }
          };
          for (int w = 0; w < plan.bm / 64; ++w) look(Operand::a, step.a_part, 64 * w, 64, row, problem.m);
          look(Operand::b, step.b_part, 0, plan.bn, column, problem.n);
        }
      }
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("stages are neither overwritten while they are read nor waited for for ever") {
  for (const int stages : {2, 3, 8}) {
    for (const int consumers : {1, 2, 3}) {
      for (std::uint64_t seed = 0; seed < 20; ++seed) {
        CHECK(race(stages, consumers, 19, seed) == "");
        for (const int depth : {1, 4, 9}) {
          TilePlan plan;
          plan.stages = stages;
          const int under_way = stages_under_way(plan);
          CHECK(race(stages, consumers, depth, seed, 5) == "");
          CHECK(race(stages, consumers, depth, seed, 5, false, under_way) == "");
          if (consumers == 1) continue;
          CHECK(race(stages, consumers, depth, seed, 5, true) == "");
          CHECK(race(stages, consumers, depth, seed, 5, true, under_way) == "");
        }
      }
    }
  }
}

TEST_CASE("the printed kernel says what the plan says") {
  const Problem problem{300, 200, 130};
  for (const auto& text : plans) {
    const TilePlan plan = plan_of(text);
    const auto loop = print_main_loop(problem, plan, plain_store(problem), 132);
    REQUIRE(loop);
    const auto count = [&](const std::string& what) {
      std::size_t found = 0;
      for (auto at = loop->source.find(what); at != std::string::npos; at = loop->source.find(what, at + 1)) ++found;
      return found;
    };
    const int turns = plan.scheme == Scheme::split ? plan.promote_k / plan.bk : 1;
    CHECK(count(" multiply(") == steps_of(plan).size() * static_cast<std::size_t>(turns));
    CHECK(count(" bulk_load(at") == copies_of({}, plan).size());
    CHECK(count("barrier_expect(full + stage * 8, " + std::to_string(stage_bytes({}, plan)) + ")") == 1);
    CHECK(loop->threads == 128 * (plan.consumers + 1));
    CHECK(loop->shared_bytes <= 232448);
    CHECK(loop->blocks == std::min<std::int64_t>(132, extents_of(problem, plan).tiles));
    CHECK(print_main_loop(problem, plan, plain_store(problem), 132)->source == loop->source);
  }
  const auto refused = print_main_loop(problem, plan_of("bn=100"), plain_store(problem), 132);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().kind.name() == "illegal_plan");
}

}  // namespace planish::codegen::contraction
