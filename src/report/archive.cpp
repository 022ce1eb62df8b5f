#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "report/html.h"
#include "report/page.h"
#include "report/svg.h"
#include "search/cell.h"

namespace planish::report::page {
namespace {

/// A candidate of the search that passed and was timed.
bool counts(const StoredCandidate& c, const Report::Region& region) {
  return c.record.region == region.id && !c.record.genome.empty() && c.evaluation.ok() && c.record.median_ms > 0;
}

/// A table whose cells are coloured by time: dark is fast.
struct HeatMap {
  std::vector<std::string> rows, columns;
  struct Value {
    double ms = 0;
    int candidate = -1;  ///< that a click shows
  };
  std::map<std::pair<std::size_t, std::size_t>, Value> values;

  /// The faster of the two stays.
  void put(const std::string& in_row, const std::string& in_column, Value value) {
    const auto [at, added] = values.try_emplace({row(in_row), column(in_column)}, value);
    if (!added && value.ms < at->second.ms) at->second = value;
  }

  std::size_t row(const std::string& name) { return position(rows, name); }
  std::size_t column(const std::string& name) { return position(columns, name); }

  std::string text(const std::string& caption) const {
    double best = 1e300;
    for (const auto& [at, value] : values) best = std::min(best, value.ms);
    std::string out =
        fmt::format("<div class=\"scroll\"><table class=\"heat\"><caption>{}</caption>\n<thead><tr><th></th>",
                    html::escape(caption));
    for (const auto& name : columns) out += fmt::format("<th scope=\"col\">{}</th>", html::escape(name));
    out += "</tr></thead>\n<tbody>\n";
    for (std::size_t r = 0; r < rows.size(); ++r) {
      out += fmt::format("<tr><th scope=\"row\">{}</th>", html::escape(rows[r]));
      for (std::size_t c = 0; c < columns.size(); ++c) {
        const auto found = values.find({r, c});
        if (found == values.end()) {
          out += "<td class=\"none\"></td>";
          continue;
        }
        const Value& value = found->second;
        // Twice the best time is as pale as it gets.
        const double heat = std::clamp(2 - value.ms / best, 0.05, 1.0);
        out += fmt::format(
            "<td style=\"--heat:{:.2f}\"{}>{}</td>", heat,
            value.candidate < 0 ? "" : fmt::format(" data-pick=\"{}\" tabindex=\"0\" role=\"button\"", value.candidate),
            svg::number(value.ms));
      }
      out += "</tr>\n";
    }
    return out + "</tbody></table></div>\n";
  }

 private:
  static std::size_t position(std::vector<std::string>& names, const std::string& name) {
    const auto found = std::ranges::find(names, name);
    if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
    names.push_back(name);
    return names.size() - 1;
  }
};

/// Part of the variance of log times that the gene's value explains.
double explained(const std::vector<std::pair<codegen::Genome, double>>& rows, const std::string& gene) {
  std::map<std::int64_t, std::pair<double, double>> groups;  // sum, count
  double sum = 0;
  for (const auto& [genome, ms] : rows) {
    const auto value = genome.find(gene);
    if (value == genome.end()) return 0;
    auto& [s, n] = groups[value->second];
    s += std::log(ms);
    n += 1;
    sum += std::log(ms);
  }
  const double n = static_cast<double>(rows.size()), mean = sum / n;
  if (groups.size() < 2 || groups.size() * 2 > rows.size()) return 0;
  double between = 0;
  for (const auto& [value, group] : groups) between += group.second * std::pow(group.first / group.second - mean, 2);
  return between;
}

std::string gene_map(const Report& report, const Report::Region& region) {
  std::vector<std::pair<codegen::Genome, double>> rows;
  std::vector<int> candidates;
  std::map<std::string, std::set<std::int64_t>> values;
  for (std::size_t i = 0; i < report.candidates.size(); ++i) {
    const StoredCandidate& c = report.candidates[i].stored;
    if (!counts(c, region) || c.genome.empty()) continue;
    rows.emplace_back(c.genome, c.record.median_ms);
    candidates.push_back(static_cast<int>(i));
    for (const auto& [gene, value] : c.genome) values[gene].insert(value);
  }
  std::vector<std::pair<double, std::string>> genes;
  for (const auto& [gene, seen] : values) {
    if (const double part = explained(rows, gene); part > 0) genes.emplace_back(-part, gene);
  }
  std::ranges::sort(genes);
  if (genes.size() < 2) return {};
  const std::string down = genes[0].second, across = genes[1].second;
  HeatMap map;
  for (const auto value : values[down]) map.row(fmt::format("{} {}", down, value));
  for (const auto value : values[across]) map.column(fmt::format("{} {}", across, value));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto& [genome, ms] = rows[i];
    map.put(fmt::format("{} {}", down, genome.at(down)), fmt::format("{} {}", across, genome.at(across)),
            {ms, candidates[i]});
  }
  return map.text(fmt::format("Best milliseconds by the two genes that explain most: {} and {}", down, across));
}

/// All 36 cells, those that nothing passed in empty.
std::string cell_map(const Report& report, const Report::Region& region) {
  HeatMap map;
  const std::string& target = report.run.target;
  const auto labels = [&](int index) {
    const std::string text = search::text(search::Cell::at(index), target);
    const auto comma = text.find(", ");
    return std::pair(text.substr(0, comma), comma == std::string::npos ? std::string() : text.substr(comma + 2));
  };
  for (int i = 0; i < search::Cell::count; ++i) {
    map.row(labels(i).first);
    map.column(labels(i).second);
  }
  std::set<int> filled;
  for (std::size_t i = 0; i < report.candidates.size(); ++i) {
    const StoredCandidate& c = report.candidates[i].stored;
    if (!counts(c, region) || c.record.cell < 0 || c.record.cell >= search::Cell::count) continue;
    filled.insert(c.record.cell);
    const auto [down, across] = labels(c.record.cell);
    map.put(down, across, {c.record.median_ms, static_cast<int>(i)});
  }
  if (filled.empty()) return {};
  return map.text(fmt::format("Best milliseconds in each cell; {} of {} were filled. A cell shows its kernel.",
                              filled.size(), search::Cell::count));
}

/// Of runs that did not record the cell of each candidate.
std::string result_map(const Report::Region& region) {
  HeatMap map;
  for (const auto& [cell, ms] : region.cells) {
    const auto comma = cell.find(", ");
    map.put(cell.substr(0, comma), comma == std::string::npos ? "" : cell.substr(comma + 2), {ms, -1});
  }
  return map.text(fmt::format("Best milliseconds in each of the {} cells that were filled", region.cells.size()));
}

}  // namespace

std::string archive_map(const Report& report, const Report::Region& region) {
  std::string out = cell_map(report, region);
  if (out.empty() && !region.cells.empty()) out = result_map(region);
  out += gene_map(report, region);
  return out.empty() ? "<p>Too few candidates were timed for a map.</p>\n" : out;
}

}  // namespace planish::report::page
