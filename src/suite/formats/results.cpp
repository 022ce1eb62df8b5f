#include "suite/formats/results.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/json.h"
#include "suite/formats/python_text.h"

namespace planish::suite::formats {
namespace {

using Ordered = nlohmann::ordered_json;
using Found = std::vector<std::pair<const Row*, Json>>;  // with the task's origin

double speedup_of(const Row& row) {
  const auto eager = row.speedup.find("eager");
  return eager == row.speedup.end() ? 0 : eager->second;
}

double ms_of(const Row& row, const char* name) {
  const auto time = row.times_ms.find(name);
  return time == row.times_ms.end() ? 0 : time->second;
}

/// A message as one line.
std::string line_of(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  return text;
}

std::map<std::string, std::string> gpu_mode(const Found& found) {
  struct Run {
    std::string lines;
    int count = 0;
    bool good = true;
  };
  std::map<std::string, Run> runs;  // by file
  for (const auto& [row, origin] : found) {
    const std::string which = origin.value("case", "");
    const bool benchmark = which.starts_with("benchmark");
    Run& run = runs[fmt::format("{}.{}.txt", origin.value("task", "task"), benchmark ? "benchmark" : "test")];
    const bool passed = row->outcome == "verified";
    run.good = run.good && passed;
    const std::string head = fmt::format("{}.{}.", benchmark ? "benchmark" : "test", run.count++);
    std::string spec;
    const Json values = origin.value("spec", Json::object());
    for (const auto& [key, value] : values.items())
      spec += fmt::format("{}{}: {}", spec.empty() ? "" : "; ", key,
                          value.is_string() ? value.get<std::string>() : dump_json(value));
    run.lines += head + "spec: " + spec + "\n";
    if (benchmark && passed && row->runtime.trials > 0) {
      constexpr double ns = 1e6;
      const kernelbench::Stats& t = row->runtime;
      run.lines +=
          fmt::format("{0}runs: {1}\n{0}mean: {2}\n{0}std: {3}\n{0}err: {4}\n{0}best: {5}\n{0}worst: {6}\n", head,
                      t.trials, t.mean * ns, t.std * ns, t.std / std::sqrt(t.trials) * ns, t.min * ns, t.max * ns);
    } else {
      run.lines += head + "status: " + (passed ? "pass" : "fail") + "\n";
      if (!passed) run.lines += head + "error: " + line_of(row->message.empty() ? row->outcome : row->message) + "\n";
    }
  }
  std::map<std::string, std::string> out;
  for (const auto& [file, run] : runs) {
    const char* kind = file.ends_with(".benchmark.txt") ? "benchmark" : "test";
    out[file] = fmt::format("{}-count: {}\n{}check: {}\n", kind, run.count, run.lines, run.good ? "pass" : "fail");
  }
  return out;
}

std::string flashinfer_status(const Row& row) {
  if (row.outcome == "verified") return "PASSED";
  if (row.verdict == "load_failed" || row.verdict == "compile_failed") return "COMPILE_ERROR";
  if (row.verdict == "hang" || row.kind == "hang") return "TIMEOUT";
  if (row.verdict == "launch_failed" || row.verdict == "crash" || row.outcome == "failed") return "RUNTIME_ERROR";
  return "INCORRECT_NUMERICAL";
}

std::map<std::string, std::string> flashinfer(const Found& found, const std::string& author) {
  std::map<std::string, std::string> out;
  for (const auto& [row, origin] : found) {
    const std::string definition = origin.value("definition", "");
    Ordered evaluation = {{"status", flashinfer_status(*row)},
                          {"environment", {{"hardware", row->hardware}, {"libs", Ordered::object()}}},
                          {"log", row->message},
                          {"correctness", nullptr},
                          {"performance", nullptr}};
    if (row->outcome == "verified") {
      evaluation["correctness"] = {{"max_relative_error", nullptr},
                                   {"max_absolute_error", nullptr},
                                   {"extra", {{"error_ratio", row->error_ratio}}}};
      if (ms_of(*row, "solution") > 0) {
        evaluation["performance"] = {{"latency_ms", ms_of(*row, "solution")},
                                     {"reference_latency_ms", ms_of(*row, "eager")},
                                     {"speedup_factor", speedup_of(*row)}};
      }
    }
    const Ordered trace = {{"definition", definition},
                           {"workload", Ordered::parse(dump_json(origin.value("workload", Json::object())))},
                           {"solution", author},
                           {"evaluation", std::move(evaluation)}};
    out["traces/" + file_name(definition) + ".jsonl"] += trace.dump() + "\n";
  }
  return out;
}

std::map<std::string, std::string> backendbench(const Found& found) {
  Ordered full = Ordered::array(), failed = Ordered::array();
  struct Operator {
    int tests = 0, passed = 0, timed = 0;
    double logs = 0;
  };
  std::map<std::string, Operator> operators;
  for (const auto& [row, origin] : found) {
    const std::string op = origin.value("operator", "");
    const bool good = row->outcome == "verified";
    const double gain = speedup_of(*row);
    Ordered one = {{"op_name", op},
                   {"args", origin.value("arguments", "")},
                   {"is_correct", good},
                   {"error_msg", row->message},
                   {"benchmark_time_ms", ms_of(*row, "solution")},
                   {"reference_time_ms", ms_of(*row, "eager")},
                   {"speedup", good && gain > 0 ? Ordered(gain) : Ordered(nullptr)}};
    Operator& sum = operators[op];
    ++sum.tests;
    sum.passed += good;
    if (good && gain > 0) {
      ++sum.timed;
      sum.logs += std::log(gain);
    }
    if (!good) failed.push_back(one);
    full.push_back(std::move(one));
  }
  std::string table = "operator,total_tests,passed_tests,failed_tests,correctness_rate,avg_speedup\n";
  for (const auto& [op, sum] : operators) {
    table +=
        fmt::format("{},{},{},{},{},{}\n", op, sum.tests, sum.passed, sum.tests - sum.passed,
                    static_cast<double>(sum.passed) / sum.tests, sum.timed > 0 ? std::exp(sum.logs / sum.timed) : 0);
  }
  return {{"full_results.json", full.dump(2) + "\n"},
          {"failed_ops.json", failed.dump(2) + "\n"},
          {"operator_summary.csv", table}};
}

}  // namespace

std::string write_origin(const Imported& imported) {
  Json tasks = Json::object();
  for (const ImportedTask& task : imported.tasks) tasks[task.name] = json_or_discarded(task.origin);
  return dump_json({{"format", imported.format}, {"tasks", std::move(tasks)}});
}

Result<Origin> read_origin(std::string_view text) {
  PLANISH_TRY(const Json json, parse_json(text, "bad_origin", "origin.json"));
  if (!json.is_object() || !json.contains("format") || !json["format"].is_string() || !json.contains("tasks") ||
      !json["tasks"].is_object())
    return fail("bad_origin", "origin.json must have `format` and `tasks`", "import the collection again");
  Origin out;
  out.format = json["format"].get<std::string>();
  for (const auto& [name, origin] : json["tasks"].items()) {
    if (!origin.is_object())
      return fail("bad_origin", fmt::format("origin.json: {} must be an object", name), "import the collection again");
    out.tasks[name] = dump_json(origin);
  }
  return out;
}

std::map<std::string, std::string> results_of(const Origin& origin, const std::vector<Row>& rows,
                                              const std::string& author) {
  Found found;
  for (const Row& row : rows) {
    const auto known = origin.tasks.find(row.task);
    if (known == origin.tasks.end() || row.outcome == "interrupted" || row.outcome == "unanswered") continue;
    found.emplace_back(&row, json_or_discarded(known->second));
  }
  if (found.empty()) return {};
  if (origin.format == "gpu-mode") return gpu_mode(found);
  if (origin.format == "flashinfer-bench") return flashinfer(found, author);
  if (origin.format == "backendbench") return backendbench(found);
  return {};
}

}  // namespace planish::suite::formats
