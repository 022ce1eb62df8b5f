// What becomes of a candidate, derived from what the processes report. Pure functions: no process is started.
#include <doctest/doctest.h>

#include "evaluate/outcome_of.h"

using namespace planish;

namespace {

Error error(ErrorKind kind) {
  return Error{kind, "", {}, {}};
}

worker::Timing runs(int count, double each_ms) {
  worker::Timing timing;
  timing.samples_ms.assign(static_cast<std::size_t>(count), each_ms);
  return timing;
}

worker::CheckReply errors(double fro, double max) {
  worker::CheckReply check;
  check.ok = true;
  OutputErrors output;
  output.fro = fro;
  output.max = max;
  output.gate_fro = 1e-6;
  output.gate_max = 1e-5;
  check.outputs.push_back(output);
  return check;
}

}  // namespace

TEST_CASE("a crash is named by where the forbidden access went") {
  CHECK(outcome_of_runner(error("crash"), std::nullopt) == Outcome::crash);
  worker::Fault fault;
  fault.where = "input:0";
  CHECK(outcome_of_runner(error("crash"), fault) == Outcome::input_write);
  fault.where = "guard:output:1";
  CHECK(outcome_of_runner(error("crash"), fault) == Outcome::out_of_bounds);
  fault.where = "unknown";
  CHECK(outcome_of_runner(error("crash"), fault) == Outcome::crash);
}

TEST_CASE("what a runner says against itself is the candidate's fault, what breaks around it is ours") {
  CHECK(outcome_of_runner(error("hang"), std::nullopt) == Outcome::hang);
  CHECK(outcome_of_runner(error("exit"), std::nullopt) == Outcome::exit);
  CHECK(outcome_of_runner(error("protocol"), std::nullopt) == Outcome::crash);
  CHECK(outcome_of_runner(error("illegal_address"), std::nullopt) == Outcome::illegal_address);
  CHECK(outcome_of_runner(error("input_write"), std::nullopt) == Outcome::input_write);
  CHECK(outcome_of_runner(error("killed"), std::nullopt) == Outcome::crash);
  CHECK(outcome_of_runner(error("device_lost"), std::nullopt) == Outcome::infrastructure);
  CHECK(is_device_failure(error("device_lost")));
  CHECK(is_device_failure(error("no_device")));
  CHECK_FALSE(is_device_failure(error("illegal_address")));
  CHECK(outcome_of_runner(error("spawn_failed"), std::nullopt) == Outcome::infrastructure);
  CHECK(outcome_of_compiler(error("compile_timeout")) == Outcome::compile_timeout);
  CHECK(outcome_of_compiler(error("crash")) == Outcome::compile_error);
  CHECK(outcome_of_compiler(error("disk_full")) == Outcome::infrastructure);
}

TEST_CASE("each problem that the oracle finds has its outcome") {
  worker::CheckReply check;
  for (const auto& [problem, outcome] :
       {std::pair{"unwritten", Outcome::unwritten}, std::pair{"nan", Outcome::nan},
        std::pair{"guard", Outcome::guard_overwritten}, std::pair{"input_changed", Outcome::input_changed},
        std::pair{"mismatch", Outcome::wrong}}) {
    check.problem = problem;
    CHECK(outcome_of_check(check) == outcome);
  }
  check.ok = true;
  CHECK(outcome_of_check(check) == Outcome::ok);
}

TEST_CASE("repeats may differ by rounding, not by more") {
  CHECK_FALSE(repeats_disagree(errors(3e-7, 2e-6), errors(4e-7, 4e-6)));
  CHECK(repeats_disagree(errors(3e-7, 2e-6), errors(9e-7, 2e-6)));
  CHECK(repeats_disagree(errors(3e-7, 1e-6), errors(3e-7, 9e-6)));
  CHECK(repeats_disagree(errors(0, 0), worker::CheckReply{}));
  // One unit in the last place of every element, where eager itself is correctly rounded.
  const auto exact = [](double fro, double eps) {
    worker::CheckReply check = errors(fro, fro);
    check.outputs[0].gate_fro = check.outputs[0].gate_max = 1.2e-7;
    check.outputs[0].eps = eps;
    return check;
  };
  CHECK(repeats_disagree(exact(1e-8, 0), exact(9e-8, 0)));
  CHECK_FALSE(repeats_disagree(exact(1e-8, 1.19e-7), exact(1.4e-7, 1.19e-7)));
  CHECK(repeats_disagree(exact(1e-8, 1.19e-7), exact(3e-7, 1.19e-7)));
}

TEST_CASE("times that cannot be true are told apart from slow starts") {
  CHECK(time_mismatch(runs(20, 10), 0.25).empty());
  CHECK(time_mismatch(runs(3, 0.01), 2.0).empty());          // first allocations of a torch runner
  CHECK_FALSE(time_mismatch(runs(20, 10), 0.1).empty());     // 200 ms of runs within 100 ms
  CHECK_FALSE(time_mismatch(runs(20, 0.01), 4.0).empty());   // 200 ms a run, and a hundredth reported
  CHECK_FALSE(time_mismatch(runs(300, 1.0), 30.0).empty());  // 100 ms a run, and 1 reported
}
