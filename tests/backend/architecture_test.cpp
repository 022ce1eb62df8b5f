#include "backend/architecture.h"

#include <doctest/doctest.h>

using planish::backend::architecture;

TEST_CASE("architectures by name: what each one's instructions and limits are") {
  CHECK(architecture("sm_90a").wgmma);
  CHECK_FALSE(architecture("sm_90").wgmma);
  CHECK(architecture("sm_90").bulk_copies);
  CHECK(architecture("sm_80").mma16);
  CHECK_FALSE(architecture("sm_80").bulk_copies);
  CHECK(architecture("sm_100a").tcgen05);
  CHECK_FALSE(architecture("sm_100a").wgmma);
  CHECK(architecture("sm_90a").block_shared_bytes == 232448);
  // One block's limit and what the system takes of it fit a multiprocessor.
  for (const char* name : {"sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120a"}) {
    CAPTURE(name);
    CHECK(architecture(name).name == name);
    CHECK(architecture(name).block_shared_bytes + architecture(name).reserved_shared <=
          architecture(name).shared_bytes);
  }
}

TEST_CASE("architectures by name: an unknown one is its family's least, or Hopper's without what only Hopper has") {
  CHECK(architecture("sm_87").name == "sm_80");
  CHECK(architecture("sm_103a").name == "sm_100a");
  CHECK(architecture("sm_121a").name == "sm_120a");
  CHECK(architecture("sm_120").name == "sm_120a");
  CHECK(architecture("something").name == "sm_90");
  CHECK(architecture("").name == "sm_90");
}
