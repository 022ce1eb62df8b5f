#include "suite/score.h"

#include <fmt/format.h>

#include <cmath>

#include "base/json.h"

namespace planish::suite {
namespace {

class Geometric {
 public:
  void add(double value) {
    if (!(value > 0) || !std::isfinite(value)) return;
    logs_ += std::log(value);
    ++n_;
  }
  Mean mean() const { return {n_ > 0 ? std::exp(logs_ / n_) : 0, n_}; }

 private:
  double logs_ = 0;
  int n_ = 0;
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
  Geometric best;
  for (const Row& row : rows) {
    if (row.outcome == "improved") {
      out.improved.push_back(row.task);
      for (const auto& [name, value] : row.speedup) by_baseline[name].add(value);
      best.add(row.speedup_best_baseline);
    } else if (row.outcome == "no_improvement") {
      out.no_improvement.push_back(row.task);
      for (const char* name : baselines) {
        if (row.times_ms.contains(name)) by_baseline[name].add(1);
      }
      best.add(1);
    } else if (row.outcome == "interrupted") {
      out.interrupted.push_back(row.task);
    } else {
      out.failed.push_back(row.task);
    }
  }
  for (const auto& [name, values] : by_baseline) out.by_baseline[name] = values.mean();
  out.best_baseline = best.mean();
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
                {"seconds", number_to_json(row.seconds)},
                {"shipped", row.shipped},
                {"resumed", row.resumed}};
    if (row.outcome == "failed") one["error"] = {{"kind", row.kind}, {"message", row.message}};
    if (row.outcome != "failed" && !row.message.empty()) one["reason"] = row.message;
    out["tasks"].push_back(std::move(one));
  }
  out["geomean"] = Json::object();
  for (const auto& [name, mean] : total.by_baseline) {
    out["geomean"][name] = {{"speedup", number_to_json(mean.value)}, {"tasks", mean.tasks}};
  }
  out["geomean_best_baseline"] = {{"speedup", number_to_json(total.best_baseline.value)},
                                  {"tasks", total.best_baseline.tasks}};
  out["improved"] = total.improved;
  out["no_improvement"] = total.no_improvement;
  out["failed"] = total.failed;
  out["interrupted"] = total.interrupted;
  return dump_json(out);
}

std::string suite_table(const std::vector<Row>& rows) {
  std::string out = fmt::format("{:<28} {:<15} {:>6} {:>10} {:>10} {:>8} {:>8} {:>8} {:>8} {:>8}\n", "task", "outcome",
                                "error", "shipped", "eager", "/eager", "/compile", "/m-a-nc", "/m-a", "/best");
  for (const Row& row : rows) {
    out += fmt::format("{:<28} {:<15} {:>6} {:>10} {:>10} {:>8} {:>8} {:>8} {:>8} {:>8}\n", row.task, row.outcome,
                       row.error_ratio > 0 ? fmt::format("{:.2f}", row.error_ratio) : "-",
                       cell(row.times_ms, "shipped", " ms"), cell(row.times_ms, "eager", " ms"),
                       ratio_cell(row.speedup, "eager"), ratio_cell(row.speedup, "compile"),
                       ratio_cell(row.speedup, "max_autotune_no_cudagraphs"), ratio_cell(row.speedup, "max_autotune"),
                       row.speedup_best_baseline > 0 ? fmt::format("{:.2f}x", row.speedup_best_baseline) : "-");
  }
  const Score total = score(rows);
  out += "\ngeometric mean of the speed-ups (a task with no improvement counts as 1.00):\n";
  for (const auto& [name, mean] : total.by_baseline) {
    out += fmt::format("  against {:<27} {:.3f}x over {} tasks\n", name, mean.value, mean.tasks);
  }
  if (total.best_baseline.tasks > 0) {
    out += fmt::format("  against {:<27} {:.3f}x over {} tasks\n", "the best of them", total.best_baseline.value,
                       total.best_baseline.tasks);
  }
  const auto names = [&out](const char* title, const std::vector<std::string>& list) {
    if (!list.empty()) out += fmt::format("{} ({}): {}\n", title, list.size(), fmt::join(list, ", "));
  };
  names("no improvement, counted as 1.00", total.no_improvement);
  names("interrupted, in no mean", total.interrupted);
  names("failed, in no mean", total.failed);
  for (const Row& row : rows) {
    if (row.outcome == "failed") out += fmt::format("  {}: {} ({})\n", row.task, row.message, row.kind);
  }
  return out;
}

}  // namespace planish::suite
