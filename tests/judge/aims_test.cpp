#include "judge/aims.h"

#include <doctest/doctest.h>

#include <algorithm>

namespace planish::judge {
namespace {

const Aim every[] = {Aim::fewer_registers, Aim::more_registers,    Aim::less_shared,  Aim::more_in_flight,
                     Aim::more_blocks,     Aim::even_waves,        Aim::less_traffic, Aim::wider_access,
                     Aim::less_arithmetic, Aim::less_coordination, Aim::more_exact,   Aim::inside_bounds};

TEST_CASE("every gene is moved for some aim") {
  for (const codegen::GeneInfo& info : codegen::gene_catalogue()) {
    CAPTURE(info.name);
    const std::string name(info.name);
    const std::vector<codegen::Gene> genes{{name, {1, 2, 4}}};
    bool moved = false;
    for (const Aim aim : every) {
      for (const Move& move : moves_for(aim, 1, {{name, 2}}, genes)) {
        CHECK(move.gene == name);
        moved = true;
      }
    }
    CHECK(moved);
  }
}

TEST_CASE("moves come by gain, and only where the gene has a choice in that direction") {
  const std::vector<codegen::Gene> genes{{"threads", {32, 64, 128}}, {"min_blocks", {1, 2}}, {"vector", {4}}};
  const auto moves = moves_for(Aim::fewer_registers, 0.5, {{"threads", 128}, {"min_blocks", 1}, {"vector", 4}}, genes);
  REQUIRE(moves.size() == 2);
  CHECK(moves[0].gene == "min_blocks");
  CHECK(moves[0].direction == 1);
  CHECK(moves[0].expected_gain == doctest::Approx(0.4));
  CHECK(moves[1].gene == "threads");  // 128 has nothing above, vector nothing at all
  CHECK(moves[1].direction == -1);
  CHECK(moves_for(Aim::fewer_registers, 0.5, {}, genes).empty());
}

}  // namespace
}  // namespace planish::judge
