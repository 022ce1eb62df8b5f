#include "suite/score.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/json.h"

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

constexpr const char* baselines[] = {"eager", "compile", "max_autotune_no_cudagraphs", "max_autotune"};

}  // namespace

Score score(const std::vector<Row>& rows) {
  Score out;
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
    } else if (row.outcome == "interrupted") {
      out.interrupted.push_back(row.task);
    } else {
      out.failed.push_back(row.task);
    }
  }
  for (auto& [name, values] : by_baseline) out.by_baseline[name] = values.mean();
  out.best_baseline = best.mean();
  out.headline = headline.mean();
  return out;
}

std::string suite_json(const std::vector<Row>& rows, const std::string& folder, const std::string& settings) {
  const Score total = score(rows);
  const auto parsed = parse_json(settings, "internal", "settings");
  Json out = {{"schema_version", 1},
              {"folder", folder},
              {"settings", parsed ? *parsed : Json::object()},
              {"tasks", Json::array()}};
  for (const Row& row : rows) {
    Json one = {{"task", row.task},
                {"path", row.path},
                {"outcome", row.outcome},
                {"error_ratio", number_to_json(row.error_ratio)},
                {"times_ms", row.times_ms},
                {"speedup", row.speedup},
                {"speedup_best_baseline", number_to_json(row.speedup_best_baseline)},
                {"headline", nullptr},
                {"seconds", number_to_json(row.seconds)},
                {"seconds_in", row.seconds_in},
                {"device", row.device},
                {"shipped", row.shipped},
                {"resumed", row.resumed}};
    if (row.headline) one["headline"] = {{"speedup", row.headline->speedup}, {"baseline", row.headline->baseline}};
    if (row.outcome == "failed") one["error"] = {{"kind", row.kind}, {"message", row.message}};
    if (row.outcome != "failed" && !row.message.empty()) one["reason"] = row.message;
    out["tasks"].push_back(std::move(one));
  }
  out["geomean"] = Json::object();
  const auto mean_json = [](const Mean& mean) {
    return Json{
        {"speedup", number_to_json(mean.value)}, {"median", number_to_json(mean.median)}, {"tasks", mean.tasks}};
  };
  for (const auto& [name, mean] : total.by_baseline) out["geomean"][name] = mean_json(mean);
  out["geomean_best_baseline"] = mean_json(total.best_baseline);
  out["geomean_headline"] = mean_json(total.headline);
  out["seconds"] = {{"tasks", number_to_json(total.seconds)}, {"in", total.seconds_in}};
  out["improved"] = total.improved;
  out["no_improvement"] = total.no_improvement;
  out["failed"] = total.failed;
  out["interrupted"] = total.interrupted;
  return dump_json(out);
}

std::string suite_table(const std::vector<Row>& rows) {
  std::string out =
      fmt::format("{:<28} {:<15} {:>6} {:>10} {:>10} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8}\n", "task", "outcome", "error",
                  "shipped", "eager", "headline", "/eager", "/compile", "/m-a-nc", "/m-a", "/best");
  for (const Row& row : rows) {
    out += fmt::format("{:<28} {:<15} {:>6} {:>10} {:>10} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8}\n", row.task, row.outcome,
                       row.error_ratio > 0 ? fmt::format("{:.2f}", row.error_ratio) : "-",
                       cell(row.times_ms, "shipped", " ms"), cell(row.times_ms, "eager", " ms"),
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
