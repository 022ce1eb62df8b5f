#include "evaluate/evaluation.h"

#include <fmt/core.h>

#include <array>

#include "evaluate/json.h"

namespace planish {
namespace {
using Need = ObjectReader::Need;

constexpr std::array<std::string_view, 4> tier_names{"dedup", "compile", "test", "bench"};
constexpr std::array<std::string_view, 30> outcome_names{"ok",
                                                         "duplicate",
                                                         "invalid_program",
                                                         "compile_error",
                                                         "compile_timeout",
                                                         "load_failed",
                                                         "launch_failed",
                                                         "wrong",
                                                         "finite_only",
                                                         "degenerate",
                                                         "unwritten",
                                                         "nan",
                                                         "nondeterministic",
                                                         "guard_overwritten",
                                                         "input_changed",
                                                         "input_write",
                                                         "out_of_bounds",
                                                         "illegal_address",
                                                         "crash",
                                                         "exit",
                                                         "hang",
                                                         "out_of_memory",
                                                         "wrong_when_timed",
                                                         "time_mismatch",
                                                         "faster_than_possible",
                                                         "invalid_access",
                                                         "race",
                                                         "uninitialized_read",
                                                         "given_up",
                                                         "infrastructure"};
static_assert(outcome_names.size() == static_cast<std::size_t>(Outcome::infrastructure) + 1);

constexpr ErrorKind kind = "bad_evaluation";

Json errors_to_json(const OutputErrors& e) {
  Json json{{"fro", number_to_json(e.fro)},
            {"max", number_to_json(e.max)},
            {"gate_fro", number_to_json(e.gate_fro)},
            {"gate_max", number_to_json(e.gate_max)},
            {"eager_fro", number_to_json(e.eager_fro)},
            {"eager_max", number_to_json(e.eager_max)},
            {"ratio", number_to_json(e.ratio)},
            {"statistic", e.statistic}};
  if (e.slope.has_value()) json["slope"] = *e.slope;
  if (e.worst.has_value()) {
    json["worst"] = {{"index", e.worst->index},
                     {"expected", number_to_json(e.worst->expected)},
                     {"actual", number_to_json(e.worst->actual)},
                     {"eager", number_to_json(e.worst->eager)}};
  }
  return json;
}

Result<OutputErrors> read_output(const Json& json, ErrorKind error_kind, const std::string& where) {
  OutputErrors e;
  ObjectReader reader(json, error_kind, where);
  reader.number("fro", e.fro);
  reader.number("max", e.max);
  reader.number("gate_fro", e.gate_fro);
  reader.number("gate_max", e.gate_max);
  reader.number("eager_fro", e.eager_fro);
  reader.number("eager_max", e.eager_max);
  reader.number("ratio", e.ratio, Need::optional);
  reader.text("statistic", e.statistic, Need::optional);
  if (const Json* slope = reader.get("slope", Need::optional); slope != nullptr && slope->is_number())
    e.slope = slope->get<double>();
  if (const Json* item = reader.object("worst", Need::optional); item != nullptr) {
    WorstElement worst;
    ObjectReader inner(*item, error_kind, where + ".worst");
    inner.integers("index", worst.index);
    inner.number("expected", worst.expected);
    inner.number("actual", worst.actual);
    inner.number("eager", worst.eager);
    PLANISH_CHECK(inner.finish());
    e.worst = std::move(worst);
  }
  PLANISH_CHECK(reader.finish());
  return e;
}

Result<CompileReport> read_compile(const Json& json) {
  CompileReport report;
  ObjectReader reader(json, kind, "compile");
  reader.number("seconds", report.seconds);
  reader.boolean("cached", report.cached);
  reader.text("log", report.log);
  const Json* kernels = reader.array("kernels");
  const Json* launches = reader.array("launches", Need::optional);
  PLANISH_CHECK(reader.finish());
  for (const Json& item : *kernels) {
    KernelReport kernel;
    ObjectReader inner(item, kind, "compile.kernels");
    inner.text("sha256", kernel.sha256);
    inner.integer("registers", kernel.registers);
    inner.integer("spill_bytes", kernel.spill_bytes);
    inner.integer("shared_bytes", kernel.shared_bytes);
    inner.integer("local_bytes", kernel.local_bytes);
    const Json* instructions = inner.object("instructions", Need::optional);
    PLANISH_CHECK(inner.finish());
    if (instructions != nullptr) {
      for (const auto& [what, count] : instructions->items()) {
        if (!count.is_number_integer()) return fail(kind, fmt::format("instructions: `{}` must be an integer", what));
        kernel.instructions[what] = count.get<std::int64_t>();
      }
    }
    report.kernels.push_back(std::move(kernel));
  }
  if (launches != nullptr) {
    for (const Json& item : *launches) {
      LaunchReport launch;
      ObjectReader inner(item, kind, "compile.launches");
      inner.integer("kernel", launch.kernel);
      inner.integer("blocks", launch.blocks);
      inner.integer("threads", launch.threads);
      inner.integer("cluster", launch.cluster);
      inner.integer("shared_bytes", launch.shared_bytes);
      inner.number("waves", launch.waves);
      PLANISH_CHECK(inner.finish());
      report.launches.push_back(launch);
    }
  }
  return report;
}

Result<TestReport> read_test(const Json& json) {
  TestReport report;
  ObjectReader reader(json, kind, "test");
  reader.number("seconds", report.seconds);
  const Json* cases = reader.array("cases");
  report.skipped = read_text_map(reader.object("skipped"));
  PLANISH_CHECK(reader.finish());
  for (std::size_t i = 0; i < cases->size(); ++i) {
    PLANISH_TRY(auto item, read_case((*cases)[i], kind, fmt::format("test.cases[{}]", i)));
    report.cases.push_back(std::move(item));
  }
  return report;
}

Result<BenchReport> read_bench(const Json& json) {
  BenchReport report;
  ObjectReader reader(json, kind, "bench");
  reader.number("median_ms", report.median_ms);
  reader.number("lo_ms", report.lo_ms);
  reader.number("hi_ms", report.hi_ms);
  reader.integer("runs", report.runs);
  reader.number("host_us", report.host_us);
  reader.number("wall_ms", report.wall_ms);
  reader.numbers("samples_ms", report.samples_ms);
  if (const Json* clocks = reader.object("clocks_before")) report.clocks_before = read_clocks(*clocks);
  if (const Json* clocks = reader.object("clocks_after")) report.clocks_after = read_clocks(*clocks);
  PLANISH_CHECK(reader.finish());
  return report;
}

}  // namespace

std::string_view name(Tier tier) {
  return tier_names[static_cast<std::size_t>(tier)];
}
std::string_view name(Outcome outcome) {
  return outcome_names[static_cast<std::size_t>(outcome)];
}

std::optional<Outcome> outcome_from_name(std::string_view text) {
  for (std::size_t i = 0; i < outcome_names.size(); ++i) {
    if (outcome_names[i] == text) return static_cast<Outcome>(i);
  }
  return std::nullopt;
}

std::map<std::string, std::string> read_text_map(const Json* json) {
  std::map<std::string, std::string> map;
  if (json == nullptr || !json->is_object()) return map;
  for (const auto& [key, value] : json->items())
    map[key] = value.is_string() ? value.get<std::string>() : dump_json(value);
  return map;
}

Json memory_to_json(const std::vector<worker::MemoryCheck>& checks) {
  Json out = Json::array();
  for (const worker::MemoryCheck& check : checks) {
    Json findings = Json::array();
    for (const worker::MemoryFinding& one : check.findings)
      findings.push_back({{"kernel", one.kernel}, {"text", one.text}});
    out.push_back({{"tool", check.tool},
                   {"result", worker::name(check.result)},
                   {"findings", std::move(findings)},
                   {"reason", check.reason},
                   {"seconds", number_to_json(check.seconds)}});
  }
  return out;
}

Result<std::vector<worker::MemoryCheck>> read_memory(const Json* json, ErrorKind error_kind, const std::string& where) {
  std::vector<worker::MemoryCheck> out;
  if (json == nullptr || !json->is_array()) return out;
  for (const Json& item : *json) {
    worker::MemoryCheck check;
    std::string result;
    ObjectReader reader(item, error_kind, where);
    reader.text("tool", check.tool);
    reader.text("result", result);
    reader.text("reason", check.reason);
    reader.number("seconds", check.seconds);
    const Json* findings = reader.array("findings");
    PLANISH_CHECK(reader.finish());
    const auto known = worker::memory_result_from_name(result);
    if (!known) return fail(error_kind, fmt::format("{}: no result `{}`", where, result));
    check.result = *known;
    for (const Json& one : *findings) {
      worker::MemoryFinding finding;
      ObjectReader inner(one, error_kind, where + ".findings");
      inner.text("kernel", finding.kernel);
      inner.text("text", finding.text);
      PLANISH_CHECK(inner.finish());
      check.findings.push_back(std::move(finding));
    }
    out.push_back(std::move(check));
  }
  return out;
}

Json clocks_to_json(const Clocks& clocks) {
  Json json = Json::object();
  if (clocks.sm_mhz != 0) json["sm_mhz"] = clocks.sm_mhz;
  if (clocks.mem_mhz != 0) json["mem_mhz"] = clocks.mem_mhz;
  if (clocks.temperature_c != 0) json["temperature_c"] = clocks.temperature_c;
  return json;
}

Clocks read_clocks(const Json& json) {
  Clocks clocks;
  ObjectReader reader(json, kind, "clocks");
  reader.integer("sm_mhz", clocks.sm_mhz, Need::optional);
  reader.integer("mem_mhz", clocks.mem_mhz, Need::optional);
  reader.integer("temperature_c", clocks.temperature_c, Need::optional);
  return clocks;
}

Json case_to_json(const TestCase& test_case) {
  Json outputs = Json::array();
  for (const OutputErrors& e : test_case.outputs) outputs.push_back(errors_to_json(e));
  Json json{
      {"seed", test_case.seed}, {"regime", test_case.regime}, {"ok", test_case.ok}, {"reference", test_case.reference}};
  if (!test_case.problem.empty()) json["problem"] = test_case.problem;
  if (test_case.variant > 0) json["variant"] = test_case.variant;
  if (test_case.runs > 0) {
    json["runs"] = test_case.runs;
    json["same_bits"] = test_case.same_bits;
  }
  if (test_case.outvoted) json["outvoted"] = true;
  if (test_case.finite_only) json["finite_only"] = true;
  json["outputs"] = std::move(outputs);
  return json;
}

Result<TestCase> read_case(const Json& json, ErrorKind error_kind, const std::string& where) {
  TestCase test_case;
  ObjectReader reader(json, error_kind, where);
  if (const Json* seed = reader.get("seed"); seed != nullptr && seed->is_number_unsigned()) {
    test_case.seed = seed->get<std::uint64_t>();
  } else {
    reader.problem("field `seed` must be an integer that is not negative");
  }
  reader.text("regime", test_case.regime);
  reader.boolean("ok", test_case.ok);
  reader.text("problem", test_case.problem, Need::optional);
  reader.integer("variant", test_case.variant, Need::optional);
  reader.integer("runs", test_case.runs, Need::optional);
  reader.boolean("same_bits", test_case.same_bits, Need::optional);
  reader.boolean("outvoted", test_case.outvoted, Need::optional);
  reader.boolean("finite_only", test_case.finite_only, Need::optional);
  reader.text("reference", test_case.reference);
  const Json* outputs = reader.array("outputs");
  PLANISH_CHECK(reader.finish());
  for (std::size_t i = 0; i < outputs->size(); ++i) {
    PLANISH_TRY(auto errors, read_output((*outputs)[i], error_kind, fmt::format("{}.outputs[{}]", where, i)));
    test_case.outputs.push_back(std::move(errors));
  }
  return test_case;
}

Json evaluation_to_json(const Evaluation& e) {
  Json json{{"schema", "planish.evaluation/1"},
            {"program", e.program},
            {"region", e.region},
            {"level", e.level},
            {"tier", name(e.tier)},
            {"outcome", name(e.outcome)},
            {"message", e.message}};
  if (!e.duplicate_of.empty()) json["duplicate_of"] = e.duplicate_of;
  if (e.compile.has_value()) {
    Json kernels = Json::array();
    for (const KernelReport& k : e.compile->kernels) {
      kernels.push_back({{"sha256", k.sha256},
                         {"registers", k.registers},
                         {"spill_bytes", k.spill_bytes},
                         {"shared_bytes", k.shared_bytes},
                         {"local_bytes", k.local_bytes},
                         {"instructions", k.instructions}});
    }
    Json launches = Json::array();
    for (const LaunchReport& l : e.compile->launches) {
      launches.push_back({{"kernel", l.kernel},
                          {"blocks", l.blocks},
                          {"threads", l.threads},
                          {"cluster", l.cluster},
                          {"shared_bytes", l.shared_bytes},
                          {"waves", number_to_json(l.waves)}});
    }
    json["compile"] = {{"seconds", e.compile->seconds},
                       {"cached", e.compile->cached},
                       {"log", e.compile->log},
                       {"kernels", std::move(kernels)},
                       {"launches", std::move(launches)}};
  }
  if (e.test.has_value()) {
    Json cases = Json::array();
    for (const TestCase& item : e.test->cases) cases.push_back(case_to_json(item));
    json["test"] = {{"seconds", e.test->seconds}, {"cases", std::move(cases)}, {"skipped", e.test->skipped}};
  }
  if (e.bench.has_value()) {
    const BenchReport& b = *e.bench;
    json["bench"] = {{"median_ms", number_to_json(b.median_ms)},
                     {"lo_ms", number_to_json(b.lo_ms)},
                     {"hi_ms", number_to_json(b.hi_ms)},
                     {"runs", b.runs},
                     {"host_us", number_to_json(b.host_us)},
                     {"wall_ms", number_to_json(b.wall_ms)},
                     {"samples_ms", b.samples_ms},
                     {"clocks_before", clocks_to_json(b.clocks_before)},
                     {"clocks_after", clocks_to_json(b.clocks_after)}};
  }
  if (!e.again_after.empty()) json["again_after"] = e.again_after;
  if (e.waited_seconds > 0) json["waited_seconds"] = e.waited_seconds;
  if (e.roofline.has_value()) {
    const Roofline& r = *e.roofline;
    json["roofline"] = {
        {"bytes", r.bytes}, {"flops", r.flops}, {"bound_ms", r.bound_ms}, {"bound", r.bound}, {"fraction", r.fraction}};
  }
  return json;
}

std::string to_json(const Evaluation& evaluation) {
  return dump_json(evaluation_to_json(evaluation));
}

Result<Evaluation> read_evaluation(const Json& json) {
  Evaluation e;
  ObjectReader reader(json, kind, "evaluation");
  std::string schema, tier, outcome;
  reader.text("schema", schema);
  if (schema != "planish.evaluation/1") reader.problem(fmt::format("schema `{}` is not planish.evaluation/1", schema));
  reader.text("program", e.program);
  reader.text("region", e.region);
  reader.text("level", e.level);
  reader.text("tier", tier);
  reader.text("outcome", outcome);
  reader.text("message", e.message);
  reader.text("duplicate_of", e.duplicate_of, Need::optional);
  const Json* compile = reader.object("compile", Need::optional);
  const Json* test = reader.object("test", Need::optional);
  const Json* bench = reader.object("bench", Need::optional);
  const Json* roofline = reader.object("roofline", Need::optional);
  reader.text("again_after", e.again_after, Need::optional);
  reader.number("waited_seconds", e.waited_seconds, Need::optional);
  PLANISH_CHECK(reader.finish());
  bool tier_known = false;
  for (std::size_t i = 0; i < tier_names.size(); ++i) {
    if (tier_names[i] != tier) continue;
    e.tier = static_cast<Tier>(i);
    tier_known = true;
  }
  if (!tier_known) return fail(kind, fmt::format("evaluation: no tier `{}`", tier));
  const auto known = outcome_from_name(outcome);
  if (!known.has_value()) return fail(kind, fmt::format("evaluation: no outcome `{}`", outcome));
  e.outcome = *known;
  if (compile != nullptr) {
    PLANISH_TRY(e.compile, read_compile(*compile));
  }
  if (test != nullptr) {
    PLANISH_TRY(e.test, read_test(*test));
  }
  if (bench != nullptr) {
    PLANISH_TRY(e.bench, read_bench(*bench));
  }
  if (roofline != nullptr) {
    Roofline r;
    ObjectReader inner(*roofline, kind, "roofline");
    inner.number("bytes", r.bytes);
    inner.number("flops", r.flops);
    inner.number("bound_ms", r.bound_ms);
    inner.text("bound", r.bound);
    inner.number("fraction", r.fraction);
    PLANISH_CHECK(inner.finish());
    e.roofline = std::move(r);
  }
  return e;
}

Result<Evaluation> parse_evaluation(std::string_view text) {
  PLANISH_TRY(const Json json, parse_json(text, kind, "evaluation"));
  return read_evaluation(json);
}

}  // namespace planish
