#include "session/evidence.h"

#include "base/hash.h"
#include "base/json.h"
#include "evaluate/json.h"
#include "program/solution.h"
#include "session/version.h"
#include "worker/note_json.h"

namespace planish::session {
namespace {

Json cases_json(const std::vector<TestCase>& cases) {
  Json out = Json::array();
  for (const TestCase& test : cases) out.push_back(case_to_json(test));
  return out;
}

Json samples(const std::vector<double>& values) {
  Json out = Json::array();
  for (const double value : values) out.push_back(number_to_json(value));
  return out;
}

/// What was launched, by the hashes of its sources and binaries.
Json kernels_json(const std::string& program, const Evaluation& evaluation) {
  Json out = Json::array();
  const auto parsed = parse_json(program, "bad_program", "program");
  if (!parsed || !parsed->contains("kernels")) return out;
  std::size_t i = 0;
  for (const Json& kernel : (*parsed)["kernels"]) {
    Json one = {{"language", kernel.value("language", "")},
                {"entry", kernel.value("entry", "")},
                {"source_sha256", sha256_hex(kernel.value("source", ""))}};
    if (evaluation.compile && i < evaluation.compile->kernels.size()) {
      const KernelReport& report = evaluation.compile->kernels[i];
      one["binary_sha256"] = report.sha256;
      one["registers"] = report.registers;
      one["spill_bytes"] = report.spill_bytes;
      one["shared_bytes"] = report.shared_bytes;
    }
    out.push_back(std::move(one));
    ++i;
  }
  return out;
}

}  // namespace

std::string evidence_json(const ResultDocument& r, const Evidence& e) {
  Json out;
  out["schema"] = "planish.evidence/1";
  out["versions"] = {{"planish", version}, {"torch", e.torch}, {"python", e.python}};
  out["command"] = e.command;
  const auto settings = parse_json(e.settings, "internal", "settings");
  out["settings"] = settings ? *settings : Json::object();
  out["run"] = r.run;
  out["task"] = {{"name", r.task}, {"source_sha256", r.task_sha256}};
  out["device"] = {{"target", r.target},    {"name", r.device.name},   {"arch", r.device.arch},
                   {"uuid", r.device.uuid}, {"cores", r.device.cores}, {"sms", r.device.sms}};
  out["outcome"] = r.outcome;
  out["form"] = r.form;
  if (!e.program.empty()) {
    out["program_sha256"] = sha256_hex(e.program);
    if (const auto solution = program::solution_of(e.program)) {
      out["solution_sha256"] = sha256_hex(*solution);
      out["sandbox"] = json_or_discarded(e.verification.sandbox);
    } else {
      out["kernels"] = kernels_json(e.program, e.evaluation);
    }
  }
  out["accuracy"] = {{"gate", r.accuracy ? r.accuracy->gate : ""}, {"verified", e.verification.verified},
                     {"cases", cases_json(e.verification.cases)},  {"skipped", e.verification.skipped},
                     {"degenerate", e.verification.degenerate},    {"notes", notes_to_json(e.verification.notes)}};
  out["memory"] = memory_to_json(e.verification.memory);
  if (e.evaluation.test) out["accuracy"]["before_shipping"] = cases_json(e.evaluation.test->cases);
  out["times"] = Json::object();
  for (const ClaimTime& t : r.times) {
    if (t.error) {
      out["times"][t.name] = {{"error", {{"kind", t.error->kind}, {"message", t.error->message}}}};
      continue;
    }
    out["times"][t.name] = {
        {"median_ms", number_to_json(t.median_ms)},   {"lo_ms", number_to_json(t.lo_ms)},
        {"hi_ms", number_to_json(t.hi_ms)},           {"host_us", number_to_json(t.host_us)},
        {"latency_ms", number_to_json(t.latency_ms)}, {"compile_seconds", number_to_json(t.compile_seconds)},
        {"samples_ms", samples(t.samples_ms)}};
  }
  out["clocks"] = {{"before", clocks_to_json(e.claim.clocks_before)}, {"after", clocks_to_json(e.claim.clocks_after)}};
  if (e.evaluation.bench) {
    const BenchReport& b = *e.evaluation.bench;
    out["step_list"] = {{"median_ms", number_to_json(b.median_ms)},
                        {"samples_ms", samples(b.samples_ms)},
                        {"clocks_before", clocks_to_json(b.clocks_before)},
                        {"clocks_after", clocks_to_json(b.clocks_after)}};
  }
  return dump_json(out);
}

}  // namespace planish::session
