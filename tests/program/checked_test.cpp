#include "program/checked.h"

#include <doctest/doctest.h>

#include <thread>
#include <vector>

#include "base/hash.h"

using namespace planish;
using program::Checked;
using program::Given;

namespace {

program::Program small() {
  program::Program out;
  out.target = "cuda";
  out.arch = "sm_90a";
  out.buffers = {{program::Role::input, {"user", 0, "", ""}, "f32", {8}, {1}},
                 {program::Role::output, {}, "f32", {8}, {1}}};
  out.kernels = {{"cuda", "k", {}, "// first\nextern \"C\" __global__ void k() {}"}};
  program::Launch launch;
  launch.kernel = 0;
  launch.args = {program::BufferArg{0}, program::BufferArg{1}};
  out.steps = {launch};
  out.outputs = {{"user", 1, "", -1, ""}};
  return out;
}

}  // namespace

TEST_CASE("a checked program has the text and the names that the functions give") {
  const program::Program one = small();
  REQUIRE(program::validate(one).has_value());
  const Checked checked(one);
  CHECK(program::to_json(checked.program()) == program::to_json(one));
  CHECK(checked.text() == program::to_json(one));
  CHECK(checked.hash() == program::hash(one));
  CHECK(checked.hash() == sha256_hex(checked.text()));
  CHECK(checked.variant() == program::normalised_hash(one));
  CHECK(checked.variant() != checked.hash());
  CHECK(dump_json(program::document(one)) == checked.text());
}

TEST_CASE("what was checked is handed on and not read again; text is read, with the parser's errors") {
  const Checked checked(small());
  const Given given(checked);
  CHECK(&given.checked()->program() == &checked.program());
  CHECK(&given.text() == &checked.text());

  // Another spelling of the same: its names are those of the canonical one.
  const Given spaced(" " + checked.text() + "\n");
  CHECK(spaced.checked()->hash() == checked.hash());
  CHECK(&spaced.checked()->program() != &checked.program());

  CHECK(Given("{").checked().error().kind.name() == "bad_program");
  CHECK(Given().checked().error().kind.name() == "bad_program");
  CHECK(Given().empty());
  program::Program wrong = small();
  wrong.target = "abacus";
  CHECK(Given(program::to_json(wrong)).checked().error().kind.name() == "bad_program");
}

TEST_CASE("many threads may ask for the variant at once") {
  const Checked checked(small());
  std::vector<std::string> found(4);
  {
    std::vector<std::jthread> threads;
    for (std::string& one : found) threads.emplace_back([&one, checked] { one = checked.variant(); });
  }
  for (const std::string& one : found) CHECK(one == checked.variant());
}
