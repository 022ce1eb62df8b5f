// A factor that stays in shared memory for all tiles of a block: where its slices lie, who brings them, and what the
// tensor core reads there.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "codegen/contraction/cuda_contraction.h"
#include "codegen/contraction/main_loop.h"
#include "codegen/contraction/plan.h"
#include "codegen/contraction_executor.h"
#include "codegen/contraction_samples.h"
#include "codegen/devices.h"

namespace planish::codegen::contraction {
namespace {

TilePlan plan_of(const std::string& text) {
  const auto plan = from_text(text);
  REQUIRE(plan);
  return *plan;
}

std::string refusal(const Problem& problem, const std::string& text) {
  const Status status = check(problem, plan_of(text));
  return status ? std::string() : status.error().message;
}

const std::vector<std::string> plans{
    "stationary=1 scheme=single bm=64 consumers=1 bn=64 bk=64 stages=4",
    "stationary=1 scheme=split bm=128 consumers=2 bn=48 bk=32 promote_k=64 stages=3 exchange=32",
    "stationary=1 scheme=single bm=64 consumers=3 ping_pong=1 bn=128 bk=64 stages=4",
    "stationary=1 scheme=plain element=bf16 bm=192 consumers=3 bn=96 bk=64 stages=2",
    "stationary=2 scheme=single bm=64 consumers=1 bn=64 bk=64 stages=4",
    "stationary=2 scheme=split bm=128 consumers=2 bn=48 bk=32 promote_k=64 stages=3 exchange=32",
    "stationary=2 scheme=single bm=64 consumers=3 ping_pong=1 bn=128 bk=64 stages=4",
};

/// As the plans above are printed: which operand is stationary, and a product of it.
Operand kept(const TilePlan& plan) {
  return *stationary_operand(plan);
}

Problem problem_of(const TilePlan& plan) {
  const std::int64_t k = 3 * plan.bk - 5;
  return plan.stationary == 1 ? Problem{plan.bm * 3 + 9, plan.bn - 5, k} : Problem{plan.bm * 3 + 9, plan.bn * 4 - 5, k};
}

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t found = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
  return found;
}

}  // namespace

TEST_CASE("stages and slices of a stationary factor lie beside each other, and hold what descriptors read") {
  for (const auto& text : plans) {
    CAPTURE(text);
    const TilePlan plan = plan_of(text);
    const Problem problem = problem_of(plan);
    REQUIRE(refusal(problem, text) == "");
    const Extents e = extents_of(problem, plan);
    const std::int64_t depth = e.depth / plan.bk, slices = std::int64_t{plan.stages} * stage_step(problem, plan);
    const int before = part_offset(problem, plan, kept(plan), 0);
    CHECK(stationary_bytes(problem, plan) == depth * slice_bytes(problem, plan));
    Image memory(static_cast<std::size_t>(slices + stationary_bytes(problem, plan)) / 2, 0xffffffff);
    CHECK(memory.size() * 2 < static_cast<std::size_t>(exchange_offset(problem, plan)));
    std::array<std::vector<Image>, 2> operands;
    for (int part = 0; part < parts(plan); ++part) {
      operands[0].push_back(packed(plan, e.rows_a, e.depth, problem.m, problem.k, static_cast<std::uint32_t>(part)));
      operands[1].push_back(packed(plan, e.rows_b, e.depth, problem.n, problem.k, static_cast<std::uint32_t>(part)));
    }
    // As the text has it: a stage's copies of the first operand, and once all slices of the second.
    const auto copy_to = [&](std::int64_t to, const Copy& copy, std::int64_t source) {
      const bool is_a = copy.operand == Operand::a;
      for (int i = 0; i < copy.bytes / 2; ++i) {
        auto& place = memory.at(static_cast<std::size_t>((to + copy.target) / 2 + i));
        CHECK(place == 0xffffffff);
        place =
            operands[is_a ? 0 : 1][static_cast<std::size_t>(copy.part)].at(static_cast<std::size_t>(source / 2 + i));
      }
    };
    // Of the tile, and where its operands begin.
    const std::int64_t row = plan.bm, column = plan.stationary == 1 ? 0 : plan.bn;
    for (const Copy& copy : copies_of(problem, plan)) {
      const bool is_a = copy.operand == Operand::a;
      const bool stays = copy.operand == kept(plan);
      for (std::int64_t k = 0; k < (stays ? depth : std::min<std::int64_t>(depth, plan.stages)); ++k) {
        const std::int64_t from = (k * (is_a ? e.rows_a : e.rows_b) + (is_a ? row : column)) * plan.bk * 2;
        copy_to(stays ? slices + k * slice_bytes(problem, plan) - before : k * stage_step(problem, plan), copy, from);
      }
    }
    std::int64_t wrong = 0, looked = 0;
    for (std::int64_t k = 0; k < std::min<std::int64_t>(depth, plan.stages); ++k) {
      for (const Step& step : steps_of(plan)) {
        const auto look = [&](Operand operand, int part, int first, int rows, std::int64_t at, std::int64_t limit,
                              std::int64_t base) {
          const Descriptor d = descriptor_of(problem, plan, operand, part, first, step.k);
          for (int r = 0; r < rows; ++r) {
            for (int c = 0; c < 16; ++c) {
              const std::int64_t y = at + first + r, x = k * plan.bk + step.k + c;
              const auto wanted = y < limit && x < problem.k ? static_cast<std::uint32_t>(1 + y * problem.k + x) * 2 +
                                                                   static_cast<std::uint32_t>(part)
                                                             : 0u;
              const std::int64_t place = base + address(encode(d), d.start, r, c);
              wrong += memory.at(static_cast<std::size_t>(place / 2)) != wanted;
              ++looked;
            }
          }
        };
        const std::int64_t slice = slices + k * slice_bytes(problem, plan) - before;
        const std::int64_t stage = k * stage_step(problem, plan);
        for (int w = 0; w < plan.bm / 64; ++w)
          look(Operand::a, step.a_part, 64 * w, 64, row, problem.m, kept(plan) == Operand::a ? slice : stage);
        look(Operand::b, step.b_part, 0, plan.bn, column, problem.n, kept(plan) == Operand::b ? slice : stage);
      }
    }
    CHECK(wrong == 0);
    CHECK(looked > 0);
  }
}

