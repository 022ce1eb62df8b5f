#include "base/suggest.h"

#include <doctest/doctest.h>

using namespace planish;

TEST_CASE("the word that was probably meant") {
  const std::vector<std::string> verbs = {"optimize", "verify", "export", "suite", "runs", "show", "report"};
  CHECK(closest("optimise", verbs) == "optimize");
  CHECK(closest("optmiize", verbs) == "optimize");
  CHECK(closest("RUNS", verbs) == "runs");
  CHECK(closest("rnus", verbs) == "runs");  // a swap is one step
  CHECK(closest("frobnicate", verbs).empty());
  CHECK(closest("", verbs).empty());
  CHECK(closest("max-autotune", {"max_autotune", "compile"}) == "max_autotune");
  CHECK(did_you_mean("optimise", verbs) == "did you mean 'optimize'? ");
  CHECK(did_you_mean("xyz", verbs).empty());
}
