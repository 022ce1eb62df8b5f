#include "report/suite_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/file.h"
#include "report/html.h"
#include "report/page.h"
#include "session/version.h"

namespace planish::report {
using namespace session;

namespace {

using html::escape;

/// A cell that sorts by its number; empty where there is none.
std::string number_cell(double value, const std::string& text) {
  if (!(value > 0) || !std::isfinite(value)) return "<td class=\"n\">–</td>";
  return fmt::format("<td class=\"n\" data-v=\"{}\">{}</td>", value, text);
}

std::string ratio_cell(double value) {
  return number_cell(value, fmt::format("{:.2f}×", value));
}

std::string said(const std::optional<suite::OtherVerdict>& verdict) {
  if (!verdict) return "–";
  return verdict->correct ? "correct" : verdict->compiled ? "incorrect" : "does not compile";
}

/// Every baseline that any row has a gain against.
std::vector<std::string> baselines_in(const std::vector<suite::Row>& rows) {
  std::set<std::string> found;
  for (const suite::Row& row : rows) {
    for (const auto& [name, gain] : row.speedup) found.insert(name);
  }
  return {found.begin(), found.end()};
}

std::string levels_section(const std::vector<suite::Row>& rows) {
  const auto levels = suite::level_scores(rows);
  std::string out;
  const bool compat = std::ranges::any_of(levels, [](const suite::LevelScore& l) { return l.compat_asked > 0; });
  out += "<div class=\"scroll\"><table><thead><tr><th>level</th><th>tasks</th><th>correct</th>";
  if (compat) out += "<th>by KernelBench’s own rule</th>";
  out += "<th>against</th>";
  for (const double threshold : suite::fast_thresholds) out += fmt::format("<th>fast<sub>{}</sub></th>", threshold);
  out += "<th>geometric mean</th><th>median</th><th>timed</th></tr></thead><tbody>\n";
  for (const suite::LevelScore& level : levels) {
    const std::string head =
        fmt::format("<td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>{}",
                    level.level > 0 ? std::to_string(level.level) : "all", level.tasks, level.correct,
                    compat ? fmt::format("<td class=\"n\">{}</td>", level.compat_correct) : "");
    if (level.against.empty())
      out += fmt::format("<tr>{}<td colspan=\"{}\">nothing was timed</td></tr>\n", head,
                         4 + std::size(suite::fast_thresholds));
    for (const auto& [name, found] : level.against) {
      out += fmt::format("<tr>{}<td>{}</td>", head, escape(suite::mode_label(name)));
      for (const double threshold : suite::fast_thresholds)
        out +=
            fmt::format("<td class=\"n\">{:.2f}</td>", static_cast<double>(found.faster.at(threshold)) / level.tasks);
      out += ratio_cell(found.mean.value) + ratio_cell(found.mean.median) +
             fmt::format("<td class=\"n\">{}</td></tr>\n", found.mean.tasks);
    }
  }
  return out +
         "</tbody></table></div>\n<p>fast<sub>p</sub>: the part of all tasks that are correct and more than p times as "
         "fast. Means are of the correct ones that were timed.</p>\n";
}

std::string outcomes_section(const std::vector<suite::Row>& rows, const suite::SuiteFacts& facts) {
  std::map<std::string, int> counts;
  for (const suite::Row& row : rows) ++counts[row.verdict.empty() ? row.outcome : row.verdict];
  std::string out = "<table><tbody>\n";
  for (const auto& [name, count] : counts)
    out += fmt::format("<tr><td>{}</td><td class=\"n\">{}</td></tr>\n", escape(name), count);
  out += "</tbody></table>\n";
  if (!facts.unmatched.empty())
    out += fmt::format("<p>Files that answer no task: {}.</p>\n",
                       escape(fmt::format("{}", fmt::join(facts.unmatched, ", "))));
  return out;
}

std::string rows_section(const std::vector<suite::Row>& rows, bool solutions) {
  const auto baselines = baselines_in(rows);
  std::string out = "<p>Headings sort.</p>\n<div class=\"scroll\"><table class=\"sortable\"><thead><tr><th>";
  out += solutions ? "solution</th><th>level</th><th>verdict</th><th>KernelBench’s rule</th><th>recorded</th>"
                   : "task</th><th>level</th><th>outcome</th>";
  out += "<th>error ratio</th><th>ms</th>";
  for (const std::string& name : baselines) out += fmt::format("<th>{}</th>", escape("/ " + suite::mode_label(name)));
  out += "<th>/ best</th><th>roofline</th><th>seconds</th><th>why</th></tr></thead><tbody>\n";
  for (const suite::Row& row : rows) {
    const bool good = row.outcome == "verified" || row.outcome == "improved" || row.outcome == "no_improvement";
    out += fmt::format("<tr{}><td>{}</td><td class=\"n\"{}>{}</td><td>{}</td>", good ? "" : " class=\"failed\"",
                       escape(suite::name_of(row)), row.level > 0 ? fmt::format(" data-v=\"{}\"", row.level) : "",
                       row.level > 0 ? std::to_string(row.level) : "–",
                       escape(row.verdict.empty() ? row.outcome : row.verdict));
    if (solutions) out += fmt::format("<td>{}</td><td>{}</td>", said(row.compat), said(row.recorded));
    const auto time = row.times_ms.find(solutions ? "solution" : "shipped");
    out += number_cell(row.error_ratio, suite::ratio_text(row.error_ratio));
    out += time == row.times_ms.end() ? number_cell(0, "")
                                      : number_cell(time->second, fmt::format("{:.4g}", time->second));
    for (const std::string& name : baselines) {
      const auto gain = row.speedup.find(name);
      out += ratio_cell(gain == row.speedup.end() ? 0 : gain->second);
    }
    out += ratio_cell(row.speedup_best_baseline);
    out += number_cell(row.roofline, fmt::format("{:.0f} %", 100 * row.roofline));
    out += number_cell(row.seconds, fmt::format("{:.1f}", row.seconds));
    constexpr std::size_t most = 200;
    out += fmt::format("<td>{}</td></tr>\n", escape(row.message.substr(0, row.message.find('\n')).substr(0, most)));
  }
  return out + "</tbody></table></div>\n";
}

}  // namespace

std::string suite_page(const std::vector<suite::Row>& rows, const suite::SuiteFacts& facts) {
  const bool solutions = !facts.solutions.empty();
  const auto levels = suite::level_scores(rows);
  const suite::LevelScore all = levels.empty() ? suite::LevelScore{} : levels.back();
  std::set<std::string> hardware;
  for (const suite::Row& row : rows) {
    if (!row.hardware.empty()) hardware.insert(row.hardware);
  }
  const std::string title = solutions ? "Solutions of " + facts.solutions : "Suite " + facts.folder;
  std::string out = fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" "
      "content=\"width=device-width, initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
      "script-src 'unsafe-inline'\">\n<title>{0}</title>\n<style>{1}</style>\n</head>\n<body>\n<main>\n<h1>{0}</h1>\n",
      escape(title), page::style());
  out += fmt::format("<p class=\"conclusion\">{} of {} tasks {}.</p>\n", all.correct, all.tasks,
                     solutions ? "have a solution that is right" : "have something verified to ship");
  out += fmt::format("<p>Tasks from {}{}.</p>\n", escape(facts.folder),
                     hardware.empty() ? "" : ", on " + escape(fmt::format("{}", fmt::join(hardware, ", "))));
  out += "<h2>By level</h2>\n" + levels_section(rows);
  out += "<h2>Outcomes</h2>\n" + outcomes_section(rows, facts);
  out += (solutions ? "<h2>Every solution</h2>\n" : "<h2>Every task</h2>\n") + rows_section(rows, solutions);
  out += fmt::format(
      "</main>\n<aside id=\"details\" hidden></aside>\n<footer>planish {}</footer>\n<script type=\"application/json\" "
      "id=\"data\">{{\"candidates\":{{}},\"sources\":[]}}</script>\n<script>\n{}</script>\n</body>\n</html>\n",
      version, page::script());
  return out;
}

Status save_suite(const std::filesystem::path& folder, const std::vector<suite::Row>& rows,
                  const suite::SuiteFacts& facts) {
  PLANISH_CHECK(write_file(folder / "suite.json", suite::suite_json(rows, facts)));
  return write_file(folder / "suite.html", suite_page(rows, facts));
}

}  // namespace planish::report
