// Verdicts that the evaluator draws itself, whatever it is told.
#include <doctest/doctest.h>

#include <limits>

#include "evaluate/floor.h"
#include "evaluate/outcome_of.h"

using namespace planish;

namespace {

worker::CheckReply said_ok(double fro, double max, double gate_fro = 1e-6, double gate_max = 1e-5) {
  worker::CheckReply check;
  check.ok = true;
  OutputErrors output;
  output.fro = fro;
  output.max = max;
  output.gate_fro = gate_fro;
  output.gate_max = gate_max;
  check.outputs.push_back(output);
  return check;
}

bool stands(worker::CheckReply check, std::size_t outputs = 1) {
  judge_again(check, outputs);
  CHECK(check.ok == (outcome_of_check(check) == Outcome::ok));
  CHECK(check.ok == check.problem.empty());
  return check.ok;
}

DeviceFacts device(const char* target, double gbs, std::int64_t cache) {
  DeviceFacts facts;
  facts.target = target;
  facts.bandwidth_gbs = gbs;
  facts.l2_bytes = cache;
  return facts;
}

}  // namespace

TEST_CASE("ok stands where every error is within its gate") {
  CHECK(stands(said_ok(0, 0)));
  CHECK(stands(said_ok(1e-6, 1e-5)));
  CHECK(stands(said_ok(0, 0, 0, 0)));  // exact outputs have no room
}

TEST_CASE("ok beside an error that is not within its gate is no longer ok") {
  CHECK_FALSE(stands(said_ok(40, 0)));  // a ratio of 40,000,000
  CHECK_FALSE(stands(said_ok(0, 1.01e-5)));
  CHECK_FALSE(stands(said_ok(1e-9, 0, 0, 0)));
}

TEST_CASE("ok beside what is no measurement is no longer ok") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK_FALSE(stands(said_ok(nan, 0)));
  CHECK_FALSE(stands(said_ok(0, 0, nan, 1)));
  CHECK_FALSE(stands(said_ok(-1, 0)));
  CHECK_FALSE(stands(said_ok(1e300, 1e300, 1e300, 1e300)));
  CHECK_FALSE(stands(said_ok(0, 0), 2));  // one of two outputs was compared
  CHECK_FALSE(stands(worker::CheckReply{.ok = true, .problem = {}, .outputs = {}, .reference = {}, .message = {}}));
}

TEST_CASE("a refusal stays one, with its reason") {
  worker::CheckReply check = said_ok(0, 0);
  check.ok = false;
  check.problem = "guard";
  judge_again(check, 1);
  CHECK(outcome_of_check(check) == Outcome::guard_overwritten);
}

TEST_CASE("times below what the memory allows are named, and only those") {
  const DeviceFacts gpu = device("cuda", 4300, 60 << 20);
  const double bytes = 4.3e9;  // 1 ms at 4300 GB/s
  CHECK(faster_than_possible(gpu, bytes, 1.0).empty());
  CHECK(faster_than_possible(gpu, bytes, 0.7).empty());  // the bandwidth may be known too low
  CHECK(faster_than_possible(gpu, bytes, 0.2).find("faster than the memory allows") == 0);
  CHECK_FALSE(faster_than_possible(gpu, bytes, 0).empty());
  CHECK(faster_than_possible(gpu, 50 << 20, 1e-6).empty());  // may all lie in the cache
  const DeviceFacts cpu = device("cpu", 20, 32 << 20);
  CHECK(faster_than_possible(cpu, 2e9, 20).empty());  // a bandwidth measured beside other work
  CHECK_FALSE(faster_than_possible(cpu, 2e9, 0.1).empty());
  CHECK(faster_than_possible(device("cpu", 0, 0), 2e9, 0).empty());  // nothing is known of it
}
