#include "judge/occupancy.h"

#include <doctest/doctest.h>

using namespace planish::judge;
using planish::backend::architecture;

TEST_CASE("occupancy of sm_90, against the vendor's calculator") {
  const planish::backend::Architecture& sm90 = architecture("sm_90a");
  struct Row {
    BlockNeeds needs;
    int blocks;
    const char* limiter;
  };
  // threads, registers, shared bytes → resident blocks
  for (const Row& row :
       {Row{{256, 32, 0}, 8, "warps"}, Row{{256, 40, 0}, 6, "registers"}, Row{{256, 128, 0}, 2, "registers"},
        Row{{256, 255, 0}, 1, "registers"}, Row{{1024, 64, 0}, 1, "registers"}, Row{{1024, 65, 0}, 0, "registers"},
        Row{{32, 16, 0}, 32, "blocks"}, Row{{1024, 32, 0}, 2, "warps"}, Row{{128, 24, 232448}, 1, "shared"},
        Row{{128, 24, 49152}, 4, "shared"}, Row{{512, 24, 0}, 4, "warps"}}) {
    const Occupancy found = occupancy(sm90, row.needs);
    CAPTURE(row.needs.threads);
    CAPTURE(row.needs.registers);
    CAPTURE(row.needs.shared_bytes);
    CHECK(found.blocks == row.blocks);
    CHECK(found.limiter == row.limiter);
    CHECK(found.warps == found.blocks * ((row.needs.threads + 31) / 32));
    CHECK(found.fraction == doctest::Approx(found.warps / 64.0));
  }
}

TEST_CASE("other machines have other limits; one that is not known is taken for an H200's") {
  CHECK(architecture("sm_86").warps == 48);
  CHECK(architecture("sm_80").shared_bytes == 167936);
  CHECK(architecture("sm_90").warps == architecture("something").warps);
  CHECK(occupancy(architecture("sm_86"), {1024, 32, 0}).blocks == 1);
}
