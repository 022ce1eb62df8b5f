#include "base/workflow_commands.h"

#include <doctest/doctest.h>

using namespace planish;

TEST_CASE("nothing in a text is a workflow command, and all else stays as it is") {
  CHECK(without_workflow_commands("::error::a::b\n") == ": :error::a::b\n");
  CHECK(without_workflow_commands("a ::b::\n \t::c\r::d\n\u00a0::e") == "a ::b::\n \t: :c\r: :d\n\u00a0: :e");
  CHECK(without_workflow_commands("a ##[error]b ###[c ##") == "a ## [error]b ### [c ##");
  CHECK(without_workflow_commands("").empty());
}