TEST_CASE("slices are asked for once a block, by as many copies as their barrier waits for") {
  for (const auto& text : plans) {
    CAPTURE(text);
    const TilePlan plan = plan_of(text);
    const Problem problem = plan.stationary == 1 ? Problem{5000, plan.bn, 200} : Problem{3 * plan.bm, 5000, 200};
    const auto loop = print_main_loop(problem, plan, plain_store(problem), 132);
    REQUIRE(loop);
    const std::string& source = loop->source;
    const std::size_t tiles = source.find("for (int tile");
    const std::string once = source.substr(0, tiles), each = source.substr(tiles);
    CHECK(count(once, "bulk_load((slices + ") == static_cast<std::size_t>(parts(plan)));
    CHECK(count(each, "bulk_load((slices + ") == 0);
    CHECK(count(once, "barrier_expect(there, " + std::to_string(stationary_bytes(problem, plan)) + ")") == 1);
    CHECK(count(source, "barrier_wait(there, 0)") == 1);
    std::int64_t copied = 0;
    for (const Copy& copy : copies_of(problem, plan)) copied += copy.operand == kept(plan) ? 0 : copy.bytes;
    CHECK(count(each, "barrier_expect(full + stage * 8, " + std::to_string(copied) + ")") == 1);
    CHECK(loop->shared_bytes == shared_bytes(problem, plan));
    // Each row of tiles has as many blocks.
    if (plan.stationary == 2) CHECK(loop->blocks % rows_of_tiles(problem, plan) == 0);
  }
}

TEST_CASE("what may not be stationary is refused by name") {
  const std::string one = "stationary=1 scheme=single bm=64 consumers=1 bn=64 bk=64 stages=4";
  CHECK(refusal({1000, 64, 512}, one) == "");
  CHECK(refusal({1000, 65, 512}, one) == "what is stationary has one tile of rows");
  CHECK(refusal({1000, 64, 512, 2}, one) == "what is stationary has one tile of rows");
  CHECK(refusal({1000, 64, 512}, one + " split_k=2") == "what is stationary has one tile of rows");
  CHECK(refusal({1000, 64, 1 << 20}, one).find("bytes of shared memory") != std::string::npos);
  CHECK(refusal({1000, 64, 512},
                "stationary=1 scheme=plain bm=64 consumers=1 bn=64 bk=64 stages=4 load_mode_a=along_k") ==
        "what is stationary is packed, and so is the other operand");
  const std::string first = "stationary=2 scheme=single bm=64 consumers=1 bn=64 bk=64 stages=4";
  CHECK(refusal({64, 1000, 512}, first) == "");
  CHECK(refusal({64, 1000, 512, 2}, first) ==
        "a first operand that is stationary does not slide, and is of one whole product");
  CHECK(refusal({2000, 1000, 512}, first) ==
        "blocks have one of a few rows of tiles where the first operand is stationary");
  CHECK(refusal({64, 1000, 512}, "stationary=3 scheme=single bm=64 consumers=1 bn=64 bk=64 stages=4") ==
        "stationary is 0, 1 or 2");
}

TEST_CASE("convolutions whose channels are folded have guesses of both kinds, and a wide one has none that keeps") {
  const auto kept = [](const std::vector<Genome>& all) {
    return std::ranges::count_if(all, [](const Genome& genome) { return value_of(genome, "stationary", 0) == 1; });
  };
  const auto few = samples::conv_sample({.x = {16, 16, 64, 64}, .w = {64, 16, 3, 3}, .padding = 1, .fold = "amin"});
  const auto guesses = seeds(few.kernel, h200());
  CHECK(kept(guesses) > 0);
  CHECK(kept(guesses) < static_cast<std::ptrdiff_t>(guesses.size()));
  for (const Genome& genome : guesses) {
    CHECK(illegal(few.kernel, h200(), genome) == "");
    const auto emitted = emit(few.kernel, h200(), genome);
    REQUIRE(emitted);
    const bool once = std::ranges::any_of(emitted->after, [](const Emitted& launch) {
      return launch.source.find("barrier_wait(there, 0)") != std::string::npos;
    });
    CHECK(once == (genome.at("stationary") == 1));
  }
  const auto wide = samples::conv_sample({.x = {16, 16, 64, 64}, .w = {512, 16, 3, 3}, .padding = 1});
  CHECK(kept(seeds(wide.kernel, h200())) == 0);
}

}  // namespace planish::codegen::contraction
