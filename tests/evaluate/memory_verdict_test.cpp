// What compute-sanitizer finds refuses a verified solution, by name.
#include "evaluate/memory_verdict.h"

#include <doctest/doctest.h>

#include "evaluate/json.h"

using namespace planish;
using worker::MemoryCheck;

namespace {

MemoryCheck check(const char* tool, MemoryCheck::Result result) {
  MemoryCheck out;
  out.tool = tool;
  out.result = result;
  if (result == MemoryCheck::Result::found) out.findings = {{"mine", "it is wrong"}, {"mine", "again"}};
  if (result == MemoryCheck::Result::not_run) out.reason = "why not";
  return out;
}

VerifyReply verified_with(std::vector<MemoryCheck> checks) {
  VerifyReply reply;
  reply.verified = true;
  reply.outcome = Outcome::ok;
  reply.times = ModuleTimes{};
  add_memory_checks(std::move(checks), reply);
  return reply;
}

}  // namespace

TEST_CASE("each tool's findings have a name of their own") {
  using enum MemoryCheck::Result;
  CHECK(verified_with({check("memcheck", found)}).outcome == Outcome::invalid_access);
  CHECK(verified_with({check("memcheck", clean), check("racecheck", found)}).outcome == Outcome::race);
  CHECK(verified_with({check("initcheck", found)}).outcome == Outcome::uninitialized_read);
  const VerifyReply reply = verified_with({check("racecheck", found), check("initcheck", found)});
  CHECK(reply.outcome == Outcome::race);  // the first
  CHECK_FALSE(reply.verified);
  CHECK_FALSE(reply.times.has_value());
  CHECK(reply.message == "compute-sanitizer racecheck: it is wrong in mine, and 1 more");
  for (const Outcome outcome : {Outcome::invalid_access, Outcome::race, Outcome::uninitialized_read})
    CHECK(outcome_from_name(name(outcome)) == outcome);
}

TEST_CASE("nothing found, or not run, leaves the verdict and is kept as evidence") {
  using enum MemoryCheck::Result;
  const VerifyReply reply = verified_with({check("memcheck", clean), check("racecheck", not_run)});
  CHECK(reply.verified);
  CHECK(reply.times.has_value());
  const Json json = memory_to_json(reply.memory);
  CHECK(json[0]["result"] == "clean");
  CHECK(json[1]["reason"] == "why not");
  const auto read = read_memory(&json, "protocol", "memory");
  REQUIRE(read.has_value());
  CHECK(memory_to_json(*read) == json);
  CHECK(memory_to_json(*read_memory(nullptr, "protocol", "memory")).empty());
  Json odd = json;
  odd[0]["result"] = "maybe";
  CHECK_FALSE(read_memory(&odd, "protocol", "memory").has_value());
}
