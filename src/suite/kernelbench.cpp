#include "suite/kernelbench.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "base/json.h"

namespace planish::suite::kernelbench {
namespace {

using Ordered = nlohmann::ordered_json;

/// As Python's f"{x:.3g}" read back.
double three_digits(double value) {
  return std::strtod(fmt::format("{:.3g}", value).c_str(), nullptr);
}

/// A number that stands at the front of `text`, which is cut; -1 where there is none.
int take_number(std::string_view& text) {
  int value = -1;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed != std::errc{} || text.empty() || text.front() == '-') return -1;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

bool take(std::string_view& text, std::string_view what) {
  if (!text.starts_with(what)) return false;
  text.remove_prefix(what.size());
  return true;
}

Result<Stats> read_stats(const Json& json, ErrorKind kind, const std::string& where) {
  Stats out;
  if (json.empty()) return out;
  ObjectReader reader(json, kind, where);
  reader.lenient();
  reader.number("mean", out.mean);
  reader.number("std", out.std);
  reader.number("min", out.min);
  reader.number("max", out.max);
  reader.integer("num_trials", out.trials);
  reader.text("hardware", out.hardware, ObjectReader::Need::optional);
  reader.text("device", out.device, ObjectReader::Need::optional);
  PLANISH_CHECK(reader.finish());
  return out;
}

Ordered stats_json(const Stats& stats) {
  if (stats.trials == 0) return Ordered::object();
  Ordered out = {{"mean", three_digits(stats.mean)},
                 {"std", three_digits(stats.std)},
                 {"min", three_digits(stats.min)},
                 {"max", three_digits(stats.max)},
                 {"num_trials", stats.trials}};
  if (!stats.hardware.empty()) out["hardware"] = stats.hardware;
  if (!stats.device.empty()) out["device"] = stats.device;
  return out;
}

std::string dumped(const Ordered& json, int indent) {
  return json.dump(indent, ' ', true, Ordered::error_handler_t::replace);
}

}  // namespace

Stats stats_of(const std::vector<double>& samples) {
  Stats out;
  if (samples.empty()) return out;
  const double n = static_cast<double>(samples.size());
  double sum = 0, squares = 0;
  for (const double ms : samples) sum += ms;
  out.mean = sum / n;
  for (const double ms : samples) squares += (ms - out.mean) * (ms - out.mean);
  out.std = std::sqrt(squares / n);
  out.min = *std::ranges::min_element(samples);
  out.max = *std::ranges::max_element(samples);
  out.trials = static_cast<int>(samples.size());
  return out;
}

Result<EvalResults> read_eval_results(std::string_view text) {
  constexpr ErrorKind kind = "bad_eval_results";
  PLANISH_TRY(const Json json, parse_json(text, kind, "eval_results.json"));
  if (!json.is_object()) return fail(kind, "eval_results.json must be an object: problem → answers");
  EvalResults out;
  for (const auto& [key, list] : json.items()) {
    std::string_view rest = key;
    const int problem = take_number(rest);
    if (problem < 0 || !rest.empty()) return fail(kind, fmt::format("'{}' is no number of a problem", key));
    if (!list.is_array()) return fail(kind, fmt::format("problem {} must have a list of answers", key));
    std::vector<Answer>& answers = out[problem];
    for (const Json& item : list) {
      const std::string where = fmt::format("problem {}, answer {}", key, answers.size());
      if (!item.is_object()) return fail(kind, where + " must be an object");
      Answer answer;
      ObjectReader reader(item, kind, where);
      reader.lenient();  // later versions have more
      reader.integer("sample_id", answer.sample);
      reader.boolean("compiled", answer.compiled);
      reader.boolean("correctness", answer.correct);
      const Json* metadata = reader.object("metadata");
      double runtime = -1;
      reader.number("runtime", runtime);
      const Json* stats = reader.object("runtime_stats");
      PLANISH_CHECK(reader.finish());
      answer.metadata = dump_json(*metadata);
      PLANISH_TRY(answer.runtime, read_stats(*stats, kind, where + ", runtime_stats"));
      answer.runtime.mean = runtime;
      answers.push_back(std::move(answer));
    }
  }
  return out;
}

std::string write_eval_results(const EvalResults& results) {
  Ordered out = Ordered::object();
  for (const auto& [problem, answers] : results) {
    Ordered list = Ordered::array();
    for (const Answer& answer : answers) {
      auto metadata = Ordered::parse(answer.metadata, nullptr, false);
      list.push_back({{"sample_id", answer.sample},
                      {"compiled", answer.compiled},
                      {"correctness", answer.correct},
                      {"metadata", metadata.is_object() ? std::move(metadata) : Ordered::object()},
                      {"runtime", answer.runtime.trials > 0 ? three_digits(answer.runtime.mean) : -1.0},
                      {"runtime_stats", stats_json(answer.runtime)}});
    }
    out[std::to_string(problem)] = std::move(list);
  }
  return dumped(out, 4);
}

double pass_at_k(int n, int c, int k) {
  if (n - c < k) return 1;
  double none = 1;
  for (int i = n - c + 1; i <= n; ++i) none *= 1 - static_cast<double>(k) / i;
  return 1 - none;
}

std::string write_pass_at_k(const EvalResults& results, const std::vector<int>& wanted) {
  Ordered problems = Ordered::object();
  std::map<int, std::pair<double, int>> sums;  // k → sum, problems
  int samples = 0, correct = 0, with_samples = 0;
  for (const auto& [problem, answers] : results) {
    const int n = static_cast<int>(answers.size());
    const int c =
        static_cast<int>(std::ranges::count_if(answers, [](const Answer& a) { return a.compiled && a.correct; }));
    Ordered one = {{"total_samples", n}, {"correct_samples", c}};
    for (const int k : wanted) {
      const int used = std::min(k, n);
      one[fmt::format("pass@{}", used)] = pass_at_k(n, c, used);
    }
    for (const int k : wanted) {
      const std::string name = fmt::format("pass@{}", k);
      if (!one.contains(name)) continue;
      sums[k].first += one[name].get<double>();
      ++sums[k].second;
    }
    samples += n;
    correct += c;
    with_samples += n > 0;
    problems[std::to_string(problem)] = std::move(one);
  }
  Ordered averages = Ordered::object();
  Ordered metadata = {{"total_problems", results.size()},
                      {"problems_with_samples", with_samples},
                      {"total_evaluated_samples", samples},
                      {"total_correct_samples", correct}};
  for (const int k : wanted) {
    if (!results.empty()) averages[fmt::format("avg_pass@{}", k)] = sums[k].first / static_cast<double>(results.size());
    metadata[fmt::format("pass@{}_count", k)] = sums[k].second;
  }
  return dumped(
      {{"averages", std::move(averages)}, {"metadata", std::move(metadata)}, {"problems", std::move(problems)}}, 2);
}

Result<BaselineTimes> read_baseline_times(std::string_view text) {
  constexpr ErrorKind kind = "bad_baseline_times";
  PLANISH_TRY(const Json json, parse_json(text, kind, "baseline times"));
  if (!json.is_object()) return fail(kind, "baseline times must be an object: level → problem → times");
  BaselineTimes out;
  for (const auto& [level, problems] : json.items()) {
    if (level_of(level) == 0)
      return fail(kind, fmt::format("'{}' is no level", level), R"(levels are "level1", "level2", …)");
    if (!problems.is_object()) return fail(kind, fmt::format("{} must be an object: problem → times", level));
    for (const auto& [name, stats] : problems.items()) {
      const std::string where = fmt::format("{}, {}", level, name);
      if (stats.is_null()) continue;  // its script writes so where a reference failed
      if (!stats.is_object()) return fail(kind, where + " must be an object");
      PLANISH_TRY(out[level][name], read_stats(stats, kind, where));
    }
  }
  return out;
}

std::string write_baseline_times(const BaselineTimes& times) {
  Ordered out = Ordered::object();
  for (const auto& [level, problems] : times) {
    std::vector<std::pair<std::string, Stats>> sorted(problems.begin(), problems.end());
    std::ranges::stable_sort(sorted, {}, [](const auto& item) { return problem_of(item.first); });
    Ordered list = Ordered::object();
    for (const auto& [name, stats] : sorted) list[name] = stats_json(stats);
    out[level] = std::move(list);
  }
  return dumped(out, -1);
}

std::string baseline_file(std::string_view mode) {
  if (mode == "eager") return "baseline_time_torch.json";
  if (mode == "compile") return "baseline_time_torch_compile_inductor_default.json";
  if (mode == "max_autotune") return "baseline_time_torch_compile_inductor_max-autotune.json";
  if (mode == "max_autotune_no_cudagraphs")
    return "baseline_time_torch_compile_inductor_max-autotune-no-cudagraphs.json";
  return {};
}

std::string baseline_name(std::string_view file) {
  const std::string stem = std::filesystem::path(file).stem().string();
  std::string_view name = stem;
  (void)take(name, "baseline_time_");
  return std::string(name);
}

bool parse_answer_file(std::string_view name, AnswerFile& out) {
  std::string_view rest = name;
  if (!take(rest, "level_") || (out.level = take_number(rest)) < 1) return false;
  if (!take(rest, "_problem_") || (out.problem = take_number(rest)) < 0) return false;
  if (!take(rest, "_sample_") || (out.sample = take_number(rest)) < 0) return false;
  return rest == "_kernel.py";
}

int level_of(std::string_view folder) {
  std::string_view rest = folder;
  if (!take(rest, "level")) return 0;
  const int level = take_number(rest);
  return level > 0 && rest.empty() ? level : 0;
}

int problem_of(std::string_view stem) {
  std::string_view rest = stem;
  const int problem = take_number(rest);
  return problem > 0 && rest.starts_with('_') ? problem : 0;
}

}  // namespace planish::suite::kernelbench
