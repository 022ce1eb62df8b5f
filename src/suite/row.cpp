#include "suite/row.h"

#include <utility>

#include "base/json.h"
#include "evaluate/gain_json.h"

namespace planish::suite {
namespace {

double number(const Json& json) {
  return json.is_number() ? json.get<double>() : 0.0;
}
std::string text(const Json& object, const char* field) {
  const auto found = object.find(field);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

kernelbench::Stats stats(const Json& time) {
  kernelbench::Stats out;
  if (!time.is_object() || !time.contains("mean") || !time.contains("runs")) return out;
  out.mean = number(time["mean"]);
  out.std = number(time.value("std", Json()));
  out.min = number(time.value("min", Json()));
  out.max = number(time.value("max", Json()));
  out.trials = time["runs"].is_number_integer() ? time["runs"].get<int>() : 0;
  return out;
}

/// What `verify` alone says.
void read_verdict(const Json& json, Row& row) {
  row.solution = text(json, "solution");
  row.verdict = text(json, "outcome");
  const bool verified = json.contains("verified") && json["verified"] == true;
  row.outcome = verified ? "verified" : "refused";
  row.message = verified ? "" : text(json, "message");
  if (const auto said = json.find("kernelbench"); said != json.end() && said->is_object()) {
    OtherVerdict verdict;
    verdict.compiled = said->contains("compiled") && (*said)["compiled"] == true;
    verdict.correct = said->contains("correct") && (*said)["correct"] == true;
    verdict.message = text(*said, "message");
    if (said->contains("metadata") && (*said)["metadata"].is_object())
      verdict.metadata = dump_json((*said)["metadata"]);
    row.compat = std::move(verdict);
  }
  if (const auto times = json.find("times_ms"); times != json.end() && times->is_object()) {
    for (const auto& [name, time] : times->items()) {
      if (name == "solution")
        row.runtime = stats(time);
      else if (const auto found = stats(time); found.trials > 0)
        row.baseline_runtime[name] = found;
    }
  }
}

}  // namespace

Row failed_row(std::string task, std::string kind, std::string message, std::string hint) {
  Row row;
  row.task = std::move(task);
  row.outcome = "failed";
  row.kind = std::move(kind);
  row.message = std::move(message);
  row.hint = std::move(hint);
  return row;
}

Result<Row> row_from_document(std::string_view document) {
  PLANISH_TRY(Json json, parse_json(document, "bad_result", "result document"));
  if (!json.is_object() || !json.contains("schema_version")) return fail("bad_result", "the document is no result");
  if (json.contains("error") && json["error"].is_object()) {
    const Json& error = json["error"];
    return failed_row("", text(error, "kind"), text(error, "message"), text(error, "hint"));
  }
  Row row;
  row.task = text(json, "task");
  row.path = text(json, "task_path");
  row.outcome = text(json, "outcome");
  row.message = text(json, "reason");
  row.shipped = text(json, "shipped");
  if (row.outcome.empty()) return fail("bad_result", "the result document has no outcome");
  if (json.contains("verified")) read_verdict(json, row);
  if (json.contains("device") && json["device"].is_object()) row.hardware = text(json["device"], "name");
  if (json.contains("roofline") && json["roofline"].is_object() && json["roofline"].contains("fraction"))
    row.roofline = number(json["roofline"]["fraction"]);
  if (json.contains("accuracy") && json["accuracy"].is_object() && json["accuracy"].contains("ratio")) {
    row.error_ratio = number(json["accuracy"]["ratio"]);
  }
  if (json.contains("times_ms") && json["times_ms"].is_object()) {
    for (const auto& [name, time] : json["times_ms"].items()) {
      if (time.is_object() && time.contains("median")) row.times_ms[name] = number(time["median"]);
    }
  }
  if (json.contains("speedup") && json["speedup"].is_object()) {
    for (const auto& [name, value] : json["speedup"].items()) row.speedup[name] = number(value);
  }
  if (json.contains("gains") && json["gains"].is_object()) {
    for (const auto& [name, value] : json["gains"].items()) {
      if (const auto gain = gain_from_json(value)) row.gains[name] = *gain;
    }
  }
  if (json.contains("speedup_best_baseline")) row.speedup_best_baseline = number(json["speedup_best_baseline"]);
  row.headline = headline_of(document);
  if (json.contains("seconds") && json["seconds"].is_object() && json["seconds"].contains("total")) {
    row.seconds = number(json["seconds"]["total"]);
    if (json["seconds"].contains("in") && json["seconds"]["in"].is_object()) {
      for (const auto& [phase, seconds] : json["seconds"]["in"].items()) row.seconds_in[phase] = number(seconds);
    }
  }
  return row;
}

}  // namespace planish::suite
