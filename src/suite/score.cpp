#include "suite/score.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/json.h"
#include "evaluate/gain_json.h"

namespace planish::suite {
namespace {

class Geometric {
 public:
  void add(double value) {
    if (!(value > 0) || !std::isfinite(value)) return;
    values_.push_back(value);
  }
  Mean mean() {
    if (values_.empty()) return {};
    std::ranges::sort(values_);
    double logs = 0;
    for (const double value : values_) logs += std::log(value);
    const std::size_t n = values_.size(), middle = n / 2;
    const double median = n % 2 == 1 ? values_[middle] : (values_[middle - 1] + values_[middle]) / 2;
    return {std::exp(logs / static_cast<double>(n)), median, static_cast<int>(n)};
  }

 private:
  std::vector<double> values_;
};

std::string cell(const std::map<std::string, double>& values, const char* name, const char* unit) {
  const auto found = values.find(name);
  return found == values.end() || found->second <= 0 ? "-" : fmt::format("{:.4g}{}", found->second, unit);
}

std::string ratio_cell(const std::map<std::string, double>& values, const char* name) {
  const auto found = values.find(name);
  return found == values.end() || found->second <= 0 ? "-" : fmt::format("{:.2f}x", found->second);
}

Json mean_json(const Mean& mean) {
  return Json{{"speedup", number_to_json(mean.value)}, {"median", number_to_json(mean.median)}, {"tasks", mean.tasks}};
}

Json other_json(const std::optional<OtherVerdict>& verdict) {
  if (!verdict) return nullptr;
  return Json{{"compiled", verdict->compiled}, {"correct", verdict->correct}, {"message", verdict->message}};
}

Json level_json(const LevelScore& level) {
  Json against = Json::object();
  for (const auto& [name, found] : level.against) {
    Json fast = Json::object();
    for (const auto& [threshold, count] : found.faster)
      fast[fmt::format("{}", threshold)] = static_cast<double>(count) / level.tasks;
    against[name] = {{"fast_p", std::move(fast)}, {"geomean", mean_json(found.mean)}};
  }
  Json out = {{"level", level.level > 0 ? Json(level.level) : Json(nullptr)},
              {"tasks", level.tasks},
              {"correct", level.correct},
              {"against", std::move(against)}};
  if (level.compat_asked > 0) out["kernelbench_correct"] = level.compat_correct;
  return out;
}

constexpr const char* baselines[] = {"eager", "compile", "max_autotune_no_cudagraphs", "max_autotune"};

}  // namespace

Score score(const std::vector<Row>& rows) {
  Score out;
  for (const Row& row : rows) {
    if (!row.verdict.empty()) ++out.verdicts[row.verdict];
  }
  std::map<std::string, Geometric> by_baseline;
  Geometric best, headline;
  for (const Row& row : rows) {
    if (!row.resumed) {
      out.seconds += row.seconds;
      for (const auto& [phase, seconds] : row.seconds_in) out.seconds_in[phase] += seconds;
    }
    if (row.outcome == "improved") {
      out.improved.push_back(row.task);
      for (const auto& [name, value] : row.speedup) by_baseline[name].add(value);
      best.add(row.speedup_best_baseline);
      if (row.headline) headline.add(row.headline->speedup);
    } else if (row.outcome == "no_improvement") {
      out.no_improvement.push_back(row.task);
      for (const char* name : baselines) {
        if (row.times_ms.contains(name)) by_baseline[name].add(1);
      }
      best.add(1);
      headline.add(1);
    } else if (row.outcome == "verified") {
      out.verified.push_back(name_of(row));
      for (const auto& [name, value] : row.speedup) by_baseline[name].add(value);
      best.add(row.speedup_best_baseline);
      if (row.headline) headline.add(row.headline->speedup);
    } else if (row.outcome == "refused") {
      out.refused.push_back(name_of(row));
    } else if (row.outcome == "unanswered") {
      out.unanswered.push_back(row.task);
    } else if (row.outcome == "interrupted") {
      out.interrupted.push_back(name_of(row));
    } else {
      out.failed.push_back(name_of(row));
    }
  }
  for (auto& [name, values] : by_baseline) out.by_baseline[name] = values.mean();
  out.best_baseline = best.mean();
  out.headline = headline.mean();
  return out;
}

std::string name_of(const Row& row) {
  return row.sample > 0 ? fmt::format("{}-{}", row.task, row.sample) : row.task;
}

std::vector<LevelScore> level_scores(const std::vector<Row>& rows) {
  std::map<std::pair<int, std::string>, const Row*> first;  // the answer that counts
  for (const Row& row : rows) {
    if (row.outcome == "interrupted") continue;
    const Row*& kept = first[{row.level, row.task}];
    if (kept == nullptr || row.sample < kept->sample) kept = &row;
  }
  struct Filled {
    LevelScore score;
    std::map<std::string, Geometric> means;
  };
  std::map<int, Filled> levels;
  for (const auto& [key, row] : first) {
    // Level 0 of a suite without levels is all of it already.
    for (const int level : key.first > 0 ? std::vector<int>{key.first, 0} : std::vector<int>{0}) {
      Filled& filled = levels[level];
      LevelScore& score = filled.score;
      score.level = level;
      ++score.tasks;
      score.compat_asked += row->compat.has_value();
      score.compat_correct += row->compat && row->compat->correct;
      const bool copy = row->outcome == "no_improvement";
      if (row->outcome != "verified" && row->outcome != "improved" && !copy) continue;
      ++score.correct;
      std::map<std::string, double> gains = row->speedup;
      if (copy) {  // what ships is the baseline itself
        gains.clear();
        for (const char* name : baselines) {
          if (row->times_ms.contains(name)) gains[name] = 1;
        }
      }
      for (const auto& [name, gain] : gains) {
        if (!(gain > 0) || !std::isfinite(gain)) continue;
        filled.means[name].add(gain);
        for (const double threshold : fast_thresholds) score.against[name].faster[threshold] += gain > threshold;
      }
    }
  }
  std::vector<LevelScore> out;
  for (auto& [level, filled] : levels) {
    for (auto& [name, values] : filled.means) filled.score.against[name].mean = values.mean();
    out.push_back(std::move(filled.score));
  }
  if (out.size() > 1) std::ranges::rotate(out, out.begin() + 1);
  return out;
}

std::string suite_json(const std::vector<Row>& rows, const SuiteFacts& facts) {
  const Score total = score(rows);
  const auto parsed = parse_json(facts.settings, "internal", "settings");
  Json out = {{"schema_version", 1},
              {"folder", facts.folder},
              {"solutions", facts.solutions.empty() ? Json(nullptr) : Json(facts.solutions)},
              {"settings", parsed ? *parsed : Json::object()},
              {"tasks", Json::array()}};
  for (const Row& row : rows) {
    Json one = {{"task", row.task},
                {"path", row.path},
                {"level", row.level > 0 ? Json(row.level) : Json(nullptr)},
                {"outcome", row.outcome},
                {"roofline_fraction", row.roofline > 0 ? Json(row.roofline) : Json(nullptr)},
                {"error_ratio", number_to_json(row.error_ratio)},
                {"times_ms", row.times_ms},
                {"speedup", row.speedup},
                {"speedup_best_baseline", number_to_json(row.speedup_best_baseline)},
                {"headline", nullptr},
                {"seconds", number_to_json(row.seconds)},
                {"seconds_in", row.seconds_in},
                {"device", row.device.empty() ? "cpu" : row.device},
                {"hardware", row.hardware.empty() ? Json(nullptr) : Json(row.hardware)},
                {"shipped", row.shipped},
                {"resumed", row.resumed}};
    one["gains"] = Json::object();
    for (const auto& [name, gain] : row.gains) one["gains"][name] = gain_to_json(gain);
    if (row.headline) one["headline"] = {{"speedup", row.headline->speedup}, {"baseline", row.headline->baseline}};
    if (!facts.solutions.empty()) {
      one["solution"] = row.solution.empty() ? Json(nullptr) : Json(row.solution);
      one["sample"] = row.sample;
      one["verdict"] = row.verdict.empty() ? Json(nullptr) : Json(row.verdict);
      one["kernelbench"] = other_json(row.compat);
      one["recorded"] = other_json(row.recorded);
    }
    if (row.outcome == "failed") one["error"] = {{"kind", row.kind}, {"message", row.message}, {"hint", row.hint}};
    if (row.outcome != "failed" && !row.message.empty()) one["reason"] = row.message;
    out["tasks"].push_back(std::move(one));
  }
  out["levels"] = Json::array();
  for (const LevelScore& level : level_scores(rows)) out["levels"].push_back(level_json(level));
  out["geomean"] = Json::object();
  for (const auto& [name, mean] : total.by_baseline) out["geomean"][name] = mean_json(mean);
  out["geomean_best_baseline"] = mean_json(total.best_baseline);
  out["geomean_headline"] = mean_json(total.headline);
  out["seconds"] = {{"tasks", number_to_json(total.seconds)}, {"in", total.seconds_in}};
  out["improved"] = total.improved;
  out["no_improvement"] = total.no_improvement;
  out["failed"] = total.failed;
  out["interrupted"] = total.interrupted;
  if (!facts.solutions.empty()) {
    out["verified"] = total.verified;
    out["refused"] = total.refused;
    out["unanswered"] = total.unanswered;
    out["unmatched"] = facts.unmatched;
    out["verdicts"] = total.verdicts;
  }
  return dump_json(out);
}

namespace {

std::string levels_table(const std::vector<Row>& rows) {
  std::string out;
  for (const LevelScore& level : level_scores(rows)) {
    out += fmt::format(
        "{}: {} of {} correct{}\n", level.level > 0 ? fmt::format("level {}", level.level) : "all", level.correct,
        level.tasks, level.compat_asked > 0 ? fmt::format(" (KernelBench's own rule: {})", level.compat_correct) : "");
    for (const auto& [name, found] : level.against) {
      out += fmt::format("  {:<35}", "against " + name);
      for (const auto& [threshold, count] : found.faster)
        out += fmt::format(" fast_{} {:.2f}", threshold, static_cast<double>(count) / level.tasks);
      out += fmt::format("  geometric mean {:.3f}x over {}\n", found.mean.value, found.mean.tasks);
    }
  }
  return out;
}

/// The table of solutions.
std::string solutions_table(const std::vector<Row>& rows) {
  std::string out = fmt::format("{:<36} {:<16} {:<12} {:>8} {:>11} {:>11} {:>8} {:>8} {:>9}\n", "solution", "verdict",
                                "KernelBench", "error", "time", "eager", "/eager", "/best", "roofline");
  for (const Row& row : rows) {
    const auto other = [](const std::optional<OtherVerdict>& said) {
      return !said ? "-" : said->correct ? "correct" : said->compiled ? "incorrect" : "no compile";
    };
    out += fmt::format("{:<36} {:<16} {:<12} {:>8} {:>11} {:>11} {:>8} {:>8} {:>9}\n", name_of(row),
                       row.verdict.empty() ? row.outcome : row.verdict, other(row.compat ? row.compat : row.recorded),
                       row.error_ratio > 0 ? ratio_text(row.error_ratio) : "-", cell(row.times_ms, "solution", " ms"),
                       cell(row.times_ms, "eager", " ms"), ratio_cell(row.speedup, "eager"),
                       row.speedup_best_baseline > 0 ? fmt::format("{:.2f}x", row.speedup_best_baseline) : "-",
                       row.roofline > 0 ? fmt::format("{:.0f} %", 100 * row.roofline) : "-");
  }
  const Score total = score(rows);
  out += "\n" + levels_table(rows);
  out += fmt::format("verified {}, refused {}, unanswered {}, failed {}\n", total.verified.size(), total.refused.size(),
                     total.unanswered.size(), total.failed.size());
  for (const auto& [name, count] : total.verdicts) out += fmt::format("  {:<20} {}\n", name, count);
  for (const Row& row : rows) {
    if (row.outcome == "failed") out += fmt::format("  {}: {} ({})\n", name_of(row), row.message, row.kind);
  }
  return out;
}

}  // namespace

std::string suite_table(const std::vector<Row>& rows) {
  if (std::ranges::any_of(rows, [](const Row& row) { return !row.verdict.empty() || row.outcome == "unanswered"; }))
    return solutions_table(rows);
  std::string out =
      fmt::format("{:<28} {:<15} {:>6} {:>10} {:>10} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8}\n", "task", "outcome", "error",
                  "shipped", "eager", "headline", "/eager", "/compile", "/m-a-nc", "/m-a", "/best");
  for (const Row& row : rows) {
    out += fmt::format("{:<28} {:<15} {:>6} {:>10} {:>10} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8}\n", row.task, row.outcome,
                       row.error_ratio > 0 ? ratio_text(row.error_ratio) : "-", cell(row.times_ms, "shipped", " ms"),
                       cell(row.times_ms, "eager", " ms"),
                       row.headline ? fmt::format("{:.2f}x", row.headline->speedup) : "-",
                       ratio_cell(row.speedup, "eager"), ratio_cell(row.speedup, "compile"),
                       ratio_cell(row.speedup, "max_autotune_no_cudagraphs"), ratio_cell(row.speedup, "max_autotune"),
                       row.speedup_best_baseline > 0 ? fmt::format("{:.2f}x", row.speedup_best_baseline) : "-");
  }
  const Score total = score(rows);
  out += "\ngeometric mean of the speed-ups (a task with no improvement counts as 1.00):\n";
  const auto mean_line = [&out](const std::string& name, const Mean& mean) {
    if (mean.tasks > 0)
      out +=
          fmt::format("  {:<35} {:.3f}x (median {:.3f}x) over {} tasks\n", name, mean.value, mean.median, mean.tasks);
  };
  mean_line("headline", total.headline);
  for (const auto& [name, mean] : total.by_baseline) mean_line("against " + name, mean);
  mean_line("against the best of them", total.best_baseline);
  if (std::ranges::any_of(rows, [](const Row& row) { return row.level > 0; })) out += levels_table(rows);
  if (total.seconds > 0) {
    // In the order of a run; the longest first would tell less of what comes from what.
    constexpr const char* phases[] = {"capture", "check", "prepare", "search", "compose", "ship", "claim"};
    out += fmt::format("where the {:.0f} s of these tasks went:\n", total.seconds);
    double known = 0;
    for (const char* phase : phases) {
      const auto found = total.seconds_in.find(phase);
      if (found == total.seconds_in.end()) continue;
      known += found->second;
      out +=
          fmt::format("  {:<10} {:>8.1f} s  {:>3.0f} %\n", phase, found->second, 100 * found->second / total.seconds);
    }
    out += fmt::format("  {:<10} {:>8.1f} s  {:>3.0f} %\n", "other", total.seconds - known,
                       100 * (total.seconds - known) / total.seconds);
  }
  const auto names = [&out](const char* title, const std::vector<std::string>& list) {
    if (!list.empty()) out += fmt::format("{} ({}): {}\n", title, list.size(), fmt::join(list, ", "));
  };
  if (!total.no_improvement.empty())
    out += fmt::format("{} of {} tasks ship the baseline itself\n", total.no_improvement.size(),
                       total.no_improvement.size() + total.improved.size());
  names("no improvement, counted as 1.00", total.no_improvement);
  names("interrupted, in no mean", total.interrupted);
  names("failed, in no mean", total.failed);
  for (const Row& row : rows) {
    if (row.outcome == "failed") out += fmt::format("  {}: {} ({})\n", row.task, row.message, row.kind);
  }
  return out;
}

}  // namespace planish::suite
