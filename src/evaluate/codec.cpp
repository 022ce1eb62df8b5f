#include "evaluate/codec.h"

#include <fmt/core.h>

#include "backend/backend.h"
#include "evaluate/gain_json.h"
#include "evaluate/json.h"
#include "worker/note_json.h"

namespace planish::codec {
namespace {
using Need = ObjectReader::Need;
constexpr ErrorKind bad_request = "bad_request";
constexpr ErrorKind protocol = "protocol";

void read_ints(ObjectReader& reader, const char* field, std::vector<int>& out) {
  std::vector<std::int64_t> wide;
  reader.integers(field, wide, Need::optional);
  out.assign(wide.begin(), wide.end());
}

}  // namespace

Json write(const DeviceFacts& d) {
  return Json{{"target", d.target},
              {"name", d.name},
              {"arch", d.arch},
              {"uuid", d.uuid},
              {"sms", d.sms},
              {"l2_bytes", d.l2_bytes},
              {"bandwidth_gbs", d.bandwidth_gbs},
              {"peak_gflops", d.peak_gflops},
              {"tensor_gflops", d.tensor_gflops},
              {"memory_bytes", d.memory_bytes},
              {"shared_bytes", d.shared_bytes},
              {"cores", d.cores},
              {"triton", d.triton}};
}

Status read(const Json& json, DeviceFacts& d) {
  ObjectReader reader(json, protocol, "device");
  reader.text("target", d.target);
  reader.text("name", d.name);
  reader.text("arch", d.arch);
  reader.text("uuid", d.uuid);
  reader.integer("sms", d.sms);
  reader.integer("l2_bytes", d.l2_bytes);
  reader.number("bandwidth_gbs", d.bandwidth_gbs);
  reader.number("peak_gflops", d.peak_gflops);
  reader.number("tensor_gflops", d.tensor_gflops, Need::optional);
  reader.integer("memory_bytes", d.memory_bytes);
  reader.integer("shared_bytes", d.shared_bytes);
  reader.integer("cores", d.cores);
  reader.boolean("triton", d.triton, ObjectReader::Need::optional);
  PLANISH_CHECK(reader.finish());
  if (backend::find(d.target) == nullptr)
    return fail(protocol, fmt::format("device: unknown target `{}`", d.target), "the other side is of another version");
  return {};
}

Json write(const Error& error) {
  Json json{{"kind", error.kind}, {"message", error.message}};
  if (!error.hint.empty()) json["hint"] = error.hint;
  if (!error.causes.empty()) json["causes"] = error.causes;
  if (!error.about.empty()) json["about"] = error.about;
  return json;
}

Error read_error(const Json& json) {
  Error read;
  std::string kind;
  ObjectReader reader(json, protocol, "error");
  reader.text("kind", kind);
  reader.text("message", read.message);
  reader.text("hint", read.hint, Need::optional);
  reader.texts("causes", read.causes, Need::optional);
  reader.text("about", read.about, Need::optional);
  if (auto status = reader.finish(); !status.has_value()) return status.error();
  return error_in(json);
}

Json write(const OpenRequest& r) {
  return Json{{"task", r.task},   {"target", r.target}, {"accuracy", r.accuracy},   {"seeds", r.seeds},
              {"blobs", r.blobs}, {"ahead", r.ahead},   {"baselines", r.baselines}, {"task_timeout", r.task_timeout},
              {"keep", r.keep},   {"hidden", r.hidden}};
}

Status read(const Json& json, OpenRequest& r) {
  ObjectReader reader(json, bad_request, "open");
  reader.text("task", r.task);
  reader.text("target", r.target, Need::optional);
  reader.text("accuracy", r.accuracy, Need::optional);
  if (const Json* seeds = reader.get("seeds", Need::optional); seeds != nullptr) {
    if (!seeds->is_number_unsigned()) {
      reader.problem("field `seeds` must be an integer that is not negative");
    } else {
      r.seeds = seeds->get<std::uint64_t>();
    }
  }
  reader.text("blobs", r.blobs, Need::optional);
  reader.boolean("ahead", r.ahead, Need::optional);
  reader.texts("baselines", r.baselines, Need::optional);
  reader.number("task_timeout", r.task_timeout, Need::optional);
  reader.boolean("keep", r.keep, Need::optional);
  reader.texts("hidden", r.hidden, Need::optional);
  return reader.finish();
}

Json write(const RegionRequest& r) {
  return Json{{"session", r.session}, {"region", r.region}, {"nodes", r.nodes}, {"inputs", r.inputs},
              {"outputs", r.outputs}, {"bytes", r.bytes},   {"flops", r.flops}, {"describe", r.describe}};
}

Status read(const Json& json, RegionRequest& r) {
  ObjectReader reader(json, bad_request, "region");
  reader.text("session", r.session);
  reader.text("region", r.region);
  read_ints(reader, "nodes", r.nodes);
  read_ints(reader, "inputs", r.inputs);
  read_ints(reader, "outputs", r.outputs);
  reader.number("bytes", r.bytes, Need::optional);
  reader.number("flops", r.flops, Need::optional);
  reader.boolean("describe", r.describe, Need::optional);
  return reader.finish();
}

Json write(const EvaluateRequest& r) {
  // A program that is no JSON is the candidate's fault and must reach the evaluator: as text.
  auto program = parse_json(r.program.text(), "bad_program", "program");
  return Json{{"session", r.session},
              {"region", r.region},
              {"program", program.has_value() ? std::move(*program) : Json(r.program.text())},
              {"level", r.level},
              {"bench", r.bench},
              {"give_up_ms", r.give_up_ms},
              {"again", r.again},
              {"known", r.known}};
}

Status read(const Json& json, EvaluateRequest& r) {
  ObjectReader reader(json, bad_request, "evaluate");
  reader.text("session", r.session);
  reader.text("region", r.region);
  if (const Json* program = reader.get("program"); program != nullptr) {
    r.program = program->is_string() ? program->get<std::string>() : dump_json(*program);
  }
  reader.text("level", r.level, Need::optional);
  reader.boolean("bench", r.bench, Need::optional);
  reader.number("give_up_ms", r.give_up_ms, Need::optional);
  reader.boolean("again", r.again, Need::optional);
  reader.boolean("known", r.known, Need::optional);
  return reader.finish();
}

Json write(const VerifyRequest& r) {
  return Json{{"session", r.session},
              {"path", r.path},
              {"seeds", r.seeds},
              {"kernelbench", r.kernelbench},
              {"own_code", r.own_code},
              {"time", r.time},
              {"beside", r.beside},
              {"level", r.level},
              {"trial", r.trial},
              {"memory_check", r.memory_check},
              {"finite_only", r.finite_only}};
}

Status read(const Json& json, VerifyRequest& r) {
  ObjectReader reader(json, bad_request, "verify");
  reader.text("session", r.session);
  reader.text("path", r.path);
  reader.integer("seeds", r.seeds, Need::optional);
  reader.text("kernelbench", r.kernelbench, Need::optional);
  reader.boolean("own_code", r.own_code, Need::optional);
  reader.boolean("time", r.time, Need::optional);
  reader.boolean("beside", r.beside, Need::optional);
  reader.text("level", r.level, Need::optional);
  reader.boolean("trial", r.trial, Need::optional);
  reader.boolean("memory_check", r.memory_check, Need::optional);
  reader.boolean("finite_only", r.finite_only, Need::optional);
  if (!r.kernelbench.empty() && r.kernelbench != "fp32" && r.kernelbench != "fp16" && r.kernelbench != "bf16")
    reader.problem("field `kernelbench` must be fp32, fp16, bf16 or empty");
  return reader.finish();
}

Json write(const ClaimRequest& r) {
  return Json{{"session", r.session},   {"path", r.path.empty() ? Json(nullptr) : Json(r.path)},
              {"modes", r.modes},       {"min_runs", r.min_runs},
              {"max_runs", r.max_runs}, {"max_seconds", r.max_seconds},
              {"more", r.more},         {"known", r.known}};
}

Status read(const Json& json, ClaimRequest& r) {
  ObjectReader reader(json, bad_request, "claim");
  reader.text("session", r.session);
  if (const Json* path = reader.get("path", Need::optional); path != nullptr && path->is_string())
    r.path = path->get<std::string>();
  reader.texts("modes", r.modes, Need::optional);
  reader.integer("min_runs", r.min_runs, Need::optional);
  reader.integer("max_runs", r.max_runs, Need::optional);
  reader.number("max_seconds", r.max_seconds, Need::optional);
  reader.boolean("more", r.more, Need::optional);
  reader.boolean("known", r.known, Need::optional);
  return reader.finish();
}

Json write(const OpenReply& r) {
  auto graph = parse_json(r.graph, protocol, "graph");
  return Json{{"session", r.session},
              {"graph", graph.has_value() ? std::move(*graph) : Json()},
              {"task",
               {{"name", r.task_name},
                {"source_sha256", r.task_sha256},
                {"parameters", r.parameters},
                {"input_bytes", r.input_bytes}}},
              {"blobs", r.blobs},
              {"torch", r.torch},
              {"python", r.python},
              {"dsls", r.dsls},
              {"kept", r.kept},
              {"device", write(r.device)}};
}

Status read(const Json& json, OpenReply& r) {
  ObjectReader reader(json, protocol, "open");
  reader.text("session", r.session);
  if (const Json* graph = reader.object("graph"); graph != nullptr) r.graph = dump_json(*graph);
  const Json* task = reader.object("task");
  reader.text("blobs", r.blobs);
  reader.text("torch", r.torch);
  reader.text("python", r.python);
  reader.texts("dsls", r.dsls, Need::optional);
  reader.boolean("kept", r.kept, Need::optional);
  const Json* device = reader.object("device");
  PLANISH_CHECK(reader.finish());
  ObjectReader inner(*task, protocol, "task");
  inner.text("name", r.task_name);
  inner.text("source_sha256", r.task_sha256);
  inner.integer("parameters", r.parameters);
  inner.integer("input_bytes", r.input_bytes);
  PLANISH_CHECK(inner.finish());
  return read(*device, r.device);
}

Json write(const RegionReply& r) {
  return Json{
      {"regimes", r.regimes}, {"skipped", r.skipped}, {"degenerate", r.degenerate}, {"notes", notes_to_json(r.notes)}};
}

Status read(const Json& json, RegionReply& r) {
  ObjectReader reader(json, protocol, "region");
  reader.texts("regimes", r.regimes);
  r.skipped = read_text_map(reader.object("skipped"));
  reader.texts("degenerate", r.degenerate);
  PLANISH_TRY(r.notes, read_notes(reader.get("notes", Need::optional)));
  return reader.finish();
}

namespace {

Result<std::optional<BesideTask>> read_beside(const Json& json) {
  if (!json.is_object()) return std::nullopt;
  BesideTask found;
  ObjectReader reader(json, protocol, "times.beside");
  reader.numbers("own_ms", found.own_ms);
  reader.numbers("original_ms", found.original_ms);
  const Json* gain = reader.object("gain");
  PLANISH_CHECK(reader.finish());
  if (const auto read_gain = gain_from_json(*gain)) found.gain = *read_gain;
  return found;
}

}  // namespace

Json write(const VerifyReply& r) {
  Json cases = Json::array();
  for (const TestCase& item : r.cases) cases.push_back(case_to_json(item));
  Json json{{"verified", r.verified},    {"outcome", name(r.outcome)}, {"message", r.message},
            {"cases", std::move(cases)}, {"skipped", r.skipped},       {"degenerate", r.degenerate}};
  json["notes"] = notes_to_json(r.notes);
  json["kernelbench"] = nullptr;
  if (r.kernelbench.has_value()) {
    json["kernelbench"] = {{"compiled", r.kernelbench->compiled},
                           {"correct", r.kernelbench->correct},
                           {"message", r.kernelbench->message},
                           {"trials", r.kernelbench->trials},
                           {"metadata", json_or_discarded(r.kernelbench->metadata)}};
  }
  json["times"] = nullptr;
  if (r.times.has_value()) {
    json["times"] = {{"median_ms", r.times->median_ms},   {"lo_ms", r.times->lo_ms},
                     {"hi_ms", r.times->hi_ms},           {"host_us", r.times->host_us},
                     {"outside_ms", r.times->outside_ms}, {"samples_ms", r.times->samples_ms}};
    json["times"]["beside"] = nullptr;
    if (const auto& beside = r.times->beside; beside.has_value()) {
      json["times"]["beside"] = {
          {"own_ms", beside->own_ms}, {"original_ms", beside->original_ms}, {"gain", gain_to_json(beside->gain)}};
    }
    json["times"]["not_beside"] = r.times->not_beside;
  }
  json["program"] = nullptr;
  if (r.program.has_value()) {
    json["program"] = {{"calls", r.program->calls}, {"ran", r.program->ran}, {"reason", r.program->reason}};
  }
  json["eager_same_bits"] = r.eager_same_bits ? Json(*r.eager_same_bits) : Json();
  json["memory"] = memory_to_json(r.memory);
  json["sandbox"] = r.sandbox.empty() ? Json() : json_or_discarded(r.sandbox);
  return json;
}

Status read(const Json& json, VerifyReply& r) {
  ObjectReader reader(json, protocol, "verify");
  std::string outcome;
  reader.boolean("verified", r.verified);
  reader.text("outcome", outcome);
  reader.text("message", r.message);
  const Json* cases = reader.array("cases");
  r.skipped = read_text_map(reader.object("skipped"));
  reader.texts("degenerate", r.degenerate);
  PLANISH_TRY(r.notes, read_notes(reader.get("notes", Need::optional)));
  const Json* kernelbench = reader.get("kernelbench");
  const Json* program = reader.get("program");
  const Json* times = reader.get("times");
  if (const Json* same = reader.get("eager_same_bits", Need::optional); same != nullptr && same->is_boolean())
    r.eager_same_bits = same->get<bool>();
  PLANISH_TRY(r.memory, read_memory(reader.get("memory", Need::optional), protocol, "verify.memory"));
  if (const Json* sandbox = reader.get("sandbox", Need::optional); sandbox != nullptr && sandbox->is_object())
    r.sandbox = dump_json(*sandbox);
  PLANISH_CHECK(reader.finish());
  r.outcome = outcome_from_name(outcome).value_or(Outcome::infrastructure);
  for (const Json& item : *cases) {
    PLANISH_TRY(auto test_case, read_case(item, protocol, "verify.cases"));
    r.cases.push_back(std::move(test_case));
  }
  if (program->is_object()) {
    ProgramCalls calls;
    ObjectReader inner(*program, protocol, "program");
    inner.integer("calls", calls.calls);
    inner.integer("ran", calls.ran);
    inner.text("reason", calls.reason);
    PLANISH_CHECK(inner.finish());
    r.program = std::move(calls);
  }
  if (kernelbench->is_object()) {
    KernelBenchVerdict verdict;
    ObjectReader inner(*kernelbench, protocol, "kernelbench");
    inner.boolean("compiled", verdict.compiled);
    inner.boolean("correct", verdict.correct);
    inner.text("message", verdict.message);
    inner.integer("trials", verdict.trials);
    if (const Json* metadata = inner.get("metadata"); metadata != nullptr) verdict.metadata = dump_json(*metadata);
    PLANISH_CHECK(inner.finish());
    r.kernelbench = std::move(verdict);
  }
  if (times->is_object()) {
    ModuleTimes found;
    ObjectReader inner(*times, protocol, "times");
    inner.number("median_ms", found.median_ms);
    inner.number("lo_ms", found.lo_ms);
    inner.number("hi_ms", found.hi_ms);
    inner.number("host_us", found.host_us);
    inner.number("outside_ms", found.outside_ms);
    inner.numbers("samples_ms", found.samples_ms);
    const Json* beside = inner.get("beside");
    inner.text("not_beside", found.not_beside);
    PLANISH_CHECK(inner.finish());
    PLANISH_TRY(found.beside, read_beside(*beside));
    r.times = std::move(found);
  }
  return {};
}

Json write(const ClaimReply& r) {
  Json times = Json::array();
  for (const ClaimTime& time : r.times) {
    Json item{{"name", time.name},
              {"median_ms", time.median_ms},
              {"lo_ms", time.lo_ms},
              {"hi_ms", time.hi_ms},
              {"host_us", time.host_us},
              {"latency_ms", time.latency_ms},
              {"latency_lo_ms", time.latency_lo_ms},
              {"latency_hi_ms", time.latency_hi_ms},
              {"kept_ms", time.kept_ms},
              {"kept_lo_ms", time.kept_lo_ms},
              {"kept_hi_ms", time.kept_hi_ms},
              {"busy", time.busy},
              {"samples_ms", time.samples_ms},
              {"compile_seconds", time.compile_seconds}};
    if (time.error.has_value()) item["error"] = write(*time.error);
    times.push_back(std::move(item));
  }
  return Json{{"times", std::move(times)},
              {"clocks_before", clocks_to_json(r.clocks_before)},
              {"clocks_after", clocks_to_json(r.clocks_after)}};
}

Status read(const Json& json, ClaimReply& r) {
  ObjectReader reader(json, protocol, "claim");
  const Json* times = reader.array("times");
  if (const Json* clocks = reader.object("clocks_before"); clocks != nullptr) r.clocks_before = read_clocks(*clocks);
  if (const Json* clocks = reader.object("clocks_after"); clocks != nullptr) r.clocks_after = read_clocks(*clocks);
  PLANISH_CHECK(reader.finish());
  for (const Json& item : *times) {
    ClaimTime time;
    ObjectReader inner(item, protocol, "claim.times");
    inner.text("name", time.name);
    inner.number("median_ms", time.median_ms);
    inner.number("lo_ms", time.lo_ms);
    inner.number("hi_ms", time.hi_ms);
    inner.number("host_us", time.host_us);
    inner.number("latency_ms", time.latency_ms);
    inner.number("latency_lo_ms", time.latency_lo_ms);
    inner.number("latency_hi_ms", time.latency_hi_ms);
    inner.number("kept_ms", time.kept_ms);
    inner.number("kept_lo_ms", time.kept_lo_ms);
    inner.number("kept_hi_ms", time.kept_hi_ms);
    inner.number("busy", time.busy, Need::optional);
    inner.numbers("samples_ms", time.samples_ms);
    inner.number("compile_seconds", time.compile_seconds);
    if (const Json* error = inner.object("error", Need::optional); error != nullptr) time.error = read_error(*error);
    PLANISH_CHECK(inner.finish());
    r.times.push_back(std::move(time));
  }
  return {};
}

}  // namespace planish::codec
