#pragma once

#include <optional>

#include "base/result.h"
#include "evaluate/evaluation.h"
#include "worker/messages.h"

namespace planish {

/// A runner's error as the candidate's outcome.
Outcome outcome_of_runner(const Error& error, const std::optional<worker::Fault>& fault);
/// It ran to its end, and its results are not those of the task.
bool is_wrong(Outcome outcome);
/// No candidate's fault, and no other candidate could be evaluated either.
bool ends_the_run(const Error& error);
/// The device itself failed or went away; no program can have done it.
bool is_device_failure(const Error& error);
/// A compile worker's error as the candidate's outcome. What is wrong with our own machine (no compiler, a full disk)
/// is `infrastructure`.
Outcome outcome_of_compiler(const Error& error);
/// The oracle's `problem` as an outcome.
Outcome outcome_of_check(const worker::CheckReply& check);
/// The verdict drawn again from what the oracle measured: every output's errors within their gates, none missing, none
/// that is no number. A check that says ok beside anything else is no longer ok, and says so. `outputs`: how many were
/// to be compared.
void judge_again(worker::CheckReply& check, std::size_t outputs);
/// What the check comes to, in the report of its case.
void enter(TestCase& test_case, const worker::CheckReply& check);
/// Of a judged case: so near the gate, on either side, that two further data sets of its regime decide.
bool is_near_gate(const TestCase& item);
/// Output buffers of a data set: as many rows a check must have.
std::size_t outputs_of(const worker::DataSet& set);
/// Two runs on the same data both passed: true where their errors still differ by more than rounding.
bool repeats_disagree(const worker::CheckReply& first, const worker::CheckReply& second);
/// Times that the runner reports against the wall clock around the call. The reason they cannot both be true; empty
/// when they can.
std::string time_mismatch(const worker::Timing& timing, double wall_seconds);

}  // namespace planish
